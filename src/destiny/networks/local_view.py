"""A network that stays, as one agent knows it: its row of the Metropolis weights, from degrees it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from destiny.networks.links import tidy
from destiny.networks.weights import assemble
from destiny.protocols import Array


class Neighbourhood:
    """A network seen by one agent (`destiny.protocols.Topology`).

    Parameters
    ----------
    index : int
        The agent.
    neighbours : sequence of int
    agents : int
        d.
    diameter : int, optional
        Rounds until everybody has heard of everybody; d - 1 is always enough.
    spectrum : (low, high), optional
        Where the eigenvalues of the weights lie, but for the 1; averages take fewer rounds if it is known.
    """

    verified = True  # by the neighbours together: one row alone says nothing

    def __init__(
        self,
        index: int,
        neighbours: Sequence[int],
        agents: int,
        diameter: int | None = None,
        spectrum: tuple[float, float] | None = None,
    ) -> None:
        self.index, self.neighbours, self.agents = index, list(neighbours), agents
        self.diameter = agents - 1 if diameter is None else diameter
        self.spectrum = spectrum
        self.W: csr_array[Any, Any] | None = None

    def learn(self, degrees: Mapping[int, int]) -> None:
        """The neighbours have told how many neighbours they have."""
        links = tidy(np.array([(self.index, other) for other in self.neighbours]), self.agents)
        others = links.sum(axis=1) - self.index
        larger = np.array([max(len(self.neighbours), degrees[int(other)]) for other in others])
        # The star of this agent's links has the bits of the whole network's row: sums in the same order.
        star = assemble(links, 1 / (larger + 1.0), self.agents)
        self.W = _row_alone(star, self.index)

    def at(self, round: int) -> csr_array[Any, Any]:  # noqa: ARG002
        """The mixing matrix ``(d, d)`` as far as this agent knows it: zero but for its own row."""
        assert self.W is not None, "neighbours have not told their degrees"
        return self.W


def _row_alone(W: csr_array[Any, Any], row: int) -> csr_array[Any, Any]:
    mine = slice(W.indptr[row], W.indptr[row + 1])
    ends = np.where(np.arange(W.shape[0] + 1) > row, W.indptr[row + 1] - W.indptr[row], 0)
    data: Array = W.data[mine]
    return csr_array((data, W.indices[mine], ends.astype(W.indptr.dtype)), shape=W.shape)
