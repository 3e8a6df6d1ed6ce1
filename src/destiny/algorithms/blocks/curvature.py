"""Estimates of curvature: the rate at which an agent's direction changes, from differences of gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from destiny.geometry.stiefel import inner, norm, scalar
from destiny.protocols import Array

POWER_ITERATIONS = 10  # the estimate limits a step to 0.5 / L or less, so 10 % accuracy is enough
DIFFERENCE = 1e-6  # for ||X|| of order 1: truncation leaves about 1e-6, rounding less; 10 % would do
NOISE_SQUARED = 1e-26  # (1e-13)^2, of ||X||^2: some hundred units of rounding


def largest_curvature(field: Callable[[Array], Array], X: Array, towards: Array) -> Array:
    """Estimate the largest curvature of ``field`` at X by power iterations, ``(agents, 1, 1)``.

    They start from ``towards`` and cost one evaluation of ``field`` each, and one at X.
    """
    here = field(X)
    V = towards
    for _ in range(POWER_ITERATIONS):
        V = curvature_along(field, X, here, V)
    return scalar(norm(V))


def curvature_along(
    field: Callable[[Array], Array], X: Array, here: Array, V: Array, unit: Array | float = 1.0
) -> Array:
    """The derivative of ``field`` at X along V / ||V||, ``(agents, n, p)``: one power iteration.

    It is a difference quotient with ``here`` = field(X), at the cost of one evaluation; 0 where V = 0.
    ``unit`` is the size of X where that is not 1.
    """
    length = scalar(norm(V))
    V = np.divide(V, length, out=np.zeros_like(V), where=length > 0)
    h = DIFFERENCE * unit
    return (field(X + h * V) - here) / h


def secants(S: Array, dH: Array) -> tuple[Array, Array]:
    """The secant ||dH|| / ||S||, and where it is more than rounding errors; both ``(agents, 1, 1)``.

    The secant is 0 where ||S|| is below 1e-13 ||X||, ||X|| = sqrt(p): differences that small are noise.
    """
    square = inner(S, S)
    sound = square > NOISE_SQUARED * S.shape[-1]
    secant = np.sqrt(np.divide(inner(dH, dH), square, out=np.zeros_like(square), where=sound))
    return scalar(secant), scalar(sound)


def eighth_power(L: Array) -> Array:
    return np.square(np.square(np.square(L)))


def eighth_root(L: Array) -> Array:
    """L^(1/8) by square roots, which commute with scaling by powers of 2^8 bit by bit."""
    return np.sqrt(np.sqrt(np.sqrt(L)))
