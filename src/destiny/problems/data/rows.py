"""Rows of one table, some at a time: arrays, memory maps, sparse matrices and rows computed on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny.errors import ProblemError
from destiny.problems.checks import LARGEST, require_size
from destiny.problems.data.row_blocks import Block, SparseBlock, row_blocks
from destiny.protocols import Array

LARGE = 2**23
"""Entries of rows of which no centered copy is kept: 64 MiB in float64."""


@dataclass(frozen=True)
class MappedRows:
    """Rows computed from other rows whenever they are asked for, such as those of a file too large to keep.

    Attributes
    ----------
    base : memory map or MappedRows
    function : callable
        From some rows of ``base`` to as many rows, each of which depends on its own row alone.
    """

    base: Any
    function: Callable[[Any], NDArray[Any]]
    shape: tuple[int, int]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, base: Any, function: Callable[[Any], NDArray[Any]]) -> MappedRows:
        """Find out shape and dtype of the result from no rows at all."""
        none = function(base[:0])
        return cls(base, function, (base.shape[0], none.shape[1]), none.dtype)

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        return self.function(self.base[rows])


def is_out_of_core(rows: Any) -> bool:
    """Return whether rows are read from a file, or computed, each time they are used."""
    return isinstance(rows, np.memmap | MappedRows)


@dataclass(frozen=True)
class Rows:
    """A = factor sqrt(w) (table - 1 mean^T) / scale, an m x n matrix that is not formed.

    All sums take some rows at a time, in float64 and C-ordered, so that their bits depend on the numbers
    alone, not on dtype and layout of the table.

    Attributes
    ----------
    table : ndarray, memory map, MappedRows or CSR matrix (m, n)
        In any dtype, samples in rows.
    mean : ndarray (n,), optional
        What is subtracted from each row.
    scale : ndarray (n,), optional
        What columns are divided by.
    weights : ndarray (m,), optional
    factor : float
        Of all entries.
    """

    table: Any
    mean: Array | None = None
    scale: Array | None = None
    weights: Array | None = None
    factor: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n)."""
        m, n = self.table.shape
        return int(m), int(n)

    @property
    def is_sparse(self) -> bool:
        """Whether only some entries are stored."""
        return hasattr(self.table, "indptr")

    @property
    def is_streamed(self) -> bool:
        """Whether no array of all these rows should be made: they are sparse, computed, or too many."""
        m, n = self.shape
        copied = self.mean is not None or self.weights is not None
        return self.is_sparse or isinstance(self.table, MappedRows) or (copied and m * n > LARGE)

    @property
    def is_tall(self) -> bool:
        """Whether A^T A takes at most half the memory of the rows, and one product for two."""
        m, n = self.shape
        return not self.is_sparse and 2 * n <= m

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.shape[0]

    @property
    def weight(self) -> float:
        """Sum of the weights."""
        return self.count if self.weights is None else float(self.weights.sum())

    def about(self, mean: Array) -> Rows:
        """The same rows less another mean."""
        return replace(self, mean=mean)

    def take(self, chosen: Any) -> Rows:
        """Some of the rows, by a slice or their numbers."""
        weights = None if self.weights is None else self.weights[chosen]
        return replace(self, table=self.table[chosen], weights=weights)

    def __getitem__(self, chosen: Any) -> Array:
        """Some of the rows, as an array."""
        return self.take(chosen).array()

    def array(self) -> Array:
        """All rows as one array."""
        if not self.is_sparse:
            return self._dense(self.table[:], slice(None))
        return np.concatenate([np.empty((0, self.shape[1])), *(rows for _, rows in self.dense_blocks())])

    def blocks(self, width: int = 0, least: int = 1) -> Iterator[tuple[slice, Block | SparseBlock]]:
        """Yield slices of rows and these rows; ``width`` and ``least`` are as for `row_blocks`."""
        zeros = np.zeros(self.shape[1]) if self.mean is None else self.mean
        for part, rows in row_blocks(self.table, width, least):
            if not self.is_sparse:
                yield part, Block(self._dense(rows, part))
                continue
            roots = self._roots(part)
            if self.factor != 1.0:
                roots = np.full(rows.shape[0], self.factor) if roots is None else self.factor * roots
            yield part, SparseBlock(rows.astype(np.float64, copy=False), zeros, self.scale, roots)

    def dense_blocks(self, least: int = 1) -> Iterator[tuple[slice, Array]]:
        """Yield slices of rows and these rows as arrays."""
        for part, block in self.blocks(self.shape[1], least):
            yield part, block.dense()

    def _roots(self, part: slice) -> Array | None:
        return None if self.weights is None else np.sqrt(self.weights[part])

    def _dense(self, rows: Any, part: slice) -> Array:
        if self.mean is None:
            block: Array = np.multiply(rows, self.factor, dtype=np.float64, order="C")
        else:
            block = np.subtract(rows, self.mean, dtype=np.float64, order="C")
        if self.scale is not None:
            block /= self.scale
        if self.mean is not None and self.factor != 1.0:
            block *= self.factor
        roots = self._roots(part)
        if roots is not None:
            block *= roots[:, None]
        return block

    def sums(self) -> Array:
        """The sums of the columns, ``(n,)``."""
        return _total(np.zeros(self.shape[1]), (block.sums() for _, block in self.blocks()))

    def weighted_sums(self) -> Array:
        """The sums of the columns, every row times its weight and not the root of it, ``(n,)``."""
        if self.weights is None:
            return self.sums()
        return replace(self, weights=None).t_times(self.weights[:, None])[:, 0]

    def magnitudes(self) -> Array:
        """The sums of the absolute values of each column, ``(n,)``."""
        terms = (np.abs(rows).sum(axis=0) for _, rows in self.dense_blocks())
        return _total(np.zeros(self.shape[1]), terms)

    def squares(self) -> Array:
        """The sums of the squares of each column, ``(n,)``."""
        return _total(np.zeros(self.shape[1]), (block.squares() for _, block in self.blocks()))

    def squared_norm(self) -> float:
        """||A||_F^2."""
        return float(self.squares().sum())

    def gram(self, basis: Array | None = None) -> Array:
        """A^T A, or (A basis)^T (A basis)."""
        if basis is None:
            n = self.shape[1]
            # Fewer than n rows at a time would cost less than adding the n x n matrices up.
            return _total(np.zeros((n, n)), (rows.T @ rows for _, rows in self.dense_blocks(least=n)))
        p = basis.shape[1]
        return _total(np.zeros((p, p)), (Y.T @ Y for _, Y in self.projections(basis)))

    def projections(self, X: Array) -> Iterator[tuple[slice, Array]]:
        """Yield slices of rows and their products with X ``(n, p)``."""
        for part, block in self.blocks(X.shape[1]):
            yield part, block.times(X)

    def times(self, X: Array) -> Array:
        """A X."""
        return np.concatenate([np.empty((0, X.shape[1])), *(Y for _, Y in self.projections(X))])

    def t_times(self, Y: Any) -> Array:
        """A^T Y; ``Y`` ``(m, p)`` may be an array or `Rows`."""
        p = Y.shape[1]
        terms = (block.t_times(Y[part]) for part, block in self.blocks(p))
        return _total(np.zeros((self.shape[1], p)), terms)

    def value(self, X: Array, targets: Any = None) -> float:
        """||A X - T||_F^2; ``targets`` ``(m, p)`` may be an array or `Rows`."""
        total = 0.0
        for part, Y in self.projections(X):
            if targets is not None:
                Y -= targets[part]
            total += float(np.vdot(Y, Y))
        return total

    def gradient(self, X: Array, targets: Any = None) -> Array:
        """A^T (A X - T), in one pass over the rows."""
        total = np.zeros_like(X)
        for part, block in self.blocks(X.shape[1]):
            Y = block.times(X)
            if targets is not None:
                Y -= targets[part]
            total += block.t_times(Y)
        return total


