"""An asynchronous method that computes nothing and is quiet by chance: for what agents agree on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from destiny.extensions.asynchronous.async_protocol import LIFE, AsyncAlgorithmBase
from destiny.protocols import Array


@dataclass(frozen=True)
class RestlessMessage:
    sender: Array
    stamp: Array
    heard: Array
    point: Array


@dataclass(frozen=True)
class RestlessState:
    X: Array
    life: Array
    count: Array
    wakes: Array
    stamps: Array


@dataclass(frozen=True)
class Restless(AsyncAlgorithmBase):
    """Agents are quiet after ``least`` wakes, with a chance in each of the next ``most``, then always."""

    chance: float = 0.9
    least: int = 20
    most: int = 200

    def start(self, X, agent):
        zero = np.zeros(())
        return RestlessState(X, zero, zero, zero, np.zeros(len(agent.neighbors)))

    def restart(self, state, life):
        return replace(state, life=np.asarray(float(life)), count=np.zeros(()))

    def wake(self, state, inbox, agent):
        agent.gradient(state.X)
        return self.answer(replace(state, wakes=state.wakes + 1), inbox, agent)

    def answer(self, state, inbox, agent):
        stamps = state.stamps.copy()
        for message in inbox:
            k = int(np.flatnonzero(agent.neighbors == int(message.sender))[0])
            stamps[k] = max(stamps[k], float(message.stamp))
        s = replace(state, count=np.asarray(state.count + 1), stamps=stamps)
        heard = np.zeros(agent.agents)
        heard[agent.neighbors] = stamps
        stamp = np.asarray(LIFE * s.life + s.count)
        return s, RestlessMessage(np.asarray(float(agent.index)), stamp, heard, s.X)

    def relink(self, state, before, agent):
        known = dict(zip(before.tolist(), state.stamps, strict=True))
        return replace(state, stamps=np.array([known.get(int(j), 0.0) for j in agent.neighbors]))

    def residual(self, state):
        key = [int(state.life), int(state.count), int(1e6 * abs(state.X.sum()))]
        chance = self.chance if state.wakes < self.least + self.most else 1.0
        quiet = state.wakes >= self.least and np.random.default_rng(key).random() < chance
        return 0.0 if quiet and (state.stamps > 0).all() else 1.0
