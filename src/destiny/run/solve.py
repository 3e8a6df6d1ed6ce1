"""Run an algorithm: `iterate`, the one loop, open to anybody; and `solve`, which drives it to an end."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from destiny._version import __version__
from destiny.algorithms import DestinyMomentum
from destiny.engines import Local
from destiny.engines.hosted import Deaf, Engine, Team, Traffic
from destiny.engines.ranks.launch import launched
from destiny.engines.same_settings import columns_of
from destiny.errors import ProblemError, SettingsError, is_whole
from destiny.geometry.stiefel import random_point, violation
from destiny.problems import Centred, Separable
from destiny.protocols import Algorithm, Array, Objective, Problem, Topology
from destiny.run import metrics, square
from destiny.run.centring import centre, planned_rounds, without_shifts
from destiny.run.compatibility import require_fit
from destiny.run.driver import Drive, Moment, settings_of
from destiny.run.interrupt import Interrupt, deliver
from destiny.run.own_network import checked
from destiny.run.progress import ProgressBar
from destiny.run.result import Result
from destiny.run.stopping import Diverged, Rounds, Rule, Seconds, Tolerance
from destiny.storage import checkpoint as checkpoints

MIRRORED = "mirrored"  # folder of the checkpoints of a square X from the mirrored start
logger = logging.getLogger(__name__)


def iterate(
    problem: Problem | Sequence[Objective],
    network: Topology,
    algorithm: Algorithm[Any] | None = None,
    *,
    start: Array | None = None,
    seed: int = 0,
    engine: Engine | None = None,
    resume: checkpoints.Saved | None = None,
) -> Iterator[Moment]:
    """Run an algorithm for ever, one `Moment` per step (the first is the start); break when you like.

    Parameters
    ----------
    problem : Problem, or a list of d objectives with ``value`` and ``gradient`` (then give ``start``)
    network : Network or a changing network with as many agents
    algorithm : Algorithm, optional
        By default `DestinyMomentum`; `Destiny()` is the paper's method.
    start : ndarray (n, p) or (d, n, p), optional
        Starting point; by default a random point of the manifold from ``seed``, the same at all agents.
    engine : Engine, optional
        Where the agents live: `destiny.engines.local` (this process, the default) or `destiny.engines.mpi`.
    resume : Saved, optional
        A checkpoint to continue from.
    """
    problem, X = _prepare(problem, network, start, seed)
    return _moments(problem, network, chosen(algorithm, problem, network), X, engine or Local(), resume, {})


def _moments(
    problem: Problem, network: Topology, algorithm: Algorithm[Any], X: Array, engine: Engine,
    resume: checkpoints.Saved | None, facts: Mapping[str, Any],
) -> Iterator[Moment]:  # fmt: skip
    """The loop of `iterate`; ``facts`` must be the same in all processes of the run."""
    team = engine.connect(problem, checked(network))
    try:
        X = team.same({**_facts(problem, network, algorithm, resume), **facts}, X)
        clock = time.perf_counter()
        centring = centre(problem, network, team, resume)
        if resume is None:
            step, parts = 0, team.each(algorithm.init, team.split(X))
            seconds = time.perf_counter() - clock
        else:
            saved = resume if centring is None else without_shifts(resume)
            step, seconds, parts = _restore(saved, algorithm, team, X)
        while True:
            yield Moment(step, replace(team.traffic), seconds, parts, team, centring)
            clock = time.perf_counter()
            parts = team.each(algorithm.step, parts)
            seconds += time.perf_counter() - clock
            step += 1
    finally:
        team.close()


def _prepare(
    problem: Problem | Sequence[Objective], network: Topology, start: Array | None, seed: int
) -> tuple[Problem, Array]:
    """Check that problem, network and start fit together; the start as a stack ``(d, n, p)``."""
    if isinstance(problem, Sequence):
        if start is None:
            raise ProblemError("a list of objectives has no shape of its own: give start, an n x p matrix")
        problem = Separable(problem, np.shape(start)[-2:])
    if not hasattr(problem, "host"):
        raise ProblemError(
            f"problem must be one of destiny.problems or a list of objectives; found {problem!r}"
        )
    if not hasattr(network, "at"):
        raise SettingsError(f"network must be one of destiny.networks; found {network!r}")
    d, (n, p) = problem.agents, problem.shape
    if network.agents != d:
        raise SettingsError(
            f"the problem has {d} agents but the network has {network.agents}: make them equal"
        )
    if not getattr(network, "connected", True):
        raise SettingsError(
            "the network must be connected: this one is meant as a part of periodic or sequence"
        )
    X = random_point(n, p, seed) if start is None else np.asarray(start, dtype=np.float64)
    if X.shape not in ((n, p), (d, n, p)):
        raise SettingsError(f"start must be {n} x {p} (or {d} x {n} x {p}); found shape {X.shape}")
    if not np.isfinite(X).all():
        raise SettingsError("start must be finite; found NaN or infinite entries")
    if (worst := float(np.max(violation(X)))) > metrics.SAFE_START:
        raise SettingsError(
            f"start must be near the manifold, ||X^T X - I|| <= 1/6; found {worst:.3g}: "
            "orthonormalise its columns"
        )
    return problem, np.broadcast_to(X, (d, n, p))


def _require_alone() -> None:
    """Refuse processes started together that would all write the same checkpoints."""
    if (count := max(launched().values(), default=1)) > 1:
        raise SettingsError(
            f"{count} processes were started together, and without an engine each of them would run all "
            "agents and write the same checkpoints: give engine=destiny.engines.mpi() to share the agents "
            "out, or engine=destiny.engines.local() and a folder for each process"
        )


def chosen(algorithm: Algorithm[Any] | None, problem: Problem, network: Topology) -> Algorithm[Any]:
    """The algorithm, accelerated DESTINY by default, once it is known to fit problem and network."""
    algorithm = DestinyMomentum() if algorithm is None else algorithm
    if isinstance(algorithm, type) or not hasattr(algorithm, "step"):
        raise SettingsError(f"algorithm must be an object such as destiny.Destiny(); found {algorithm!r}")
    require_fit(algorithm, problem)
    # What the network knows of itself, and all agents must be told alike.
    return algorithm.on(network) if hasattr(algorithm, "on") else algorithm


def _restore(
    saved: checkpoints.Saved, algorithm: Algorithm[Any], team: Team, X: Array
) -> tuple[int, float, list[Any]]:
    """The saved state on this team; a fresh start without a round tells which arrays it must have."""
    templates = team.each(lambda X, agents: algorithm.init(X, Deaf(agents)), team.split(X))
    parts = [
        checkpoints.unflatten(template, saved.of(ids))
        for template, ids in zip(templates, team.hosts, strict=True)
    ]
    team.rewind(Traffic.from_facts(saved.facts))
    if "flood" in saved.arrays:
        team.set_flood(team.split(saved.arrays["flood"]))
    return saved.facts["step"], saved.facts["seconds"], parts


def _facts(
    problem: Problem, network: Topology, algorithm: Algorithm[Any], resume: checkpoints.Saved | None
) -> dict[str, Any]:
    """What must be the same in all processes of a run."""
    return {
        "package version": __version__,
        "problem": [getattr(problem, "kind", type(problem).__name__), problem.agents, *problem.shape],
        "mini-batches": getattr(problem, "batches", []),
        "centring": problem.settings if isinstance(problem, Centred) else {},
        "columns": columns_of(problem),
        "network": checkpoints.network_digest(checked(network)),
        "algorithm": settings_of(algorithm),
        "step to resume from": None if resume is None else resume.facts["step"],
    }


@dataclass(frozen=True)
class Run:
    """A run that has been checked and waits to be started; made by `prepare`."""

    problem: Problem
    network: Topology
    algorithm: Algorithm[Any]
    engine: Engine
    drive: Drive
    saved: checkpoints.Saved | None
    rounds: int
    progress: bool | None
    label: str
    opening: int
    """Rounds before the first step."""
    mirror: Run | None = None
    """The run from the mirrored start, where X is square and nobody gave a start."""

    def go(self) -> Result:
        """Run to the end; of a square X from both halves of O(n), where they differ."""
        # One BLAS thread while measuring too: the bits of a run do not depend on the number of cores.
        with threadpool_limits(1), Interrupt() as interrupt:
            first = self._half(interrupt)
            n, p = self.problem.shape
            if n != p or self.drive.symmetric:
                return first
            if self.mirror is None:
                return square.noted(first, "for the other half negate a column of start")
            if first.interrupted is not None:
                return square.noted(first, "the other half was not tried yet")
            if not self.mirror.drive.spend(self.drive, self.opening):
                return square.noted(first, "the other half was not tried: nothing was left of the limits")
            return square.better(first, self.mirror._half(interrupt))

    def _half(self, interrupt: Interrupt) -> Result:
        """Run from one start."""
        drive, saved = self.drive, self.saved
        if self.engine.leader:
            n, p = self.problem.shape
            where, agents = type(self.engine).__name__, self.problem.agents
            logger.info("%s: start, %d agents, X %d x %d, engine %s", self.label, agents, n, p, where)
            logger.debug("%s: settings %s", self.label, drive.settings)
            if saved is not None:
                logger.info("%s: resumed from step %d, %s", self.label, saved.facts["step"], saved.path)
        moments = _moments(
            self.problem, self.network, self.algorithm, drive.X, self.engine, saved, drive.facts()
        )
        bar: ProgressBar | None = None
        try:
            for moment in moments:
                if bar is None:
                    bar = ProgressBar(self.label, self.rounds, self.progress, moment.team.leader)
                stop = drive.look(moment, saved, interrupt)
                bar.update(moment.round, drive.measures)
                if stop is not None:
                    result = drive.result(moment, stop, self.problem)
                    if moment.team.leader:
                        logger.info("%s: end after %d rounds: %s", self.label, result.rounds, stop.reason)
                    return result
        finally:
            if bar is not None:
                bar.close()
            moments.close()  # type: ignore[attr-defined]
        raise AssertionError("iterate never ends by itself")


def solve(
    problem: Problem | Sequence[Objective],
    network: Topology,
    algorithm: Algorithm[Any] | None = None,
    *,
    start: Array | None = None,
    seed: int = 0,
    rounds: int = 10_000,
    seconds: float | None = None,
    tolerance: float = 1e-8,
    decentralised: bool = False,
    every: int = 10,
    rules: Sequence[Rule] = (),
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 100,
    resume: bool = False,
    engine: Engine | None = None,
    progress: bool | None = None,
    label: str | None = None,
) -> Result:
    """Minimise (1/d) sum f_i(X) subject to X^T X = I over a network of agents.

    Parameters
    ----------
    problem, network, algorithm, start, seed, engine
        As in `iterate`. Without a start, a square X (n = p) is tried with both signs of det X, one after the
        other, unless f is the same for both; the answer is the one with the smaller objective.
    rounds, seconds : int, float
        What the run may use at most, both signs together.
    tolerance : float
        Converged when stationarity, consensus and feasibility are all below it; 0 means never.
    decentralised : bool
        Let the agents themselves find out and agree that they are done, from local quantities and messages
        to neighbours, instead of looking at the whole network. All stop after the same step.
    every : int
        Measure every so many steps; 0 means only at the start and the end.
    rules : sequence of Rule
        Further reasons to stop.
    checkpoint : path, optional
        Folder for checkpoints, written every ``checkpoint_every`` steps (0: only when interrupted), on
        Ctrl-C and on SIGTERM, which the caller gets afterwards. With ``resume`` the run continues from the
        newest; the bits are those of a run never interrupted.
    progress : bool, optional
        Show a progress bar; by default on a terminal only.

    Returns
    -------
    Result
        Numerical outcomes (diverged, out of rounds) come back in it; only mistakes and signals raise.
    """
    result = prepare(
        problem, network, algorithm, start=start, seed=seed, rounds=rounds, seconds=seconds,
        tolerance=tolerance, decentralised=decentralised, every=every, rules=rules,
        checkpoint=checkpoint, checkpoint_every=checkpoint_every, resume=resume,
        engine=engine, progress=progress, label=label,
    ).go()  # fmt: skip
    deliver(result.interrupted)
    return result


def prepare(
    problem: Problem | Sequence[Objective],
    network: Topology,
    algorithm: Algorithm[Any] | None = None,
    *,
    start: Array | None = None,
    seed: int = 0,
    rounds: int = 10_000,
    seconds: float | None = None,
    tolerance: float = 1e-8,
    decentralised: bool = False,
    every: int = 10,
    rules: Sequence[Rule] = (),
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 100,
    resume: bool = False,
    engine: Engine | None = None,
    progress: bool | None = None,
    label: str | None = None,
) -> Run:
    """Everything of `solve` that can be refused, before anything is computed or written; then ``.go()``."""
    problem, X = _prepare(problem, network, start, seed)
    checked(network).at(0)  # of a class of the user's own, it is refused here if wrong
    algorithm = chosen(algorithm, problem, network)
    opening, centring = getattr(algorithm, "opening", 0), planned_rounds(problem, network)
    if is_whole(rounds) and rounds < opening + centring:
        tasks = ["find the mean"] * (centring > 0) + ["choose beta and steps"] * (opening > 0)
        raise SettingsError(
            f"rounds must be at least {opening + centring}, which the agents need to "
            f"{' and to '.join(tasks)}; found {rounds}"
        )
    limits: list[Rule] = [*([] if seconds is None else [Seconds(seconds)]), Rounds(rounds)]
    if engine is None and checkpoint is not None:
        _require_alone()
    engine = engine or Local()
    title = label or str(settings_of(algorithm)["kind"])

    def ready(X: Array, folder: Path | None, label: str, mirror: Run | None = None) -> Run:
        drive = Drive(
            algorithm, network, X, every=every, folder=folder, save_every=checkpoint_every,
            agree=tolerance if decentralised else None, batches=getattr(problem, "batches", []),
            centring=problem.settings if isinstance(problem, Centred) else {},
            rules=[*([] if decentralised else [Tolerance(tolerance)]), Diverged(), *rules, *limits],
        )  # fmt: skip
        saved = drive.find_saved(engine) if resume else None
        if folder is not None and not resume:
            drive.claim()
        return Run(
            problem,
            network,
            algorithm,
            engine,
            drive,
            saved,
            rounds,
            progress,
            label,
            opening + centring,
            mirror,
        )

    folder = None if checkpoint is None else Path(checkpoint)
    mirror = None
    if start is None and X.shape[1] == X.shape[2]:
        other = None if folder is None else folder / MIRRORED
        mirror = ready(square.mirrored(X), other, f"{title}, mirrored start")
    return ready(X, folder, title, mirror)
