"""The time that synchronous methods take: every round waits for all neighbors' messages."""

from __future__ import annotations

import numpy as np

from destiny.extensions.asynchronous.simulation.activity import ActivityLog
from destiny.extensions.asynchronous.simulation.world import World, fates
from destiny.protocols import Array, TopologyBase
from destiny.run.stopping import RunStatus, Stop


class BarrierClock:
    """A stopping rule that follows the simulated time of a synchronous run, step by step.

    An agent begins a round when all messages of the round before have arrived; a lost one is sent again after
    one computing time and three mean delays. An agent that crashes comes back from its newest checkpoint that
    is left and repeats its gradients since then, while its neighbors wait.

    Attributes
    ----------
    times : list of float
        Simulated seconds after each step: when the last agent had finished it.
    messages, lost, crashes : int
    """

    def __init__(self, network: TopologyBase, world: World, limit: float) -> None:
        d = network.agents
        self.network, self.world, self.limit = network, world, limit
        self.fates = fates(world, d)
        self.now = np.zeros(d)
        self.crash_at = np.array([fate.next_crash() for fate in self.fates])
        self.since_checkpoint = np.zeros(d)
        self.worked = np.zeros(d)
        self.rounds = self.gradients = 0
        self.times: list[float] = []
        self.messages = self.lost = self.crashes = 0
        self.activity = ActivityLog(d)

    @property
    def time(self) -> float:
        """Simulated seconds so far."""
        return float(self.now.max())

    def check(self, status: RunStatus) -> Stop | None:
        """End the run when it is out of time."""
        self.advance(status.step, status.round, status.gradients)
        if self.time < self.limit:
            return None
        return Stop(f"out of time: {self.time:.6g} of {self.limit:g} simulated seconds used")

    def advance(self, step: int, round: int, gradients: int) -> None:
        """Add the time until the end of a step, after so many rounds and gradients; once for each step."""
        if step < len(self.times):
            return
        rounds, computed = range(self.rounds, round), gradients - self.gradients
        self.rounds, self.gradients = round, gradients
        if not rounds:
            self.now = self.work(computed)
        for k in rounds:
            self.exchange(k, self.work(computed if k == rounds[0] else 0))
        self.times.append(self.time)

    def work(self, gradients: int) -> Array:
        """When each agent has computed its gradients, ``(d,)``."""
        end = self.now.copy()
        for i, fate in enumerate(self.fates):
            busy = fate.compute(gradients)
            self.since_checkpoint[i] += busy
            self.worked[i] += busy
            end[i] += busy + (fate.nap() if gradients else 0.0)
            self.activity.add("working", i, self.now[i], self.now[i] + busy)
            while self.crash_at[i] < end[i] < self.limit:  # one that crashes all the time is never done
                end[i] = self.recover(i, end[i])
            if gradients and fate.computed % self.world.checkpoint == 0:
                self.since_checkpoint[i] = 0.0
            if end[i] > self.now[i] + busy:
                self.activity.add("away", i, self.now[i] + busy, end[i])
        return end

    def recover(self, i: int, end: float) -> float:
        """When an agent is where it would have been at ``end`` had it not crashed."""
        self.crashes += 1
        away, left = self.fates[i].down()
        end += away + max(self.since_checkpoint[i], (1 - left) * self.worked[i])
        self.crash_at[i] = self.crash_at[i] + away + self.fates[i].next_crash()
        return end

    def exchange(self, round: int, end: Array) -> None:
        """One round: every agent waits for the messages of its neighbors, sent at ``end``."""
        W = self.network.at(round)
        self.now = end.copy()
        for i, fate in enumerate(self.fates):
            row = slice(W.indptr[i], W.indptr[i + 1])
            others = W.indices[row][(W.indices[row] != i) & (W.data[row] != 0)]
            late, again = fate.travel_reliably(len(others))
            np.maximum.at(self.now, others, end[i] + late)
            self.messages += len(others) + int(again.sum())
            self.lost += int(again.sum())
