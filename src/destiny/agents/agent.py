"""Run one agent from its file to its answer: meet the neighbors, step, save, agree to stop, average."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from threadpoolctl import threadpool_limits

from destiny.agents import outcome as answer
from destiny.agents.agent_kinds import agent_kind
from destiny.agents.checkpoints import AgentCheckpoints
from destiny.agents.engine import AgentTeam, SingleAgentEngine
from destiny.agents.observation import LocalMeasures, View
from destiny.agents.outbox import Outbox
from destiny.agents.outcome import Outcome
from destiny.agents.process import AgentProcess, identity
from destiny.agents.settings import CHECKPOINTS, Settings
from destiny.agents.start import open_hiding, plan_of, stop_rule
from destiny.agents.statements import Notary, Statements
from destiny.agents.transport.connections import Connections
from destiny.agents.transport.event_loop import StoppedBySignal, shortage_is_temporary
from destiny.engines.mixers.private import WIDE
from destiny.errors import DestinyError, NetworkError, PrivacyError
from destiny.run.driver import Driver
from destiny.run.forecast import silent_step
from destiny.run.interrupt import Interrupt
from destiny.run.loop import Moment, moments
from destiny.run.plan import Plan
from destiny.run.stopping import Rounds
from destiny.storage.checkpoint import Saved, run_arrays

logger = logging.getLogger(__name__)
RIDERS = 1  # numbers that ride along in a message: whether some residual is too large
COUNT = 1  # word of a private sum that counts the agents
SCALARS = 2  # numbers averaged in the end besides a gradient and n curvatures: objective and variance
STARTS = 2  # times an agent's own start that neighbors may take to start


class OutboxStore:
    """Checkpoints of one agent, with the messages that neighbors may still need (`run.driver.Store`)."""

    def __init__(
        self, settings: Settings, checkpoints: AgentCheckpoints, outbox: Outbox, connections: Connections
    ) -> None:
        self.settings, self.checkpoints, self.outbox = settings, checkpoints, outbox
        self.connections, self.saved = connections, checkpoints.saved

    def due(self, step: int, fresh: bool, stop: bool, signal: bool) -> bool:
        """After every so many steps, at the end, and on a signal."""
        return fresh and step > 0 and (step % self.settings.checkpoint == 0 or stop or signal)

    def facts(self) -> dict[str, Any]:
        """The neighbors' degrees, which the weights of the network follow from."""
        return {"degrees": {n.name: n.degree for n in self.connections.neighbors}}

    def write(self, moment: Moment, saved: Saved) -> None:
        """Write the agent's state and the messages sent since the last checkpoint."""
        arrays = run_arrays(saved) | {f"state/{k}": v for k, v in saved.state.items()}
        self.checkpoints.write(arrays, saved.facts, self.outbox)
        logger.debug("%s: checkpoint of step %d written", self.settings.name, moment.step)
        self.connections.move_mark(self.checkpoints.mark)
        self.connections.startup_grace = 0.0  # all neighbors have been there


def run(
    settings: Settings,
    *,
    loud: bool = True,
    watchers: Sequence[Callable[[View], Callable[[], None]]] = (),
    age: float = 0.0,
) -> Outcome:
    """Run an agent to its end; a run that was interrupted goes on from its last checkpoint.

    Parameters
    ----------
    settings : Settings
        From `destiny.agents.read`.
    loud : bool
        Whether to say on standard error who was refused and why.
    watchers : sequence of callables
        Each is given a `View` and returns what to call several times a second while the agent waits; one
        that fails is called no more.
    age : float
        Seconds since this process was started. Neighbors may take as long to start, so an agent that was
        just started waits at least twice as long for them, until its next checkpoint, whatever its deadline.
    """
    began = time.monotonic()
    with shortage_is_temporary(), threadpool_limits(1), Interrupt() as interrupt:
        kind = agent_kind(settings.algorithm)
        agent: AgentProcess = Agent(settings, loud) if kind is None else kind.process(settings, loud)
        try:
            agent.connections.pending_signal = lambda: interrupt.name
            agent.connections.watchers += [watcher(agent.view) for watcher in watchers]
            agent.connections.startup_grace = STARTS * (age + time.monotonic() - began)
            outcome = agent.go()
            if outcome.closed:
                agent.erase_keys()
            agent.event_log.record("end", why=outcome.reason)
            return outcome
        except DestinyError as error:
            if isinstance(error, NetworkError | PrivacyError):  # of no use to wait for this agent
                agent.connections.send_bye(f"found: {error}")
            agent.event_log.record("end", why=str(error))
            raise
        finally:
            agent.close()


