"""Trials: the first steps of a method on the problem itself, and the rounds they predict.

Some steps are taken and measured. A run from the same start takes the same steps. Without a steady rate there
is no prediction.
"""

from __future__ import annotations

import math
import time
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np

from destiny.diagnosis.network_options import Mixing
from destiny.diagnosis.prediction import FACTOR, PENALIZED, Case, Prediction, before_trial, ruled_out
from destiny.engines.mixers import PLAIN, Messages
from destiny.geometry.stiefel import random_point
from destiny.protocols import AlgorithmBase, Array, ProblemBase, Topology, TopologyBase
from destiny.run import metrics
from destiny.run.loop import iterate
from destiny.run.stopping import Diverged

STEPS = 500  # of a trial
OTHER = 20_221  # seed of another start
EVERY = 5  # steps between two measurements
SECONDS = 20.0  # of processor time, after which a trial ends early: large problems only
# The next three were chosen on real tables and checked on other runs: benchmarks/predictions.py.
WINDOWS = (1 / 3, 1 / 2, 2 / 3)  # where the fits of the rate begin, as shares of the trial
AGREE = 1.5  # the largest over the smallest of the fitted rounds, up to which they are used
PROGRESS = 0.4  # of the way to the tolerance, on a log scale, that a trial must have come


@dataclass(frozen=True)
class Trial:
    """Measurements of a trial, ``(k,)`` each: rounds, and the worst of the three measures with its name."""

    rounds: Array
    worst: Array
    names: tuple[str, ...]
    steps: int

    @property
    def per_step(self) -> int:
        """Rounds per step, without the opening rounds."""
        return round(float(self.rounds[-1] - self.rounds[0]) / max(1, self.steps))

    @property
    def end(self) -> str:
        """The last measurement, in words."""
        return f"after {self.rounds[-1]:.0f} rounds its {self.names[-1]} was {self.worst[-1]:.0e}"

    @property
    def diverged(self) -> bool:
        """Whether the last measure is beyond the limit of divergence."""
        return not self.worst[-1] <= Diverged.limit

    def rounds_to(self, tolerance: float) -> int | None:
        """Return the rounds after which it was first below a tolerance; None if it never was."""
        below = np.flatnonzero(self.worst <= tolerance)
        return int(self.rounds[below[0]]) if len(below) else None

    def rounds_before(self, tolerance: float) -> int:
        """Return the rounds at the measurement before that."""
        return int(self.rounds[max(0, int(np.argmax(self.worst <= tolerance)) - 1)])

    def extrapolate(self, tolerance: float) -> int | None:
        """Return the rounds to a tolerance at the rate of the last steps; None if that rate is not steady."""
        logs = np.log(np.maximum(self.worst, 1e-300))
        if len(logs) < 10 or not logs[-1] < PROGRESS * math.log(tolerance):
            return None
        totals = [self._at_rate(logs, int(share * len(logs)), math.log(tolerance)) for share in WINDOWS]
        return math.ceil(totals[1]) if max(totals) <= AGREE * min(totals) < math.inf else None

    def _at_rate(self, logs: Array, first: int, target: float) -> float:
        """Return the rounds to log(worst) = target at the rate since measurement ``first``."""
        slope = float(np.polyfit(self.rounds[first:], logs[first:], 1)[0])
        return float(self.rounds[-1]) + (target - float(logs[-1])) / slope if slope < 0 else math.inf


