"""How many rounds the two DESTINYs take by local theory: simulated on the modes of the landscape.

It says which networks are worth a trial, and what limits a run; the rounds reported come from `trial`.

Near the answer the mean of the agents moves as the method does on a quadratic with the curvatures and the
start that `landscape` found; that costs nothing to simulate. Meanwhile disagreement dies out as the slowest
root of docs/acceleration.md says. The slower of the two decides. Constants fitted on docs/rounds.csv are few,
and each stands here with its reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from destiny.algorithms import Destiny, DestinyMomentum
from destiny.algorithms.blocks.step_sizes import BB, Constant, PlainBB, first
from destiny.diagnosis.differences import Differences
from destiny.diagnosis.landscape import Landscape
from destiny.diagnosis.network_options import Mixing, shown
from destiny.diagnosis.simulation import MOST, agreement, descent, heavy_ball
from destiny.protocols import Array

TRAVEL = 35  # steps before the quadratic holds: the median of what is left over in docs/rounds.csv
DETOUR = 1.5  # the accelerated rule along the paper's direction against its simulation: 1.1 to 2.2, same file
GAIN = (
    9.0,
    22.0,
)  # Barzilai-Borwein needs GAIN sqrt(k) steps where steps 1/L need k; at lambda 0, and from 0.4 on
FACTOR = 2.0  # the range given; docs/when-it-does-not-converge.md says how often it holds
RESOLVED = 1000.0  # curvature ratio beyond which Lanczos has not seen the flattest directions
STRETCHED = 50.0  # times the largest curvature along the manifold: a beta this large costs more than sqrt(k)
THRESHOLD = ("h", "expen")  # directions whose penalty has one
LOST = 0.92  # lambda beyond which unsafeguarded Barzilai-Borwein steps did not converge in docs/rounds.csv


Outlook: TypeAlias = Literal["fine", "doubtful", "hopeless"]


@dataclass(frozen=True)
class Case:
    """All a prediction looks at."""

    landscape: Landscape
    differences: Differences
    mixing: Mixing
    tolerance: float


@dataclass(frozen=True)
class Prediction:
    """Rounds to tolerance, or why there is no such number.

    Attributes
    ----------
    rounds : int or None
    low, high : int or None
        The range; ``high`` is None where the number is a lower bound only.
    per_step : int
        Rounds of a step.
    limit : "curvature", "network" or ""
        What the rounds are spent on.
    step : float or None
        Step size near the answer.
    why : str
        In words.
    outlook : "fine", "doubtful" or "hopeless"
        Whether it is expected to converge at all.
    """

    rounds: int | None
    low: int | None
    high: int | None
    per_step: int
    limit: str
    step: float | None
    why: str
    outlook: Outlook = "fine"

    @classmethod
    def none(cls, why: str, outlook: Outlook = "fine") -> Prediction:
        """No number, and why."""
        return cls(None, None, None, 1, "", None, why, outlook)

    @classmethod
    def failure(cls, why: str) -> Prediction:
        """Not expected to converge."""
        return cls.none(f"not expected to converge: {why}", "hopeless")

    def __str__(self) -> str:
        if self.rounds is None:
            return self.why
        if self.high is None:
            return f"{self.rounds} rounds or more; {self.why}"
        return f"about {self.rounds} rounds ({self.low} to {self.high}); {self.why}"


def predict(algorithm: Any, case: Case) -> Prediction:
    """Rounds until stationarity, consensus and feasibility are below the tolerance."""
    if case.tolerance <= 0:
        return Prediction.none("the tolerance is 0: it runs for all its rounds")
    if case.landscape.smallest <= 0:
        return Prediction.none("no prediction: f shows no curvature near the answer")
    if isinstance(algorithm, DestinyMomentum):
        return momentum(algorithm, case)
    if isinstance(algorithm, Destiny):
        return destiny(algorithm, case)
    if not getattr(getattr(algorithm, "about", None), "exact", True):
        return Prediction.none("no prediction: with steps that do not vanish it stalls short of the answer")
    return Prediction.none("no prediction for this method")


def momentum(algorithm: DestinyMomentum, case: Case) -> Prediction:
    """Heavy ball with restarts on the modes; the network's slowest root at its momentum."""
    knows = replace(algorithm, spectrum=algorithm.spectrum or case.mixing.spectrum)
    if knows.spectrum is None and knows.rounds not in ("auto", 1):
        return Prediction.none("no prediction: several rounds a step on a network that changes")
    filter = knows.filter
    left = filter.contraction
    if knows.spectrum is None:
        left = (case.mixing.lambda_ - filter.shift) / (1 - filter.shift)
    pace = min(1.0, knows.gap * (1 - left))
    L = case.differences.steep(algorithm.direction)
    beta = np.maximum(case.landscape.slope, L / 4) if algorithm.beta == "auto" else float(algorithm.beta)
    L = np.maximum(L, 2 * beta)
    if L.max() == 0:
        return Prediction.none("no prediction: the agents see no curvature")
    shared = L.max() * np.mean((L / L.max()) ** 8) ** 0.125
    eta = float(np.mean(pace / np.maximum(L, shared)))
    # On the manifold the landing field is half the Riemannian gradient.
    half = 0.5 if algorithm.direction == "landing" else 1.0
    modes, shares = met(case.landscape)
    steps = heavy_ball(half * eta * modes, shares, case.tolerance)
    if algorithm.direction != "landing":
        steps = DETOUR * steps
    agree = agreement(left, pace, 0.9, case.tolerance)
    return told(steps, agree, TRAVEL, filter.rounds, knows.opening, eta, case)


