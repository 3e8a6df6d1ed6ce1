"""Run one agent from its file to its answer: meet the neighbours, step, save, agree to stop, average."""

from __future__ import annotations

import copy
import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from destiny.agents import outcome as answer
from destiny.agents.checkpoints import Kept
from destiny.agents.engine import AgentTeam, Alone
from destiny.agents.event_log import Journal
from destiny.agents.exchange import Exchange
from destiny.agents.outcome import Outcome
from destiny.agents.settings import Settings
from destiny.agents.transport.connections import Hub, Limits
from destiny.agents.transport.event_loop import Stopped, disk_full_is_temporary
from destiny.agents.transport.tls import Credentials
from destiny.engines.hosted import Deaf, HostedAgents
from destiny.errors import DestinyError
from destiny.geometry.stiefel import random_point, violation
from destiny.problems import Centred
from destiny.protocols import Array
from destiny.run.centring import ROUNDS, largest_message
from destiny.run.driver import Agreement, Moment
from destiny.run.history import History
from destiny.run.interrupt import Interrupt
from destiny.run.solve import chosen, iterate
from destiny.run.stopping import Progress, Rounds, Stop
from destiny.storage import checkpoint as checkpoints

logger = logging.getLogger(__name__)
RATE = 1.0  # seconds over which rates are told
COLUMNS = ("step", "round", "seconds", "residual", "feasibility")
LOST = 1e8  # no method comes back from there: H grows like the fifth power of X
RIDERS = 1  # numbers that ride along in a message: the flooded residual
SCALARS = 2  # numbers averaged in the end besides a gradient: objective and variance
MORE_ROUNDS = 1_000_000  # than the file allows for: opening, last step and averaging take far fewer
STARTS = 2  # times an agent's own start that neighbours may take to start


