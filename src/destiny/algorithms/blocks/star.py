"""A coordinator at the center of a star: sums to it and broadcasts from it, by rounds of mixing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.errors import MismatchError
from destiny.protocols import Agents, Array, TopologyBase


@dataclass(frozen=True)
class Star:
    """What agents must know of their star.

    Attributes
    ----------
    agents : int
    center : int
    weight : float
        Of each link; not used where there is none.
    """

    agents: int
    center: int
    weight: float

    @classmethod
    def of(cls, network: TopologyBase, method: str) -> Star:
        """The star of a network; raise `MismatchError` if it is another network."""
        W = None if network.changes or network.lambda_ is None else network.at(0)
        if W is None or (center := _center(W)) is None:
            raise MismatchError(
                f"{method} needs a star that stays, one agent linked to all others with equal weights; this "
                "network is none: use destiny.networks.star, or destiny-accelerated on any network"
            )
        d = W.shape[0]
        links = W[[center]].toarray()[0]
        return cls(d, center, float(np.delete(links, center)[0]) if d > 1 else 1.0)

    def mean(self, agents: Agents, array: Array) -> Array:
        """One round: the mean of an array over all agents, at the center; elsewhere the result has no use."""
        # The center's own array does not pass through its weight, which may be zero.
        (others,) = agents.mix(np.where(self.at_center(agents), 0.0, array))
        return (array + others / self.weight) / self.agents

    def broadcast(self, agents: Agents, array: Array) -> Array:
        """One round: the array of the center, at all agents up to rounding."""
        here = self.at_center(agents)
        (sent,) = agents.mix(np.where(here, array, 0.0))
        return np.where(here, array, sent / self.weight)

    def at_center(self, agents: Agents) -> NDArray[np.bool_]:
        """Which hosted agent is the center, ``(agents, 1, 1)``."""
        return np.asarray(agents.ids == self.center)[:, None, None]


def _center(W: csr_array[Any, Any]) -> int | None:
    """The agent that is linked to all others, if those have no other links and all weights are equal."""
    d = W.shape[0]
    links = W.tocoo()
    between = (links.row != links.col) & (links.data != 0)
    rows, weights = links.row[between], links.data[between]
    degree = np.bincount(rows, minlength=d)
    center = int(degree.argmax())
    expected = np.ones(d, dtype=int) * min(1, d - 1)
    expected[center] = d - 1
    equal = weights.min(initial=1.0) == weights.max(initial=0.0) or d == 1
    return center if equal and (degree == expected).all() else None
