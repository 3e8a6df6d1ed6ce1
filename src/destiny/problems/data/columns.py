"""Sums over the samples of one agent, in float64 and in blocks, whatever the dtype and layout of its data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny.protocols import Array

BLOCK = 2**20
"""Elements of the data converted to float64 at a time: 8 MiB."""


def sums(data: NDArray[Any]) -> Array:
    """Sum of each feature over the samples of ``data`` ``(n, m)``."""
    return sum((block.sum(axis=1) for block in _blocks(data)), np.zeros(len(data)))


def magnitudes(data: NDArray[Any]) -> Array:
    """Sum of each feature's absolute values, ``(n,)``."""
    return sum((np.abs(block).sum(axis=1) for block in _blocks(data)), np.zeros(len(data)))


def squares(data: NDArray[Any], mean: Array) -> Array:
    """Sum of each feature's squared distances from ``mean``, ``(n,)``."""
    return sum((np.square(block - mean[:, None]).sum(axis=1) for block in _blocks(data)), np.zeros(len(data)))


def _blocks(data: NDArray[Any]) -> Iterator[Array]:
    """Samples in float64, C-ordered: the order of the additions depends on the shape of the data alone."""
    n, m = data.shape
    width = max(1, BLOCK // n)
    for start in range(0, m, width):
        yield np.ascontiguousarray(data[:, start : start + width], dtype=np.float64)
