"""An agent that does not wait: it computes with the newest it has heard, and sends the newest it has."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from destiny.agents import outcome as answers
from destiny.agents.asynchronous.checkpoints import AsyncCheckpoints
from destiny.agents.asynchronous.codec import MessageCodec, StandIn
from destiny.agents.asynchronous.exchange import MOST_LIVES, AsyncExchange
from destiny.agents.asynchronous.replay_log import FILE, ReplayLog
from destiny.agents.engine import OneAgent
from destiny.agents.observation import COLUMNS
from destiny.agents.outcome import Outcome
from destiny.agents.process import AgentProcess, identity
from destiny.agents.settings import CHECKPOINTS, Settings
from destiny.agents.transport.event_loop import MAX_TICK, Absent, StoppedBySignal
from destiny.agents.transport.neighbour import Neighbour
from destiny.engines.local_agent import HostedAgent
from destiny.errors import DestinyError, SettingsError
from destiny.geometry.stiefel import random_point, violation
from destiny.networks.local_view import Neighbourhood
from destiny.protocols import Array, AsyncAlgorithmBase
from destiny.run.history import History
from destiny.run.quiescence import Letter, StoppingState, UntilQuiet
from destiny.run.stopping import DIVERGED, Stop
from destiny.storage.checkpoint import Saved, flatten, unflatten

IDLE = 0.2  # seconds without news after which an agent computes all the same
CATCH_UP = 6.0  # seconds to wait for news of all neighbours after a restart: they dial every 5 s at least
CALM = 0.01  # seconds between two wakes of an agent whose residual is below the tolerance
AVERAGED = 3  # numbers in a message at the end besides a gradient: objective, variance and the flooded change
AGREED = "converged: all agents agreed that their residuals are below the tolerance"


class AsyncAgent(AgentProcess):
    """One agent of an asynchronous run.

    Attributes
    ----------
    state : StoppingState
    stamp : int
        Of its last message.
    wakes : int
        Since the start, those before a restart included.
    """

    checkpoints: AsyncCheckpoints

    def __init__(self, settings: Settings, loud: bool) -> None:
        assert isinstance(settings.algorithm, AsyncAlgorithmBase)
        names = [n.name for n in settings.neighbours]
        folder = settings.out / CHECKPOINTS
        files = AsyncCheckpoints(folder, identity(settings), settings.index, names)
        super().__init__(settings, files)
        self.method = method_of(settings)
        self.codec = MessageCodec.of(self.method, settings.problem.shape, settings.agents)
        self.connect(loud, largest_message(settings)[1])
        self.log = ReplayLog(settings.out / FILE) if settings.replay else None
        facts = {} if self.saved is None else self.saved.facts
        self.wakes, self.sent = int(facts.get("step", 0)), int(facts.get("scalars", 0))
        self.seconds = float(facts.get("seconds", 0.0))
        self.earlier_gradients = int(facts.get("gradients", 0))
        self.history = History(COLUMNS)
        if self.saved is not None:
            self.history = History.from_array(self.saved.arrays["history"], COLUMNS)

    def go(self) -> Outcome:
        """Run from the start or the last checkpoint to the answer."""
        if self.outcome is not None:
            return self.outcome if self.outcome.closed else self.serve_until_neighbours_done(self.outcome)
        with np.errstate(over="ignore", invalid="ignore"):
            self.begin()
            agreed = self.checkpoints.agreed
            stop = (
                self.iterate() if agreed is None else Stop(agreed.facts["reason"], agreed.facts["converged"])
            )
            outcome = self.average(stop)
        outcome.write(self.settings.out, identity(self.settings))
        return self.serve_until_neighbours_done(outcome)

    # The start

    def begin(self) -> None:
        """A new life, on disk before anybody is called; the start, or the last checkpoint."""
        s = self.settings
        life = self.new_life()
        self.exchange = self.make_exchange(agreed=self.checkpoints.agreed is not None)
        self.exchange.answer, self.exchange.life = self.answer, life
        if self.saved is not None:
            self.exchange.newest[:] = self.saved.state["newest"]
        self.connections.open(self.exchange)
        self.meet()
        self.agent = HostedAgent(s.index, s.problem.host([s.index]), s.network.at(0))
        X = first_point(s)
        self.value = s.problem.host([s.index]).value(X[None])
        if self.saved is None:
            self.state: StoppingState = self.method.start(X, self.agent)
            self.stamp = 0
        else:
            self.state, self.stamp = self.restored(X, self.saved), int(self.saved.facts["stamp"])
            self.event_log.record("resumed", step=self.wakes, life=life, notes=self.checkpoints.notes)
        self.live(life)
        self.tell(*self.method.answer(self.state, [], self.agent), "answer", [])
        self.save()  # the neighbours' degrees are known from here on
        if self.saved is not None and self.checkpoints.agreed is None:
            self.catch_up()

    def restored(self, X: Array, saved: Saved) -> StoppingState:
        """The state of a checkpoint; CheckpointError if it is of other data."""
        if not np.allclose(self.value, saved.values, rtol=1e-10, atol=0.0):
            raise saved.refuse("belongs to other data: the objective at the start differs")
        stranger = StandIn(self.settings.agents, len(self.agent.neighbours))
        state: StoppingState = unflatten(self.method.start(X, stranger), saved)
        return state

    def new_life(self, heard: int = 0) -> int:
        """A life that nobody has heard of, on disk."""
        life = self.checkpoints.next_life(heard)
        if life >= MOST_LIVES:
            raise DestinyError(f"this agent was started {life} times: all agents must start a new run")
        return life

    def live(self, life: int) -> None:
        """Go on in a new life."""
        if self.log is not None:
            self.log.start(life, self.stamp)
        self.state = self.method.restart(self.state, life)
        self.exchange.life, self.exchange.stamp = life, 0.0

    def meet(self) -> None:
        """Wait for the neighbours' degrees, which the weights follow from, if they are not known yet."""
        network, neighbours = self.settings.network, self.connections.neighbours
        if not isinstance(network, Neighbourhood):
            return
        if any(n.degree is None for n in neighbours):
            try:
                self.connections.meet()
            except Absent:
                raise self.absence([n for n in neighbours if not (n.degree or n.degree_in_hello)]) from None
        network.learn({n.index: n.degree or 0 for n in neighbours})

    def catch_up(self) -> None:
        """After a restart, hear everybody once, if that is soon: sums of different age do not fit well."""
        everybody = len(self.connections.neighbours)
        self.connections.listen(lambda: len(self.exchange.news) == everybody, CATCH_UP)

    # The iteration

    def iterate(self) -> Stop:
        """Wake until all agents have agreed to stop."""
        self.view.phase, self.clock = "running", time.monotonic()
        took, calm, signal = 0.0, False, None
        while signal is None:
            self.listen(took, calm)
            self.renew_life()
            began, letters = time.monotonic(), self.exchange.take()
            state, letter = self.method.wake(self.state, letters, self.agent)
            self.wakes += 1
            self.tell(state, letter, "wake", letters)
            took = time.monotonic() - began
            calm = self.measure()
            signal = self.connections.pending_signal()
            if (stop := self.end(calm)) is not None:
                return stop
            if signal is not None or self.wakes % self.settings.checkpoint == 0:
                self.save()
        raise StoppedBySignal(signal, f"after wake {self.wakes}")

    def listen(self, took: float, calm: bool) -> None:
        """Read, write, and wait for news: of half the neighbours, or of one for as long as a wake takes."""
        exchange, neighbours = self.exchange, self.connections.neighbours
        began = time.monotonic()
        least = began + (CALM if calm else min(took, IDLE))

        def ready() -> bool:
            enough = 2 * len(exchange.news) >= len(neighbours) and not calm
            return enough or (bool(exchange.news) and time.monotonic() >= least)

        self.connections.loop.call_later(least - began, self.connections.wake)
        self.connections.listen(ready, IDLE)
        self.check_silence(time.monotonic())

    def check_silence(self, now: float) -> None:
        """Raise `Absent` if a neighbour has been silent for longer than the deadline."""
        connections, passed = self.connections, now - self.clock
        self.clock, self.seconds = now, self.seconds + passed
        for n in connections.neighbours:
            n.silent += min(passed, MAX_TICK)  # if more have passed, this process itself stood still
        deadline = connections.deadline
        silent = [n for n in connections.neighbours if n.silent > max(deadline, connections.startup_grace)]
        if deadline and silent:
            self.save()
            raise self.absence(silent)

    def absence(self, late: list[Neighbour]) -> DestinyError:
        """The error to raise: which neighbours are missing, and why."""
        limit = self.connections.wait_limit
        text = " and ".join(
            f"{n.name} has been silent for {limit:g} s: it "
            + (n.trouble if n.connection is None else "is connected and may stand still")
            for n in late
        )
        return (
            SettingsError(text) if all(n.connection is None and n.disagrees for n in late) else Absent(text)
        )

    def tell(self, state: StoppingState, letter: Letter, kind: str, letters: list[Letter]) -> None:
        """Take over a state, and send its message to all neighbours."""
        self.state, self.stamp = state, int(letter.stamp)
        if not np.isfinite(state.X).all() or self.method.flaw(letter) is not None:
            self.exchange.abandon_run(f"diverged: its numbers were not finite any more in wake {self.wakes}")
        if self.log is not None:
            self.log.event(kind, self.stamp, letters)
        self.exchange.publish(letter)
        if kind != "answer":
            for n in self.connections.neighbours:
                self.connections.send_pending(n)
        self.connections.rounds += 1

    def measure(self) -> bool:
        """Whether the residual is below the tolerance; ends the run of all agents if this one diverged."""
        view, s, X = self.view, self.settings, self.state.X
        view.step = view.round = self.wakes
        view.residual, view.feasibility = self.method.residual(self.state), float(violation(X))
        if not view.feasibility <= DIVERGED:
            self.exchange.abandon_run(
                f"diverged: ||X^T X - I|| was {view.feasibility:.1e} after wake {self.wakes}"
            )
        if self.wakes % s.every == 0:
            self.history.add(
                step=self.wakes,
                round=self.wakes,
                seconds=self.seconds,
                residual=view.residual,
                feasibility=view.feasibility,
            )
        return view.residual <= self.method.tolerance

    def renew_life(self) -> None:
        """If somebody has heard of a later life, the files of this agent were lost: begin one after it."""
        if self.exchange.is_forgotten:
            heard = self.exchange.life_heard
            self.event_log.record(
                "resumed", step=self.wakes, notes=[f"neighbours have heard of life {heard}"]
            )
            self.live(self.new_life(heard))

    # The end

    def end(self, calm: bool) -> Stop | None:
        """The end, if all agents are done or somebody has given up; the state is on disk then."""
        done = self.method.done(self.state, self.agent)
        out = self.wakes >= self.settings.rounds and not calm
        if not (done or out or self.method.ended(self.state)):
            return None
        limit = self.settings.rounds
        if done:
            stop = Stop(AGREED, True)
        elif out:
            stop = Stop(f"out of rounds: {self.wakes} wakes of {limit} used")
        else:
            stop = Stop(f"out of rounds: another agent has used its {limit} wakes, this one {self.wakes}")
        if not done:
            state = self.method.give_up(self.state, self.agent)
            self.tell(*self.method.answer(state, [], self.agent), "out", [])
        self.checkpoints.agree(self.snapshot(reason=stop.reason, converged=stop.converged))
        self.exchange.agreed = True
        for n in self.connections.neighbours:
            n.silent = 0.0  # from here on agents wait for rounds
        return stop

    def answer(self, peer: Neighbour, letter: Letter) -> None:
        """A neighbour is not done, and this agent is: say so again, with an echo of what it has said."""
        self.renew_life()
        self.tell(*self.method.answer(self.state, [letter], self.agent), "answer", [letter])
        self.connections.send_pending(peer)

    def average(self, stop: Stop) -> Outcome:
        """The answer and its measures, by the rounds of synchronous agents."""
        s = self.settings
        self.view.phase = "averaging"
        for n in self.connections.neighbours:
            self.connections.send_pending(n)
        hosted = OneAgent([s.index], s.problem.host([s.index]), s.network, self.exchange)
        X, sent = self.state.X[None], self.numbers_sent
        outcome = answers.find(hosted, s.network, s.problem, X, stop, self.wakes, self.seconds, s.tolerance)
        self.checkpoints.write_outbox(self.outbox, hosted.traffic.rounds)
        return replace(
            outcome,
            rounds=self.wakes,
            sent=outcome.sent + sent,
            bytes=8 * (outcome.sent + sent),
            gradients=self.gradients,
        )

    # Files

    @property
    def gradients(self) -> int:
        """Gradients of its f_i so far."""
        return self.earlier_gradients + self.agent.gradients

    @property
    def numbers_sent(self) -> int:
        """Numbers sent to neighbours so far, without those of averages."""
        return self.sent + self.exchange.written * self.exchange.codec.size

    def save(self) -> None:
        """Write a checkpoint, unless there is the state agreed on."""
        if not self.exchange.agreed:
            self.checkpoints.save(self.snapshot())

    def snapshot(self, **facts: Any) -> Saved:
        """The state of this moment, for a file."""
        known = {
            "step": self.wakes,
            "stamp": self.stamp,
            "scalars": self.numbers_sent,
            "seconds": self.seconds,
            "gradients": self.gradients,
            "degrees": {n.name: n.degree or n.degree_in_file for n in self.connections.neighbours},
        }
        arrays = {"history": self.history.as_array(), "values": self.value}
        return Saved(flatten(self.state), arrays, known | facts)

    def serve(self) -> None:
        """Listen and call, to repeat the rounds of the averages."""
        self.exchange = self.make_exchange(agreed=True)
        self.connections.open(self.exchange)

    def make_exchange(self, agreed: bool) -> AsyncExchange:
        """The exchange, before anybody is called."""
        s = self.settings
        exchange = AsyncExchange(
            self.connections, s.network, s.index, self.outbox, self.method, self.codec, np.zeros(s.agents)
        )
        exchange.agreed = agreed
        return exchange

    def close(self) -> None:
        """Close connections and files."""
        super().close()
        if self.log is not None:
            self.log.close()


def method_of(settings: Settings) -> UntilQuiet:
    """The method, with agents that agree to stop; with tolerance 0 they never do."""
    assert isinstance(settings.algorithm, AsyncAlgorithmBase)
    return UntilQuiet(settings.algorithm, settings.tolerance if settings.tolerance > 0 else -1.0)


def first_point(settings: Settings) -> Array:
    """Where the agent begins, ``(n, p)``."""
    s = settings
    if s.start is None:
        return random_point(*s.problem.shape, s.seed)
    return s.start if s.start.ndim == 2 else s.start[s.index]


def largest_message(settings: Settings) -> tuple[int, int]:
    """Numbers and bytes of the largest message of an asynchronous agent."""
    n, p = settings.problem.shape
    message = MessageCodec.of(method_of(settings), (n, p), settings.agents)
    numbers = max(message.size, n * p + AVERAGED)
    return numbers, 8 * numbers
