"""A fixed network as one agent knows it: its own row of the Metropolis weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from destiny.errors import NetworkError
from destiny.networks.links import tidy
from destiny.networks.weights import assemble
from destiny.protocols import Array, TopologyBase, Tree, spanning_tree


class Neighborhood(TopologyBase):
    """A network seen by one agent (`destiny.protocols.Topology`).

    Parameters
    ----------
    index : int
        The agent.
    neighbors : sequence of int
    agents : int
        d.
    diameter : int, optional
        Rounds until a number has reached all agents; d - 1 is always enough.
    spectrum : (low, high), optional
        Interval of the eigenvalues of W other than 1; with it, averaging takes fewer rounds.
    """

    verified = True  # by the neighbors together: one row alone says nothing
    changes = False
    # In place of the properties of the base: __init__ sets them.
    agents: int = 0
    diameter: int = 0
    tree: Tree | None = None
    spectrum: tuple[float, float] | None = None

    def __init__(
        self,
        index: int,
        neighbors: Sequence[int],
        agents: int,
        diameter: int | None = None,
        spectrum: tuple[float, float] | None = None,
    ) -> None:
        self.index, self.neighbors, self.agents = index, list(neighbors), agents
        self.diameter = agents - 1 if diameter is None else diameter
        self.spectrum = spectrum
        self.W: csr_array[Any, Any] | None = None

    def learn(self, degrees: Mapping[int, int]) -> None:
        """Set the weights from the degrees of the neighbors."""
        links = tidy(np.array([(self.index, other) for other in self.neighbors]), self.agents)
        others = links.sum(axis=1) - self.index
        larger = np.array([max(len(self.neighbors), degrees[int(other)]) for other in others])
        # The star of this agent's links has the bits of the whole network's row: sums in the same order.
        star = assemble(links, 1 / (larger + 1.0), self.agents)
        self.W = _row_alone(star, self.index)

    def learn_links(self, links: Mapping[int, Sequence[int]]) -> None:
        """Find the tree for sums from the neighbors of every agent; `NetworkError` if they contradict.

        Who lies about its links, or has an old file, is named: a link has two ends.
        """
        for agent, others in links.items():
            for other in others:
                if agent not in links[other]:
                    raise NetworkError(
                        f"agent {agent} says that agent {other} is its neighbor, but agent {other} does "
                        "not: one of their files is wrong"
                    )
        ends = np.cumsum([0, *(len(links[agent]) for agent in range(self.agents))])
        columns = np.concatenate([np.sort(np.asarray(links[agent])) for agent in range(self.agents)])
        size = (self.agents, self.agents)
        self.tree = spanning_tree(csr_array((np.ones(len(columns)), columns, ends), shape=size))

    @property
    def depth(self) -> int:
        """Of the tree; before it is known, the diameter is an upper bound."""
        return self.diameter if self.tree is None else self.tree.depth

    @property
    def fewest_neighbors(self) -> tuple[int, int]:
        """This agent: it knows its own neighbors alone."""
        return self.index, len(self.neighbors)

    def weigh(self, weights: Array, own_weight: float) -> None:
        """Set the weights of the neighbors, in the order of their index, and the agent's own."""
        row = csr_array(
            ([*weights, own_weight], ([0] * (len(weights) + 1), [*self.neighbors, self.index])),
            shape=(1, self.agents),
        )
        row.sort_indices()
        ends = np.where(np.arange(self.agents + 1) > self.index, row.nnz, 0)
        self.W = csr_array((row.data, row.indices, ends), shape=(self.agents, self.agents))

    def at(self, round: int) -> csr_array[Any, Any]:  # noqa: ARG002
        """Mixing matrix ``(d, d)`` with this agent's row; all other rows are zero."""
        assert self.W is not None, "neighbors have not told their degrees"
        return self.W


def _row_alone(W: csr_array[Any, Any], row: int) -> csr_array[Any, Any]:
    mine = slice(W.indptr[row], W.indptr[row + 1])
    ends = np.where(np.arange(W.shape[0] + 1) > row, W.indptr[row + 1] - W.indptr[row], 0)
    data: Array = W.data[mine]
    return csr_array((data, W.indices[mine], ends.astype(W.indptr.dtype)), shape=W.shape)
