"""A run that has been checked, from its first step to its result."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from destiny.engines.team import Engine
from destiny.protocols import (
    AlgorithmBase,
    Array,
    ProblemBase,
    TopologyBase,
)
from destiny.run import square
from destiny.run.checkpointing import CheckpointFolder
from destiny.run.choice import Choice
from destiny.run.driver import ALIKE, Driver
from destiny.run.finish import make_result
from destiny.run.interrupt import Interrupt
from destiny.run.loop import moments
from destiny.run.moment import Moment
from destiny.run.observation import GlobalMeasures
from destiny.run.options import SolveOptions
from destiny.run.progress import ProgressBar
from destiny.run.references import data_bytes, least_bytes
from destiny.run.result import Result
from destiny.run.settings import settings_of
from destiny.run.stopping import Seconds, Stop, remaining_rules

KNOWN = (*ALIKE, Seconds)  # rules whose settings are compared between processes
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Run:
    """A run that has been checked and can be started; made by `prepare`."""

    problem: ProblemBase
    network: TopologyBase
    algorithm: AlgorithmBase
    options: SolveOptions
    engine: Engine
    driver: Driver
    observed: GlobalMeasures
    store: CheckpointFolder
    label: str
    opening: int
    """Rounds before the first step."""
    choice: Choice | None = None
    """How the algorithm was chosen, if none was given."""
    mirror: Run | None = None
    """The run from the mirrored start, where X is square and no start was given."""

    def go(self) -> Result:
        """Run to the end; if X is square, from both halves of O(n), unless f is the same on both."""
        # One BLAS thread while measuring too: the bits of a run do not depend on the number of cores.
        with threadpool_limits(1), Interrupt() as interrupt:
            first, half = self._run_half(interrupt)
            if half is None or half.symmetric:
                return first
            if self.mirror is None:
                return square.noted(first, "for the other half negate a column of start")
            if first.interrupted is not None:
                return square.noted(first, "the other half was not tried yet")
            rules = remaining_rules(self.mirror.driver.rules, half.rounds, half.seconds, self.opening)
            if rules is None:
                return square.noted(first, "the other half was not tried: nothing was left of the limits")
            self.mirror.driver.rules = rules
            return square.better(first, self.mirror._run_half(interrupt)[0])

    def _run_half(self, interrupt: Interrupt) -> tuple[Result, square.Half | None]:
        """Run from this start; for a square X also return what the run from the mirrored start needs."""
        saved = self.store.saved
        if self.engine.leader:
            n, p = self.problem.shape
            engine, agents = type(self.engine).__name__, self.problem.agents
            logger.info("%s: start, %d agents, X %d x %d, engine %s", self.label, agents, n, p, engine)
            logger.debug("%s: settings %s", self.label, settings_of(self.algorithm))
            if saved is not None:
                logger.info("%s: resumed from step %d, %s", self.label, saved.facts["step"], saved.path)
        steps = moments(
            self.problem,
            self.network,
            self.algorithm,
            self.observed.X,
            self.engine,
            saved,
            self.options.messages,
            self._facts(),
        )
        bar: ProgressBar | None = None
        try:
            for moment in steps:
                if bar is None:
                    o, leader = self.options, moment.team.leader
                    bar = ProgressBar(self.label, o.rounds, o.progress, leader, o.tolerance)
                stop = self.driver.after_step(moment, lambda: interrupt.name)
                bar.update(moment.round, self.observed.measures)
                if stop is not None:
                    stop = stop.weakened(self.options.messages)
                    result = self._result(moment, stop)
                    half = self._compare_halves(moment, result.X)
                    if moment.team.leader:
                        logger.info("%s: end after %d rounds: %s", self.label, result.rounds, result.reason)
                    return result, half
        finally:
            if bar is not None:
                bar.close()
            steps.close()  # type: ignore[attr-defined]
        raise AssertionError("iterate never ends by itself")

    def _facts(self) -> dict[str, Any]:
        """Settings of `solve` that must be the same in all processes of a run."""
        rules = self.driver.rules
        return {
            "measuring": self.observed.every,
            "checkpoints": [self.store.folder is not None, self.store.every],
            "stopping": [repr(rule) if type(rule) in KNOWN else type(rule).__name__ for rule in rules],
            "tolerance of the agents": self.driver.agreement.tolerance,
        }

    def _result(self, moment: Moment, stop: Stop) -> Result:
        result = make_result(
            moment,
            stop,
            self.problem,
            self.algorithm,
            self.observed,
            tolerance=self.options.tolerance,
            decentralised=self.options.decentralised,
            remarks=[*self.store.notes, *self.observed.notes, *self.options.messages.remarks()],
            choice=self.choice,
            signal=self.driver.signal,
            messages=self.options.messages,
        )
        return replace(
            result,
            data_bytes=data_bytes(self.problem, self.network, moment.team),
            least_bytes=least_bytes(self.problem.shape, self.network.agents),
        )

    def _compare_halves(self, moment: Moment, X: Array) -> square.Half | None:
        """For a square X: what this run has used, and whether f is the same on both halves of O(n)."""
        if X.shape[0] != X.shape[1]:
            return None
        team = moment.team
        rounds = moment.round if self.driver.cost else moment.step
        points = [team.mean(team.split(self.observed.X)), *([X] if np.isfinite(X).all() else [])]
        symmetric = square.symmetric(team, points, self.problem.regulariser)
        return square.Half(*team.broadcast([rounds, moment.seconds, symmetric]))
