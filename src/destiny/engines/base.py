"""What every engine shares: gradients, mixing, counting. An engine adds how messages travel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.types import Array, Hosted, Topology

Exchange = Callable[[int, Sequence[Array]], Sequence[Array]]
"""(round, blocks of the hosted agents ``(hosted, k)``) -> the same blocks of all agents needed ``(d, k)``."""


@dataclass
class Traffic:
    """What was sent so far over all links of the network."""

    rounds: int = 0
    scalars: int = 0


class HostedAgents:
    """The agents of one process or thread, as an algorithm sees them (`destiny.types.Agents`).

    Attributes
    ----------
    traffic : Traffic
        Rounds so far and float64 numbers sent over all links, counted here for every algorithm alike.
    flood : ndarray (hosted,) or None
        Numbers that ride along in every message; each agent keeps the largest it has heard of. This is
        how agents agree to stop without a round of their own.
    """

    def __init__(self, ids: Sequence[int], hosted: Hosted, network: Topology, exchange: Exchange) -> None:
        self.ids: NDArray[np.intp] = np.asarray(ids, dtype=np.intp)
        self.hosted = hosted
        self.network = network
        self.exchange = exchange
        self.traffic = Traffic()
        self.flood: Array | None = None
        self._weights: csr_array[Any, Any] | None = None

    def gradient(self, X: Array) -> Array:
        """Euclidean gradients of the hosted agents at their own X_i, ``(hosted, n, p)``."""
        return self.hosted.gradient(X)

    def value(self, X: Array) -> Array:
        """f_i(X_i) of the hosted agents, ``(hosted,)``."""
        return self.hosted.value(X)

    def mix(self, *arrays: Array, rounds: int = 1) -> tuple[Array, ...]:
        """Weighted neighbour average of all arrays, in one message per neighbour and round."""
        shapes = [a.shape for a in arrays]
        blocks = [a.reshape(len(a), -1) for a in arrays]
        for _ in range(rounds):
            blocks = self._round(blocks)
        return tuple(b.reshape(shape) for b, shape in zip(blocks, shapes, strict=True))

    def _round(self, blocks: Sequence[Array]) -> list[Array]:
        self._adopt(self.network.at(self.traffic.rounds))
        rider = [] if self.flood is None else [self.flood[:, None]]
        heard = self.exchange(self.traffic.rounds, [*blocks, *rider])
        if rider:
            every = heard[-1][:, 0]
            self.flood = np.maximum.reduceat(every[self._rows.indices], self._rows.indptr[:-1])
        # CSR times dense adds the neighbours in the order of their index: the same bits on every engine.
        mixed = [self._rows @ h for h in heard[: len(blocks)]]
        self.traffic.rounds += 1
        self.traffic.scalars += self._links * sum(b.shape[1] for b in [*blocks, *rider])
        return mixed

    def _adopt(self, W: csr_array[Any, Any]) -> None:
        """Keep this round's rows; a fixed network hands out the same object every time."""
        if W is not self._weights:
            self._weights = W
            self._rows = W if len(self.ids) == W.shape[0] else W[self.ids]
            self._links = int(np.count_nonzero(W.data) - np.count_nonzero(W.diagonal()))