@dataclass(frozen=True)
class Trials:
    """Predictions by trial for one problem, network and start ``(d, n, p)``; each trial is run once."""

    problem: ProblemBase
    network: TopologyBase
    start: Array
    case: Case
    messages: Messages = PLAIN
    cache: dict[tuple[str, int, bool], tuple[Topology, Trial]] = field(default_factory=dict)

    def predict(
        self, method: AlgorithmBase, network: Topology | None = None, tolerance: float | None = None
    ) -> Prediction:
        """Return the rounds to the tolerance as measured, or at the measured rate if that is steady."""
        case = self.case
        if tolerance is not None:
            case = replace(case, tolerance=tolerance)
        if network is not None:
            case = replace(case, mixing=Mixing.of(network))
        if (none := before_trial(method, case)) is not None:
            return none
        trial = self.run(method, network)
        prediction = prediction_from_trial(trial, ruled_out(method, case), case.tolerance)
        if prediction.rounds is None or isinstance(method, PENALIZED):
            return prediction
        if case.regularized and trial.rounds_to(case.tolerance) is not None:
            return prediction  # other starts lead to other answers
        # One start is not enough: power iterations converge from some starts only.
        other = self.run(method, network, again=True)
        there = prediction_from_trial(other, None, case.tolerance).rounds
        if there is not None and prediction.rounds / FACTOR <= there <= FACTOR * prediction.rounds:
            return prediction
        why = (
            f"cannot tell: {prediction.rounds} rounds from the start given, but from another one {other.end}"
        )
        return Prediction.none(why, "doubtful")

    def least(self, method: AlgorithmBase) -> int:
        """Return a lower bound on the rounds of a method: those of its trial."""
        return int(self.run(method).rounds[-1])

    def run(self, method: AlgorithmBase, network: Topology | None = None, again: bool = False) -> Trial:
        """Return the trial of a method, cached; ``again`` starts elsewhere."""
        network = self.network if network is None else network
        key = (repr(method), id(network), again)
        if key not in self.cache:
            _, n, p = self.start.shape
            other = np.broadcast_to(random_point(n, p, OTHER), self.start.shape)
            self.cache[key] = network, self._run(method, network, other if again else self.start)
        return self.cache[key][1]

    def _run(self, method: AlgorithmBase, network: Topology, start: Array) -> Trial:
        """Take up to `STEPS` steps, fewer if the tolerance is reached, and measure every `EVERY` of them."""
        rows: list[tuple[int, float, str]] = []
        clock, reference = time.process_time(), math.nan
        every, regularizer = 1 if method.few_steps else EVERY, self.problem.regularizer
        composite: metrics.Composite | None = None
        moments = iterate(self.problem, network, method, start=start)
        with closing(moments):  # type: ignore[type-var]
            for moment in moments:
                if moment.step == 0:
                    mean = start.mean(axis=0)
                    mean = mean if moment.mass is None else moment.mass.polar(mean)
                    if regularizer is None:
                        reference = metrics.reference(moment.team, mean, moment.mass)
                    else:
                        composite = metrics.Composite.at(regularizer, moment.team.gradient(mean))
                        reference = metrics.composite_reference(moment.team, mean, composite)
                if moment.step % every == 0:
                    measures = metrics.measure(moment.team, moment.spread, reference, composite, moment.mass)
                    rows.append((moment.round, measures.worst, measures.worst_name))
                    if not self.case.tolerance < measures.worst <= Diverged.limit or moment.step >= STEPS:
                        break
                    if time.process_time() - clock > SECONDS:
                        break
        rounds, worst, names = zip(*rows, strict=True)
        return Trial(np.array(rounds, dtype=np.float64), np.array(worst), names, moment.step)


def prediction_from_trial(trial: Trial, ruled_out: str | None, tolerance: float) -> Prediction:
    """Return the rounds to a tolerance by a trial of a method, unless it converges against all odds."""
    if trial.rounds[-1] == 0:
        return Prediction.none(f"no prediction: it sends nothing (it took {trial.steps} steps when tried)")
    a_step = f"{trial.per_step} rounds a step" if trial.per_step > 1 else "one round a step"
    if (rounds := trial.rounds_to(tolerance)) is not None:
        why = f"measured: it converged when tried; {a_step}"
        return Prediction(rounds, trial.rounds_before(tolerance), rounds, trial.per_step, why)
    if trial.diverged:
        return Prediction.failure(f"it diverged when tried: {trial.end}")
    if ruled_out is not None:
        return Prediction.failure(f"{ruled_out}; when tried, {trial.end}")
    if (rounds := trial.extrapolate(tolerance)) is not None:
        low = max(int(trial.rounds[-1]), math.ceil(rounds / FACTOR))
        why = f"at the rate of its first {trial.steps} steps; {a_step}"
        return Prediction(rounds, low, math.ceil(FACTOR * rounds), trial.per_step, why)
    return Prediction.none(f"cannot tell: when tried, {trial.end}", "doubtful")
