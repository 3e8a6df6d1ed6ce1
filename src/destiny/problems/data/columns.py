"""Sums over the samples of one agent, in float64 and in blocks, whatever the dtype and layout of its data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from destiny.problems.data.centred_rows import CentredRows
from destiny.protocols import Array

Data: TypeAlias = NDArray[Any] | CentredRows

BLOCK = 2**20
"""Elements of the data converted to float64 at a time: 8 MiB."""


def sums(data: Data) -> Array:
    """Sum of each feature over the samples of ``data`` ``(n, m)``."""
    return _total(data, (block.sum(axis=1) for block in blocks(data)))


def magnitudes(data: Data) -> Array:
    """Sum of each feature's absolute values, ``(n,)``."""
    return _total(data, (np.abs(block).sum(axis=1) for block in blocks(data)))


def squares(data: Data, mean: Array) -> Array:
    """Sum of each feature's squared distances from ``mean``, ``(n,)``."""
    return _total(data, (np.square(block - mean[:, None]).sum(axis=1) for block in blocks(data)))


def blocks(data: Data) -> Iterator[Array]:
    """Samples in float64, C-ordered: the order of the additions depends on the shape of the data alone."""
    if isinstance(data, CentredRows):
        for _, rows in data.dense_blocks():
            yield np.ascontiguousarray(rows.T)
        return
    n, m = data.shape
    width = max(1, BLOCK // n)
    for start in range(0, m, width):
        yield np.ascontiguousarray(data[:, start : start + width], dtype=np.float64)


def _total(data: Data, terms: Iterable[Array]) -> Array:
    return sum(terms, np.zeros(data.shape[0]))
