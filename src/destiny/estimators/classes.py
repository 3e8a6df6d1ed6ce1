"""Sums over the rows of each class, and what every row has from its class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.problems.data.row_blocks import row_blocks
from destiny.protocols import Array


def class_sums(rows: Any, codes: NDArray[np.intp], k: int, weights: Array | None) -> Array:
    """Return the weighted sums of the rows of each of k classes and, in the last column, their weights."""
    total = np.zeros((k, rows.shape[1] + 1))
    for part, block in row_blocks(rows):
        size = block.shape[0]
        entries = np.ones(size) if weights is None else weights[part]
        member = csr_array((entries, (codes[part], np.arange(size))), shape=(k, size))
        sums: Any = member @ block
        total[:, :-1] += sums if isinstance(sums, np.ndarray) else sums.toarray()
        total[:, -1] += np.bincount(codes[part], entries, minlength=k)
    return total


@dataclass(frozen=True)
class OfClasses:
    """For every row the values of its class, times the root of its weight; slices of rows are computed."""

    values: Array
    codes: NDArray[np.intp]
    weights: Array | None

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.codes), self.values.shape[1]

    def __getitem__(self, part: slice) -> Array:
        of_rows = self.values[self.codes[part]]
        return of_rows if self.weights is None else np.sqrt(self.weights[part])[:, None] * of_rows
