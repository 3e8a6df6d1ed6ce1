"""Sums over weighted rows, dense or sparse, in memory or not; rows minus their mean, and their problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from destiny.problems import OLSR, PCA
from destiny.problems.checks import check_ids
from destiny.problems.data.centred_rows import CentredRows, centre_block
from destiny.problems.data.partition import remote_source
from destiny.problems.data.rows import LARGE, is_out_of_core, row_blocks
from destiny.problems.quadratic import Quadratic
from destiny.problems.sums import Summable
from destiny.protocols import Array, ProblemBase


def column_sums(rows: Any, weights: Array | None = None) -> Array:
    """Return the sums of the columns, of weighted rows with weights."""
    total = np.zeros(rows.shape[1])
    for part, block in row_blocks(rows):
        if weights is None:
            total += np.asarray(block.sum(axis=0, dtype=np.float64)).ravel()
        else:
            total += block.T @ weights[part]
    return total


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


def centre(rows: Any, mean: Array, weights: Array | None = None) -> Array | CentredRows:
    """Return rows - 1 mean^T, every row times the root of its weight.

    They are an array, or `CentredRows` where the rows are sparse, out of core or too many for a copy.
    """
    if not isinstance(rows, np.ndarray) or is_out_of_core(rows) or rows.size > LARGE:
        return CentredRows(rows, mean, weights=weights)
    return centre_block(rows, mean, None, None if weights is None else np.sqrt(weights))


def squared_norm(rows: Any, mean: Array, weights: Array | None = None) -> float:
    """Return the squared Frobenius norm of `centre`."""
    return CentredRows(rows, mean, weights=weights).squared_norm()


def gram(rows: Array | CentredRows, basis: Array | None) -> Array:
    """Return (rows basis)^T (rows basis), or rows^T rows without a basis."""
    if isinstance(rows, CentredRows):
        return rows.gram(basis)
    if basis is not None:
        rows = rows @ basis
    return np.asarray(rows.T @ rows)


def projected_blocks(rows: Array | CentredRows, basis: Array) -> Iterator[tuple[slice, Array]]:
    """Yield slices of rows and their products with a basis."""
    if not isinstance(rows, CentredRows):
        yield slice(0, len(rows)), rows @ basis
        return
    for part, block in rows.blocks(basis.shape[1]):
        yield part, block.times(basis)


def dense_blocks(rows: Any) -> Iterator[tuple[slice, Array]]:
    """Yield slices of the rows as dense arrays, in their own dtype."""
    for part, block in row_blocks(rows, rows.shape[1]):
        yield part, block if isinstance(block, np.ndarray) else block.toarray()


class BlockLeastSquares(Summable):
    """f_i(X) = ||A_i X - T_i||_F^2 for rows some of which are not arrays; T_i is sliced like them.

    Agents of other processes are never evaluated here.
    """

    kind: Literal["olsr"] = "olsr"

    def __init__(
        self, tables: Mapping[int, Any], targets: Mapping[int, Any], agents: int, shape: tuple[int, int]
    ) -> None:
        self._tables, self._targets, self._agents, self._shape = tables, targets, agents, shape

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p), the shape of X."""
        return self._shape

    @property
    def agents(self) -> int:
        """Number of agents d."""
        return self._agents

    def host(self, ids: Sequence[int]) -> Quadratic:
        """The objectives of the agents ``ids``."""
        zeros = np.zeros(self._shape[0])
        pairs = [
            (table if isinstance(table, CentredRows) else CentredRows(table, zeros), self._targets[i])
            for i, table in ((i, self._tables[i]) for i in check_ids(ids, self._agents))
        ]
        return Quadratic(pairs, self._shape, factor=1.0, scale=1.0)


@dataclass(frozen=True)
class RowSource:
    """A source of rows that are there already."""

    rows: Array | CentredRows

    def __call__(self) -> Array | CentredRows:
        """The rows, samples in columns."""
        return self.rows if isinstance(self.rows, CentredRows) else self.rows.T


def build_problem(
    tables: Mapping[int, Any], agents: int, shape: tuple[int, int], targets: Mapping[int, Any] | None = None
) -> ProblemBase:
    """Return PCA, or with targets ``(m_i, p)`` OLSR, of the centred tables of the agents of this process."""
    n, p = shape
    sources = [RowSource(tables[i]) if i in tables else remote_source for i in range(agents)]
    if targets is None:
        return PCA(sources, p, n=n)
    if any(isinstance(table, CentredRows) for table in tables.values()):
        return BlockLeastSquares(tables, targets, agents, shape)
    return OLSR(sources, [targets[i][:].T if i in tables else remote_source for i in range(agents)], n=n, p=p)
