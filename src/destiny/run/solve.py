"""Run an algorithm: `iterate`, a generator of its steps, and `solve`, which runs it until a rule stops it."""

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
from destiny.engines import Local
from destiny.engines.hosted import Engine, HostedAgents, SilentAgents, Team, Traffic
from destiny.engines.ranks.launch import launched
from destiny.engines.same_settings import columns_of
from destiny.errors import ProblemError, SettingsError
from destiny.geometry.stiefel import SAFE_REGION, random_point, violation
from destiny.problems import Centred, Separable
from destiny.problems.own_problem import as_problem
from destiny.protocols import (
    Algorithm,
    AlgorithmBase,
    Array,
    Objective,
    Problem,
    ProblemBase,
    Topology,
    TopologyBase,
)
from destiny.run import clipped, constraint, message_memory, privacy, square
from destiny.run.agreement import DecentralisedStop
from destiny.run.centring import centre, planned_rounds, without_shifts
from destiny.run.checkpointing import CheckpointFolder
from destiny.run.choice import Choice, choose
from destiny.run.compatibility import require_fit
from destiny.run.driver import ALIKE, Driver
from destiny.run.finish import make_result
from destiny.run.interrupt import Interrupt, deliver
from destiny.run.messages import PLAIN, Messages, checked_messages
from destiny.run.moment import Moment
from destiny.run.observation import GlobalMeasures
from destiny.run.options import SolveOptions
from destiny.run.own_algorithm import as_algorithm
from destiny.run.own_network import as_topology
from destiny.run.privacy import privacy_of, require_private_messages
from destiny.run.progress import ProgressBar
from destiny.run.result import Result
from destiny.run.settings import settings_of
from destiny.run.stopping import Diverged, Rounds, Rule, Seconds, Stop, Tolerance, remaining_rules
from destiny.storage import checkpoint as checkpoints
from destiny.validation import is_whole

KNOWN = (*ALIKE, Seconds)  # rules whose settings are compared between processes
MIRRORED = "mirrored"  # folder of the checkpoints of a square X from the mirrored start
logger = logging.getLogger(__name__)


def iterate(
    problem: Problem | Sequence[Objective],
    network: Topology,
    algorithm: Algorithm[Any] | str | None = None,
    *,
    start: Array | None = None,
    seed: int = SolveOptions.seed,
    engine: Engine | None = None,
    resume: checkpoints.Saved | None = None,
    messages: Messages = PLAIN,
) -> Iterator[Moment]:
    """Yield a `Moment` at the start and after every step, without end: break out of the loop to stop.

    Parameters
    ----------
    problem : Problem, or a list of d objectives with ``value`` and ``gradient`` (then give ``start``)
    network : Network or a changing network with as many agents
    algorithm : Algorithm or its kind, optional
        By default `DestinyNewton` where it applies and is predicted to be fastest, otherwise
        `DestinyMomentum`; `DestinyProx` for a problem with a regulariser, `CDADT` for one with the constraint
        X^T M X = I. `Result.choice` says which and why. `Destiny()`, or "destiny", is the paper's method.
    start : ndarray (n, p) or (d, n, p), optional
        Starting point; by default a random point of the manifold from ``seed``, the same at all agents. For
        X^T M X = I any with independent columns: the agents make it feasible.
    engine : Engine, optional
        Where the agents live: `destiny.engines.local` (this process, the default) or `destiny.engines.mpi`.
    resume : Saved, optional
        A checkpoint to continue from.
    messages : Messages
        How messages travel: `Messages(private=True)` lets neighbours learn sums only, `Messages(bits=8)`
        makes messages small, `Messages(clip=1)` protects from a neighbour that lies.
    """
    ours, topology, X = check_inputs(problem, network, start, seed, messages)
    if algorithm is None:
        algorithm = choose(ours, topology, messages=messages).algorithm
    method = prepared_algorithm(algorithm, ours, topology)
    return _moments(ours, topology, method, X, engine or Local(), resume, messages, {})


