"""`simulate`: a run in simulated time, of a synchronous or an asynchronous method, in the same world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from destiny.engines import Local
from destiny.errors import SettingsError
from destiny.extensions.asynchronous.async_checks import prepared_async
from destiny.extensions.asynchronous.async_protocol import AsyncAlgorithmBase
from destiny.extensions.asynchronous.destiny_async import DestinyAsync
from destiny.extensions.asynchronous.local_agent import HostedAgent
from destiny.extensions.asynchronous.simulation.activity import Activity
from destiny.extensions.asynchronous.simulation.barrier import BarrierClock
from destiny.extensions.asynchronous.simulation.events import AsyncAgents
from destiny.extensions.asynchronous.simulation.simulated_membership import (
    ChangingAgents,
    MembersObserver,
    check_world,
    late_agents,
    slowest_of_all,
)
from destiny.extensions.asynchronous.simulation.world import World
from destiny.extensions.asynchronous.termination import TerminationDetection
from destiny.geometry.stiefel import polar
from destiny.protocols import (
    Algorithm,
    Array,
    Objective,
    Observer,
    Problem,
    ProblemBase,
    Topology,
    TopologyBase,
)
from destiny.run import metrics
from destiny.run.accuracy import contradicted, rayleigh_ritz, resolve
from destiny.run.history import History
from destiny.run.interrupt import deliver
from destiny.run.metrics import Measures
from destiny.run.own import as_algorithm, settings_of
from destiny.run.plan import check_inputs
from destiny.run.plots import SIMULATED
from destiny.run.result import Result
from destiny.run.solve import Run, SolveOptions, prepare
from destiny.run.stopping import Diverged, Rule, RunStatus, Seconds, Stop, Tolerance
from destiny.validation import is_whole

SECONDS = 10_000.0  # default limit
ROUNDS = 10**9  # time is what is limited
NEVER = -1.0  # a tolerance below which no residual is


@dataclass(frozen=True, kw_only=True)
class SimulatedResult(Result):
    """The outcome of `simulate`: a `Result` whose seconds are simulated; ``print`` shows it.

    Of an asynchronous method, ``steps`` and ``rounds`` are the mean number of wakes of an agent, and
    ``gradients`` is the mean of its gradients.

    Attributes
    ----------
    messages, lost : int
        Messages between two agents, and those of them that were lost.
    crashes : int
    activity : Activity
        Who worked, who waited, who was away.
    world : World
    """

    abscissa = SIMULATED
    messages: int
    lost: int
    crashes: int
    activity: Activity = field(repr=False)
    world: World = field(repr=False)

    def heading(self) -> list[str]:
        """The method, the sizes of the problem, and what became of the time."""
        working = float(self.activity.shares()["working"].mean())
        return [
            *super().heading(),
            f"  simulated: {self.messages} messages ({self.lost} lost), {self.crashes} crashes, "
            f"agents worked {100 * working:.0f} % of the time",
        ]

    def counts(self) -> dict[str, int]:
        """Messages, those that were lost, and crashes."""
        return {"messages": self.messages, "lost": self.lost, "crashes": self.crashes}

    def summary(self) -> dict[str, Any]:
        """The facts, ready for a JSON file."""
        return {**super().summary(), **self.counts(), "activity": self.activity.as_dict()}


def simulate(
    problem: Problem | Sequence[Objective],
    network: Topology,
    world: World | None = None,
    algorithm: Algorithm[Any] | AsyncAlgorithmBase | str | None = None,
    *,
    start: Array | None = None,
    seed: int = SolveOptions.seed,
    seconds: float = SECONDS,
    tolerance: float = SolveOptions.tolerance,
    local_stopping: bool = False,
    every: int = SolveOptions.every,
) -> SimulatedResult:
    """Run a method in simulated time; equal arguments give equal bits.

    A synchronous method waits in every round for all neighbors, and sends again what was lost. Agents of an
    asynchronous one compute as fast as they can with the newest they have heard.

    Parameters
    ----------
    problem, network, start, seed
        As in `destiny.solve`.
    world : World, optional
        Speeds, delays, losses and crashes; by default all agents compute equally fast and nothing is lost.
    algorithm : Algorithm, AsyncAlgorithmBase or the name of a method, optional
        By default `DestinyAsync`.
    seconds : float
        Simulated seconds after which the run ends.
    tolerance : float
        End when stationarity, consensus and feasibility are all below; 0 never does.
    local_stopping : bool
        End when the agents agree by themselves that their residuals are below the tolerance.
    every : int
        Steps, or mean wakes of an agent, between two measurements.
    """
    options = SolveOptions(
        start=start,
        seed=seed,
        seconds=seconds,
        tolerance=tolerance,
        local_stopping=local_stopping,
        every=every,
    )
    result = prepare_simulation(problem, network, algorithm, options, world or World()).go()
    deliver(result.interrupted)
    return result


def prepare_simulation(
    problem: Problem | Sequence[Objective],
    network: Topology,
    algorithm: Algorithm[Any] | AsyncAlgorithmBase | str | None,
    options: SolveOptions,
    world: World,
) -> SyncRun | AsyncRun:
    """Check that everything fits together; nothing has been computed yet."""
    if options.resume:
        raise SettingsError("a simulated run cannot be resumed: run it again, its seed gives the same bits")
    if options.engine is not None and not isinstance(options.engine, Local):
        raise SettingsError("time is simulated in one process: leave mpiexec and --engine out")
    limit = SECONDS if options.seconds is None else Seconds(options.seconds).limit
    ours, topology, X = check_inputs(problem, network, options.start, options.seed)
    if not isinstance(world, World):
        raise SettingsError(
            f"world must be a destiny.extensions.asynchronous.World; found {type(world).__name__}"
        )
    world.check(topology.agents)
    options = replace(options, start=X, seconds=limit, checkpoint=None)
    if algorithm is None or algorithm == DestinyAsync.kind:
        algorithm = DestinyAsync()
    if isinstance(algorithm, AsyncAlgorithmBase):
        method = async_method(algorithm, ours, topology, options, world)
        return AsyncRun(ours, topology, method, options, world)
    fitted = as_algorithm(algorithm)
    if world.leave or world.join:
        raise SettingsError(
            f"{fitted.kind} is synchronous, and its trackers add up over all agents: nobody can leave or "
            "join; start a new run, or choose destiny-async"
        )
    clock = BarrierClock(topology, world, limit)
    # The clock limits simulated seconds; the run itself may take as long as it likes.
    options = replace(options, seconds=None, rounds=ROUNDS, rules=(*options.rules, clock))
    return SyncRun(prepare(ours, topology, fitted, options), clock)


def async_method(
    algorithm: AsyncAlgorithmBase,
    problem: ProblemBase,
    network: TopologyBase,
    options: SolveOptions,
    world: World,
) -> AsyncAlgorithmBase:
    """The method on this network, once it fits; with agents that agree to stop if that is asked for."""
    changes = bool(world.leave or world.join)
    if changes:
        check_world(world, network)
        algorithm = algorithm.on(slowest_of_all(network, world))
    method = prepared_async(algorithm, problem, network, options.messages)
    Tolerance(options.tolerance)
    if not is_whole(options.every) or options.every < 0:
        raise SettingsError(f"every must be a whole number >= 0; found {options.every!r}")
    if not (options.local_stopping or changes):
        return method
    tolerance = options.tolerance if options.local_stopping else NEVER
    return TerminationDetection(method, tolerance, late_agents(world))


@dataclass(frozen=True)
class SyncRun:
    """A synchronous run with its clock."""

    run: Run
    clock: BarrierClock

    def go(self) -> SimulatedResult:
        result, clock = self.run.go(), self.clock
        # A rule before it may have ended the run at the last step.
        clock.advance(result.steps, result.rounds, result.gradients)
        history = History()
        for row in result.history:
            history.add(**{**row, "seconds": clock.times[int(row["step"])]})
        known = {f.name: getattr(result, f.name) for f in fields(Result)}
        return SimulatedResult(
            **{**known, "history": history, "seconds": clock.time},
            messages=clock.messages,
            lost=clock.lost,
            crashes=clock.crashes,
            activity=clock.activity.summarize(clock.time),
            world=clock.world,
        )


@dataclass(frozen=True)
class AsyncRun:
    """An asynchronous run that has been checked and can be started."""

    problem: ProblemBase
    network: TopologyBase
    algorithm: AsyncAlgorithmBase
    options: SolveOptions
    world: World

    def go(self) -> SimulatedResult:
        """Let the agents run until they are done or out of time."""
        # One BLAS thread: the bits of a run do not depend on the number of cores.
        with threadpool_limits(1), np.errstate(over="ignore", invalid="ignore"):
            return self._go()

    def _go(self) -> SimulatedResult:
        start, limit = self.options.start, self.options.seconds
        assert start is not None
        assert limit is not None
        W = self.network.at(0)
        hosts = [HostedAgent(i, self.problem.host([i]), W) for i in range(self.network.agents)]
        kind = ChangingAgents if self.world.leave or self.world.join else AsyncAgents
        agents = kind(hosts, self.algorithm, start, self.world)
        log = MeasurementLog(self.problem, self.network, agents, start.mean(axis=0))
        pause, stop = self.options.every * len(hosts), None
        for i in agents.run():
            if self._agreed(agents, i):
                stop = Stop("converged: all agents agreed that their residuals are below the tolerance", True)
            elif pause and agents.counts.wakes % pause == 0:
                stop = self._rule(log.measure(), agents)
            if stop is None and agents.time >= limit:
                stop = Stop(f"out of time: {agents.time:.6g} of {limit:g} simulated seconds used")
            if stop is not None:
                break
        assert stop is not None
        return self._result(log, stop)

    def _agreed(self, agents: AsyncAgents, i: int) -> bool:
        method = self.algorithm
        if not isinstance(method, TerminationDetection) or not method.done(
            agents.states[i], agents.agents[i]
        ):
            return False
        return all(method.done(agents.states[j], agents.agents[j]) for j in agents.members)

    def _rule(self, measures: Measures, agents: AsyncAgents) -> Stop | None:
        status = RunStatus(agents.mean_wakes, agents.mean_wakes, agents.time, 1, measures)
        limit = 0.0 if self.options.local_stopping else self.options.tolerance
        rules: list[Rule] = [Tolerance(limit), Diverged(), *self.options.rules]
        if isinstance(agents, ChangingAgents) and agents.outstanding():
            rules = rules[1:]  # somebody is still to come or to leave
        return next((stop for rule in rules if (stop := rule.check(status)) is not None), None)

    def _result(self, log: MeasurementLog, stop: Stop) -> SimulatedResult:
        measures, agents, counts = log.measure(), log.agents, log.agents.counts
        X = agents.X
        finite = bool(np.isfinite(X).all())
        answer = polar(X.mean(axis=0)) if finite else np.full(X.shape[1:], np.nan)
        axes, remarks = None, []
        if self.options.local_stopping:
            stop = contradicted(stop, measures, self.options.tolerance)
        if finite and stop.converged:
            seen = max(self.options.tolerance, measures.worst)
            found = resolve(log.observer.gradient, answer, self.problem)
            if found is not None:
                stop, remarks = found.judge(stop, seen), found.remarks(seen)
        if finite and self.problem.principal_axes:
            principal = rayleigh_ritz(answer, log.observer.gradient(answer))
            axes, stop = principal.vectors, principal.judge(stop)
        inner = self.algorithm.inner if isinstance(self.algorithm, TerminationDetection) else self.algorithm
        return SimulatedResult(
            reason=stop.reason,
            converged=stop.converged,
            X=answer,
            agents=X,
            measures=measures,
            history=log.history,
            steps=agents.mean_wakes,
            rounds=agents.mean_wakes,
            scalars=counts.scalars,
            bytes=8 * counts.scalars,
            gradients=agents.mean_gradients,
            passes=agents.mean_gradients,
            seconds=agents.time,
            settings=settings_of(inner),
            axes=axes,
            state=agents.states,
            notes=[*remarks, *self._notes(agents)],
            messages=counts.messages,
            lost=counts.lost,
            crashes=counts.crashes,
            activity=agents.activity.summarize(agents.time),
            world=self.world,
        )

    def _notes(self, agents: AsyncAgents) -> list[str]:
        if not isinstance(agents, ChangingAgents):
            return []
        members = ", ".join(map(str, agents.members))
        who = "agents" if len(agents.members) > 1 else "agent"
        notes = [f"the answer is that of {who} {members}, who took part at the end"]
        for change in agents.outstanding():
            what = "came" if change.joins else "wanted to leave"
            notes.append(f"agent {change.agent} {what} too late, at {change.time:g} s")
        return notes


class MeasurementLog:
    """Measures of asynchronous agents, taken from outside without their knowledge."""

    def __init__(self, problem: ProblemBase, network: TopologyBase, agents: AsyncAgents, X: Array) -> None:
        self.problem, self.agents = problem, agents
        self.whole = Local(1).connect(problem, network)
        self.reference = metrics.reference(self.whole, X)
        self.history = History()
        self.measure()

    @property
    def observer(self) -> Observer:
        """Averages over the agents that take part."""
        members = self.agents.members
        return self.whole if len(members) == self.problem.agents else MembersObserver(self.problem, members)

    def measure(self) -> Measures:
        """The measures of this moment, with a row of the history."""
        agents, X = self.agents, self.agents.X
        mean = X.mean(axis=0)
        spread = metrics.Spread(mean, metrics.Spread.numbers(X, mean))
        measures = metrics.measure(self.observer, spread, self.reference)
        if len(self.history) == 0 or self.history.last["seconds"] < agents.time:
            self.history.add(
                step=agents.mean_wakes,
                round=agents.mean_wakes,
                scalars=agents.counts.scalars,
                bytes=8 * agents.counts.scalars,
                seconds=agents.time,
                gradients=agents.mean_gradients,
                minibatches=0,
                values=0,
                passes=agents.mean_gradients,
                **measures.as_dict(),
            )
        return measures
