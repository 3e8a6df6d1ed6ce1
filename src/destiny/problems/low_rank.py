"""Symmetric matrices of low rank: what products with few vectors tell of a matrix, and PCA of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from destiny.geometry.stiefel import sym
from destiny.problems.checks import check_stack
from destiny.protocols import Array

RIDGE = 0.25  # products that say "no variance here", in each direction: see notes/differential-privacy.md
ROUNDING = 1e-6  # of a length: what is shorter lies in the span of the others


@dataclass(frozen=True)
class LowRank:
    """C = L diag(values) L^T with orthonormal columns of L ``(n, k)``, largest value first, none negative.

    ``variance`` is the trace of the matrix that C stands for.
    """

    L: Array
    values: Array
    variance: float = 0.0

    @classmethod
    def range_of(cls, Y: Array, k: int) -> Self:
        """The k leading left singular vectors of Y ``(n, more)``, with their singular values."""
        L, values, _ = np.linalg.svd(Y, full_matrices=False)
        return cls(_signed(L[:, :k]), values[:k])

    @classmethod
    def fit(cls, Q: Sequence[Array], Y: Sequence[Array], k: int) -> Self:
        """The k leading axes of the symmetric S that minimizes sum ||S Q_t - Y_t||^2 + RIDGE ||S||^2.

        Y_t is C Q_t with noise: products with nearly the same vectors are averaged, which one power step
        after the other would not do. With M = sum Q_t Q_t^T = V diag(mu) V^T and B = sum Y_t Q_t^T the
        minimizer solves S M + M S + 2 RIDGE S = B + B^T, entry by entry in the basis V and its complement.
        """
        vectors, products = np.concatenate(Q, axis=1), np.concatenate(Y, axis=1)
        V, lengths, _ = np.linalg.svd(vectors, full_matrices=False)
        V, mu = V[:, lengths > ROUNDING], np.square(lengths[lengths > ROUNDING])
        BV = products @ (vectors.T @ V)
        H = V.T @ BV
        outside, R = np.linalg.qr((BV - V @ H) / (mu + 2 * RIDGE))
        r = len(mu)
        core = np.zeros((r + len(R), r + len(R)))
        core[:r, :r] = 2 * sym(H) / (mu[:, None] + mu + 2 * RIDGE)
        core[r:, :r], core[:r, r:] = R, R.T
        values, S = np.linalg.eigh(core)
        values, S = values[::-1][:k], S[:, ::-1][:, :k]
        # What the ridge took of variances, along axes that were multiplied with once or more.
        seen = np.maximum(mu @ np.square(S[:r]), 1.0)
        values = np.maximum(values * (1 + RIDGE / seen), 0.0)
        return cls(_signed(np.concatenate([V, outside], axis=1) @ S), values)

    def with_variance(self, variance: float) -> Self:
        """The same matrix in place of one with this trace."""
        return replace(self, variance=variance)

    def __matmul__(self, X: Array) -> Array:
        return np.asarray(self.L @ (self.values[:, None] * (self.L.T @ X)))

    def dense(self) -> Array:
        """C, ``(n, n)``."""
        return np.asarray((self.L * self.values) @ self.L.T)


@dataclass(frozen=True)
class LowRankHosted:
    """f(X) = -1/2 tr(X^T C X) at every agent, with a matrix C that all agents know.

    ``matrix`` is asked for it at each evaluation: it is known once the agents have found it.
    """

    matrix: Callable[[], LowRank]
    agents: int
    shape: tuple[int, int]

    def gradient(self, X: Array) -> Array:
        """-C X_i, ``(agents, n, p)``."""
        C = self.matrix()
        return np.stack([-(C @ x) for x in check_stack(X, self.agents, self.shape)])

    def value(self, X: Array) -> Array:
        """-1/2 tr(X_i^T C X_i), ``(agents,)``."""
        C = self.matrix()
        stack = check_stack(X, self.agents, self.shape)
        return np.array([-0.5 * float(C.values @ np.square(C.L.T @ x).sum(axis=1)) for x in stack])

    def hessian(self) -> Array:
        """-C, ``(agents, n, n)``."""
        n = self.shape[0]
        return np.broadcast_to(-self.matrix().dense(), (self.agents, n, n))

    def scales(self) -> Array:
        """The diagonal of C, which is semidefinite, ``(agents, n)``."""
        C = self.matrix()
        return np.broadcast_to(np.square(C.L) @ C.values, (self.agents, self.shape[0]))


def _signed(L: Array) -> Array:
    """With the entry of largest magnitude of each column positive: signs do not depend on the machine."""
    largest = np.take_along_axis(L, np.abs(L).argmax(axis=0)[None], axis=0)
    return np.asarray(L * np.where(largest < 0, -1.0, 1.0))
