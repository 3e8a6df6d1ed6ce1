"""One agent by itself, as asynchronous algorithms see it: its gradient and its row of the mixing matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from destiny.protocols import Array, Hosted


class HostedAgent:
    """One agent of a network (`LocalAgent`).

    Parameters
    ----------
    index : int
    hosted : Hosted
        Its objective, loaded by ``problem.host([index])``.
    W : csr_array (d, d)
        The mixing matrix; of it, the agent's own row is used.

    Attributes
    ----------
    gradients : int
        Evaluations so far.
    """

    def __init__(self, index: int, hosted: Hosted, W: csr_array[Any, Any]) -> None:
        self.index, self.agents = index, int(W.shape[0])
        self.gradients = 0
        self._hosted = hosted
        row = slice(W.indptr[index], W.indptr[index + 1])
        others, weights = W.indices[row].astype(np.intp), np.asarray(W.data[row], dtype=np.float64)
        links = (others != index) & (weights != 0)
        self.neighbors, self.weights = others[links], weights[links]
        self.own_weight = float(weights[others == index].sum())

    def gradient(self, X: Array) -> Array:
        """Euclidean gradient of f_i at X, ``(n, p) -> (n, p)``."""
        self.gradients += 1
        return np.asarray(self._hosted.gradient(X[None])[0])
