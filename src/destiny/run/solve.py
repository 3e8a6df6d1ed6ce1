"""`solve`: run an algorithm until a rule stops it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from destiny.engines import Local
from destiny.engines.mixers.plain import PLAIN, Messages, as_messages
from destiny.engines.ranks.launch import launched
from destiny.engines.team import Engine
from destiny.errors import SettingsError
from destiny.protocols import Algorithm, Array, Objective, Problem, Topology
from destiny.protocols.link import INTERNET, Link
from destiny.run.agreement import LocalStop
from destiny.run.answer import make_result
from destiny.run.checkpoints import CheckpointFolder
from destiny.run.driver import ALIKE, Driver
from destiny.run.interrupt import Interrupt, deliver
from destiny.run.loop import moments
from destiny.run.observation import GlobalMeasures
from destiny.run.own import settings_of
from destiny.run.plan import Plan, make_plan
from destiny.run.progress import ProgressBar
from destiny.run.result import Result
from destiny.run.stopping import Diverged, Exhausted, Rounds, Rule, Seconds, Tolerance
from destiny.validation import is_whole

KNOWN = (*ALIKE, Seconds)  # rules whose settings are compared between processes
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SolveOptions:
    """Options of `destiny.solve`, which describes them; the same for every method of a comparison."""

    start: Array | None = None
    seed: int = 0
    rounds: int = 10_000
    seconds: float | None = None
    tolerance: float = 1e-8
    local_stopping: bool = False
    every: int = 10
    rules: Sequence[Rule] = ()
    checkpoint: str | Path | None = None
    checkpoint_every: int = 100
    resume: bool = False
    engine: Engine | None = None
    progress: bool | None = None
    label: str | None = None
    messages: Messages = PLAIN
    link: Link = INTERNET

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", as_messages(self.messages))


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
    local_stopping: bool = SolveOptions.local_stopping,
    every: int = SolveOptions.every,
    rules: Sequence[Rule] = SolveOptions.rules,
    checkpoint: str | Path | None = SolveOptions.checkpoint,
    checkpoint_every: int = SolveOptions.checkpoint_every,
    resume: bool = SolveOptions.resume,
    engine: Engine | None = SolveOptions.engine,
    progress: bool | None = SolveOptions.progress,
    label: str | None = SolveOptions.label,
    messages: Messages | str = SolveOptions.messages,
    link: Link = SolveOptions.link,
) -> Result:
    """Minimize (1/d) sum f_i(X), plus r(X) if the problem has a regularizer, subject to X^T X = I.

    The constraint of a `destiny.problems.Generalized` problem is X^T M X = I.

    Parameters
    ----------
    problem : Problem, or a list of d objectives with ``value`` and ``gradient`` (then give ``start``)
        What to minimize, with the data of each agent.
    network : Network or a changing network with as many agents
        Which agents are neighbors, and the weights of their averages.
    algorithm : Algorithm or its kind, optional
        The method; by default the one that is predicted to be fastest, as in `iterate`. `Result.choice` says
        which was chosen and why. `Destiny()`, or "destiny", is the paper's method.
    start : ndarray (n, p) or (d, n, p), optional
        Starting point, as in `iterate`; by default a random one. Without a start, a square X (n = p) is tried
        with both signs of det X, one after the other, unless f is the same for both; the answer is the one
        with the smaller objective.
    seed : int
        Seed of the random start.
    rounds : int
        Largest number of rounds of communication; both signs of det X share it.
    seconds : float, optional
        Longest time of the run; both signs of det X share it.
    tolerance : float
        Converged when stationarity, consensus and feasibility are all below it; 0 means never.
    local_stopping : bool
        Let the agents themselves detect convergence and agree on it, from local quantities and messages
        to neighbors, instead of looking at the whole network. All stop after the same step.
    every : int
        Measure every so many steps, and all steps of a method that takes few, as `AveragedModel`; 0 means
        only at the start and the end.
    rules : sequence of Rule
        Further reasons to stop.
    checkpoint : path, optional
        Folder for checkpoints. They are also written on Ctrl-C and on SIGTERM, which then reach the caller as
        usual.
    checkpoint_every : int
        Number of steps between two checkpoints; 0 means only when interrupted.
    resume : bool
        Continue from the newest checkpoint, to the same bits as without an interruption.
    engine : Engine, optional
        Where the agents live: `destiny.engines.local` (this process, the default) or `destiny.engines.mpi`.
    progress : bool, optional
        Show a progress bar; by default on a terminal only.
    label : str, optional
        Name of the run in the log and the progress bar; by default the algorithm's kind.
    messages : Messages
        How messages travel: "plain" (the default); "private", so that agents learn sums over all agents only;
        `Quantized(8)`, which are small; or those of an extension.
    link : Link
        Delay and bandwidth of the links, by which the fastest method is predicted where none is given; by
        default 20 ms and 100 Mbit/s.

    Returns
    -------
    Result
        A run that diverges or reaches a limit returns a result that says so; only invalid arguments and
        signals raise.
    """
    given = locals()
    options = SolveOptions(**{field.name: given[field.name] for field in fields(SolveOptions)})
    result = prepare(problem, network, algorithm, options).go()
    deliver(result.interrupted)
    return result


@dataclass(frozen=True)
class Run:
    """A run that has been checked and can be started, once; made by `prepare`."""

    plan: Plan
    options: SolveOptions
    engine: Engine
    rules: Sequence[Rule]
    observed: GlobalMeasures
    label: str
    agreement: LocalStop | None = None
    store: CheckpointFolder | None = None
    twin: Run | None = None
    """A second run, from another start, that a part of this one may start."""

    def go(self) -> Result:
        """Run to the end, and a second time if a part asks for it."""
        # One BLAS thread while measuring too: the bits of a run do not depend on the number of cores.
        with threadpool_limits(1), Interrupt() as interrupt:
            result = self.once(interrupt)
            for part in self.plan.parts:
                result = part.conclude(result, self, interrupt)
            return result

    def once(self, interrupt: Interrupt) -> Result:
        """Run to the end from this start."""
        saved, o = None if self.store is None else self.store.saved, self.options
        driver = Driver(self.plan, self.rules, self.observed, self.agreement, self.store)
        if self.engine.leader:
            self._log_start()
        steps = moments(self.plan, self.engine, saved, self._facts())
        bar, first = None, 0 if saved is None else saved.facts["step"]
        try:
            for moment in steps:
                if moment.step == first and moment.team.leader and self._looked_at():
                    bar = ProgressBar(self.label, o.rounds, o.tolerance)
                stop = driver.after_step(moment, lambda: interrupt.name)
                if bar is not None:
                    bar.update(moment.round, self.observed.measures)
                if stop is not None:
                    result = make_result(
                        moment,
                        stop.weakened(o.messages),
                        self.observed,
                        tolerance=o.tolerance,
                        local_stopping=o.local_stopping,
                        remarks=[*self._notes(), *o.messages.remarks()],
                        signal=driver.signal,
                    )
                    if moment.team.leader:
                        logger.info("%s: end after %d rounds: %s", self.label, result.rounds, result.reason)
                    return result
        finally:
            if bar is not None:
                bar.close()
            steps.close()  # type: ignore[attr-defined]
        raise AssertionError("iterate never ends by itself")

    def _log_start(self) -> None:
        n, p = self.plan.problem.shape
        engine, agents = type(self.engine).__name__, self.plan.problem.agents
        logger.info("%s: start, %d agents, X %d x %d, engine %s", self.label, agents, n, p, engine)
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s: settings %s", self.label, settings_of(self.plan.algorithm))
        if self.store is not None and (saved := self.store.saved) is not None:
            logger.info("%s: resumed from step %d, %s", self.label, saved.facts["step"], saved.path)

    def _looked_at(self) -> bool:
        """Whether a progress bar is shown: by default on a terminal only."""
        return sys.stderr.isatty() if self.options.progress is None else self.options.progress

    def _notes(self) -> list[str]:
        return [*([] if self.store is None else self.store.notes), *self.observed.notes]

    def _facts(self) -> dict[str, Any]:
        """Settings of `solve` that must be the same in all processes of a run."""
        return {
            "measuring": self.observed.every,
            "checkpoints": None if self.store is None else self.store.every,
            "stopping": [repr(rule) if type(rule) in KNOWN else type(rule).__name__ for rule in self.rules],
            "tolerance of the agents": None if self.agreement is None else self.agreement.tolerance,
        }


def prepare(
    problem: Problem | Sequence[Objective],
    network: Topology,
    algorithm: Algorithm[Any] | str | None = None,
    options: SolveOptions | None = None,
) -> Run:
    """Check everything of `solve` that can be refused, before anything is computed or written."""
    o = options or SolveOptions()
    plan = make_plan(
        problem,
        network,
        algorithm,
        start=o.start,
        seed=o.seed,
        messages=o.messages,
        tolerance=o.tolerance,
        link=o.link,
    )
    if is_whole(o.rounds) and 0 <= o.rounds < plan.opening:
        raise SettingsError(
            f"rounds must be at least {plan.opening}, which the agents need to "
            f"{' and to '.join(plan.preparations)}; found {o.rounds}",
            option="rounds",
        )
    rules = _rules(o, plan.algorithm.few_steps)
    if not is_whole(o.checkpoint_every) or o.checkpoint_every < 0:
        raise SettingsError(f"checkpoint_every must be a whole number >= 0; found {o.checkpoint_every!r}")
    if o.resume and o.checkpoint is None:
        raise SettingsError("resume needs a checkpoint folder to look in: give checkpoint")
    if o.engine is None and o.checkpoint is not None:
        _require_alone()
    engine, title = o.engine or Local(), o.label or plan.algorithm.kind

    def make_run(plan: Plan, folder: Path | None, label: str, twin: Run | None = None) -> Run:
        agreement = LocalStop(plan.algorithm, plan.network, o.tolerance) if o.local_stopping else None
        store = None if folder is None else CheckpointFolder(folder, o.checkpoint_every, plan)
        if store is not None and o.resume:
            store.load(engine, plan.problem.agents)
        elif store is not None:
            store.refuse_used_folder()
        observed = GlobalMeasures(plan, o.every)
        return Run(plan, o, engine, rules, observed, label, agreement, store, twin)

    folder, twin = None if o.checkpoint is None else Path(o.checkpoint), None
    for part in plan.parts:
        if (second := part.twin(plan)) is not None:
            name, other = second
            twin = make_run(other, None if folder is None else folder / name, f"{title}, {name} start")
    return make_run(plan, folder, title, twin)


def _rules(o: SolveOptions, few_steps: bool) -> list[Rule]:
    """What ends a run, in the order in which it is asked."""
    rules: list[Rule] = [] if o.local_stopping else [Tolerance(o.tolerance)]
    if few_steps and not o.local_stopping and o.tolerance > 0:
        rules.append(Exhausted())
    limits: list[Rule] = [] if o.seconds is None else [Seconds(o.seconds)]
    if not isinstance(o.rules, Sequence):
        raise SettingsError(f"rules must be a list of stopping rules; found {o.rules!r}: give [rule]")
    for rule in o.rules:
        if isinstance(rule, type) or not isinstance(rule, Rule):
            raise SettingsError(f"a stopping rule must be an object with a method check; found {rule!r}")
    return [*rules, Diverged(), *o.rules, *limits, Rounds(o.rounds)]


def _require_alone() -> None:
    """Raise SettingsError if processes that were started together would all write the same checkpoints."""
    if (count := max(launched().values(), default=1)) > 1:
        raise SettingsError(
            f"{count} processes were started together, and without an engine each of them would run all "
            "agents and write the same checkpoints: give engine=destiny.engines.mpi() to share the agents "
            "out, or engine=destiny.engines.local() and a folder for each process"
        )
