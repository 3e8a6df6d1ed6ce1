"""Predicted rounds of a method, and what rules a method out before it is tried.

The rounds come from a trial (`trial`). Settings that cannot work are seen in the landscape and the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from destiny.algorithms import Destiny, DestinyAccelerated
from destiny.algorithms.blocks.scheme import Scheme
from destiny.algorithms.blocks.step_sizes import Constant, PlainBB
from destiny.diagnosis.differences import Differences
from destiny.diagnosis.landscape import Landscape
from destiny.diagnosis.network_options import Mixing, format_lambda
from destiny.protocols import AlgorithmBase

FACTOR = 2.0  # the range given; docs/when-it-does-not-converge.md says how often it holds
PENALIZED = (Scheme, DestinyAccelerated)  # methods with a penalty beta and a direction
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
    regularized: bool = False
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
    why : str
        How the number came about, in words.
    outlook : "fine", "doubtful" or "hopeless"
        Whether it is expected to converge at all.
    """

    rounds: int | None
    low: int | None
    high: int | None
    per_step: int
    why: str
    outlook: Outlook = "fine"

    @classmethod
    def none(cls, why: str, outlook: Outlook = "fine") -> Prediction:
        """Return a prediction without a number, with the reason."""
        return cls(None, None, None, 1, why, outlook)

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


def before_trial(algorithm: AlgorithmBase, case: Case) -> Prediction | None:
    """Return why there is no number without looking further; None if a trial is worth its time."""
    if case.tolerance <= 0:
        return Prediction.none("the tolerance is 0: it runs for all its rounds")
    if case.landscape.smallest <= 0:
        return Prediction.none("no prediction: f shows no curvature near the answer")
    if not algorithm.exact:
        what = "where r is smoothed" if case.regularized else "short of the answer, unless its steps vanish"
        return Prediction.none(f"no prediction: it stalls {what}")
    return None


def ruled_out(algorithm: AlgorithmBase, case: Case) -> str | None:
    """Return why settings of DESTINY cannot work; None if nothing speaks against them."""
    if case.regularized or not isinstance(algorithm, Destiny):
        return None
    beta = case.landscape.slope if algorithm.beta == "auto" else float(algorithm.beta)
    lambda_, rule = case.mixing.lambda_, algorithm.step_size
    if beta <= case.landscape.threshold and algorithm.direction in THRESHOLD and not algorithm.watch:
        return f"beta = {beta:g} is below its threshold {case.landscape.threshold:.3g}"
    if isinstance(rule, PlainBB) and lambda_ > LOST:
        return f"steps without a bound lose consensus at lambda {format_lambda(lambda_)}"
    if isinstance(rule, Constant):
        L = float(np.mean(case.differences.largest_curvature(algorithm.direction, beta)))
        if rule.eta * L > 2:
            return f"its step is {rule.eta * L:.3g} / L, and beyond 2 / L it runs away"
    return None