@dataclass
class View:
    """What can be shown of an agent at any moment."""

    settings: Settings
    hub: Hub
    journal: Journal
    phase: str = "waiting for neighbours"
    step: int = 0
    round: int = 0
    residual: float = float("nan")
    feasibility: float = float("nan")
    rate: float = 0.0
    """Rounds a second, lately."""
    rates: dict[str, float] = dataclasses.field(default_factory=dict)
    """Bytes a second received from each neighbour, lately."""
    sample: tuple[float, dict[str, int]] = (0.0, {})

    def refresh(self) -> None:
        """Look at the clock again, if the last time is long enough ago to tell a rate."""
        now, (before, counts) = time.monotonic(), self.sample
        if now - before < RATE:
            return
        sample = {n.name: n.bytes_in for n in self.hub.neighbours} | {"": self.hub.rounds}
        gone = {name: (value - counts.get(name, value)) / (now - before) for name, value in sample.items()}
        self.rate, self.rates, self.sample = gone.pop(""), gone, (now, sample)


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
        Seconds since this process was started. Neighbours may take as long to start, so an agent that was
        just started waits at least twice as long for them, until its next checkpoint, whatever its deadline.
    """
    began = time.monotonic()
    with disk_full_is_temporary(), threadpool_limits(1), Interrupt() as interrupt:
        agent = Agent(settings, loud)
        try:
            agent.hub.interrupted = lambda: interrupt.name
            agent.hub.watchers += [watcher(agent.view) for watcher in watchers]
            agent.hub.start = STARTS * (age + time.monotonic() - began)
            outcome = agent.go()
            agent.journal.note("end", why=outcome.reason)
            return outcome
        except DestinyError as error:
            agent.journal.note("end", why=str(error))
            raise
        finally:
            agent.close()


class Agent:
    """One agent of a run."""

    def __init__(self, settings: Settings, loud: bool) -> None:
        self.settings = settings
        self.algorithm = chosen(settings.algorithm, settings.problem, settings.network)
        self.agreement = Agreement(
            self.algorithm, settings.network, settings.tolerance if settings.tolerance > 0 else None
        )
        self.rounds = Rounds(settings.rounds)
        self.kept = Kept(
            settings.out / "checkpoints", self.identity, settings.index, [n.name for n in settings.neighbours]
        )
        self.saved = self.kept.saved
        credentials = Credentials(settings.files, settings.authorities)
        self.outcome = Outcome.read(settings.out, self.identity)
        self.sent, need = self.kept.sent(finished=self.outcome is not None)
        neighbours = copy.deepcopy(settings.neighbours)  # a file may be run again
        for n in neighbours:
            n.need = need
            n.degree = None if self.saved is None else self.saved.facts["degrees"][n.name]
        settings.problem.host([settings.index])  # reads and checks the data before anybody is met
        self.journal = Journal(settings.name, settings.out / "log.jsonl", loud)
        self.hub = Hub(
            settings.hello, neighbours, settings.listen, credentials, self.journal, settings.deadline,
            Limits(8 * self.largest(), settings.agents, settings.rounds + MORE_ROUNDS),
        )  # fmt: skip
        self.hub.mark = self.kept.mark
        self.view = View(settings, self.hub, self.journal)
        self.history = History(COLUMNS)
        self.value: Array | None = None
        self.before, self.cost = 0, 1

    @property
    def identity(self) -> dict[str, Any]:
        """What must be equal for files to be this run's."""
        return {"agent": self.settings.name, "run": self.settings.run, "settings": self.settings.common}

    def largest(self) -> int:
        """Numbers in the largest message, found by going through the motions without a neighbour."""
        s = self.settings
        n, p = s.problem.shape
        X = random_point(n, p, s.seed) if s.start is None else s.start.reshape(-1, n, p)[0]
        # Before the mean is known the data will do as they are: a message has the same size.
        hosted = (s.problem.problem if isinstance(s.problem, Centred) else s.problem).host([s.index])
        deaf = Deaf(HostedAgents([s.index], hosted, s.network, None))  # type: ignore[arg-type]
        with np.errstate(all="ignore"):
            self.algorithm.step(self.algorithm.init(X[None], deaf), deaf)
        first = largest_message(s.problem) if isinstance(s.problem, Centred) else 0
        return max(deaf.largest, n * p + SCALARS, first) + RIDERS

    def go(self) -> Outcome:
        """From the first step, or where the last process came to."""
        if self.outcome is not None:
            return self.outcome if self.outcome.closed else self.leave(self.outcome)
        s = self.settings
        moments = iterate(
            s.problem, s.network, self.algorithm, start=s.start, seed=s.seed, resume=self.saved,
            engine=Alone(self.hub, s.index, self.sent),
        )  # fmt: skip
        for moment in moments:
            self.view.phase = "running"
            stop = self.look(moment)
            if stop is not None:
                break
        self.view.phase = "averaging"
        team = moment.team
        assert isinstance(team, AgentTeam)
        assert stop is not None
        problem = s.problem if moment.centring is None else moment.centring.problem
        outcome = answer.find(
            team.agents, s.network, problem, moment.parts[0].X, stop, moment.step, moment.seconds, s.tolerance
        )
        if moment.centring is not None:
            outcome = outcome.centred(moment.centring.own_report(moment.centring.shifts[s.index]))
        self.kept.write_last(self.sent, team.traffic.rounds)
        outcome.write(s.out, self.identity)
        return self.leave(outcome)

    def look(self, moment: Moment) -> Stop | None:
        """After a step: show, decide, save."""
        if self.value is None:
            self.begin(moment)
        fresh = self.saved is None or moment.step > self.saved.facts["step"]
        if fresh and moment.step > 0:
            self.cost = moment.round - self.before
        self.before = moment.round
        if moment.step % self.settings.every == 0 and fresh:
            self.measure(moment)
        stop = self.agreement.check(moment, self.cost) or self.rounds.check(
            Progress(moment.step, moment.round, moment.seconds, self.cost, None)
        )
        due = moment.step % self.settings.checkpoint == 0 or stop is not None
        name = self.hub.interrupted()
        if fresh and moment.step > 0 and (due or name is not None):
            self.save(moment)
        if name is not None and stop is None:
            raise Stopped(name, f"after step {moment.step}")
        return stop

    def begin(self, moment: Moment) -> None:
        """Whether the data are those of the checkpoint."""
        s = self.settings
        n, p = s.problem.shape
        X = random_point(n, p, s.seed) if s.start is None else s.start
        assert isinstance(moment.team, AgentTeam)
        self.value = moment.team.agents.value(np.broadcast_to(X, (1, n, p)) if X.ndim == 2 else X[[s.index]])
        self.view.step, self.view.round = moment.step, moment.round
        if self.saved is None:
            return
        if not np.allclose(self.value, self.saved.values, rtol=1e-10, atol=0.0):
            raise self.saved.refuse("belongs to other data: the objective at the start differs")
        self.history = History.from_array(self.saved.arrays["history"], COLUMNS)
        facts = self.saved.facts
        self.agreement.asked, self.agreement.agreed = facts["asked"], facts["agreed"]
        self.cost = facts["cost"]
        self.journal.note("resumed", step=moment.step, round=moment.round, notes=self.kept.notes)

    def measure(self, moment: Moment) -> None:
        """What an agent can tell of itself."""
        (state,) = moment.parts
        view = self.view
        view.step, view.round, view.feasibility = moment.step, moment.round, float(violation(state.X)[0])
        residual = getattr(self.algorithm, "residual", None)
        view.residual = view.feasibility if residual is None else float(residual(state)[0])
        self.history.add(
            step=moment.step, round=moment.round, seconds=moment.seconds, residual=view.residual,
            feasibility=view.feasibility,
        )  # fmt: skip
        if not view.feasibility <= LOST:
            exchange = self.hub.post
            assert isinstance(exchange, Exchange)
            exchange.give_up(f"diverged: ||X^T X - I|| was {view.feasibility:.1e} after step {moment.step}")

    def save(self, moment: Moment) -> None:
        """A checkpoint of this moment."""
        assert self.value is not None
        arrays = {"array/history": self.history.as_array(), "array/values": self.value}
        if self.agreement.asked is not None:
            arrays["array/flood"] = moment.team.flood
        state = checkpoints.flatten(moment.parts[0])
        facts = {
            "step": moment.step, **moment.traffic.facts(), "seconds": moment.seconds,
            "asked": self.agreement.asked, "agreed": self.agreement.agreed, "cost": self.cost,
            "degrees": {n.name: n.degree for n in self.hub.neighbours},
        }  # fmt: skip
        if moment.centring is not None:
            state |= moment.centring.arrays([self.settings.index])
            facts[ROUNDS] = moment.centring.rounds
        arrays |= {f"state/{k}": v for k, v in state.items()}
        self.kept.write(arrays, facts, self.sent)
        logger.debug("%s: checkpoint of step %d written", self.settings.name, moment.step)
        self.hub.mark = self.kept.mark
        self.hub.start = 0.0  # all neighbours have been there

    def leave(self, outcome: Outcome) -> Outcome:
        """Stay until all neighbours have their answers, as they may still need our messages."""
        self.view.phase = "done, waiting for neighbours"
        hub = self.hub
        hub.finished = True
        if not hasattr(hub, "post"):
            hub.open(Exchange(hub, self.settings.network, self.settings.index, self.sent))
        for n in hub.neighbours:
            hub.pump(n)
        if not hub.wait(lambda: all(n.done for n in hub.neighbours), patient=True):
            late = ", ".join(n.name for n in hub.neighbours if not n.done)
            self.journal.tell("left", late, f"has its answer and left before {late} had one")
            return outcome
        closed = replace(outcome, closed=True)
        closed.write(self.settings.out, self.identity)
        return closed

    def close(self) -> None:
        """Let go of connections and files."""
        self.hub.close()
        self.journal.close()
