"""Rounds of plain and accelerated DESTINY by local theory, simulated on the modes of the landscape.

It decides which networks are worth a trial and what limits a run; the rounds reported come from `trial`.

Near the answer the mean of the agents moves as the method does on a quadratic with the curvatures and the
start of `landscape`, which is cheap to simulate. Disagreement decays like the slowest root in
docs/acceleration.md. The slower of the two decides. A few constants were fitted on docs/rounds.csv.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from destiny.algorithms import CDADT, Destiny, DestinyMomentum
from destiny.algorithms.blocks.scheme import Scheme
from destiny.algorithms.blocks.step_sizes import BB, Constant, PlainBB, initial_pace
from destiny.algorithms.momentum import STIFFNESS
from destiny.diagnosis.differences import Differences
from destiny.diagnosis.landscape import Landscape
from destiny.diagnosis.network_options import Mixing, format_lambda
from destiny.diagnosis.simulation import MOST, agreement, descent, heavy_ball
from destiny.protocols import AlgorithmBase, Array

TRAVEL = 35  # steps before the quadratic holds: the median of what is left over in docs/rounds.csv
DETOUR = 1.5  # the accelerated rule along the paper's direction against its simulation: 1.1 to 2.2, same file
# Barzilai-Borwein needs GAIN sqrt(k) steps where steps 1/L need k; at lambda 0, and from 0.4 on.
GAIN = (9.0, 22.0)
FACTOR = 2.0  # the range given; docs/when-it-does-not-converge.md says how often it holds
RESOLVED = 1000.0  # curvature ratio beyond which Lanczos has not seen the flattest directions
STRETCHED = 50.0  # times the largest curvature along the manifold: a beta this large costs more than sqrt(k)
PENALISED = (Scheme, DestinyMomentum)  # methods with a penalty beta and a direction
THRESHOLD = ("h", "expen")  # directions whose penalty has one
LOST = 0.92  # lambda beyond which unsafeguarded Barzilai-Borwein steps did not converge in docs/rounds.csv


Outlook: TypeAlias = Literal["fine", "doubtful", "hopeless"]


@dataclass(frozen=True)
class Case:
    """What a prediction is based on."""

    landscape: Landscape
    differences: Differences
    mixing: Mixing
    tolerance: float
    regularised: bool = False
    """Whether the objective is f + r; landscape and differences are then those of f."""


@dataclass(frozen=True)
class Prediction:
    """Rounds to tolerance, or why there is no such number.

    Attributes
    ----------
    rounds : int or None
        None if there is no prediction; ``why`` gives the reason.
    low, high : int or None
        The range; ``high`` is None where the number is a lower bound only.
    per_step : int
        Rounds per step.
    limit : "curvature", "network" or ""
        What the rounds are spent on.
    step : float or None
        Step size near the answer.
    why : str
        How the number came about, in words.
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
        """Return a prediction without a number, with the reason."""
        return cls(None, None, None, 1, "", None, why, outlook)

    @classmethod
    def failure(cls, why: str) -> Prediction:
        """Return the prediction that a run will not converge, with the reason."""
        return cls.none(f"not expected to converge: {why}", "hopeless")

    def __str__(self) -> str:
        if self.rounds is None:
            return self.why
        if self.high is None:
            return f"{self.rounds} rounds or more; {self.why}"
        return f"about {self.rounds} rounds ({self.low} to {self.high}); {self.why}"


def predict(algorithm: AlgorithmBase, case: Case) -> Prediction:
    """Return the rounds until stationarity, consensus and feasibility are below the tolerance."""
    if case.tolerance <= 0:
        return Prediction.none("the tolerance is 0: it runs for all its rounds")
    if case.landscape.smallest <= 0:
        return Prediction.none("no prediction: f shows no curvature near the answer")
    if case.regularised and algorithm.exact:
        return Prediction.none("no prediction without a trial: the curvature of f says little of f + r")
    if case.regularised:
        return Prediction.none("no prediction: it stalls where r is smoothed")
    if isinstance(algorithm, CDADT):
        return Prediction.none("no prediction without a trial: its curvature is that of M and f together")
    if isinstance(algorithm, DestinyMomentum):
        return predict_momentum(algorithm, case)
    if isinstance(algorithm, Destiny):
        return predict_destiny(algorithm, case)
    if not algorithm.exact:
        return Prediction.none("no prediction: with steps that do not vanish it stalls short of the answer")
    return Prediction.none("no prediction for this method")


