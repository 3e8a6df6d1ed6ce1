"""Agents that leave for good or come late: who takes part when, and the weights of those who do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array

from destiny.errors import SettingsError
from destiny.protocols import Array, ProblemBase, TopologyBase
from destiny.simulation.world import World


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


def first_members(world: World, agents: int) -> list[int]:
    """Who takes part from the start."""
    late = {int(agent) for agent, _ in world.join}
    return [i for i in range(agents) if i not in late]


def restricted(W: csr_array[Any, Any], members: Sequence[int]) -> csr_array[Any, Any]:
    """W among some agents: the weight of a link to anybody else goes to the agent itself.

    Every other weight stays, so that nobody but the neighbours of an agent has to know that it has left. If W
    is symmetric, so is this one, and its rows and columns add up to 1.
    """
    if len(members) == W.shape[0]:
        return W
    keep = np.zeros(W.shape[0])
    keep[list(members)] = 1.0
    inside = diags_array(keep) @ W @ diags_array(keep)
    new = csr_array(inside + diags_array(1.0 - np.asarray(inside.sum(axis=1)).ravel()))
    new.sort_indices()
    return new


class Restricted(TopologyBase):
    """A network of those who take part, as far as a method has to know it."""

    def __init__(self, lambda_: float, agents: int) -> None:
        self._lambda, self._agents = lambda_, agents

    @property
    def agents(self) -> int:
        """d, with those who have left or are to come."""
        return self._agents

    @property
    def lambda_(self) -> float:
        """The largest of all sets of members."""
        return self._lambda

    def at(self, round: int) -> csr_array[Any, Any]:
        """Not used: agents have their rows."""
        raise NotImplementedError


def slowest_mixing(network: TopologyBase, world: World) -> Restricted:
    """The network with the largest lambda of all sets of members; refuses a set that falls apart."""
    W, members = network.at(0), set(first_members(world, network.agents))
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
    from scipy.sparse.csgraph import connected_components

    inside = restricted(W, ids := sorted(members)).toarray()[np.ix_(ids, ids)]
    if not ids or connected_components(inside)[0] > 1:
        raise SettingsError(
            f"the agents who take part after {time:g} s must be linked with each other; agents {ids} are not"
        )
    return float(np.sort(np.abs(np.linalg.eigvalsh(inside)))[-2]) if len(ids) > 1 else 0.0


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
