"""Check of a gradient by the order of the error of Taylor's formula."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from destiny.problems.checks import check_real
from destiny.protocols import Array, Hosted, Objective, Problem

STEPS = np.logspace(0, -8, 41)  # five per decade, relative to the norm of X
WINDOW = 10  # two decades: long enough for a slope, short enough to stay below the terms of third order
SAFETY = 100.0  # errors below 100 times rounding are not used: the others are accurate to one percent
DIRECTIONS = 3  # a single one may be nearly perpendicular to a mistake
SLOPE = 1.8  # between 1 (a wrong gradient) and 2 (a right one), nearer to 2


@dataclass(frozen=True)
class GradientCheck:
    """Result of `check_gradient`: true if the gradient is right, and a sentence when printed."""

    ok: bool
    slope: float  # NaN if no error stood out from rounding
    message: str
    steps: Array = field(repr=False, default_factory=lambda: np.empty(0))
    errors: Array = field(repr=False, default_factory=lambda: np.empty(0))  # Taylor error at each step

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return self.message


def check_gradient(
    objective: Objective | Hosted | Problem,
    X: Array,
    seed: int = 0,
    noise: float = float(np.finfo(np.float64).eps),
) -> GradientCheck:
    """Compare value and gradient along three directions V, each the sum of a random one and the gradient.

    ``|f(X + t V) - f(X) - t <grad f(X), V>|`` falls like t^2 if the gradient is right and like t if it is
    wrong: the slope in a log-log plot is 2 or 1. It is measured at the smallest steps for which the error is
    well above rounding, which detects relative errors of the gradient down to about 1e-5.

    Parameters
    ----------
    objective : Objective, Hosted or Problem
        The agents of a problem are checked one by one; hosted agents together, at a stack X.
    X : ndarray (n, p), or (agents, n, p) for hosted agents
    seed : int
        Of the directions.
    noise : float
        Relative precision of the values; ``np.finfo(np.float32).eps`` for objectives computed in float32.

    Examples
    --------
    >>> class Square:
    ...     def value(self, X): return float(np.sum(X**2))
    ...     def gradient(self, X): return 2 * X
    >>> print(check_gradient(Square(), np.ones((3, 1))))
    gradient and value agree: the Taylor error falls with slope 2.00 (expected 2)
    """
    X = np.asarray(X, dtype=np.float64)
    if isinstance(objective, Problem):
        return _each_agent(objective, X, seed, noise)
    gradient = check_real(objective.gradient(X), X.shape, "the gradient")
    if not np.isfinite(_value(objective, X)) or not np.isfinite(gradient).all():
        return GradientCheck(
            False, np.nan, "value or gradient is not finite at X; check them at another point"
        )
    rng = np.random.default_rng(seed)
    checks = [_along(_direction(X, gradient, rng), objective, X, gradient, noise) for _ in range(DIRECTIONS)]
    return next((check for check in checks if not check.ok), checks[0])


def _each_agent(problem: Problem, X: Array, seed: int, noise: float) -> GradientCheck:
    """The check of the first agent whose gradient is wrong, with its index, or of the last agent."""
    for agent in range(problem.agents):
        check = check_gradient(problem.host([agent]), X[None], seed, noise)
        if not check.ok:
            return replace(check, message=f"agent {agent}: {check.message}")
    return check


def _direction(X: Array, gradient: Array, rng: np.random.Generator) -> Array:
    """A direction of the norm of X: a random part detects a wrong entry, the gradient a wrong factor."""
    V = rng.standard_normal(X.shape)
    V /= np.linalg.norm(V)
    uphill = gradient / (np.abs(gradient).max() or 1.0)  # squares of the gradient might overflow
    V += uphill / (np.linalg.norm(uphill) or 1.0)
    return V * float(np.linalg.norm(X) or 1.0) / float(np.linalg.norm(V))


def _along(V: Array, objective: Objective | Hosted, X: Array, gradient: Array, noise: float) -> GradientCheck:
    """The check in one direction."""
    with np.errstate(all="ignore"):  # a long step may leave the domain of f; it is left out below
        start, predicted = _value(objective, X), float(np.vdot(gradient, V))
        values = np.array([_value(objective, X + t * V) for t in STEPS])
        errors = np.abs(values - start - STEPS * predicted)
        rounding = noise * (abs(start) + np.abs(values) + STEPS * abs(predicted))
        floor = SAFETY * (rounding + _jitter(objective, X, V, start))
        usable = np.flatnonzero(np.isfinite(errors) & (errors > floor))[-WINDOW:]
    # A wrong gradient stands out at the longest steps at least, and at more than two of them.
    if usable.size < 3:
        message = "gradient and value agree: the Taylor error is no more than rounding at every step"
        return GradientCheck(True, np.nan, message, STEPS, errors)
    # The median is not misled by a step at which the error happens to change sign.
    slope = float(np.median(np.diff(np.log(errors[usable])) / np.diff(np.log(STEPS[usable]))))
    ok = slope > SLOPE
    verb = "agree" if ok else "disagree"
    message = f"gradient and value {verb}: the Taylor error falls with slope {slope:.2f} (expected 2)"
    if not ok:
        t, value = STEPS[usable[-1]], values[usable[-1]]
        message += f"; over a step of {t:.0e} f changes by {value - start:.6g}, not by {t * predicted:.6g}"
    return GradientCheck(ok, slope, message, STEPS, errors)


def _value(objective: Objective | Hosted, X: Array) -> float:
    return float(np.sum(objective.value(X)))


def _jitter(objective: Objective | Hosted, X: Array, V: Array, start: float) -> float:
    """Largest change of the value when X changes by rounding errors."""
    last_digit = np.finfo(np.float64).eps
    return max(abs(_value(objective, X + t * last_digit * V) - start) for t in (-2, -1, 1, 2))
