"""The contract of networks: one mixing matrix for every round, and the spanning tree along which sums
travel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.errors import NetworkError
from destiny.protocols.arrays import Array

CANDIDATES = 256  # agents that may be the root: in networks of more the first ones are no worse than others
DISTANCES = 2**22  # that are computed: of 100,000 agents some 40 may be the root, in seconds


class Topology(Protocol):
    """Who talks to whom, with which weights, in which round: what a network must have."""

    @property
    def agents(self) -> int:
        """Number of agents d."""

    def at(self, round: int) -> csr_array[Any, Any]:
        """Mixing matrix of a round ``(d, d)``, rows sorted by index; equal in every process.

        Every row and every column sums to 1; a class of your own may return any array, which is checked.
        """


class TopologyBase(ABC):
    """A network (`Topology`) with everything else it may be asked for."""

    verified: bool = False
    """Whether its matrices are doubly stochastic by construction; otherwise each of them is checked."""
    changes: bool = True
    """Whether the mixing matrix may differ from round to round."""
    checked: bool = False
    """Whether it is of a user's own class, so that every round's matrix is looked at."""
    connected: bool = True
    """False for a network in pieces, of use only as a part of one that changes."""

    @property
    @abstractmethod
    def agents(self) -> int:
        """Number of agents d."""

    @abstractmethod
    def at(self, round: int) -> csr_array[Any, Any]:
        """Mixing matrix of a round ``(d, d)``, rows sorted by index; equal in every process."""

    @property
    def diameter(self) -> int | None:
        """Rounds until every agent has heard of every other; None if it depends on the round."""
        return None

    @cached_property
    def tree(self) -> Tree | None:
        """The spanning tree along which sums over all agents travel; None if the network changes."""
        return None if self.changes else spanning_tree(self.at(0))

    @property
    def depth(self) -> int | None:
        """Levels of that tree, an upper bound where an agent does not know it yet; None if there is none."""
        return None if self.tree is None else self.tree.depth

    @property
    def lambda_(self) -> float | None:
        """||W - 11^T/d||_2, the factor by which one round shrinks disagreement; None if there is no one W."""
        return None

    @property
    def spectrum(self) -> tuple[float, float] | None:
        """Lowest and highest eigenvalue of W but for the 1 of the mean; None if there is no one W."""
        return None

    @property
    def lowest(self) -> float | None:
        """Smallest eigenvalue of W over some rounds, of a network that is known to change; None of others."""
        return None

    @property
    def transient(self) -> int:
        """Rounds at the start that are unlike all later ones."""
        return 0

    @property
    def with_all_links(self) -> TopologyBase:
        """The network with all its links up; by default the network itself."""
        return self

    def all_edges(self) -> NDArray[np.int64]:
        """Links alive in some round ``(E, 2)``, i < j; by default those of the first round."""
        i, j = self.at(0).nonzero()
        return np.stack([i[i < j], j[i < j]], axis=1).astype(np.int64)

    @property
    def fewest_neighbors(self) -> tuple[int, int]:
        """The agent with the fewest neighbors, as far as they are known here, and their number."""
        if self.changes:
            degrees = np.bincount(self.all_edges().ravel(), minlength=self.agents)
        else:
            W = self.at(0)
            rows = np.repeat(np.arange(self.agents), np.diff(W.indptr))
            degrees = np.bincount(rows[(rows != W.indices) & (W.data != 0)], minlength=self.agents)
        agent = int(degrees.argmin())
        return agent, int(degrees[agent])

    def layout(self) -> Array:
        """Where to draw the agents, ``(d, 2)``; by default on a circle."""
        angle = 2 * np.pi * np.arange(self.agents) / self.agents
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)

    def facts(self) -> dict[str, Any]:
        """What there is to know, as plain numbers by name."""
        return {}


@dataclass(frozen=True, eq=False)
class Tree:
    """A spanning tree of few levels.

    Attributes
    ----------
    parents : ndarray (d,)
        The parent of every agent, -1 for the root.
    depth : int
        Links between the root and the agent farthest from it. A sum takes ``2 * depth`` rounds.
    """

    parents: NDArray[np.intp]
    depth: int

    @cached_property
    def children(self) -> list[list[int]]:
        """The children of every agent, in the order of their index, which is that of addition."""
        children: list[list[int]] = [[] for _ in self.parents]
        for agent, parent in enumerate(self.parents.tolist()):
            if parent >= 0:
                children[parent].append(agent)
        return children

    @cached_property
    def root(self) -> int:
        """The agent that has the total first."""
        return int(np.flatnonzero(self.parents < 0)[0])

    @cached_property
    def upward(self) -> list[int]:
        """All agents, each after its children and soon after them: few partial sums are held at a time."""
        order, stack = [], [self.root]
        while stack:
            agent = stack.pop()
            order.append(agent)
            stack.extend(self.children[agent])
        return order[::-1]

    @cached_property
    def levels(self) -> NDArray[np.intp]:
        """Links between every agent and the root, ``(d,)``."""
        levels = np.zeros(len(self.parents), dtype=np.intp)
        for agent in reversed(self.upward):
            if self.parents[agent] >= 0:
                levels[agent] = levels[self.parents[agent]] + 1
        return levels

    def messages(self, agents: Sequence[int] | None = None) -> int:
        """Messages of one sum: one to the parent and one to each child, of all agents or of some."""
        if agents is None:
            return 2 * (len(self.parents) - 1)
        return sum(len(self.children[i]) + int(self.parents[i] >= 0) for i in agents)


def spanning_tree(W: csr_array[Any, Any]) -> Tree:
    """The tree of shortest ways from the most central agent.

    Every agent's parent is the first of its neighbors that are nearer to the root. Of equally central agents
    among the first `CANDIDATES` (fewer in networks of more than 16,000), the first is the root. ``W (d, d)``
    is any matrix whose entries beside the diagonal are the links.
    """
    from scipy.sparse.csgraph import dijkstra  # longer to import than all of this package

    d = W.shape[0]
    if d == 1:
        return Tree(np.array([-1]), 0)
    links = csr_array((np.ones(len(W.data)), W.indices, W.indptr), shape=W.shape)
    links.data[W.data == 0] = 0.0
    links = links.maximum(links.T).tocsr()
    links.eliminate_zeros()
    candidates = min(d, CANDIDATES, max(1, DISTANCES // d))
    distances = dijkstra(links, unweighted=True, indices=np.arange(candidates))
    best = distances[int(np.argmin(distances.max(axis=1)))]
    if np.isinf(best).any():
        agent = int(np.flatnonzero(np.isinf(best))[0])
        raise NetworkError(
            f"sums over all agents need a connected network; agent {agent} cannot be reached from agent "
            f"{int(np.argmin(best))}: add a link"
        )
    rows = np.repeat(np.arange(d), np.diff(links.indptr))
    nearer = best[links.indices] < best[rows]
    parents = np.full(d, -1, dtype=np.intp)
    agents, first = np.unique(rows[nearer], return_index=True)  # the first of each row has the lowest index
    parents[agents] = links.indices[nearer][first]
    return Tree(parents, int(best.max()))
