"""Asynchronous agents in simulated time, as a queue of events; a run is a function of its seeds."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from destiny.extensions.asynchronous.async_protocol import AsyncAlgorithmBase
from destiny.extensions.asynchronous.local_agent import HostedAgent
from destiny.extensions.asynchronous.simulation.activity import ActivityLog
from destiny.extensions.asynchronous.simulation.world import World, fates
from destiny.protocols import Array
from destiny.storage.checkpoint import flatten

Event = tuple[float, int, str, int, Any]


@dataclass
class Counts:
    """What a run has cost so far."""

    wakes: int = 0
    messages: int = 0
    scalars: int = 0
    lost: int = 0
    crashes: int = 0


class AsyncAgents:
    """All agents of an asynchronous run, and the messages on their way.

    Attributes
    ----------
    states : list
        The state of each agent.
    time : float
        Simulated seconds so far.
    """

    def __init__(
        self,
        agents: Sequence[HostedAgent],
        algorithm: AsyncAlgorithmBase,
        X: Array,
        world: World,
    ) -> None:
        self.agents, self.algorithm, self.world = agents, algorithm, world
        self.first = [algorithm.start(x, agent) for x, agent in zip(X, agents, strict=True)]
        self.states: list[Any] = list(self.first)
        self.checkpoints: list[list[Any]] = [[state] for state in self.first]
        self.inboxes: list[list[Any]] = [[] for _ in agents]
        self.lives = [0] * len(agents)
        self.wakes = [0] * len(agents)
        self.fates = fates(world, len(agents))
        self.time = 0.0
        self.counts = Counts()
        self.size = 0  # numbers in a message, the same for all
        self.activity = ActivityLog(len(agents))
        self.queue: list[Event] = []
        self.pushed = 0
        self.open()

    def open(self) -> None:
        """Let all agents begin."""
        for i, agent in enumerate(self.agents):
            self.begin(i, agent.gradients)

    def begin(self, i: int, gradients: int) -> None:
        """An agent wakes for the first time as soon as the gradients of its start are computed."""
        fate = self.fates[i]
        begun = self.time + fate.compute(gradients)
        self.activity.add("working", i, self.time, begun)
        self.push(begun, "wake", i, self.lives[i])
        self.push(self.time + fate.next_crash(), "crash", i, None)

    @property
    def members(self) -> list[int]:
        """Who takes part."""
        return list(range(len(self.agents)))

    @property
    def X(self) -> Array:
        """The iterates ``(members, n, p)`` of the agents that take part."""
        return np.stack([self.states[i].X for i in self.members])

    @property
    def mean_wakes(self) -> int:
        """Wakes of an agent, on average."""
        return self.counts.wakes // len(self.agents)

    @property
    def mean_gradients(self) -> int:
        """Gradients of an agent, on average."""
        return sum(agent.gradients for agent in self.agents) // len(self.agents)

    def push(self, time: float, kind: str, agent: int, content: Any) -> None:
        """Add an event; those of the same time happen in the order in which they were added."""
        self.pushed += 1
        if time < np.inf:
            heapq.heappush(self.queue, (time, self.pushed, kind, agent, content))

    def run(self) -> Iterator[int]:
        """Let one event after the other happen, for ever; yield the agent of each wake."""
        while self.queue:
            self.time, _, kind, i, content = heapq.heappop(self.queue)
            if kind == "wake" and content == self.lives[i]:
                self.wake(i)
                yield i
            else:
                self.happen(kind, i, content)

    def happen(self, kind: str, i: int, content: Any) -> None:
        """Anything but a wake."""
        if kind == "arrive":
            self.inboxes[i].append(content)
        elif kind == "crash":
            self.crash(i)
        elif kind == "return":
            self.come_back(i, *content)

    def receivers(self, i: int, message: Any) -> list[int]:  # noqa: ARG002
        """To whom a message is sent: all neighbors."""
        return [int(j) for j in self.agents[i].neighbors]

    def restored(self, i: int, life: int) -> Any:
        """The state of its last checkpoint."""
        return self.algorithm.restart(self.checkpoints[i][-1], life)

    def wake(self, i: int) -> None:
        """Wake, send when what that takes is computed, and compute what the next wake will need."""
        agent, fate = self.agents[i], self.fates[i]
        before = agent.gradients
        state, message = self.algorithm.wake(self.states[i], self.inboxes[i], agent)
        self.inboxes[i] = []
        self.wakes[i] += 1
        self.counts.wakes += 1
        sent = self.time
        if now := agent.gradients - before:
            sent += fate.compute(now)
        self.states[i] = self.algorithm.compute(state, agent)
        later = agent.gradients - before - now
        done = sent + fate.compute(later) if later or not now else sent
        self.activity.add("working", i, self.time, done)
        self.size = self.size or sum(array.size for array in flatten(message).values())
        for j in self.receivers(i, message):
            delays = fate.travel()
            self.counts.messages += 1
            self.counts.scalars += self.size
            self.counts.lost += not delays
            for delay in delays:
                self.push(sent + delay, "arrive", j, message)
        if self.wakes[i] % self.world.checkpoint == 0:
            # Older ones are kept if anybody may come back from them.
            self.checkpoints[i] = [*(self.checkpoints[i] if self.world.older else ()), state]
        again = done + fate.nap()
        if again > done:
            self.activity.add("away", i, done, again)
        self.push(again, "wake", i, self.lives[i])

    def crash(self, i: int) -> None:
        """Lose what arrived and what was computed since the last checkpoint."""
        self.counts.crashes += 1
        self.lives[i] += 1
        self.inboxes[i] = []
        self.activity.cut(i, self.time)
        away, left = self.fates[i].down()
        self.activity.add("away", i, self.time, self.time + away)
        self.push(self.time + away, "return", i, (self.lives[i], left))
        self.push(self.time + away + self.fates[i].next_crash(), "crash", i, None)

    def come_back(self, i: int, life: int, left: float) -> None:
        """Go on from the last checkpoint that is left, or from the start if none is."""
        kept = self.checkpoints[i][: math.ceil(left * len(self.checkpoints[i]))]
        self.checkpoints[i] = kept or [self.first[i]]
        self.inboxes[i] = []
        self.states[i] = self.restored(i, life)
        self.push(self.time, "wake", i, life)
