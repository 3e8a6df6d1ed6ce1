"""What happens after each step of a run, whoever runs it: measure, agree, decide, save."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from destiny.engines.team import Team
from destiny.protocols import Array
from destiny.run.agreement import LocalStop
from destiny.run.history import History
from destiny.run.loop import Moment
from destiny.run.metrics import Measures
from destiny.run.plan import Plan
from destiny.run.stopping import Diverged, Rounds, Rule, RunStatus, Stop, Tolerance
from destiny.storage.checkpoint import Saved, flatten

ALIKE = (Tolerance, Diverged, Rounds)  # rules that see the same numbers in every process of a run


class Observation(Protocol):
    """What is measured of a run: of the whole network, or of one agent alone."""

    every: int
    """Steps between two measurements; 0 measures the first and the last."""
    history: History
    values: Array
    """Objectives at the start, which tell the data of a checkpoint from other data."""

    def begin(self, moment: Moment, saved: Saved | None) -> None:
        """Evaluate the start; restore the history of ``saved``, or raise CheckpointError if it differs."""

    def measure(self, moment: Moment) -> Measures | None:
        """Add a row to the history; return what rules may use."""

    def cached(self, moment: Moment) -> Measures | None:
        """The measures of this step if it was measured before."""

    def last(self, moment: Moment) -> Measures | None:
        """Measure the last step of a run, where rules may use it."""

    def gather(self, team: Team, part: Array) -> Array:
        """An array of the agents observed."""


class Store(Protocol):
    """Where checkpoints are kept."""

    saved: Saved | None
    """The checkpoint the run continues from."""

    def due(self, step: int, fresh: bool, stop: bool, signal: bool) -> bool:
        """Whether to save now; ``fresh`` steps are those after the checkpoint the run continues from."""

    def facts(self) -> dict[str, Any]:
        """What to keep beside the state of the run."""

    def write(self, moment: Moment, saved: Saved) -> None:
        """Write a checkpoint of the agents of this process."""


def mixer_arrays(team: Team) -> dict[str, Array]:
    """For a checkpoint: what the mixers of this process keep, agents on axis 0."""
    parts = team.each(lambda _, agents: agents.mixer.arrays(), [None] * len(team.hosts))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@dataclass
class Driver:
    """What happens after each step, for `solve` and for agents of organizations alike.

    Attributes
    ----------
    plan : Plan
    rules : sequence of Rule
        The first that returns a `Stop` ends the run.
    observe : Observation
    agreement : LocalStop or None
        How agents agree to stop, if they do.
    store : Store or None
        Where checkpoints are kept, if they are.
    cost : int
        Rounds of the last step.
    signal : str or None
        Name of a signal that a process of the run has received.
    """

    plan: Plan
    rules: Sequence[Rule]
    observe: Observation
    agreement: LocalStop | None = None
    store: Store | None = None

    def __post_init__(self) -> None:
        self.algorithm = self.plan.algorithm
        # The first step of a private method takes one more sum, of scales.
        self.cost = self.algorithm.rounds_per_step * (1 + self.plan.messages.private)
        self.interval = 1 if self.algorithm.few_steps else self.observe.every
        self.signal: str | None = None
        self.begun = False
        self.round_before = 0

    def after_step(self, moment: Moment, signal: Callable[[], str | None]) -> Stop | None:
        """Measure, ask the rules and save; return a `Stop` to end the run, None to continue."""
        saved, observe = None if self.store is None else self.store.saved, self.observe
        if not self.begun:
            self.on_first_step(moment, saved)
        fresh = saved is None or moment.step > saved.facts["step"]
        due = moment.step == 0 or (observe.every > 0 and moment.step % self.interval == 0)
        measures = observe.measure(moment) if due and fresh else observe.cached(moment)
        if fresh and moment.step > 0:
            self.cost = moment.round - self.round_before
        self.round_before = moment.round
        gradients = moment.traffic.gradients
        status = RunStatus(
            moment.step,
            moment.round,
            moment.seconds,
            self.cost,
            measures,
            gradients,
            self.algorithm.exhausted(moment.parts[0]),
        )
        stop = None if self.agreement is None else self.agreement.check(moment, self.cost)
        stop = stop or self.first_rule(status, moment.team)
        self.signal = moment.team.any_signal(signal())
        store = self.store
        if store is not None and store.due(moment.step, fresh, stop is not None, self.signal is not None):
            self.save(moment, store)
        if self.signal is not None and stop is None:
            stop = Stop(f"interrupted by {self.signal} after step {moment.step}", signal=self.signal)
        last = observe.last(moment) if stop is not None and measures is None else None
        if last is None or stop is None or stop.converged or self.signal is not None:
            return stop
        return self.first_rule(replace(status, measures=last), moment.team)  # may show convergence

    def on_first_step(self, moment: Moment, saved: Saved | None) -> None:
        """Evaluate the start, and continue from a checkpoint that must match it."""
        self.begun = True
        self.observe.begin(moment, saved)
        if saved is not None:
            if self.agreement is not None:
                self.agreement.asked, self.agreement.agreed = saved.facts["asked"], saved.facts["agreed"]
            self.cost = saved.facts["cost"]

    def first_rule(self, status: RunStatus, team: Team) -> Stop | None:
        """The `Stop` of the first rule that ends the run, the same in every process."""
        stop = next((stop for rule in self.rules if (stop := rule.check(status)) is not None), None)
        if all(type(rule) in ALIKE for rule in self.rules):
            return stop
        fields = team.broadcast(None if stop is None else [stop.reason, stop.converged])
        return None if fields is None else Stop(*fields)

    def save(self, moment: Moment, store: Store) -> None:
        """Write a checkpoint of this moment."""
        team, agreement = moment.team, self.agreement
        arrays = {"history": self.observe.history.as_array(), "values": self.observe.values}
        if agreement is not None and agreement.asked is not None:
            arrays["flood"] = self.observe.gather(team, team.flood)
        facts = {
            "step": moment.step,
            **moment.traffic.facts(),
            "seconds": moment.seconds,
            "asked": None if agreement is None else agreement.asked,
            "agreed": None if agreement is None else agreement.agreed,
            "cost": self.cost,
            **store.facts(),
        }
        state = flatten(team.own(moment.parts)) | mixer_arrays(team)
        for part in self.plan.parts:
            state |= part.arrays(team)
            facts |= part.facts()
        store.write(moment, Saved(state, arrays, facts))
