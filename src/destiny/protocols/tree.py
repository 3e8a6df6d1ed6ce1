"""The spanning tree along which sums travel (`HostedAgents.all_reduce`), from the network's links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.errors import NetworkError

CANDIDATES = 256  # agents that may be the root: in networks of more the first ones are no worse than others
DISTANCES = 2**22  # that are computed: of 100,000 agents some 40 may be the root, in seconds


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

    Every agent's parent is the first of its neighbours that are nearer to the root. Of equally central agents
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