def _moments(
    problem: ProblemBase,
    network: TopologyBase,
    algorithm: AlgorithmBase,
    X: Array,
    engine: Engine,
    resume: checkpoints.Saved | None,
    messages: Messages,
    facts: Mapping[str, Any],
) -> Iterator[Moment]:
    """The loop of `iterate`; ``facts`` must be the same in all processes of the run."""

    def take_step(state: Any, agents: HostedAgents) -> Any:
        agents.begin_step()
        return algorithm.step(state, agents)

    team = engine.connect(problem, network)
    try:
        common = _facts(problem, network, algorithm, resume) | {"messages": str(messages)}
        X = team.require_same({**common, **facts}, X)
        message_memory.require_messages(messages, algorithm, network)
        clipped.require_clip(messages, algorithm, problem)
        clipped.require_neighbours(messages, network, np.concatenate(team.hosts).tolist())
        message_memory.begin_sums(team, network, messages, resume)
        clipped.begin_clipping(team, messages)
        clock = time.perf_counter()
        centring = centre(problem, network, team, resume)
        mass = constraint.find_mass(problem, team)
        message_memory.begin_copies(team, messages, resume)
        if resume is None:
            starts = team.split(X)
            if mass is not None:
                starts = team.each(lambda X, agents: constraint.make_feasible(X, network, agents), starts)
            step, parts = 0, team.each(algorithm.init, starts)
            seconds = time.perf_counter() - clock
        else:
            saved = message_memory.without(resume)
            saved = saved if centring is None else without_shifts(saved)
            step, seconds, parts = _restore(saved, algorithm, team, X)
        while True:
            yield Moment(step, replace(team.traffic), seconds, parts, team, centring, mass)
            clock = time.perf_counter()
            parts = team.each(take_step, parts)
            seconds += time.perf_counter() - clock
            step += 1
    finally:
        team.close()


def check_inputs(
    problem: Problem | Sequence[Objective],
    network: Topology,
    start: Array | None,
    seed: int,
    messages: Messages,
) -> tuple[ProblemBase, TopologyBase, Array]:
    """Complete problem and network with the members of their base classes; the start as ``(d, n, p)``.

    Raises an error of `destiny.errors` if they do not fit together.
    """
    if isinstance(problem, Sequence):
        if start is None:
            raise ProblemError("a list of objectives has no shape of its own: give start, an n x p matrix")
        problem = Separable(problem, np.shape(start)[-2:])
    ours, topology = as_problem(problem), as_topology(network)
    require_private_messages(privacy_of(ours), checked_messages(messages).private)
    d, (n, p) = ours.agents, ours.shape
    if topology.agents != d:
        raise SettingsError(
            f"the problem has {d} agents but the network has {topology.agents}: make them equal"
        )
    if not topology.connected:
        raise SettingsError(
            "the network must be connected; found one that can only be a part of periodic or sequence"
        )
    X = random_point(n, p, seed) if start is None else np.asarray(start, dtype=np.float64)
    if X.shape not in ((n, p), (d, n, p)):
        raise SettingsError(f"start must be {n} x {p} (or {d} x {n} x {p}); found shape {X.shape}")
    if not np.isfinite(X).all():
        raise SettingsError("start must be finite; found NaN or infinite entries")
    if ours.generalised:
        constraint.require_independent(X)
    elif (worst := float(np.max(violation(X)))) > SAFE_REGION:
        raise SettingsError(
            f"start must be near the manifold, ||X^T X - I|| <= 1/6; found {worst:.3g}: "
            "orthonormalise its columns"
        )
    return ours, topology, np.broadcast_to(X, (d, n, p))


def _require_alone() -> None:
    """Raise SettingsError if processes that were started together would all write the same checkpoints."""
    if (count := max(launched().values(), default=1)) > 1:
        raise SettingsError(
            f"{count} processes were started together, and without an engine each of them would run all "
            "agents and write the same checkpoints: give engine=destiny.engines.mpi() to share the agents "
            "out, or engine=destiny.engines.local() and a folder for each process"
        )


def prepared_algorithm(
    algorithm: Algorithm[Any] | str, problem: ProblemBase, network: TopologyBase
) -> AlgorithmBase:
    """The algorithm, once it fits problem and network."""
    given = as_algorithm(algorithm)
    require_fit(given, problem)
    # What the network knows of itself, and all agents must be told alike.
    return given.on(network)


def _restore(
    saved: checkpoints.Saved, algorithm: AlgorithmBase, team: Team, X: Array
) -> tuple[int, float, list[Any]]:
    """Give a saved state to the team; return its step, its seconds and each part of the state.

    A start without communication shows which arrays the state must have.
    """
    templates = team.each(lambda X, agents: algorithm.init(X, SilentAgents(agents)), team.split(X))
    parts = [
        checkpoints.unflatten(template, saved.select(ids))
        for template, ids in zip(templates, team.hosts, strict=True)
    ]
    team.rewind(Traffic.from_facts(saved.facts))
    if "flood" in saved.arrays:
        team.set_flood(team.split(saved.arrays["flood"]))
    return saved.facts["step"], saved.facts["seconds"], parts


