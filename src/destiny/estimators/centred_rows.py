"""Rows less their mean: written out where they are dense, left alone where they are sparse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from destiny.estimators.rows import elsewhere
from destiny.problems import OLSR, PCA, Separable
from destiny.protocols import Array, Problem

BLOCK = 1_000_000  # numbers of sparse rows written out at a time


def centred(rows: Any, mean: Array) -> Any:
    """rows - 1 mean^T as something to multiply with: an array, or for sparse rows an operator."""
    if isinstance(rows, np.ndarray):
        return np.subtract(rows, mean, dtype=np.float64)
    ones = aslinearoperator(np.ones((rows.shape[0], 1)))
    return aslinearoperator(rows.astype(np.float64)) - ones @ aslinearoperator(mean[None])


def square(rows: Any, mean: Array) -> float:
    """||rows - 1 mean^T||_F^2."""
    if isinstance(rows, np.ndarray):
        return float(np.sum(np.square(np.subtract(rows, mean, dtype=np.float64))))
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    # Entries that are not stored are zero, hence -mean.
    unstored = rows.shape[0] - np.bincount(rows.indices, minlength=rows.shape[1])
    return float(unstored @ np.square(mean) + np.sum(np.square(rows.data - mean[rows.indices])))


def gram(rows: Any, basis: Array | None) -> Array:
    """(rows basis)^T (rows basis) of centred rows; without a basis rows^T rows."""
    if basis is not None:
        rows = rows @ basis
    elif isinstance(rows, LinearOperator):
        rows = rows @ np.eye(rows.shape[1])
    return np.asarray(rows.T @ rows)


def dense_blocks(rows: Any) -> Iterator[tuple[slice, Array]]:
    """Rows as arrays: dense ones at once, sparse ones some at a time."""
    if isinstance(rows, np.ndarray):
        yield slice(None), rows
        return
    size = max(1, BLOCK // rows.shape[1])
    for start in range(0, rows.shape[0], size):
        part = slice(start, start + size)
        yield part, rows[part].toarray()


@dataclass(frozen=True)
class SparseSquares:
    """c ||A X - T||_F^2 of one agent, by two products with A, which need not be an array."""

    factor: float
    A: Any
    targets: Array | float = 0.0

    def value(self, X: Array) -> float:
        """f_i."""
        return float(self.factor * np.sum(np.square(self.A @ X - self.targets)))

    def gradient(self, X: Array) -> Array:
        """2c A^T (A X - T)."""
        return np.asarray(2 * self.factor * (self.A.T @ (self.A @ X - self.targets)))


def problem(
    held: Mapping[int, Any], agents: int, shape: tuple[int, int], targets: Mapping[int, Array] | None = None
) -> Problem:
    """PCA, or with targets ``(m_i, p)`` OLSR, of what the agents of this process hold, by their numbers."""
    n, p = shape
    if any(isinstance(A, LinearOperator) for A in held.values()):
        factor, wanted = (-0.5, dict.fromkeys(held, 0.0)) if targets is None else (1.0, targets)
        # Agents of other processes are never evaluated here.
        return Separable(
            [SparseSquares(factor, held.get(i), wanted.get(i, 0.0)) for i in range(agents)], shape
        )
    data = [held[i].T if i in held else elsewhere for i in range(agents)]
    if targets is None:
        return PCA(data, p, n=n)
    return OLSR(data, [targets[i].T if i in held else elsewhere for i in range(agents)], n=n, p=p)
