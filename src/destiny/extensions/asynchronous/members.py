"""Who takes part in an asynchronous run while agents leave for good or come late (docs/asynchrony.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from destiny.extensions.asynchronous.async_protocol import LocalAgent
from destiny.protocols import Array, TopologyBase

LATE, INVITED, MEMBER, LEAVING, LEFT = 0.0, 1.0, 2.0, 3.0, 4.0
"""The standing of an agent only grows. INVITED and LEAVING are asked for; the others are facts."""


def first_standing(agents: int, late: Collection[int] = ()) -> Array:
    """The standing of every agent at the start, ``(d,)``."""
    standing = np.full(agents, MEMBER)
    standing[list(late)] = LATE
    return standing


def merged(one: Array, other: Array) -> Array:
    """What two agents know together: the order in which they hear of changes does not matter."""
    return np.maximum(one, other)


def are_members(standing: Array) -> NDArray[np.bool_]:
    """Whether each agent takes part, ``(d,)``."""
    return np.asarray(standing // 2 == 1)


def member_ids(standing: Array) -> list[int]:
    """The indices of those who take part."""
    return [int(i) for i in np.flatnonzero(are_members(standing))]


def epoch(standing: Array) -> int:
    """The number of the set of members; larger for a later one of two sets that follow each other."""
    return int((standing // 2).sum())


def asked(standing: Array, agent: int, joins: bool) -> Array:
    """The same with the wish that a late agent takes part, or that a member leaves for good."""
    new = standing.copy()
    if new[agent] == (LATE if joins else MEMBER):
        new[agent] = INVITED if joins else LEAVING
    return new


def carried_out(standing: Array) -> Array:
    """The same with every wish made a fact."""
    return 2 * ((standing + 1) // 2)


@dataclass(frozen=True)
class Record:
    """What an agent must never forget, whatever checkpoint it goes on from.

    It has to be on disk before a message leaves that follows from it.

    Attributes
    ----------
    standing : ndarray (d,)
        Of every agent, as far as this one knows.
    bound : float
        The newest epoch in which the agent was at level 2 or above: the others may be done in that one, and
        this agent may not change it. Infinite if it does not know any more.
    met : bool
        Whether all neighbors could have said that they know an earlier life of this agent, if its files were
        lost.
    """

    standing: Array
    bound: float = 0.0
    met: bool = True

    def may_change(self, agent: int) -> bool:
        """Whether the agent may make changes that are asked for: then nobody is done, nor will be."""
        takes_part = bool(are_members(self.standing)[agent])
        return takes_part and self.met and self.bound < epoch(self.standing)

    def after(self, standing: Array, at_level_2: bool) -> Record:
        """The record when the agent knows this standing, and is at level 2 or above or not."""
        bound = max(self.bound, epoch(standing)) if at_level_2 else self.bound
        return replace(self, standing=standing, bound=bound)

    def same_as(self, other: Record) -> bool:
        """Whether nothing has to be written."""
        return bool(
            np.array_equal(self.standing, other.standing)
            and (self.bound, self.met) == (other.bound, other.met)
        )


class AmongMembers:
    """An agent of which some neighbors do not take part (`LocalAgent`).

    The weight of a link to one of them is added to the agent's own. Every other weight stays: both ends of a
    link use the same one, and rows and columns of the members' weights add up to 1.
    """

    def __init__(self, agent: LocalAgent, standing: Array) -> None:
        self._agent = agent
        stays = are_members(standing)[agent.neighbors]
        self.index, self.agents = agent.index, agent.agents
        self.neighbors, self.weights = agent.neighbors[stays], agent.weights[stays]
        self.own_weight = agent.own_weight + float(agent.weights[~stays].sum())

    def gradient(self, X: Array) -> Array:
        """Euclidean gradient of f_i at X, ``(n, p) -> (n, p)``."""
        return self._agent.gradient(X)


def restricted(W: csr_array[Any, Any], members: Sequence[int]) -> csr_array[Any, Any]:
    """W among some agents, as `AmongMembers` gives each its row; who does not take part keeps its own."""
    if len(members) == W.shape[0]:
        return W
    keep = np.zeros(W.shape[0])
    keep[list(members)] = 1.0
    inside = diags_array(keep) @ W @ diags_array(keep)
    new = csr_array(inside + diags_array(1.0 - np.asarray(inside.sum(axis=1)).ravel()))
    new.sort_indices()
    return new


def mixing_of(W: csr_array[Any, Any], members: Iterable[int]) -> float | None:
    """lambda of W among some agents; None if they are not linked with each other."""
    from scipy.sparse.csgraph import connected_components

    inside = restricted(W, ids := sorted(members)).toarray()[np.ix_(ids, ids)]
    if not ids or connected_components(inside)[0] > 1:
        return None
    return float(np.sort(np.abs(np.linalg.eigvalsh(inside)))[-2]) if len(ids) > 1 else 0.0


def slowest_mixing(network: TopologyBase, late: Collection[int]) -> Restricted:
    """The larger lambda of a network with those who come late and without them: a shorter step is safe."""
    W, everybody = network.at(0), set(range(network.agents))
    first, last = mixing_of(W, everybody - set(late)), mixing_of(W, everybody)
    return Restricted(max(first or 0.0, last or 0.0), network.agents)


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
