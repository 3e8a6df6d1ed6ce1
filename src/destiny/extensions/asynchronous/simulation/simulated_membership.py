"""Agents that leave for good or come late, in simulated time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from destiny.errors import SettingsError
from destiny.extensions.asynchronous.members import (
    LEFT,
    MEMBER,
    Record,
    Restricted,
    are_members,
    asked,
    first_standing,
    member_ids,
    mixing_of,
)
from destiny.extensions.asynchronous.simulation.events import AsyncAgents
from destiny.extensions.asynchronous.simulation.world import World
from destiny.extensions.asynchronous.termination import StampedMessage, TerminationDetection
from destiny.protocols import Array, ProblemBase, TopologyBase


@dataclass(frozen=True)
class Change:
    """An agent that joins, or leaves for good, at a time."""

    time: float
    agent: int
    joins: bool


def changes(world: World) -> list[Change]:
    """What changes in a world, first things first."""
    joins = [Change(time, int(agent), True) for agent, time in world.join]
    leaves = [Change(time, int(agent), False) for agent, time in world.leave]
    return sorted([*joins, *leaves], key=lambda change: change.time)


def late_agents(world: World) -> tuple[int, ...]:
    """Who does not take part from the start."""
    return tuple(sorted(int(agent) for agent, _ in world.join))


def slowest_of_all(network: TopologyBase, world: World) -> Restricted:
    """The network with the largest lambda of all sets of members; refuses a set that falls apart."""
    W, members = network.at(0), set(range(network.agents)) - set(late_agents(world))
    largest = _lambda(W, members, 0.0)
    for change in changes(world):
        (members.add if change.joins else members.discard)(change.agent)
        largest = max(largest, _lambda(W, members, change.time))
    return Restricted(largest, network.agents)


def check_world(world: World, network: TopologyBase) -> None:
    """Refuse agents that do not exist, or that leave or join twice."""
    d, named = network.agents, [int(agent) for agent, _ in (*world.leave, *world.join)]
    if any(not 0 <= agent < d for agent in named):
        raise SettingsError(f"leave and join must name agents from 0 to {d - 1}; found {sorted(named)}")
    for pairs, name in ((world.leave, "leave"), (world.join, "join")):
        agents = [int(agent) for agent, _ in pairs]
        if len(set(agents)) < len(agents):
            raise SettingsError(f"{name} must name an agent once; found {sorted(agents)}")
    joined = {int(agent): time for agent, time in world.join}
    for agent, time in world.leave:
        if time <= joined.get(int(agent), 0.0):
            raise SettingsError(
                f"agent {agent:g} must join before it leaves at {time:g} s: give a later time"
            )
    W = network.at(0)
    if abs(W - W.T).max() > 1e-12:
        raise SettingsError("leave and join need symmetric weights: use metropolis weights")


def _lambda(W: csr_array[Any, Any], members: Iterable[int], time: float) -> float:
    lambda_ = mixing_of(W, ids := sorted(members))
    if not ids:
        raise SettingsError(f"somebody must take part after {time:g} s; leave and join leave nobody")
    if lambda_ is None:
        raise SettingsError(
            f"the agents who take part after {time:g} s must be linked with each other; agents {ids} are not"
        )
    return lambda_


class ChangingAgents(AsyncAgents):
    """Asynchronous agents of which some leave for good and others come late.

    Whoever leaves asks for it, and goes when its neighbors know. Whoever comes calls its neighbors until
    one sends it a message as to a member, and begins where that one is. Checkpoints may be lost; what an
    agent has recorded is not.

    Attributes
    ----------
    records : list of Record
        What each agent has on disk besides its checkpoints.
    """

    algorithm: TerminationDetection

    def open(self) -> None:
        """Let those begin who take part from the start."""
        standing = first_standing(len(self.agents), self.algorithm.late)
        self.records = [Record(standing) for _ in self.agents]
        self.absent = set(self.algorithm.late)  # who has not come yet, is down or has gone
        for i in member_ids(standing):
            self.begin(i, self.agents[i].gradients)
        for change in changes(self.world):
            self.push(change.time, "join" if change.joins else "leave", change.agent, None)

    @property
    def standing(self) -> Array:
        """What all agents know together."""
        return np.asarray(np.max([record.standing for record in self.records], axis=0))

    @property
    def members(self) -> list[int]:
        """Who takes part, as far as anybody knows."""
        return member_ids(self.standing)

    def outstanding(self) -> list[Change]:
        """Changes that have not been made yet."""
        return [c for c in changes(self.world) if self.standing[c.agent] < (MEMBER if c.joins else LEFT)]

    def happen(self, kind: str, i: int, content: Any) -> None:
        """Anything but a wake."""
        if kind == "leave":
            if i in self.algorithm.late and not self.lives[i]:  # it has not come yet
                self.push(self.time + self.fates[i].mean, "leave", i, None)
            else:
                self.ask(i, i, joins=False)
        elif kind == "join":
            self.knock(i)
        elif i not in self.algorithm.late or self.lives[i]:
            super().happen(kind, i, content)
        elif kind == "arrive" and are_members(content.standing)[i]:
            self.come(i, content)

    def ask(self, i: int, j: int, joins: bool) -> None:
        """Agent i is told that j wants to come or to leave."""
        wish = asked(self.records[i].standing, j, joins)
        self.records[i] = replace(self.records[i], standing=wish)
        self.states[i] = self.algorithm.know(self.states[i], wish, self.agents[i])

    def knock(self, i: int) -> None:
        """A late agent calls its neighbors until it has heard from one."""
        if self.lives[i]:
            return
        for j in self.agents[i].neighbors:
            if j not in self.absent and self.fates[i].travel():
                self.ask(int(j), i, joins=True)
        self.push(self.time + self.fates[i].mean, "join", i, None)

    def come(self, i: int, letter: StampedMessage) -> None:
        """Begin at the point of a neighbor, with sums of 0."""
        agent, method = self.agents[i], self.algorithm
        computed = agent.gradients
        self.absent.discard(i)
        self.lives[i] += 1
        self.first[i] = method.know(method.start(letter.message.point, agent), letter.standing, agent)
        self.states[i] = method.restart(self.first[i], self.lives[i])
        self.checkpoints[i] = [self.first[i]]
        self.records[i] = method.record(self.records[i], self.states[i], agent)
        self.begin(i, agent.gradients - computed)

    def wake(self, i: int) -> None:
        """Make the changes that are asked for, if the agent may; compute and send; one that has left goes."""
        method, agent = self.algorithm, self.agents[i]
        if method.may_go(self.states[i], agent):
            self.absent.add(i)
            self.lives[i] += 1  # no event of its life before counts any more
            return
        if (standing := method.carry_out(self.states[i], self.records[i], agent)) is not None:
            self.states[i] = method.know(self.states[i], standing, agent)
        super().wake(i)
        self.records[i] = method.record(self.records[i], self.states[i], agent)

    def receivers(self, i: int, message: StampedMessage) -> list[int]:
        """Neighbors that take part or have left: these may not know yet."""
        return [j for j in super().receivers(i, message) if message.standing[j] >= MEMBER]

    def crash(self, i: int) -> None:
        """Be away for a while, unless the agent has left for good."""
        if i not in self.absent:
            self.absent.add(i)
            super().crash(i)

    def come_back(self, i: int, life: int, left: float) -> None:
        """Go on."""
        self.absent.discard(i)
        super().come_back(i, life, left)

    def restored(self, i: int, life: int) -> Any:
        """The state of its last checkpoint, with what the agent has recorded."""
        return self.algorithm.recall(super().restored(i, life), self.records[i], self.agents[i])


class MembersObserver:
    """The mean over those who take part (`destiny.protocols.Observer`)."""

    def __init__(self, problem: ProblemBase, members: Sequence[int]) -> None:
        self.hosted, self.count = problem.host(list(members)), len(members)

    def gradient(self, X: Array) -> Array:
        """Mean of the gradients at X ``(n, p)``."""
        return np.asarray(self.hosted.gradient(np.repeat(X[None], self.count, axis=0)).mean(axis=0))

    def value(self, X: Array) -> float:
        """Mean of the objectives at X ``(n, p)``."""
        return float(self.hosted.value(np.repeat(X[None], self.count, axis=0)).mean())

    def mass(self, X: Array) -> Array:
        """X: the constraint is X^T X = I."""
        return X
