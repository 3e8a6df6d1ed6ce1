"""Square X (n = p): no path of orthogonal matrices changes the sign of det X, so both halves are tried."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from destiny.geometry.stiefel import norm
from destiny.protocols import Array, Observer, Regularizer
from destiny.run.parts.part import Outcome, RunPart
from destiny.run.result import Result
from destiny.run.stopping import remaining_rules

if TYPE_CHECKING:
    from destiny.run.interrupt import Interrupt
    from destiny.run.loop import Moment
    from destiny.run.plan import Plan
    from destiny.run.solve import Run

EQUAL = 1e-9  # relative difference of two values that still counts as rounding
PARALLEL = 1e-7  # the same for gradients, which are computed in float32 for some problems
COSTS = (
    "steps",
    "rounds",
    "scalars",
    "bytes",
    "gradients",
    "minibatches",
    "values",
    "passes",
    "seconds",
    "measuring",
)  # added up
MIRRORED = "mirrored"  # folder of the checkpoints from the mirrored start
FIXED = "X is square and the sign of det X cannot change along a run"


@dataclass(frozen=True)
class Half:
    """What a run from one half of O(n) has used, and whether f is the same on the other half."""

    rounds: int
    """Steps, of a method without rounds."""
    seconds: float
    symmetric: bool


class BothHalves(RunPart):
    """Without a start, a square X is tried with both signs of det X, unless f is the same for both."""

    def __init__(self, free: bool) -> None:
        self.free = free
        self.half: Half | None = None

    def twin(self, plan: Plan) -> tuple[str, Plan] | None:
        """The same run from the mirrored start."""
        if not self.free:
            return None
        return MIRRORED, replace(plan, X=mirrored(plan.X), parts=plan.fresh_parts())

    def add_to(self, result: Outcome, moment: Moment) -> Outcome:
        """Look whether the other half can be better."""
        team, X = moment.team, result.X
        if not isinstance(result, Result):  # an agent of an organization evaluates its own f_i alone
            return result
        points = [team.mean(team.split(moment.plan.X)), *([X] if np.isfinite(X).all() else [])]
        alike = symmetric(team, points, moment.plan.problem.regularizer)
        rounds = moment.round or moment.step
        self.half = Half(*team.broadcast([rounds, moment.seconds, alike]))
        return result

    def conclude(self, result: Result, run: Run, interrupt: Interrupt) -> Result:
        """The better of two runs, or a note why there was one."""
        half = self.half
        if half is None or half.symmetric:
            return result
        if run.twin is None:
            return noted(result, "for the other half negate a column of start")
        if result.interrupted is not None:
            return noted(result, "the other half was not tried yet")
        rules = remaining_rules(run.rules, half.rounds, half.seconds, run.plan.opening)
        if rules is None:
            return noted(result, "the other half was not tried: nothing was left of the limits")
        return better(result, replace(run.twin, rules=rules).once(interrupt))


def mirrored(X: Array) -> Array:
    """X ``(..., n, n)`` with its first column negated: det X changes its sign."""
    Y = np.array(X)
    Y[..., 0] *= -1
    return Y


def determinant(X: Array) -> str:
    """The determinant of an orthogonal matrix, ``+1`` or ``-1``; ``NaN`` of a run that diverged."""
    return f"{np.linalg.slogdet(X)[0]:+.0f}" if np.isfinite(X).all() else "NaN"


def symmetric(observer: Observer, points: Sequence[Array], regularizer: Regularizer | None = None) -> bool:
    """Whether f + r is the same on both halves: values and gradients at some points and their mirror images.

    Where X is as good as its mirror image, a run from the mirrored start has nothing to add.
    """
    pairs = [(observer.gradient(X), observer.gradient(mirrored(X))) for X in points]
    size = max(float(norm(G)) for G, _ in pairs)
    if any(not norm(mirrored(G) - other) <= PARALLEL * size for G, other in pairs):
        return False
    values = [observer.value] + ([] if regularizer is None else [lambda X: float(regularizer.value(X))])
    return all(math.isclose(f(X), f(mirrored(X)), rel_tol=EQUAL) for X in points for f in values)


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
    answer = min(first, second, key=_rank)
    if second.interrupted is not None and not second.converged:
        answer = second  # unfinished: there is no answer yet
    shown = "; ".join(_story(result) for result in (first, second))
    sign = determinant(answer.X)
    both = f"{FIXED}, so both halves were run: {shown}; the answer is the one with det X = {sign}"
    costs = {name: getattr(first, name) + getattr(second, name) for name in COSTS}
    return replace(answer, **costs, interrupted=second.interrupted, notes=[*answer.notes, both])


def _rank(result: Result) -> tuple[float, bool]:
    """By objective, a run that diverged last; of equals, one that converged first."""
    objective = result.measures.objective
    return math.inf if math.isnan(objective) else objective, not result.converged


def _story(result: Result) -> str:
    """One run in a few words."""
    cost = f"{result.rounds} rounds" if result.rounds else f"{result.steps} steps"
    end = "" if result.converged else f" ({result.reason})"
    return f"det X = {determinant(result.X)}, objective {result.measures.objective:.12g} after {cost}{end}"
