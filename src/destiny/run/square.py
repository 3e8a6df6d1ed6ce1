"""Square X (n = p): no path of orthogonal matrices changes the sign of det X, so both halves are tried."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from destiny.geometry.stiefel import norm
from destiny.protocols import Array, Observer
from destiny.run.result import Result

EQUAL = 1e-9  # relative difference of two values that still counts as rounding
PARALLEL = 1e-7  # the same for gradients, which are computed in float32 for some problems
COSTS = (
    "steps",
    "rounds",
    "scalars",
    "gradients",
    "minibatches",
    "values",
    "seconds",
    "measuring",
)  # added up
FIXED = "X is square and the sign of det X cannot change along a run"


def mirrored(X: Array) -> Array:
    """X ``(..., n, n)`` with its first column negated: det X changes its sign."""
    Y = np.array(X)
    Y[..., 0] *= -1
    return Y


def determinant(X: Array) -> str:
    """The determinant of an orthogonal matrix, ``+1`` or ``-1``; ``NaN`` of a run that diverged."""
    return f"{np.linalg.slogdet(X)[0]:+.0f}" if np.isfinite(X).all() else "NaN"


def symmetric(observer: Observer, points: Sequence[Array]) -> bool:
    """Whether f is the same on both halves: value and gradient at some points and at their mirror images.

    Where X is as good as its mirror image, a run from the mirrored start has nothing to add.
    """
    pairs = [(observer.gradient(X), observer.gradient(mirrored(X))) for X in points]
    size = max(float(norm(G)) for G, _ in pairs)
    if any(not norm(mirrored(G) - other) <= PARALLEL * size for G, other in pairs):
        return False
    return all(math.isclose(observer.value(X), observer.value(mirrored(X)), rel_tol=EQUAL) for X in points)


def note(X: Array, advice: str) -> str:
    """That the half of the answer X is the only one tried, and what to do."""
    return f"{FIXED}: det X is {determinant(X)} here; {advice}"


def noted(result: Result, advice: str) -> Result:
    """The result with `note`."""
    return replace(result, notes=[*result.notes, note(result.X, advice)])


def better(first: Result, second: Result) -> Result:
    """The run that ended with the smaller objective, with the costs of the runs from both halves.

    Objectives are those of orthogonal matrices, so the smaller one is in the better half even if that run has
    not converged.
    """
    kept = min(first, second, key=_rank)
    if second.interrupted is not None and not second.converged:
        kept = second  # unfinished: there is no answer yet
    shown = "; ".join(_story(result) for result in (first, second))
    both = (
        f"{FIXED}, so both halves were run: {shown}; the answer is the one with det X = {determinant(kept.X)}"
    )
    costs = {name: getattr(first, name) + getattr(second, name) for name in COSTS}
    return replace(kept, **costs, interrupted=second.interrupted, notes=[*kept.notes, both])


def _rank(result: Result) -> tuple[float, bool]:
    """By objective, a run that diverged last; of equals, one that converged first."""
    objective = result.measures.objective
    return math.inf if math.isnan(objective) else objective, not result.converged


def _story(result: Result) -> str:
    """One run in a few words."""
    cost = f"{result.rounds} rounds" if result.rounds else f"{result.steps} steps"
    end = "" if result.converged else f" ({result.reason})"
    return f"det X = {determinant(result.X)}, objective {result.measures.objective:.12g} after {cost}{end}"
