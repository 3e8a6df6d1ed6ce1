"""Rows of one table, some at a time: arrays, memory maps, sparse matrices and rows computed on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix

from destiny.errors import ProblemError
from destiny.problems.checks import LARGEST, require_size

BLOCK = 2**20
"""Entries of the rows in memory at a time: 8 MiB in float64."""

LARGE = 2**23
"""Entries of rows of which no centred copy is kept: 64 MiB in float64."""


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


def row_blocks(rows: Any, width: int = 0) -> Iterator[tuple[slice, Any]]:
    """Yield slices of rows and these rows, `BLOCK` entries at a time, in their own dtype.

    A sparse row has as many entries as are stored in an average one, and at least ``width``: what is computed
    from each row may be longer. Where the blocks end depends on these rows alone.
    """
    m, n = rows.shape
    if not isinstance(rows, np.ndarray | MappedRows):
        n = -(-int(rows.nnz) // max(1, m))
    length = max(width, n, 1)
    step = max(1, BLOCK // length)
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
