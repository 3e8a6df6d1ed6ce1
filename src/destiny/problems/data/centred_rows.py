"""Rows minus their mean that are never formed: all sums take some rows at a time, in float64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from destiny.problems.data.rows import row_blocks
from destiny.protocols import Array


@dataclass(frozen=True)
class SparseBlock:
    """sqrt(w) (rows - 1 mean^T) / scale of some sparse rows; products take the two terms apart."""

    rows: Any
    mean: Array
    scale: Array | None
    roots: Array | None

    def times(self, X: Array) -> Array:
        """The product with X ``(n, p)``."""
        X = X if self.scale is None else X / self.scale[:, None]
        product: Array = self.rows @ X - self.mean @ X
        return product if self.roots is None else self.roots[:, None] * product

    def transposed_times(self, Y: Array) -> Array:
        """The product of the transpose with Y ``(m, p)``."""
        Y = Y if self.roots is None else self.roots[:, None] * Y
        product: Array = self.rows.T @ Y
        product -= np.outer(self.mean, Y.sum(axis=0))
        return product if self.scale is None else product / self.scale[:, None]

    def sums(self) -> Array:
        """The sums of the columns."""
        return self.transposed_times(np.ones((self.rows.shape[0], 1)))[:, 0]

    def squared_norm(self) -> float:
        """The sum of all squares; entries that are not stored are zero, hence -mean."""
        rows = self.rows
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        n, scale = len(self.mean), 1.0 if self.scale is None else self.scale
        squares = np.square(rows.data - self.mean[rows.indices])
        roots = np.ones(rows.shape[0]) if self.roots is None else self.roots
        weights = np.repeat(np.square(roots), np.diff(rows.indptr))
        unstored = np.square(roots).sum() - np.bincount(rows.indices, weights, minlength=n)
        by_column = np.bincount(rows.indices, weights * squares, minlength=n)
        by_column += np.maximum(unstored, 0.0) * np.square(self.mean)
        return float(np.sum(by_column / np.square(scale)))

    def dense(self) -> Array:
        """The rows as an array."""
        return centre_block(self.rows.toarray(), self.mean, self.scale, self.roots)


@dataclass(frozen=True)
class DenseBlock:
    """Some centred rows as an array."""

    rows: Array

    def times(self, X: Array) -> Array:
        """The product with X ``(n, p)``."""
        return self.rows @ X

    def transposed_times(self, Y: Array) -> Array:
        """The product of the transpose with Y ``(m, p)``."""
        return self.rows.T @ Y

    def sums(self) -> Array:
        """The sums of the columns."""
        return np.asarray(self.rows.sum(axis=0))

    def squared_norm(self) -> float:
        """The sum of all squares."""
        return float(np.vdot(self.rows, self.rows))

    def dense(self) -> Array:
        return self.rows


def centre_block(rows: Any, mean: Array, scale: Array | None, roots: Array | None) -> Array:
    """Return sqrt(w) (rows - 1 mean^T) / scale of dense rows, in float64 and C-ordered."""
    block: Array = np.subtract(rows, mean, dtype=np.float64, order="C")
    if scale is not None:
        block /= scale
    if roots is not None:
        block *= roots[:, None]
    return block


@dataclass(frozen=True)
class CentredRows:
    """A = sqrt(w) (rows - 1 mean^T) / scale, an m x n matrix.

    Attributes
    ----------
    rows : ndarray, memory map, MappedRows or CSR matrix (m, n)
        In any dtype.
    mean : ndarray (n,)
        Zeros where nothing is to be subtracted.
    scale : ndarray (n,), optional
        What columns are divided by.
    weights : ndarray (m,), optional
    """

    rows: Any
    mean: Array
    scale: Array | None = None
    weights: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m), that of data with these samples in columns."""
        m, n = self.rows.shape
        return n, m

    @property
    def is_tall(self) -> bool:
        """Whether the Gram matrix takes at most half the memory of the rows, and one product for two."""
        n, m = self.shape
        return not hasattr(self.rows, "indptr") and 2 * n <= m

    def blocks(self, width: int = 0) -> Iterator[tuple[slice, DenseBlock | SparseBlock]]:
        """Yield slices of rows and these rows centred; ``width`` is as for `row_blocks`."""
        for part, rows in row_blocks(self.rows, width):
            roots = None if self.weights is None else np.sqrt(self.weights[part])
            if isinstance(rows, np.ndarray):
                yield part, DenseBlock(centre_block(rows, self.mean, self.scale, roots))
            else:
                yield part, SparseBlock(rows.astype(np.float64, copy=False), self.mean, self.scale, roots)

    def dense_blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield slices of rows and these rows as arrays."""
        for part, block in self.blocks(self.shape[0]):
            yield part, block.dense()

    def gram(self, basis: Array | None = None) -> Array:
        """Return A^T A, or (A basis)^T (A basis)."""
        n = self.shape[0] if basis is None else basis.shape[1]
        total = np.zeros((n, n))
        if basis is None:
            for _, rows in self.dense_blocks():
                total += rows.T @ rows
            return total
        for _, block in self.blocks(n):
            Y = block.times(basis)
            total += Y.T @ Y
        return total

    def squared_norm(self) -> float:
        """Return ||A||_F^2."""
        return sum(block.squared_norm() for _, block in self.blocks())

    def sums(self) -> Array:
        """Return the sums of the columns, ``(n,)``."""
        return sum((block.sums() for _, block in self.blocks()), np.zeros(self.shape[0]))

    def value(self, X: Array, targets: Any = None) -> float:
        """Return ||A X - T||_F^2; ``targets`` has rows like A."""
        total = 0.0
        for part, block in self.blocks(X.shape[1]):
            Y = block.times(X)
            if targets is not None:
                Y -= targets[part]
            total += float(np.vdot(Y, Y))
        return total

    def gradient(self, X: Array, targets: Any = None) -> Array:
        """Return A^T (A X - T), in one pass over the rows."""
        total = np.zeros_like(X)
        for part, block in self.blocks(X.shape[1]):
            Y = block.times(X)
            if targets is not None:
                Y -= targets[part]
            total += block.transposed_times(Y)
        return total
