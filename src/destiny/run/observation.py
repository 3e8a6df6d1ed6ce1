"""Measures of the whole network, for `solve`."""

from __future__ import annotations

import logging
import math
import time

import numpy as np

from destiny.engines.team import Team
from destiny.errors import SettingsError
from destiny.geometry.stiefel import norm
from destiny.protocols import Array
from destiny.run import metrics
from destiny.run.history import COLUMNS, UNCOUNTED, History
from destiny.run.loop import Moment
from destiny.run.plan import Plan
from destiny.storage.checkpoint import Saved
from destiny.validation import is_whole

# Rounding adds up over a run; 1e-8 of the starting gradient is far above it and far below damage.
TRACKING_GAP = 1e-8
logger = logging.getLogger(__name__)


class GlobalMeasures:
    """What `solve` observes (`destiny.run.driver.Observation`): all agents at once, outside the rounds.

    Attributes
    ----------
    measures : Measures or None
        The newest.
    seconds : float
        Time spent on measuring.
    """

    def __init__(self, plan: Plan, every: int) -> None:
        if not is_whole(every) or every < 0:
            raise SettingsError(f"every must be a whole number >= 0; found {every!r}")
        self.plan, self.every = plan, every
        self.composite: metrics.Composite | None = None
        self.history = History()
        self.values: Array = np.empty(0)
        self.measures: metrics.Measures | None = None
        self.notes: list[str] = []
        self.seconds = 0.0
        self.share: float | None = None

    def begin(self, moment: Moment, saved: Saved | None) -> None:
        """Evaluate the start; raise CheckpointError if ``saved`` is damaged or of other data."""
        team, regularizer = moment.team, self.plan.problem.regularizer
        mean = team.mean(team.split(self.plan.X))
        if moment.mass is not None:
            mean = moment.mass.polar(mean)
        self.values = team.values(mean)
        if regularizer is None:
            self.reference = metrics.reference(team, mean, moment.mass)
        else:
            self.composite = metrics.Composite.at(regularizer, team.gradient(mean))
            self.reference = metrics.composite_reference(team, mean, self.composite)
        if saved is None:
            return
        values, rows = saved.arrays["values"], saved.arrays["history"]
        if rows.ndim != 2 or not UNCOUNTED <= rows.shape[1] <= len(COLUMNS):
            raise saved.refuse("is damaged: its history has other columns")
        if values.shape != self.values.shape or not np.allclose(self.values, values, rtol=1e-10, atol=0.0):
            raise saved.refuse("belongs to other data or another start: the agents' objectives there differ")
        pairs = [pair for part in moment.parts if (pair := self.plan.algorithm.tracked(part)) is not None]
        if pairs and self.plan.messages.exact:  # or the law does not hold
            D, H = zip(*pairs, strict=True)
            gap = float(norm(team.mean(D) - team.mean(H)))
            size = float(team.gather([norm(h) for h in H]).mean())
            if not gap <= TRACKING_GAP * max(self.reference, size):
                raise saved.refuse(f"is damaged: mean(D) and mean(H) differ by {gap:.1e}")
        self.history = History.from_array(rows)
        if "gradients" not in saved.facts:
            self.notes.append(
                f"gradients are counted from step {moment.step} on: the checkpoint before has no count"
            )

    def measure(self, moment: Moment) -> metrics.Measures:
        """Add a row to the history; the measures are the same in every process."""
        clock = time.perf_counter()
        measured = metrics.measure(moment.team, moment.spread, self.reference, self.composite, moment.mass)
        self.measures = metrics.Measures(**moment.team.broadcast(measured.as_dict()))
        self.history.add(
            step=moment.step,
            round=moment.round,
            scalars=moment.scalars,
            seconds=moment.seconds,
            **self.measures.as_dict(),
            **moment.traffic.evaluations(),
            bytes=moment.traffic.bytes,
            passes=self.passes(moment),
        )
        self.seconds += time.perf_counter() - clock
        logger.debug("step %d, round %d: %s", moment.step, moment.round, self.measures)
        return self.measures

    last = measure

    def passes(self, moment: Moment) -> float:
        """Passes over the data so far: samples whose gradients were evaluated, by all samples of all agents.

        NaN for mini-batches of unknown size.
        """
        sampled = moment.traffic.minibatches
        if not sampled:
            return float(moment.traffic.gradients)
        if self.share is None:
            self.share = minibatch_share(moment.team)
        return moment.traffic.gradients + self.share * sampled

    def cached(self, moment: Moment) -> metrics.Measures | None:
        """The measures of this step if they were taken before."""
        if len(self.history) == 0 or self.history.last["step"] != moment.step:
            return None
        row = self.history.last
        self.measures = metrics.Measures(**{name: row[name] for name in metrics.Measures.__annotations__})
        return self.measures

    def gather(self, team: Team, part: Array) -> Array:
        """An array of all agents."""
        return team.gather([part])


def minibatch_share(team: Team) -> float:
    """The share of all samples of all agents in the mini-batches of a step; NaN if it is not known."""
    drawn, samples = team.gather(team.each(lambda _, agents: agents.sample_counts(), team.hosts)).sum(axis=0)
    return float(drawn / samples) if samples > 0 else math.nan
