"""A space of block Krylov vectors of a symmetric matrix C, its Ritz vectors, and thick restarts.

Vectors are rows: a space of m vectors is ``V (m, n)`` with orthonormal rows and T = V C V^T. V is kept in
blocks, of which a step adds one and copies none. Whatever agents derive from the same C Q on different
machines is a continuous function of it, so that they stay together to rounding: signs are those of a positive
diagonal, and only what is rounding is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from destiny.geometry.stiefel import polar, sym
from destiny.protocols import Array

ROUNDING = 1e-13  # relative to C: a shorter remainder is rounding, and its direction means nothing
HALF = 0.5  # of a unit vector that must be left when it is made orthogonal once more


@dataclass(frozen=True)
class KrylovSpace:
    """V, T = V C V^T, and the part of C V^T that is not in the span of V."""

    blocks: list[Array]
    """V, some rows in each; a larger space has the same ones and more."""
    T: Array
    remainder: Array
    """Of the vectors added last, the only ones that have any, ``(added, n)``."""
    size: float
    """Estimate of the norm of C, from below."""

    @property
    def _last(self) -> slice:
        return slice(len(self.T) - len(self.remainder), None)

    def gradient_norms(self, X: Array) -> tuple[float, float]:
        """Norms of the Riemannian and the Euclidean gradient at an orthonormal X ``(n, p)`` in the span."""
        Y = coordinates(self.blocks, X)
        inside, outside = self.T @ Y, self.remainder.T @ Y[self._last]
        along = inside - Y @ sym(Y.T @ inside)
        return _length(along, outside), _length(inside, outside)

    def ritz(self, p: int) -> tuple[Array, float]:
        """The p leading Ritz vectors ``(p, n)``, and the norm of the Riemannian gradient there."""
        _, S = np.linalg.eigh(self.T)
        S = S[:, -p:]
        return combined(self.blocks, S), _length(self.remainder.T @ S[self._last])

    def next_block(self, width: int, further: Array) -> Array:
        """Orthonormal rows ``(width, n)`` that span the remainder and ``further``, then zeros."""
        rows = np.concatenate([self.remainder, (self.size or 1.0) * further])
        for least in (ROUNDING * (self.size or 1.0), HALF):  # twice: short remainders keep traces of V
            subtract(rows, self.blocks, coordinates(self.blocks, rows.T))
            rows = orthonormal_rows(rows, least)
        block = np.zeros((width, rows.shape[1]))
        block[: len(rows)] = rows[:width]
        return block


def extend(blocks: Sequence[Array], T: Array, Q: Array, CQ: Array) -> KrylovSpace:
    """The space of V and of Q, both with orthonormal rows, from T = V C V^T and C Q."""
    old, blocks = len(T), [*blocks, Q]
    H = coordinates(blocks, CQ.T)
    H[old:] = sym(H[old:])
    new = np.empty((len(H), len(H)))
    new[:old, :old] = T
    new[:, old:], new[old:, :old] = H, H[:old].T
    lengths = np.sqrt(np.vecdot(CQ, CQ))
    size = float(max(lengths.max(initial=0.0), np.abs(new).max(initial=0.0)))
    remainder = CQ.copy()
    subtract(remainder, blocks, H)
    return KrylovSpace(blocks, new, remainder, size)


def restart(blocks: Sequence[Array], T: Array, widths: Sequence[int]) -> tuple[list[Array], Array]:
    """Blocks of so many leading Ritz vectors in place of V, and their T."""
    values, S = np.linalg.eigh(T)
    ends = len(T) - sum(widths) + np.cumsum([0, *widths])
    kept = [combined(blocks, S[:, start:end]) for start, end in pairwise(ends)]
    return kept, np.diag(values[ends[0] :])


def coordinates(blocks: Sequence[Array], X: Array) -> Array:
    """V X."""
    return np.concatenate([block @ X for block in blocks])


def combined(blocks: Sequence[Array], S: Array) -> Array:
    """S^T V."""
    total = np.zeros((S.shape[1], blocks[0].shape[1]))
    subtract(total, blocks, -S)
    return total


def subtract(rows: Array, blocks: Sequence[Array], S: Array) -> None:
    """Subtract S^T V from rows, in place."""
    start = 0
    for block in blocks:
        rows -= S[start : start + len(block)].T @ block
        start += len(block)


def orthonormal_rows(rows: Array, least: float) -> Array:
    """Orthonormal rows with the same span, without those that add at most ``least`` to the ones before."""
    Q, R = np.linalg.qr(rows.T)
    diagonal = np.diagonal(R)
    keep = np.zeros(len(rows), dtype=bool)
    keep[: len(diagonal)] = np.abs(diagonal) > least
    if not keep.all():
        # What is left out must not have a part in the others.
        Q, R = np.linalg.qr(rows[keep].T)
        diagonal = np.diagonal(R)
    return np.asarray(np.where(diagonal < 0, -1.0, 1.0)[:, None] * Q.T)


def turned_towards(rows: Array, X: Array) -> Array:
    """The basis ``(n, p)`` of the span of orthonormal ``rows (p, n)`` that is nearest to X."""
    return rows.T @ polar(rows @ X)


def _length(*parts: Array) -> float:
    return float(np.sqrt(sum(np.vdot(part, part) for part in parts)))
