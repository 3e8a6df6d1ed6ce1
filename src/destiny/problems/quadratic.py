"""Quadratic objectives c ||A_i^T X - D_i^T||_F^2 of all hosted agents, for PCA and OLSR."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from destiny.geometry.scales import symmetric_scales
from destiny.problems.checks import check_stack
from destiny.problems.data import columns
from destiny.problems.data.centred_rows import CentredRows
from destiny.protocols import Array

BLOCK = 2**20
"""Elements of the data converted to float64 at a time: 8 MiB, unless the Gram matrix is larger still."""

CACHE = 2**23
"""Bytes of data per block: what a third-level cache holds for one core while both products read it."""

Pair: TypeAlias = tuple[NDArray[Any] | CentredRows, Any]
"""Data A_i ``(n, m_i)`` and targets D_i ``(p, m_i)`` of one agent; None stands for zero targets.

Data may be `CentredRows`; slices of rows of the targets are then those of D_i^T.
"""


@dataclass(frozen=True)
class Grams:
    """Agents with n <= m_i, by Gram matrices: no larger than the data, and one product instead of two."""

    factor: float  # c
    gram: Array  # A A^T, (k, n, n)
    cross: Array | None = None  # D A^T, (k, p, n)
    square: Array | None = None  # ||D||^2, (k,)

    def moments(self) -> tuple[Array, ...]:
        """`moments` of the samples of all these agents."""
        arrays = (array for array in (self.gram, self.cross, self.square) if array is not None)
        return tuple(array.sum(axis=0) for array in arrays)

    def hessian(self) -> Array:
        """2c A A^T, ``(k, n, n)``."""
        return 2 * self.factor * self.gram

    def scales(self) -> Array:
        """Of 2c A A^T, ``(k, n)``; noise may have made it indefinite."""
        return symmetric_scales(self.hessian())

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
    """Agents with m_i < n, by two products with the data."""

    factor: float  # c
    data: Array  # A, (k, n, m_i)
    targets: Array | None = None  # D, (k, p, m_i)

    def moments(self) -> tuple[Array, ...]:
        """`moments` of the samples of all these agents."""
        targets = self.targets if self.targets is not None else [None] * len(self.data)
        return _add(moments(A, D, 1.0) for A, D in zip(self.data, targets, strict=True))

    def hessian(self) -> Array:
        """2c A A^T, ``(k, n, n)``."""
        gram: Array = np.matmul(self.data, _transpose(self.data))
        return 2 * self.factor * gram

    def scales(self) -> Array:
        """The diagonals of 2c A A^T, ``(k, n)``."""
        return np.asarray(2 * abs(self.factor) * np.sum(np.square(self.data), axis=2))

    def value(self, X: Array) -> Array:
        """c ||A^T X - D^T||_F^2."""
        residual = self._residual(X, slice(None))
        return self.factor * _inner(residual, residual)

    def gradient(self, X: Array) -> Array:
        """2c A (A^T X - D^T)."""
        out = np.empty(X.shape)
        for few in self._blocks:
            residual = self._residual(X, few)
            residual *= 2 * self.factor
            np.matmul(self.data[few], residual, out=out[few])
        return out

    @cached_property
    def _blocks(self) -> list[slice]:
        """Blocks of agents whose data fit the cache: the second product does not wait for memory."""
        k, n, m = self.data.shape
        few = max(1, CACHE // (8 * n * max(1, m)))
        return [slice(i, i + few) for i in range(0, k, few)]

    def _residual(self, X: Array, few: slice) -> Array:
        """A^T X - D^T of some agents, ``(few, m_i, p)``."""
        product: Array = np.matmul(_transpose(self.data[few]), X[few])
        if self.targets is not None:
            product -= _transpose(self.targets[few])
        return product


@dataclass(frozen=True)
class RowProducts:
    """One agent, by two products with its rows, some at a time: sparse, or too many to keep a copy of."""

    factor: float  # c
    rows: CentredRows  # A^T
    targets: Any = None  # D^T, by slices of rows
    scale: float = 1.0

    def moments(self) -> tuple[Array, ...]:
        """`moments` of the rows."""
        return row_moments(self.rows, self.targets, self.scale)

    def hessian(self) -> Array:
        """2c A A^T, ``(1, n, n)``."""
        return 2 * self.factor * self.scale**2 * self.rows.gram()[None]

    def scales(self) -> Array:
        """The diagonal of 2c A A^T, ``(1, n)``."""
        squares = sum(np.sum(np.square(block), axis=0) for _, block in self.rows.dense_blocks())
        return 2 * abs(self.factor) * self.scale**2 * np.asarray(squares)[None]

    def value(self, X: Array) -> Array:
        """c ||A^T X - D^T||_F^2."""
        return np.array([self.factor * self.rows.value(self.scale * X[0], self.targets)])

    def gradient(self, X: Array) -> Array:
        """2c A (A^T X - D^T)."""
        return 2 * self.factor * self.scale * self.rows.gradient(self.scale * X[0], self.targets)[None]


class Quadratic:
    """The objectives of the hosted agents, on stacks ``(agents, n, p)``.

    Agents with data of the same shape are stacked and computed in one batched product. It calls BLAS once for
    each agent, with matrices whose shape and layout depend on that agent alone, so that its result has the
    same bits whichever agents are hosted with it.

    Parameters
    ----------
    pairs : iterable of (A_i, D_i or None)
        Data of the hosted agents, loaded one after the other.
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
        self._shape, self._factor, self._noisy = shape, factor, False
        places: dict[int, list[int]] = {}
        groups: dict[int, list[tuple[Array, ...]]] = {}
        totals: list[Array] = []
        alone: list[tuple[NDArray[np.intp], Grams | RowProducts]] = []
        for place, (data, targets) in enumerate(pairs):
            if isinstance(data, CentredRows):
                alone.append((np.array([place]), _one_agent(data, targets, factor, scale)))
                if targets is None:
                    totals.append(np.append(scale * data.sums(), data.shape[1]))
                continue
            n, m = data.shape
            use_gram = n <= m
            alike = -1 if use_gram else m  # Gram matrices are alike whatever m_i was
            places.setdefault(alike, []).append(place)
            if targets is None:
                totals.append(np.append(scale * columns.sums(data), m))
            groups.setdefault(alike, []).append((moments if use_gram else _convert)(data, targets, scale))
        self._agents = len(alone) + sum(map(len, places.values()))
        self.totals: Array | None = np.stack(totals) if totals else None
        self._parts: list[tuple[NDArray[np.intp], Grams | Products | RowProducts]] = [*alone]
        for alike, members in groups.items():
            arrays = [np.stack(column) for column in zip(*members, strict=True)]
            part = Grams(factor, *arrays) if alike < 0 else Products(factor, *arrays)
            self._parts.append((np.array(places[alike]), part))

    @classmethod
    def from_grams(cls, grams: Iterable[Array], shape: tuple[int, int], factor: float) -> Quadratic:
        """Objectives c <C_i X, X> of symmetric matrices C_i ``(n, n)`` with noise, definite or not."""
        stack = np.stack(list(grams))
        problem = cls((), shape, factor, 1.0)
        problem._agents, problem._parts = len(stack), [(np.arange(len(stack)), Grams(factor, stack))]
        problem._noisy = True
        return problem

    def mean(self) -> Grams | None:
        """(1/agents) sum f_i as one Gram matrix; None if there are fewer than n samples in all."""
        n = self._shape[0]
        samples = sum(_samples(part, n) for places, part in self._parts for _ in places)
        if samples < n:
            return None
        arrays = _add(part.moments() for _, part in self._parts)
        return Grams(self._factor / self._agents, *(array[None] for array in arrays))

    def hessian(self) -> Array:
        """2c A_i A_i^T, ``(agents, n, n)``: the gradient of f_i at X + V is that at X plus this times V."""
        n = self._shape[0]
        out = np.empty((self._agents, n, n))
        for places, part in self._parts:
            out[places] = part.hessian()
        return out

    def scales(self) -> Array | None:
        """u ``(agents, n)`` with ``|A_i[j, k]|^2 <= u_j u_k`` for the matrices of `hessian`.

        None of matrices with noise: agents that share the noise may tell the sum of the matrices, no more.
        """
        if self._noisy:
            return None
        out = np.empty((self._agents, self._shape[0]))
        for places, part in self._parts:
            out[places] = part.scales()
        return out

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