def predict_momentum(algorithm: DestinyMomentum, case: Case) -> Prediction:
    """Simulate heavy ball with restarts on the modes; the network decays at its slowest root."""
    informed = replace(algorithm, spectrum=algorithm.spectrum or case.mixing.spectrum)
    if informed.spectrum is None and informed.rounds not in ("auto", 1):
        return Prediction.none("no prediction: several rounds a step on a network that changes")
    filter = informed.filter
    left = filter.contraction
    if informed.spectrum is None:
        left = (case.mixing.lambda_ - filter.shift) / (1 - filter.shift)
    pace = min(1.0, informed.gap * (1 - left))
    L = case.differences.largest_curvature(algorithm.direction)
    beta = (
        np.maximum(case.landscape.slope, STIFFNESS * L) if algorithm.beta == "auto" else float(algorithm.beta)
    )
    L = np.maximum(L, 2 * beta)
    if L.max() == 0:
        return Prediction.none("no prediction: the agents see no curvature")
    shared = L.max() * np.mean((L / L.max()) ** 8) ** 0.125
    eta = float(np.mean(pace / np.maximum(L, shared)))
    # On the manifold the landing field is half the Riemannian gradient.
    half = 0.5 if algorithm.direction == "landing" else 1.0
    modes, shares = positive_modes(case.landscape)
    steps = heavy_ball(half * eta * modes, shares, case.tolerance)
    if algorithm.direction != "landing":
        steps = DETOUR * steps
    agree = agreement(left, pace, 0.9, case.tolerance)
    return combine(steps, agree, TRAVEL, filter.rounds, informed.opening, eta, case)


def predict_destiny(algorithm: Destiny, case: Case) -> Prediction:
    """Simulate gradient descent on the modes with the steps of the algorithm's rule."""
    beta = case.landscape.slope if algorithm.beta == "auto" else float(algorithm.beta)
    L = float(np.mean(case.differences.largest_curvature(algorithm.direction, beta)))
    if L == 0:
        return Prediction.none("no prediction: the agents see no curvature")
    modes, shares = positive_modes(case.landscape)
    lambda_, rule = case.mixing.lambda_, algorithm.step_size
    if beta <= case.landscape.threshold and algorithm.direction in THRESHOLD and not algorithm.watch:
        return Prediction.failure(f"beta = {beta:g} is below its threshold {case.landscape.threshold:.3g}")
    if isinstance(rule, PlainBB) and lambda_ > LOST:
        return Prediction.failure(f"steps without a bound lose consensus at lambda {format_lambda(lambda_)}")
    if isinstance(rule, Constant):
        reach = rule.eta * L
        if reach > 2:
            return Prediction.failure(f"its step is {reach:.3g} / L, and beyond 2 / L it runs away")
        steps = descent(rule.eta * modes, shares, case.tolerance)
    elif isinstance(rule, BB | PlainBB):
        unit = descent(modes / L, shares, case.tolerance)
        steps = min(unit, float(np.interp(lambda_, (0, 0.4), GAIN)) * math.sqrt(unit))
        one = np.ones((1, 1, 1))
        reach = min(1.0, float(initial_pace(rule, one, lambda_ * one, one, averaged=True).bound.flat[0]))
        if (stable := largest_stable_step(case.mixing)) < reach:
            if isinstance(rule, PlainBB):
                return Prediction.failure("long steps swing along the negative eigenvalues of W")
            # The safeguard shortens the steps to that length in the end.
            reach = stable
            steps = max(steps, unit / reach)
    else:
        return Prediction.none("no prediction for this step rule")
    sure = L / case.landscape.largest < STRETCHED
    agree = max(agreement(w, reach, 0.0, case.tolerance) for w in case.mixing.spectrum or (lambda_,))
    return combine(steps, agree, 0, 1, opening_rounds(algorithm, case), reach / L, case, sure)


def largest_stable_step(mixing: Mixing) -> float:
    """Return the largest step times curvature at which disagreement along the lowest eigenvalue decays.

    The limit is reduced by a fifth to be safe. For w = -a and mu = 0 the roots have |z|^2 = a^2 + a e.
    """
    a = -mixing.spectrum[0] if mixing.spectrum is not None else 0.0
    return 0.8 * (1 - a * a) / a if a > 0 else math.inf


def opening_rounds(algorithm: Destiny, case: Case) -> int:
    """Return the opening rounds; on a fixed network lambda need not be estimated."""
    if case.mixing.spectrum:
        algorithm = replace(algorithm, lambda_=case.mixing.lambda_)
    return algorithm.opening


def combine(
    steps: float,
    agree: float,
    travel: float,
    per_step: int,
    opening: int,
    step: float | None,
    case: Case,
    sure: bool = True,
) -> Prediction:
    """Return the rounds of the slower of ``steps`` (curvature) and ``agree`` (network), with a range."""
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


def positive_modes(landscape: Landscape) -> tuple[Array, Array]:
    """Return the positive curvatures, and the gradient's shares along them."""
    up = landscape.curvatures > 0
    return landscape.curvatures[up], landscape.shares[up]
