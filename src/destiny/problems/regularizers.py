"""Regularizers: terms r(X) of the objective with kinks and a prox, which make answers sparse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from destiny.errors import ProblemError
from destiny.problems.own_problem import WrappedProblem, as_problem
from destiny.protocols import Array, Hosted, Problem, ProblemBase, Regularizer
from destiny.validation import is_number


@dataclass(frozen=True)
class Weighted:
    """Base of the regularizers of the package, which multiply a norm by a weight."""

    weight: float

    def __post_init__(self) -> None:
        if not is_number(self.weight) or self.weight < 0:
            raise ProblemError(f"the weight of a regularizer must be a number >= 0; found {self.weight!r}")
        object.__setattr__(self, "weight", float(self.weight))


@dataclass(frozen=True)
class L1(Weighted):
    """weight * sum |X_jk|: entries of the answer become zero.

    Parameters
    ----------
    weight : float
        At least 0, in the units of f: where the data are multiplied by c, f of PCA grows by c^2, and so must
        the weight for the same answer.

    Examples
    --------
    >>> import destiny
    >>> from destiny.problems import L1, pca
    >>> problem = pca.synthetic(n=20, m=160, p=2, xi=0.8, agents=4) + L1(0.002)
    >>> result = destiny.solve(problem, destiny.networks.ring(4))
    >>> result.converged, bool((result.X == 0).any())
    (True, True)
    """

    kind: ClassVar[str] = "l1"

    def value(self, X: Array) -> Array:
        """r of each matrix, ``(..., n, p) -> (...)``."""
        return np.asarray(self.weight * np.abs(X).sum(axis=(-2, -1)))

    def prox(self, Z: Array, t: Array | float) -> Array:
        """Soft thresholding: every entry moves towards 0 by t * weight, at most to 0."""
        # max(-c, min(Z, c)) is what is taken away, so that the zeros are those of z - z.
        return np.asarray(Z - np.clip(Z, -t * self.weight, t * self.weight))


@dataclass(frozen=True)
class L21(Weighted):
    """weight * sum of the Euclidean norms of the rows of X: rows of the answer become zero.

    Its value does not change when X is multiplied by an orthogonal matrix from the right, so that it selects
    features for a subspace, while `L1` selects features for each component.

    Parameters
    ----------
    weight : float
        As of `L1`.
    """

    kind: ClassVar[str] = "l21"

    def value(self, X: Array) -> Array:
        """r of each matrix, ``(..., n, p) -> (...)``."""
        return np.asarray(self.weight * np.sqrt(np.vecdot(X, X)).sum(axis=-1))

    def prox(self, Z: Array, t: Array | float) -> Array:
        """Every row becomes shorter by t * weight, at most to 0."""
        length = np.sqrt(np.vecdot(Z, Z))[..., None]
        rest = np.maximum(length - t * self.weight, 0.0)
        return np.asarray(Z * np.divide(rest, length, out=np.zeros_like(length), where=length > 0))


REGULARIZERS: dict[str, type[L1 | L21]] = {r.kind: r for r in (L1, L21)}
"""Regularizers by their names in experiment files."""


@dataclass(frozen=True)
class OwnRegularizer:
    """A regularizer from functions of one matrix; see `regularizer`."""

    function: Callable[[Array], float]
    proximal: Callable[[Array, float], Array]
    name: str

    def __repr__(self) -> str:
        return self.name

    def value(self, X: Array) -> Array:
        """r of each matrix, ``(..., n, p) -> (...)``."""
        flat = X.reshape(-1, *X.shape[-2:])
        return np.array([float(self.function(Y)) for Y in flat]).reshape(X.shape[:-2])

    def prox(self, Z: Array, t: Array | float) -> Array:
        """The prox of each matrix; raise `ProblemError` if it has another shape."""
        flat = Z.reshape(-1, *Z.shape[-2:])
        steps = np.broadcast_to(np.asarray(t, dtype=np.float64), (*Z.shape[:-2], 1, 1)).ravel()
        return np.stack([self._one(Y, s) for Y, s in zip(flat, steps, strict=True)]).reshape(Z.shape)

    def _one(self, Z: Array, t: float) -> Array:
        Y = np.asarray(self.proximal(Z.copy(), float(t)), dtype=np.float64)
        if Y.shape != Z.shape:
            raise ProblemError(
                f"the prox of {self.name} must be of shape {Z.shape}; found {Y.shape}; return the shape of Z"
            )
        return Y


def regularizer(
    value: Callable[[Array], float], prox: Callable[[Array, float], Array], name: str = "own"
) -> OwnRegularizer:
    """A regularizer of your own, from two functions of one matrix ``(n, p)``.

    Parameters
    ----------
    value : callable
        ``value(X) -> float``, a convex function r.
    prox : callable
        ``prox(Z, t) -> (n, p)``, the Y that minimizes r(Y) + ||Y - Z||^2 / (2 t). `check_prox` compares both.
    name : str
        Its name in sentences; all processes of a run must use the same.

    Examples
    --------
    Components without negative entries: r is 0 there and infinite elsewhere.

    >>> import numpy as np
    >>> nonnegative = regularizer(
    ...     lambda X: 0.0 if (X >= 0).all() else np.inf, lambda Z, t: np.maximum(Z, 0.0), "nonnegative"
    ... )
    >>> check_prox(nonnegative, (5, 2))
    """
    for what, function in (("value", value), ("prox", prox)):
        if not callable(function):
            raise ProblemError(f"{what} of a regularizer must be a function; found {function!r}; give one")
    return OwnRegularizer(value, prox, name)


def check_prox(regularizer: Regularizer, shape: tuple[int, int], seed: int = 0) -> None:
    """Raise `ProblemError` unless the prox minimizes r(Y) + ||Y - Z||^2 / (2 t) at random Z.

    Its value is compared with that of 60 points around it, so that a wrong factor or sign is found.

    Parameters
    ----------
    regularizer : Regularizer
    shape : (n, p)
    seed : int
        Of the random points.
    """
    draw = np.random.default_rng(seed)
    for t in (0.1, 1.0, 10.0):
        Z = draw.standard_normal(shape)
        Y = np.asarray(regularizer.prox(Z, t))

        def cost(Y: Array, Z: Array = Z, t: float = t) -> float:
            return float(regularizer.value(Y)) + float(np.sum((Y - Z) ** 2)) / (2 * t)

        least = cost(Y)
        for size in (1e-3, 1e-2, 0.1, 1.0):
            for target in (Y + draw.standard_normal(shape), Z, 0 * Z, Y * draw.random(shape), 2 * Y - Z):
                other = cost(Y + size * (target - Y))
                if not least <= other + 1e-12 * max(1.0, abs(least)):
                    raise ProblemError(
                        f"the prox of {regularizer!r} must minimize r(Y) + ||Y - Z||^2 / (2 t); at t = {t:g} "
                        f"another point has {other:.6g}, less than its {least:.6g}: correct value or prox"
                    )


@dataclass(frozen=True)
class HostedRegularized:
    """Hosted objectives with the regularizer of their problem, which is not part of values and gradients."""

    hosted: Hosted
    regularizer: Regularizer

    def value(self, X: Array) -> Array:
        """f_i(X_i) without r, ``(agents,)``."""
        return self.hosted.value(X)

    def gradient(self, X: Array) -> Array:
        """Euclidean gradients of f_i, ``(agents, n, p)``."""
        return self.hosted.gradient(X)


class Regularized(WrappedProblem):
    """A problem plus a regularizer, (1/d) sum f_i(X) + r(X); see `regularized`."""

    inner: ProblemBase

    def __init__(self, problem: Problem, regularizer: Regularizer) -> None:
        given = as_problem(problem)
        if not is_regularizer(regularizer):
            raise ProblemError(
                f"a regularizer must have value and prox, as L1(0.1) has; found {regularizer!r}; make one "
                "with destiny.problems.regularizer"
            )
        if given.regularizer is not None:
            raise ProblemError(
                f"a problem takes one regularizer; found {given.regularizer!r} and {regularizer!r}; write "
                "the prox of their sum (destiny.problems.regularizer)"
            )
        if given.centering:
            raise ProblemError(
                "data that are still to be centered take a regularizer by centered(problem) + regularizer"
            )
        if given.batches:
            raise ProblemError(
                f"a regularizer needs full gradients; this problem draws mini-batches of "
                f"{given.batches[0][0]}: leave batch out"
            )
        super().__init__(given)
        self._regularizer = regularizer

    @property
    def regularizer(self) -> Regularizer:
        """The regularizer r of f + r."""
        return self._regularizer

    @property
    def principal_axes(self) -> bool:
        """False: a rotation of the answer changes r."""
        return False

    def host(self, ids: Sequence[int]) -> HostedRegularized:
        """The objectives of the agents ``ids`` with r beside them."""
        return HostedRegularized(self.inner.host(ids), self._regularizer)

    def describe(self) -> str:
        """The sentence of the problem with r."""
        sentence = self.inner.describe().removesuffix(".") or self.inner.kind
        return f"{sentence}, with the regularizer {self._regularizer!r}."

    def __add__(self, other: Any) -> Regularized:
        if is_regularizer(other):
            return regularized(self, other)  # refuses a second one
        return regularized(self.inner + other, self._regularizer)

    __radd__ = __add__


def is_regularizer(given: object) -> bool:
    """Whether something has a value and a prox."""
    return isinstance(given, Regularizer) and not isinstance(given, type)


def regularized(problem: Problem, regularizer: Regularizer) -> Regularized:
    """The problem of minimizing (1/d) sum f_i(X) + r(X); the same as ``problem + regularizer``.

    Parameters
    ----------
    problem : Problem
        Without mini-batches.
    regularizer : Regularizer
        `L1`, `L21`, or one of your own (`destiny.problems.regularizer`); it is added once, not per agent.

    Examples
    --------
    >>> from destiny.problems import L21, pca
    >>> problem = regularized(pca.synthetic(n=20, m=160, p=2, xi=0.8, agents=4), L21(0.01))
    >>> problem.regularizer
    L21(weight=0.01)
    """
    return Regularized(problem, regularizer)