def destiny(algorithm: Destiny, case: Case) -> Prediction:
    """Gradient descent on the modes with the rule's step."""
    beta = case.landscape.slope if algorithm.beta == "auto" else float(algorithm.beta)
    L = float(np.mean(case.differences.steep(algorithm.direction, beta)))
    if L == 0:
        return Prediction.none("no prediction: the agents see no curvature")
    modes, shares = met(case.landscape)
    lambda_, rule = case.mixing.lambda_, algorithm.step_size
    if beta <= case.landscape.threshold and algorithm.direction in THRESHOLD and not algorithm.watch:
        return Prediction.failure(f"beta = {beta:g} is below its threshold {case.landscape.threshold:.3g}")
    if isinstance(rule, PlainBB) and lambda_ > LOST:
        return Prediction.failure(f"steps without a bound lose consensus at lambda {shown(lambda_)}")
    if isinstance(rule, Constant):
        reach = rule.eta * L
        if reach > 2:
            return Prediction.failure(f"its step is {reach:.3g} / L, and beyond 2 / L it runs away")
        steps = descent(rule.eta * modes, shares, case.tolerance)
    elif isinstance(rule, BB | PlainBB):
        unit = descent(modes / L, shares, case.tolerance)
        steps = min(unit, float(np.interp(lambda_, (0, 0.4), GAIN)) * math.sqrt(unit))
        one = np.ones((1, 1, 1))
        reach = min(1.0, float(first(rule, one, lambda_ * one, one, averaged=True).bound.flat[0]))
        if (bearable := swinging(case.mixing)) < reach:
            if isinstance(rule, PlainBB):
                return Prediction.failure("long steps swing along the negative eigenvalues of W")
            # The safeguard finds out in the end, and goes on with steps of that length.
            reach = bearable
            steps = max(steps, unit / reach)
    else:
        return Prediction.none("no prediction for this step rule")
    sure = L / case.landscape.largest < STRETCHED
    agree = max(agreement(w, reach, 0.0, case.tolerance) for w in case.mixing.spectrum or (lambda_,))
    return told(steps, agree, 0, 1, opened(algorithm, case), reach / L, case, sure)


def swinging(mixing: Mixing) -> float:
    """Steps times curvature that disagreement along the lowest eigenvalue bears, less a fifth to be sure.

    For w = -a and mu = 0 the roots have |z|^2 = a^2 + a e.
    """
    a = -mixing.spectrum[0] if mixing.spectrum is not None else 0.0
    return 0.8 * (1 - a * a) / a if a > 0 else math.inf


def opened(algorithm: Destiny, case: Case) -> int:
    """Opening rounds once the network, if it stays, has told its lambda."""
    return (
        replace(algorithm, lambda_=case.mixing.lambda_).opening if case.mixing.spectrum else algorithm.opening
    )


def told(
    steps: float, agree: float, travel: float, per_step: int, opening: int, step: float | None, case: Case,
    sure: bool = True,
) -> Prediction:  # fmt: skip
    """Steps as rounds with a range, and what decides."""
    if not math.isfinite(agree):
        return Prediction.failure("disagreement does not die out with steps this long")
    middle = opening + per_step * (travel + max(steps, agree))
    sure = sure and case.landscape.condition <= RESOLVED and steps < MOST
    rounds = f"{per_step} rounds" if per_step > 1 else "one round"
    return Prediction(
        rounds=math.ceil(middle),
        low=math.ceil(middle / FACTOR),
        high=math.ceil(middle * FACTOR) if sure else None,
        per_step=per_step,
        limit="network" if agree > steps else "curvature",
        step=step,
        why=f"{rounds} a step; {math.ceil(steps)} steps for the curvature, {math.ceil(agree)} to agree",
    )


def met(landscape: Landscape) -> tuple[Array, Array]:
    """Positive curvatures, and the gradient's shares."""
    up = landscape.curvatures > 0
    return landscape.curvatures[up], landscape.shares[up]
