"""Quadratic objectives c ||A_i^T X - D_i^T||_F^2 of all hosted agents at once: what PCA and OLSR share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from destiny.problems.checks import check_stack
from destiny.problems.data import columns
from destiny.protocols import Array

BLOCK = 2**20
"""Elements of the data converted to float64 at a time: 8 MiB, unless the Gram matrix is larger still."""

CACHE = 2**20
"""Bytes of data worked on at a time: about what the caches next to a core hold."""

Pair: TypeAlias = tuple[NDArray[Any], NDArray[Any] | None]
"""Data A_i ``(n, m_i)`` and targets D_i ``(p, m_i)`` of one agent; None stands for zero targets."""


@dataclass(frozen=True)
class Grams:
    """Agents with n <= m_i: a Gram matrix needs no more room than the data, one product instead of two."""

    factor: float  # c
    gram: Array  # A A^T, (k, n, n)
    cross: Array | None = None  # D A^T, (k, p, n)
    square: Array | None = None  # ||D||^2, (k,)

    def moments(self) -> tuple[Array, ...]:
        """`moments` of the samples of all these agents together."""
        held = (array for array in (self.gram, self.cross, self.square) if array is not None)
        return tuple(array.sum(axis=0) for array in held)

    def value(self, X: Array) -> Array:
        """``c (<A A^T X - 2 A D^T, X> + ||D||^2)``: a perfect fit is zero up to the rounding of ||D||^2."""
        product = np.matmul(_transpose(X), self.gram)
        if self.cross is not None:
            product -= 2 * self.cross
        inner = _inner(product, _transpose(X))
        return self.factor * (inner if self.square is None else inner + self.square)

    def gradient(self, X: Array) -> Array:
        """2c (A A^T X - A D^T)."""
        # X^T G instead of G X: the same for a symmetric G, and the faster order for BLAS when p is small.
        product = np.matmul(_transpose(X), self.gram)
        if self.cross is not None:
            product -= self.cross
        product *= 2 * self.factor
        return _transpose(product)


@dataclass(frozen=True)
class Products:
    """Agents with m_i < n: two products with the data."""

    factor: float  # c
    data: Array  # A, (k, n, m_i)
    targets: Array | None = None  # D, (k, p, m_i)

    def moments(self) -> tuple[Array, ...]:
        """`moments` of the samples of all these agents together."""
        targets = self.targets if self.targets is not None else [None] * len(self.data)
        return _add(moments(A, D, 1.0) for A, D in zip(self.data, targets, strict=True))

    def value(self, X: Array) -> Array:
        """c ||A^T X - D^T||_F^2."""
        residual = self._residual(X, slice(None))
        return self.factor * _inner(residual, residual)

    def gradient(self, X: Array) -> Array:
        """2c A (A^T X - D^T)."""
        out = np.empty((len(X), X.shape[2], X.shape[1]))
        for few in self._blocks:
            residual = self._residual(X, few)
            residual *= 2 * self.factor
            np.matmul(residual, _transpose(self.data[few]), out=out[few])
        return _transpose(out)

    @cached_property
    def _blocks(self) -> list[slice]:
        """Few agents at a time: the second product finds their data in the cache, which saves a tenth."""
        k, n, m = self.data.shape
        few = max(1, CACHE // (8 * n * max(1, m)))
        return [slice(i, i + few) for i in range(0, k, few)]

    def _residual(self, X: Array, few: slice) -> Array:
        """X^T A - D of some agents, ``(few, p, m_i)``: transposed as in `Grams`, for the same reason."""
        product: Array = np.matmul(_transpose(X[few]), self.data[few])
        if self.targets is not None:
            product -= self.targets[few]
        return product


class Quadratic:
    """The objectives of the hosted agents, on stacks ``(agents, n, p)``.

    Agents alike are stacked and computed in one batched product. It calls BLAS once for each agent, with
    matrices whose shape and layout depend on that agent alone: an agent's result has the same bits whoever is
    hosted beside it.

    Parameters
    ----------
    pairs : iterable of (A_i, D_i or None)
        What the hosted agents hold, loaded one after the other.
    shape : (n, p)
    factor : float
        c.
    scale : float
        Multiplies the data, not the targets.

    Attributes
    ----------
    totals : ndarray (agents, n + 1) or None
        Without targets: the sums of the features over an agent's samples, and the number of samples.
    """

    def __init__(self, pairs: Iterable[Pair], shape: tuple[int, int], factor: float, scale: float) -> None:
        self._shape, self._factor = shape, factor
        places: dict[int, list[int]] = {}
        held: dict[int, list[tuple[Array, ...]]] = {}
        totals: list[Array] = []
        for place, (data, targets) in enumerate(pairs):
            n, m = data.shape
            use_gram = n <= m
            alike = -1 if use_gram else m  # Gram matrices are alike whatever m_i was
            places.setdefault(alike, []).append(place)
            if targets is None:
                totals.append(np.append(scale * columns.sums(data), m))
            held.setdefault(alike, []).append((moments if use_gram else _convert)(data, targets, scale))
        self._agents = sum(map(len, places.values()))
        self.totals: Array | None = np.stack(totals) if totals else None
        self._parts: list[tuple[NDArray[np.intp], Grams | Products]] = []
        for alike, members in held.items():
            arrays = [np.stack(column) for column in zip(*members, strict=True)]
            part = Grams(factor, *arrays) if alike < 0 else Products(factor, *arrays)
            self._parts.append((np.array(places[alike]), part))

    def mean(self) -> Grams | None:
        """(1/agents) sum f_i as one Gram matrix; None if there are fewer than n samples in all."""
        n = self._shape[0]
        samples = sum(
            n if isinstance(p, Grams) else p.data.shape[2] for places, p in self._parts for _ in places
        )
        if samples < n:
            return None
        arrays = _add(part.moments() for _, part in self._parts)
        return Grams(self._factor / self._agents, *(array[None] for array in arrays))

    def value(self, X: Array) -> Array:
        """f_i(X_i), ``(agents,)``."""
        X = check_stack(X, self._agents, self._shape)
        out = np.empty(self._agents)
        for places, part in self._parts:
            out[places] = part.value(X[places])
        return out

    def gradient(self, X: Array) -> Array:
        """Euclidean gradients, ``(agents, n, p)``; may be a transposed view of a fresh array."""
        X = check_stack(X, self._agents, self._shape)
        if len(self._parts) == 1:
            return self._parts[0][1].gradient(X)
        out = np.empty_like(X)
        for places, part in self._parts:
            out[places] = part.gradient(X[places])
        return out


def moments(data: NDArray[Any], targets: NDArray[Any] | None, scale: float) -> tuple[Array, ...]:
    """A A^T and, if there are targets, D A^T and ||D||^2, in float64 and in blocks of samples."""
    n, m = data.shape
    step = max(n, BLOCK // n)
    blocks = [slice(start, start + step) for start in range(0, m, step)]
    gram = np.zeros((n, n))
    cross = None if targets is None else np.zeros((targets.shape[0], n))
    for block in blocks:
        A = np.multiply(data[:, block], scale, dtype=np.float64)
        gram += A @ A.T
        if targets is not None and cross is not None:
            cross += targets[:, block] @ A.T
    if targets is None or cross is None:
        return (gram,)
    return gram, cross, np.sum(np.square(targets, dtype=np.float64))


def _add(several: Iterable[tuple[Array, ...]]) -> tuple[Array, ...]:
    """The sums of the first, second, ... arrays of several tuples."""
    return tuple(np.asarray(sum(arrays)) for arrays in zip(*several, strict=True))


def _convert(data: NDArray[Any], targets: NDArray[Any] | None, scale: float) -> tuple[Array, ...]:
    """Data and targets in float64, C-ordered."""
    A = np.multiply(data, scale, dtype=np.float64, order="C")
    return (A,) if targets is None else (A, targets.astype(np.float64, order="C"))


def _transpose(stack: Array) -> Array:
    return stack.transpose(0, 2, 1)


def _inner(A: Array, B: Array) -> Array:
    """Inner product of each pair of a stack, ``(agents,)``."""
    agents = A.shape[0]
    inner: Array = np.vecdot(A.reshape(agents, -1), B.reshape(agents, -1))
    return inner
