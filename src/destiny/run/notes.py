"""Sentences about a run that its user should know, from its history."""

from __future__ import annotations

import numpy as np

from destiny.protocols import Array, Observer
from destiny.run.history import History

MEASUREMENTS = 8  # with fewer of them the trend of a run cannot be judged
STEP = 1e-3  # of a difference, relative to the norm of X: float32 values then give three digits
MISMATCH = 1e-3  # between difference and gradient, relative: one wrong gradient of a hundred has more
RISE = 1e-7  # of the objective: above the rounding of values computed in float32


def objective_rose(history: History) -> str | None:
    """A note if the objective is larger at the end than at the start, beyond rounding."""
    before, after = (float(history["objective"][k]) for k in (0, -1))
    if not after - before > RISE * max(abs(before), abs(after)):
        return None
    return (
        f"the objective rose from {before:.6g} to {after:.6g}: this may be a maximum or a saddle; test "
        "your gradients with destiny.check_gradient, or choose another start"
    )


def stationary_start(gradient: Array, principal_axes: bool) -> str:
    """A note on a run that ended where it began; ``gradient (n, p)`` is that of f there."""
    n, p = gradient.shape
    if not gradient.any():
        return "the gradient is zero at the start: are all data zero? If not, choose another start"
    if principal_axes and n == p:
        return "with p = n every orthonormal X spans all directions: any start is an answer"
    return "the start is stationary already: if it is a saddle, choose another one"


def gradient_mismatch(observer: Observer, X: Array) -> str | None:
    """A note if the gradient at X ``(n, p)`` does not match differences of the objective.

    It finds a gradient that is wrong at one agent, too: the mean of the gradients is then not that of f.
    """
    gradient = observer.gradient(X)
    V = np.random.default_rng(0).standard_normal(X.shape)
    V *= np.linalg.norm(X) / np.linalg.norm(V)
    V += gradient * (np.linalg.norm(X) / (np.linalg.norm(gradient) or 1.0))
    slope = float(np.sum(gradient * V))
    found, errors = [], []
    for t in (STEP, STEP / 2):
        values = [observer.value(X + t * V), observer.value(X - t * V)]
        if not np.isfinite(values).all():
            return None
        found.append((values[0] - values[1]) / (2 * t))
        errors.append(abs(found[-1] - slope) - RISE * np.abs(values).sum() / t)
    # Of a right gradient, what a difference leaves of the curvature falls to a quarter with half the step.
    if not (min(errors) > MISMATCH * max(abs(slope), abs(found[1])) and errors[1] > 0.5 * errors[0]):
        return None
    return (
        f"gradient and objective do not match at the answer: along one direction f changes at the rate "
        f"{found[1]:.4g}, its gradient says {slope:.4g}; an agent's gradient is wrong, or f is not smooth "
        "there: destiny.check_gradient(problem, X) names the agent"
    )


def rounds_missing(history: History, tolerance: float) -> str | None:
    """A note on a run that is out of rounds: its measures in the second half, and how many more may do."""
    rounds = history["round"]
    worst = np.max([history[name] for name in ("stationarity", "consensus", "feasibility")], axis=0)
    half = int(np.searchsorted(rounds, rounds[-1] / 2))
    before, after, over = float(worst[half]), float(worst[-1]), rounds[-1] - rounds[half]
    if tolerance == 0 or len(rounds) < MEASUREMENTS or not (np.isfinite(worst[half:]).all() and over > 0):
        return None
    if after > 0.5 * before:
        return f"the largest measure has not halved in the last {over:.0f} rounds: more of them may not help"
    more = over * np.log(after / tolerance) / np.log(before / after)
    return (
        f"the largest measure fell from {before:.1e} to {after:.1e} in the last {over:.0f} rounds: at "
        f"that rate about {float(f'{more:.2g}'):.0f} more would do"
    )