def _facts(
    problem: ProblemBase, network: TopologyBase, algorithm: AlgorithmBase, resume: checkpoints.Saved | None
) -> dict[str, Any]:
    """What must be the same in all processes of a run."""
    return {
        "package version": __version__,
        "problem": [problem.kind, problem.agents, *problem.shape],
        "mini-batches": problem.batches,
        "regulariser": repr(problem.regulariser),
        "constraint X^T M X = I": problem.generalised,
        "centring": problem.settings if isinstance(problem, Centred) else {},
        "privacy": {} if (private := privacy_of(problem)) is None else private.settings,
        "columns": columns_of(problem),
        "network": checkpoints.network_digest(network),
        "algorithm": settings_of(algorithm),
        "step to resume from": None if resume is None else resume.facts["step"],
    }


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
        moments = _moments(
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
            for moment in moments:
                if bar is None:
                    o, leader = self.options, moment.team.leader
                    bar = ProgressBar(self.label, o.rounds, o.progress, leader, o.tolerance)
                stop = self.driver.after_step(moment, lambda: interrupt.name)
                bar.update(moment.round, self.observed.measures)
                if stop is not None:
                    stop = clipped.weakened(stop, self.options.messages)
                    result = self._result(moment, stop)
                    half = self._compare_halves(moment, result.X)
                    if moment.team.leader:
                        logger.info("%s: end after %d rounds: %s", self.label, result.rounds, stop.reason)
                    return result, half
        finally:
            if bar is not None:
                bar.close()
            moments.close()  # type: ignore[attr-defined]
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
        return make_result(
            moment,
            stop,
            self.problem,
            self.algorithm,
            self.observed,
            tolerance=self.options.tolerance,
            decentralised=self.options.decentralised,
            remarks=[*self.store.notes, *self.observed.notes, *clipped.remark(self.options.messages)],
            choice=self.choice,
            signal=self.driver.signal,
            messages=self.options.messages,
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


def solve(
    problem: Problem | Sequence[Objective],
    network: Topology,
    algorithm: Algorithm[Any] | str | None = None,
    *,
    start: Array | None = SolveOptions.start,
    seed: int = SolveOptions.seed,
    rounds: int = SolveOptions.rounds,
    seconds: float | None = SolveOptions.seconds,
    tolerance: float = SolveOptions.tolerance,
    decentralised: bool = SolveOptions.decentralised,
    every: int = SolveOptions.every,
    rules: Sequence[Rule] = SolveOptions.rules,
    checkpoint: str | Path | None = SolveOptions.checkpoint,
    checkpoint_every: int = SolveOptions.checkpoint_every,
    resume: bool = SolveOptions.resume,
    engine: Engine | None = SolveOptions.engine,
    progress: bool | None = SolveOptions.progress,
    label: str | None = SolveOptions.label,
    messages: Messages = SolveOptions.messages,
) -> Result:
    """Minimise (1/d) sum f_i(X), plus r(X) if the problem has a regulariser, subject to X^T X = I.

    The constraint of a `destiny.problems.Generalised` problem is X^T M X = I.

    Parameters
    ----------
    problem, network, algorithm, start, seed, engine, messages
        As in `iterate`. Without a start, a square X (n = p) is tried with both signs of det X, one after the
        other, unless f is the same for both; the answer is the one with the smaller objective.
    rounds, seconds : int, float
        Limits on rounds of communication and on time; both signs of det X share them.
    tolerance : float
        Converged when stationarity, consensus and feasibility are all below it; 0 means never.
    decentralised : bool
        Let the agents themselves detect convergence and agree on it, from local quantities and messages
        to neighbours, instead of looking at the whole network. All stop after the same step.
    every : int
        Measure every so many steps, and all steps of a method that takes few, as `DestinyNewton`; 0 means
        only at the start and the end.
    rules : sequence of Rule
        Further reasons to stop.
    checkpoint : path, optional
        Folder for checkpoints, written every ``checkpoint_every`` steps (0: only when interrupted), on
        Ctrl-C and on SIGTERM, which then reach the caller as usual. With ``resume`` the run continues from
        the newest, to the same bits as without an interruption.
    progress : bool, optional
        Show a progress bar; by default on a terminal only.
    label : str, optional
        Name of the run in the log and the progress bar; by default the algorithm's kind.

    Returns
    -------
    Result
        A run that diverges or reaches a limit returns a result that says so; only invalid arguments and
        signals raise.
    """
    options = SolveOptions(
        start=start,
        seed=seed,
        rounds=rounds,
        seconds=seconds,
        tolerance=tolerance,
        decentralised=decentralised,
        every=every,
        rules=rules,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        resume=resume,
        engine=engine,
        progress=progress,
        label=label,
        messages=messages,
    )
    result = prepare(problem, network, algorithm, options).go()
    deliver(result.interrupted)
    return result


def prepare(
    problem: Problem | Sequence[Objective],
    network: Topology,
    algorithm: Algorithm[Any] | str | None = None,
    options: SolveOptions | None = None,
) -> Run:
    """Check everything of `solve` that can be refused, before anything is computed or written."""
    o = options or SolveOptions()
    ours, topology, X = check_inputs(problem, network, o.start, o.seed, o.messages)
    topology.at(0)  # raises if a network of the user's own is not valid
    choice: Choice | None = None
    if algorithm is None:
        choice = choose(ours, topology, o.tolerance, o.messages)
        algorithm = choice.algorithm
    method = prepared_algorithm(algorithm, ours, topology)
    message_memory.require_messages(o.messages, method, topology)
    clipped.require_clip(o.messages, method, ours)
    clipped.require_neighbours(o.messages, topology, range(topology.agents))
    private = o.messages.private
    preparations = {
        "find the mean": planned_rounds(ours, topology, private),
        "make the start feasible": constraint.planned_rounds(ours, topology, private),
        "choose beta and steps": method.opening,
    }
    opening = sum(preparations.values())
    if is_whole(o.rounds) and o.rounds < opening:
        tasks = [task for task, count in preparations.items() if count > 0]
        raise SettingsError(
            f"rounds must be at least {opening}, which the agents need to "
            f"{' and to '.join(tasks)}; found {o.rounds}",
            option="rounds",
        )
    limits: list[Rule] = [*([] if o.seconds is None else [Seconds(o.seconds)]), Rounds(o.rounds)]
    if o.engine is None and o.checkpoint is not None:
        _require_alone()
    engine = o.engine or Local()
    title = o.label or method.kind

    def make_run(X: Array, folder: Path | None, label: str, mirror: Run | None = None) -> Run:
        observed = GlobalMeasures(method, X, o.every, ours.regulariser, tracks=not o.messages.clip)
        store = CheckpointFolder(folder, o.checkpoint_every, {} if folder is None else identity())
        tolerance: list[Rule] = [] if o.decentralised else [Tolerance(o.tolerance)]
        rules = [*tolerance, Diverged(), *o.rules, *limits]
        agreement = DecentralisedStop(method, topology, o.tolerance if o.decentralised else None)
        driver = Driver(method, rules, agreement, observed, store)
        if o.resume:
            store.load(engine, len(X))
        else:
            store.refuse_used_folder()
        return Run(ours, topology, method, o, engine, driver, observed, store, label, opening, choice, mirror)

    def identity() -> dict[str, Any]:
        """What must be equal for a checkpoint to be this run's."""
        centred = ours.settings if isinstance(ours, Centred) else {}
        return {
            "shape": list(X.shape),
            # The network first: settings may follow from it.
            "network": checkpoints.network_digest(topology),
            "settings": settings_of(method),
            "regulariser": None if ours.regulariser is None else repr(ours.regulariser),
            **({"constraint": "X^T M X = I"} if ours.generalised else {}),
            **({"mini-batches (size, seed)": list(ours.batches)} if ours.batches else {}),
            **({"centring of the data": dict(centred)} if centred else {}),
            **({} if o.messages == PLAIN else {"messages": str(o.messages)}),
            **({privacy.IDENTITY: noise} if (noise := privacy.identity(ours)) else {}),
        }

    folder = None if o.checkpoint is None else Path(o.checkpoint)
    mirror = None
    if o.start is None and X.shape[1] == X.shape[2]:
        other = None if folder is None else folder / MIRRORED
        mirror = make_run(square.mirrored(X), other, f"{title}, mirrored start")
    return make_run(X, folder, title, mirror)
