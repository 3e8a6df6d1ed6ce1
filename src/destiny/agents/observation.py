"""What one agent observes of a run: itself alone; and what can be shown of it."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass

import numpy as np

from destiny.agents.engine import AgentTeam
from destiny.agents.event_log import EventLog
from destiny.agents.exchange import Exchange
from destiny.agents.settings import Settings
from destiny.agents.transport.connections import Connections
from destiny.engines.team import Team
from destiny.geometry.stiefel import random_point, violation
from destiny.protocols import AlgorithmBase, Array
from destiny.run.history import History
from destiny.run.loop import Moment
from destiny.run.stopping import DIVERGED
from destiny.storage.checkpoint import Saved

WAITING = "waiting for neighbors"
RATE = 1.0  # seconds over which rates are averaged
COLUMNS = ("step", "round", "seconds", "residual", "feasibility")


@dataclass
class View:
    """What can be shown of an agent at any moment."""

    settings: Settings
    connections: Connections
    event_log: EventLog
    phase: str = WAITING
    step: int = 0
    round: int = 0
    residual: float = float("nan")
    feasibility: float = float("nan")
    members: list[int] | None = None
    """Who takes part in a run that agents may leave; None if all agents of the files do."""
    rate: float = 0.0
    """Rounds a second, lately."""
    rates: dict[str, float] = dataclasses.field(default_factory=dict)
    """Bytes a second received from each neighbor, lately."""
    sample: tuple[float, dict[str, int]] = (0.0, {})

    def refresh(self) -> None:
        """Look at the clock again, if the last time is long enough ago to tell a rate."""
        now, (before, counts) = time.monotonic(), self.sample
        if now - before < RATE:
            return
        sample = {n.name: n.bytes_in for n in self.connections.neighbors} | {"": self.connections.rounds}
        gone = {name: (value - counts.get(name, value)) / (now - before) for name, value in sample.items()}
        self.rate, self.rates, self.sample = gone.pop(""), gone, (now, sample)


class LocalMeasures:
    """Local residual and feasibility of one agent (`destiny.run.driver.Observation`)."""

    def __init__(self, algorithm: AlgorithmBase, view: View, notes: list[str]) -> None:
        self.algorithm, self.view, self.notes = algorithm, view, notes
        self.every = view.settings.every
        self.history = History(COLUMNS)
        self.values: Array = np.empty(0)

    def begin(self, moment: Moment, saved: Saved | None) -> None:
        """Evaluate the start; raise CheckpointError if ``saved`` is of other data."""
        s, team = self.view.settings, moment.team
        n, p = s.problem.shape
        X = random_point(n, p, s.seed) if s.start is None else s.start
        assert isinstance(team, AgentTeam)
        self.values = team.agents.value(np.broadcast_to(X, (1, n, p)) if X.ndim == 2 else X[[s.index]])
        self.view.step, self.view.round = moment.step, moment.round
        if saved is None:
            return
        if not np.allclose(self.values, saved.values, rtol=1e-10, atol=0.0):
            raise saved.refuse("belongs to other data: the objective at the start differs")
        self.history = History.from_array(saved.arrays["history"], COLUMNS)
        self.view.event_log.record("resumed", step=moment.step, round=moment.round, notes=self.notes)

    def measure(self, moment: Moment) -> None:
        """Add a row to the history; end the run of all agents if this one diverged."""
        (state,) = moment.parts
        view = self.view
        view.step, view.round, view.feasibility = moment.step, moment.round, float(violation(state.X)[0])
        residual = self.algorithm.residual
        view.residual = view.feasibility if residual is None else float(residual(state)[0])
        self.history.add(
            step=moment.step,
            round=moment.round,
            seconds=moment.seconds,
            residual=view.residual,
            feasibility=view.feasibility,
        )
        if not view.feasibility <= DIVERGED:
            exchange = view.connections.store
            assert isinstance(exchange, Exchange)
            exchange.abandon_run(
                f"diverged: ||X^T X - I|| was {view.feasibility:.1e} after step {moment.step}"
            )

    def cached(self, moment: Moment) -> None:
        """Nothing: no rule uses what one agent alone measures."""

    last = cached

    def gather(self, team: Team, part: Array) -> Array:  # noqa: ARG002
        return part
