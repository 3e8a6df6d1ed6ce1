"""Methods on a quadratic given by its modes, and the rate at which disagreement decays."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from destiny.protocols import Array

MOST = 20_000  # steps simulated: about a second


def heavy_ball(e: Array, shares: Array, tolerance: float) -> float:
    """Return the steps of the accelerated rule to a relative gradient of ``tolerance``; e = eta curvature."""
    x = np.sqrt(shares) / e
    before, age, mu = x, 0, 0.0
    target = tolerance * math.sqrt(float(shares.sum()))
    for step in range(1, MOST):
        move = mu * (x - before) - e * x
        before, x = x, x + move
        g = e * x
        if math.sqrt(float(g @ g)) <= target:
            return float(step)
        age = 0 if g @ move > 0 else age + 1
        mu = min(age / (age + 3), 0.999)
    return float(MOST)


def descent(e: Array, shares: Array, tolerance: float) -> float:
    """Return the steps of gradient descent on the same modes, by bisection on the closed form."""

    def small(k: float) -> bool:
        return float(np.sum(shares * (1 - e) ** (2 * k))) <= tolerance**2 * float(shares.sum())

    return bisect(small, 10**7)


def bisect(small: Callable[[float], bool], most: int) -> float:
    """Return the smallest whole number up to ``most`` for which ``small`` is true."""
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if small(middle) else (middle, high)
    return float(high)


def agreement(lambda_: float, e: float, mu: float, tolerance: float) -> float:
    """Return the steps until disagreement has decayed to the tolerance; infinite where it grows.

    The rate is the slowest root of the polynomial in docs/acceleration.md, over curvatures up to e.
    """
    if lambda_ == 0:
        return 0.0
    slowest = max(root(lambda_, e * share, mu) for share in (1.0, 0.5, 0.2, 0.1, 0.03))
    return math.log(tolerance) / math.log(slowest) if slowest < 1 else math.inf


def root(w: float, e: float, mu: float) -> float:
    """Return the largest |z| with z (z - w)^2 + w e z (z - 1) - w mu (z - 1)(z - w) = 0."""
    return float(
        np.abs(np.roots([1, w * e - 2 * w - w * mu, w * w - w * e + w * mu * (1 + w), -w * w * mu])).max()
    )
