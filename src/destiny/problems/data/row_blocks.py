"""Some rows of a table at a time: where blocks end, and sums over one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, csr_matrix

from destiny.protocols import Array

BLOCK = 2**20
"""Entries of the rows in memory at a time: 8 MiB in float64."""


def row_blocks(rows: Any, width: int = 0, least: int = 1) -> Iterator[tuple[slice, Any]]:
    """Yield slices of rows and these rows, `BLOCK` entries at a time, in their own dtype.

    A sparse row has as many entries as are stored in an average one, and at least ``width``: what is computed
    from each row may be longer. A block has at least ``least`` rows. Where the blocks end depends on these
    rows alone.
    """
    m, n = rows.shape
    if hasattr(rows, "indptr"):
        n = -(-int(rows.nnz) // max(1, m))
    length = max(width, n, 1)
    step = max(least, BLOCK // length)
    for start in range(0, m, step):
        part = slice(start, min(start + step, m))
        yield part, rows_between(rows, part.start, part.stop)


def rows_between(rows: Any, start: int, stop: int) -> Any:
    """Return the rows from ``start`` to ``stop``, of an array or canonical CSR matrix without a copy."""
    # SciPy adds up repeated entries in place, which would change memory that the blocks share with all rows.
    if not isinstance(rows, csr_array | csr_matrix) or not rows.has_canonical_format:
        return rows[start:stop]
    ends = rows.indptr[start : stop + 1]
    entries = slice(ends[0], ends[-1])
    part = csr_array((stop - start, rows.shape[1]), dtype=rows.dtype)
    # Given to the constructor, SciPy would copy views of larger arrays.
    part.data, part.indices, part.indptr = rows.data[entries], rows.indices[entries], ends - ends[0]
    return part


@dataclass(frozen=True)
class Block:
    """Some rows of `Rows` as an array."""

    rows: Array

    def times(self, X: Array) -> Array:
        """The product with X ``(n, p)``."""
        return self.rows @ X

    def t_times(self, Y: Array) -> Array:
        """The product of the transpose with Y ``(m, p)``."""
        return self.rows.T @ Y

    def sums(self) -> Array:
        """The sums of the columns."""
        return np.asarray(self.rows.sum(axis=0))

    def squares(self) -> Array:
        """The sums of the squares of each column."""
        return np.asarray(np.square(self.rows).sum(axis=0))

    def dense(self) -> Array:
        """The rows as an array."""
        return self.rows


@dataclass(frozen=True)
class SparseBlock:
    """diag(roots) (rows - 1 mean^T) / scale of some sparse rows; products take the two terms apart."""

    rows: Any
    mean: Array
    scale: Array | None
    roots: Array | None

    def times(self, X: Array) -> Array:
        """The product with X ``(n, p)``."""
        X = X if self.scale is None else X / self.scale[:, None]
        product: Array = self.rows @ X - self.mean @ X
        return product if self.roots is None else self.roots[:, None] * product

    def t_times(self, Y: Array) -> Array:
        """The product of the transpose with Y ``(m, p)``."""
        Y = Y if self.roots is None else self.roots[:, None] * Y
        product: Array = self.rows.T @ Y
        product -= np.outer(self.mean, Y.sum(axis=0))
        return product if self.scale is None else product / self.scale[:, None]

    def sums(self) -> Array:
        """The sums of the columns."""
        return self.t_times(np.ones((self.rows.shape[0], 1)))[:, 0]

    def squares(self) -> Array:
        """The sums of the squares of each column; entries that are not stored are zero, hence -mean."""
        rows = self.rows
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        n, squares = len(self.mean), np.square(rows.data - self.mean[rows.indices])
        roots = np.ones(rows.shape[0]) if self.roots is None else self.roots
        weights = np.repeat(np.square(roots), np.diff(rows.indptr))
        unstored = np.square(roots).sum() - np.bincount(rows.indices, weights, minlength=n)
        total = np.bincount(rows.indices, weights * squares, minlength=n).astype(np.float64)
        total += np.maximum(unstored, 0.0) * np.square(self.mean)
        return total if self.scale is None else total / np.square(self.scale)

    def dense(self) -> Array:
        """The rows as an array."""
        rows: Array = self.rows.toarray() - self.mean
        if self.scale is not None:
            rows /= self.scale
        if self.roots is not None:
            rows *= self.roots[:, None]
        return rows