class Agent(AgentProcess):
    """One agent of a run by rounds."""

    def __init__(self, settings: Settings, loud: bool) -> None:
        # They may refuse the method: before there are connections to close.
        self.plan = plan_of(settings)
        agreement = stop_rule(settings, self.plan)
        names = [n.name for n in settings.neighbors]
        folder = settings.out / CHECKPOINTS
        super().__init__(settings, AgentCheckpoints(folder, identity(settings), settings.index, names))
        turns = 0 if self.saved is None else int(self.saved.facts["turn"])
        self.hiding = None
        if not self.is_closed:  # then there are no keys any more
            self.hiding = open_hiding(settings, self.checkpoints.folder, turns)
        self.connect(loud, largest_message(settings, self.plan)[1])
        self.statements = None
        if not settings.network.changes and not self.is_closed:
            notary = self.hiding.notary if self.hiding is not None else plain_notary(settings)
            self.statements = Statements(notary, self.connections.neighbors, folder, settings.run)
        self.connections.mark = self.checkpoints.mark
        self.driver = Driver(
            self.plan,
            [Rounds(settings.rounds)],
            LocalMeasures(self.plan.algorithm, self.view, self.checkpoints.notes),
            agreement,
            OutboxStore(settings, self.checkpoints, self.outbox, self.connections),
        )

    @property
    def engine(self) -> SingleAgentEngine:
        s = self.settings
        return SingleAgentEngine(
            self.connections, s.index, self.outbox, self.statements, self.hiding, s.messages.few_bits
        )

    def go(self) -> Outcome:
        """Run from the start or the last checkpoint to the answer."""
        if self.outcome is not None:
            over = "this run is over: the answer is the one found before, and data were not read again"
            self.event_log.report("over", self.settings.name, over)
            return self.outcome if self.outcome.closed else self.serve_until_neighbors_done(self.outcome)
        s = self.settings
        for moment in moments(self.plan, self.engine, self.saved):
            self.view.phase = "running"
            stop = self.driver.after_step(moment, self.connections.pending_signal)
            if stop is not None:
                break
        assert stop is not None
        stop = stop.weakened(s.messages)
        if stop.signal is not None:
            raise StoppedBySignal(stop.signal, f"after step {moment.step}")
        self.view.phase = "averaging"
        team = moment.team
        assert isinstance(team, AgentTeam)
        plan = moment.plan
        outcome = answer.find(
            team.agents,
            plan.solved,
            plan.parts,
            moment.parts[0].X,
            stop,
            moment.step,
            moment.seconds,
            s.tolerance,
        )
        for part in plan.parts:
            outcome = part.add_to(outcome, moment)
        outcome = replace(outcome, notes=[*outcome.notes, *s.messages.remarks()])
        if s.choice is not None:
            outcome = replace(outcome, choice=str(s.choice))
        self.checkpoints.write_outbox(self.outbox, team.traffic.turns)
        outcome.write(s.out, identity(s))
        return self.serve_until_neighbors_done(outcome)

    def serve(self) -> None:
        """Listen and call, to repeat what was sent."""
        self.engine.serve(self.settings.network)

    def close(self) -> None:
        """Close connections and files."""
        super().close()
        if self.hiding is not None:
            self.hiding.log.close()


def largest_message(settings: Settings, plan: Plan | None) -> tuple[int, int]:
    """Numbers and bytes of the largest message of an agent, counted in a step that is sent to nobody.

    ``plan`` is that of its run, None if the method has no rounds.
    """
    s = settings
    if plan is None:
        kind = agent_kind(s.algorithm)
        assert kind is not None
        return kind.largest_message(s)
    n, p = s.problem.shape
    silent = silent_step(s.problem, s.network, plan.algorithm, plan.X[0], s.index, s.messages)
    first = max((count for part in plan.parts for count in part.sums(plan)), default=0)
    averages = n * p + n + SCALARS
    if s.messages.private:
        numbers = max(silent.largest, WIDE * averages, first) + RIDERS + COUNT
        return numbers, 8 * numbers
    averages = max(averages, first)
    numbers = max(silent.largest, averages) + RIDERS
    return numbers, max(silent.bytes, 8 * averages) + 8 * RIDERS  # averages have 64 bits, whatever steps have


def plain_notary(settings: Settings) -> Notary:
    """Who says who the neighbors of this agent are."""
    return Notary(settings.index, settings.agents, [n.index for n in settings.neighbors])
