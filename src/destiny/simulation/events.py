"""Asynchronous agents in simulated time, as a queue of events; a run is a function of its seeds."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from destiny.engines.local_agent import HostedAgent
from destiny.protocols import Array, AsyncAlgorithmBase
from destiny.simulation.activity import ActivityLog
from destiny.simulation.membership import changes, first_members, restricted
from destiny.simulation.world import World, fates
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
        W: csr_array[Any, Any],
    ) -> None:
        self.W = W
        self.agents, self.algorithm, self.world = agents, algorithm, world
        self.members = first_members(world, len(agents))
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
        for i in self.members:
            self.begin(i, agents[i].gradients)
        for change in changes(world):
            self.push(change.time, "join" if change.joins else "leave", change.agent, None)

    def begin(self, i: int, gradients: int) -> None:
        """An agent wakes for the first time as soon as the gradients of its start are computed."""
        fate = self.fates[i]
        begun = self.time + fate.compute(gradients)
        self.activity.add("working", i, self.time, begun)
        self.push(begun, "wake", i, self.lives[i])
        self.push(self.time + fate.next_crash(), "crash", i, None)

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
            if kind == "arrive":
                self.inboxes[i].append(content)
            elif kind in ("leave", "join"):
                self.change(i, joins=kind == "join")
            elif i not in self.members:  # it has left
                continue
            elif kind == "wake" and content == self.lives[i]:
                self.wake(i)
                yield i
            elif kind == "crash":
                self.crash(i)
            elif kind == "return":
                self.come_back(i, *content)

    def wake(self, i: int) -> None:
        """Wake, send when what that takes is computed, and compute what the next wake will need."""
        agent, fate = self.agents[i], self.fates[i]
        before = agent.gradients
        state, message = self.algorithm.wake(self.states[i], self.letters(i), agent)
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
        for j in agent.neighbours:
            delays = fate.travel()
            self.counts.messages += 1
            self.counts.scalars += self.size
            self.counts.lost += not delays
            for delay in delays:
                self.push(sent + delay, "arrive", int(j), message)
        if self.wakes[i] % self.world.checkpoint == 0:
            # Older ones are kept if anybody may come back from them.
            self.checkpoints[i] = [*(self.checkpoints[i] if self.world.older else ()), state]
        again = done + fate.nap()
        if again > done:
            self.activity.add("away", i, done, again)
        self.push(again, "wake", i, self.lives[i])

    def letters(self, i: int) -> list[Any]:
        """What has arrived, of those who are still neighbours."""
        linked = set(self.agents[i].neighbours.tolist())
        return [message for message in self.inboxes[i] if int(message.sender) in linked]

    def change(self, i: int, joins: bool) -> None:
        """An agent takes part from now on, or never again; its neighbours change their weights."""
        self.members = sorted({*self.members, i} if joins else {*self.members} - {i})
        self.lives[i] += 1
        W = restricted(self.W, self.members)
        for j in self.members:
            agent = self.agents[j]
            before = agent.neighbours
            agent.relink(W)
            if j != i:
                for states in (self.states, self.first):
                    states[j] = self.algorithm.relink(states[j], before, agent)
                kept = self.checkpoints[j]
                self.checkpoints[j] = [self.algorithm.relink(state, before, agent) for state in kept]
        if joins:  # from where a neighbour is
            agent = self.agents[i]
            computed, start = agent.gradients, self.states[int(agent.neighbours[0])].X
            self.first[i] = self.algorithm.start(start, agent)
            self.states[i] = self.algorithm.restart(self.first[i], self.lives[i])
            self.checkpoints[i] = [self.states[i]]
            self.begin(i, agent.gradients - computed)

    def crash(self, i: int) -> None:
        """Lose what arrived and what was computed since the last checkpoint."""
        self.counts.crashes += 1
        self.lives[i] += 1
        self.inboxes[i] = []
        away, left = self.fates[i].down()
        self.activity.add("away", i, self.time, self.time + away)
        self.push(self.time + away, "return", i, (self.lives[i], left))
        self.push(self.time + away + self.fates[i].next_crash(), "crash", i, None)

    def come_back(self, i: int, life: int, left: float) -> None:
        """Go on from the last checkpoint that is left, or from the start if none is."""
        kept = self.checkpoints[i][: math.ceil(left * len(self.checkpoints[i]))]
        self.checkpoints[i] = kept or [self.first[i]]
        self.inboxes[i] = []
        self.states[i] = self.algorithm.restart(self.checkpoints[i][-1], life)
        self.push(self.time, "wake", i, life)