def _total(total: Array, terms: Iterable[Array]) -> Array:
    for term in terms:
        total += term
    return total


def check_values(rows: Any, name: str, columns: Sequence[Any] | None = None) -> bool:
    """Return whether entries are missing (NaN); raise ProblemError for infinity and numbers out of range.

    ``columns`` are the names of the columns, for the message.
    """
    gaps, lowest, highest = False, 0.0, 0.0
    for part, block in row_blocks(rows):
        entries = block if isinstance(block, np.ndarray) else block.data
        if entries.dtype.kind != "f" or not entries.size:
            continue
        least, most = float(np.min(entries)), float(np.max(entries))
        if np.isnan(least):
            gaps = True
            least, most = float(np.fmin.reduce(entries, None)), float(np.fmax.reduce(entries, None))
        if np.isinf([least, most]).any():
            row, column = np.argwhere(np.isinf(block if entries is block else block.toarray()))[0]
            raise ProblemError(
                f"{name} must be finite; found infinity in row {part.start + row} of column "
                f"{column if columns is None else repr(columns[column])}: correct it, or leave the row out"
            )
        lowest, highest = np.fmin(lowest, least), np.fmax(highest, most)
    require_size(max(-lowest, highest), name)
    if max(-lowest, highest) > LARGEST:
        raise ProblemError(
            f"{name} must be below {LARGEST:.0e} in magnitude, or their powers overflow; found "
            f"{max(-lowest, highest):.1e}; use other units"
        )
    return gaps
