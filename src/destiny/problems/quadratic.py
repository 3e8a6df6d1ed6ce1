"""Quadratic objectives c ||A_i X - D_i||_F^2 of all hosted agents, samples in rows, for PCA and OLSR."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from destiny.geometry.scales import symmetric_scales
from destiny.problems.checks import check_stack
from destiny.problems.data.rows import Rows
from destiny.protocols import Array

CACHE = 2**23
"""Bytes of data per block: what a third-level cache holds for one core while both products read it."""

Pair: TypeAlias = tuple[Rows, Rows | None]
"""Data A_i ``(m_i, n)`` and targets D_i ``(m_i, p)`` of one agent; None stands for zero targets."""


@dataclass(frozen=True)
class Grams:
    """Agents with n <= m_i, by Gram matrices: no larger than the data, and one product instead of two."""

    factor: float  # c
    gram: Array  # A^T A, (k, n, n)
    cross: Array | None = None  # D^T A, (k, p, n)
    square: Array | None = None  # ||D||^2, (k,)

    def moments(self) -> tuple[Array, ...]:
        """`moments` of the samples of all these agents."""
        arrays = (array for array in (self.gram, self.cross, self.square) if array is not None)
        return tuple(array.sum(axis=0) for array in arrays)

    def hessian(self) -> Array:
        """2c A^T A, ``(k, n, n)``."""
        return 2 * self.factor * self.gram

    def scales(self) -> Array:
        """Of 2c A^T A, ``(k, n)``; noise may have made it indefinite."""
        return symmetric_scales(self.hessian())

    def value(self, X: Array) -> Array:
        """``c (<A^T A X - 2 A^T D, X> + ||D||^2)``: a perfect fit is zero up to the rounding of ||D||^2."""
        product = np.matmul(_transpose(X), self.gram)
        if self.cross is not None:
            product -= 2 * self.cross
        inner = _inner(product, _transpose(X))
        return self.factor * (inner if self.square is None else inner + self.square)

    def gradient(self, X: Array) -> Array:
        """2c (A^T A X - A^T D)."""
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
    data: Array  # A, (k, m_i, n)
    targets: Array | None = None  # D, (k, m_i, p)

    def moments(self) -> tuple[Array, ...]:
        """`moments` of the samples of all these agents."""
        targets = self.targets if self.targets is not None else [None] * len(self.data)
        return _add(
            moments(Rows(A), None if D is None else Rows(D)) for A, D in zip(self.data, targets, strict=True)
        )

    def hessian(self) -> Array:
        """2c A^T A, ``(k, n, n)``."""
        gram: Array = np.matmul(_transpose(self.data), self.data)
        return 2 * self.factor * gram

    def scales(self) -> Array:
        """The diagonals of 2c A^T A, ``(k, n)``."""
        return np.asarray(2 * abs(self.factor) * np.sum(np.square(self.data), axis=1))

    def value(self, X: Array) -> Array:
        """c ||A X - D||_F^2."""
        residual = self._residual(X, slice(None))
        return self.factor * _inner(residual, residual)

    def gradient(self, X: Array) -> Array:
        """2c A^T (A X - D)."""
        out = np.empty(X.shape)
        for few in self._blocks:
            residual = self._residual(X, few)
            residual *= 2 * self.factor
            np.matmul(_transpose(self.data[few]), residual, out=out[few])
        return out

    @cached_property
    def _blocks(self) -> list[slice]:
        """Blocks of agents whose data fit the cache: the second product does not wait for memory."""
        k, m, n = self.data.shape
        few = max(1, CACHE // (8 * n * max(1, m)))
        return [slice(i, i + few) for i in range(0, k, few)]

    def _residual(self, X: Array, few: slice) -> Array:
        """A X - D of some agents, ``(few, m_i, p)``."""
        product: Array = np.matmul(self.data[few], X[few])
        if self.targets is not None:
            product -= self.targets[few]
        return product


@dataclass(frozen=True)
class RowProducts:
    """One agent, by two products with its rows, some at a time: sparse, or too many to keep a copy of."""

    factor: float  # c
    rows: Rows  # A
    targets: Rows | None = None  # D

    def moments(self) -> tuple[Array, ...]:
        """`moments` of the rows."""
        return moments(self.rows, self.targets)

    def hessian(self) -> Array:
        """2c A^T A, ``(1, n, n)``."""
        return 2 * self.factor * self.rows.gram()[None]

    def scales(self) -> Array:
        """The diagonal of 2c A^T A, ``(1, n)``."""
        return 2 * abs(self.factor) * self.rows.squares()[None]

    def value(self, X: Array) -> Array:
        """c ||A X - D||_F^2."""
        return np.array([self.factor * self.rows.value(X[0], self.targets)])

    def gradient(self, X: Array) -> Array:
        """2c A^T (A X - D)."""
        return 2 * self.factor * self.rows.gradient(X[0], self.targets)[None]


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

    Attributes
    ----------
    totals : ndarray (agents, n + 1) or None
        Without targets: the sums of the features over an agent's samples, and the number of samples.
    """

    def __init__(self, pairs: Iterable[Pair], shape: tuple[int, int], factor: float) -> None:
        self._shape, self._factor, self._noisy = shape, factor, False
        self._parts: list[tuple[NDArray[np.intp], Grams | Products | RowProducts]] = []
        places: dict[int, list[int]] = {}
        groups: dict[int, list[tuple[Array, ...]]] = {}
        totals: list[Array] = []
        for place, (rows, targets) in enumerate(pairs):
            m, n = rows.shape
            if targets is None:
                totals.append(np.append(rows.sums(), m))
            if rows.is_streamed and not rows.is_tall:
                self._parts.append((np.array([place]), RowProducts(factor, rows, targets)))
                continue
            alike = -1 if n <= m else m  # Gram matrices are alike whatever m_i was
            places.setdefault(alike, []).append(place)
            groups.setdefault(alike, []).append((moments if n <= m else _arrays)(rows, targets))
        self._agents = len(self._parts) + sum(map(len, places.values()))
        self.totals: Array | None = np.stack(totals) if totals else None
        for alike, members in groups.items():
            arrays = [np.stack(column) for column in zip(*members, strict=True)]
            part = Grams(factor, *arrays) if alike < 0 else Products(factor, *arrays)
            self._parts.append((np.array(places[alike]), part))

    @classmethod
    def from_grams(cls, grams: Iterable[Array], shape: tuple[int, int], factor: float) -> Quadratic:
        """Objectives c <C_i X, X> of symmetric matrices C_i ``(n, n)`` with noise, definite or not."""
        stack = np.stack(list(grams))
        problem = cls((), shape, factor)
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
        """2c A_i^T A_i, ``(agents, n, n)``: the gradient of f_i at X + V is that at X plus this times V."""
        n = self._shape[0]
        out = np.empty((self._agents, n, n))
        for places, part in self._parts:
            out[places] = part.hessian()
        return out

    def scales(self) -> Array | None:
        """u ``(agents, n)`` with ``|H_i[j, k]|^2 <= u_j u_k`` for the matrices of `hessian`.

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


def _samples(part: Grams | Products | RowProducts, n: int) -> int:
    """Samples of one agent; n stands for any number above."""
    if isinstance(part, Grams):
        return n
    return part.rows.shape[0] if isinstance(part, RowProducts) else part.data.shape[1]


def moments(rows: Rows, targets: Rows | None) -> tuple[Array, ...]:
    """A^T A ``(n, n)`` and, with targets, D^T A ``(p, n)`` and ||D||^2."""
    if targets is None:
        return (rows.gram(),)
    return rows.gram(), rows.t_times(targets).T, np.asarray(targets.squared_norm())


def _add(several: Iterable[tuple[Array, ...]]) -> tuple[Array, ...]:
    """A tuple of the sums of the first, second, ... arrays of several tuples."""
    return tuple(np.asarray(sum(arrays)) for arrays in zip(*several, strict=True))


def _arrays(rows: Rows, targets: Rows | None) -> tuple[Array, ...]:
    return (rows.array(),) if targets is None else (rows.array(), targets.array())


def _transpose(stack: Array) -> Array:
    return stack.transpose(0, 2, 1)


def _inner(A: Array, B: Array) -> Array:
    """Inner product of each pair of a stack, ``(agents,)``."""
    agents = A.shape[0]
    inner: Array = np.vecdot(A.reshape(agents, -1), B.reshape(agents, -1))
    return inner
