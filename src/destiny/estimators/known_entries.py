"""Sums over the known entries of weighted rows with gaps (NaN), dense or sparse."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny.problems.data.row_blocks import row_blocks
from destiny.protocols import Array


def sums_and_weights(rows: Any, weights: Array | None) -> tuple[Array, Array]:
    """Return the weighted sums of the columns and the weights they have together, gaps left out."""
    n = rows.shape[1]
    sums, missing, total = np.zeros(n), np.zeros(n), 0.0
    for part, block in row_blocks(rows):
        w = np.ones(block.shape[0]) if weights is None else weights[part]
        total += w.sum()
        if isinstance(block, np.ndarray):
            gaps = np.isnan(block)
            sums += w @ np.where(gaps, 0.0, block)
            missing += w @ gaps
        else:
            entries, columns, gaps = entry_weights(block, w), block.indices, np.isnan(block.data)
            sums += column_totals(columns, entries * np.where(gaps, 0.0, block.data), n)
            missing += column_totals(columns, entries * gaps, n)
    return sums, total - missing


def column_totals(columns: NDArray[np.integer[Any]], values: Array, n: int) -> Array:
    """Return the sums of the values of each of n columns."""
    return np.bincount(columns, values, minlength=n).astype(np.float64)


def entry_weights(rows: Any, weights: Array) -> Array:
    """Return the weight of every stored entry of sparse rows."""
    return np.repeat(weights, np.diff(rows.indptr))