def _one_agent(rows: CentredRows, targets: Any, factor: float, scale: float) -> Grams | RowProducts:
    if not rows.is_tall:
        return RowProducts(factor, rows, targets, scale)
    return Grams(factor, *(array[None] for array in row_moments(rows, targets, scale)))


def _samples(part: Grams | Products | RowProducts, n: int) -> int:
    """Samples of one agent; n stands for any number above."""
    if isinstance(part, Grams):
        return n
    return part.rows.shape[1] if isinstance(part, RowProducts) else part.data.shape[2]


def row_moments(rows: CentredRows, targets: Any, scale: float) -> tuple[Array, ...]:
    """`moments` of rows, in one pass over them."""
    n = rows.shape[0]
    gram, square = np.zeros((n, n)), 0.0
    cross: Any = 0.0
    for part, block in rows.dense_blocks():
        gram += block.T @ block
        if targets is not None:
            D = np.asarray(targets[part], dtype=np.float64)
            cross, square = cross + D.T @ block, square + float(np.vdot(D, D))
    if targets is None:
        return (scale**2 * gram,)
    return scale**2 * gram, scale * np.asarray(cross), np.asarray(square)


def moments(
    data: NDArray[Any] | CentredRows, targets: NDArray[Any] | None, scale: float
) -> tuple[Array, ...]:
    """A A^T ``(n, n)`` and, with targets, D A^T ``(p, n)`` and ||D||^2, in float64, by blocks of samples."""
    if isinstance(data, CentredRows):
        return row_moments(data, targets, scale)
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
    """A tuple of the sums of the first, second, ... arrays of several tuples."""
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
