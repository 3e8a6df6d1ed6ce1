"""An agent that does not wait: it computes with the newest it has heard, and sends the newest it has."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from destiny.agents import outcome as answers
from destiny.agents.engine import OneAgent
from destiny.agents.observation import COLUMNS
from destiny.agents.outcome import Outcome
from destiny.agents.process import AgentProcess, identity
from destiny.agents.settings import CHECKPOINTS, Settings
from destiny.agents.transport.event_loop import MAX_TICK, Absent, RunEnded, StoppedBySignal
from destiny.agents.transport.neighbor import Neighbor
from destiny.engines.mixers import Mixer
from destiny.errors import DestinyError, SettingsError
from destiny.extensions.asynchronous.agents.async_checkpoints import AsyncCheckpoints
from destiny.extensions.asynchronous.agents.async_exchange import MOST_LIVES, AsyncExchange
from destiny.extensions.asynchronous.agents.membership import Membership
from destiny.extensions.asynchronous.agents.message_codec import MessageCodec, StandIn
from destiny.extensions.asynchronous.agents.replay_log import FILE, ReplayLog
from destiny.extensions.asynchronous.async_protocol import AsyncAlgorithmBase
from destiny.extensions.asynchronous.local_agent import HostedAgent
from destiny.extensions.asynchronous.members import LEFT, MEMBER, are_members, epoch
from destiny.extensions.asynchronous.termination import StampedMessage, StoppingState, TerminationDetection
from destiny.geometry.stiefel import random_point, violation
from destiny.networks.local_view import Neighborhood
from destiny.protocols import Array
from destiny.run.history import History
from destiny.run.plan import parts_of
from destiny.run.stopping import DIVERGED, Stop
from destiny.storage.checkpoint import Saved, flatten, unflatten

IDLE = 0.2  # seconds without news after which an agent computes all the same
CATCH_UP = 6.0  # seconds to wait for news of all neighbors after a restart: they dial every 5 s at least
CALM = 0.01  # seconds between two wakes of an agent whose residual is below the tolerance
AVERAGED = 3  # numbers at the end besides a gradient and n curvatures: objective, variance, flooded change
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
    out : bool
        Whether it has given up: it wakes no more, and ends when all others have, too.
    """

    checkpoints: AsyncCheckpoints

    def __init__(self, settings: Settings, loud: bool) -> None:
        assert isinstance(settings.algorithm, AsyncAlgorithmBase)
        names = [n.name for n in settings.neighbors]
        folder = settings.out / CHECKPOINTS
        files = AsyncCheckpoints(folder, identity(settings), settings.index, names)
        super().__init__(settings, files)
        self.method = method_of(settings)
        self.codec = MessageCodec.of(self.method, settings.problem.shape, settings.agents)
        self.connect(loud, largest_message(settings)[1])
        self.members = Membership(settings, self.method, files, self.view)
        self.out, self.unheard = False, np.zeros(settings.agents)
        self.log = ReplayLog(settings.out / FILE) if settings.options.replay else None
        facts = {} if self.saved is None else self.saved.facts
        self.wakes, self.sent = int(facts.get("step", 0)), int(facts.get("scalars", 0))
        self.seconds = float(facts.get("seconds", 0.0))
        self.earlier_gradients = int(facts.get("gradients", 0))
        self.history = History(COLUMNS)
        if self.saved is not None:
            self.history = History.from_array(self.saved.arrays["history"], COLUMNS)

    def go(self) -> Outcome:
        """Run from the start or the last checkpoint to the answer; `Left` if the agent leaves before."""
        self.members.refuse_departed()
        if self.outcome is not None:
            return self.outcome if self.outcome.closed else self.serve_until_neighbors_done(self.outcome)
        with np.errstate(over="ignore", invalid="ignore"):
            self.begin()
            agreed = self.checkpoints.agreed
            stop = (
                self.iterate() if agreed is None else Stop(agreed.facts["reason"], agreed.facts["converged"])
            )
            outcome = self.average(stop)
        outcome.write(self.settings.out, identity(self.settings))
        return self.serve_until_neighbors_done(outcome)

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
        for note in self.checkpoints.notes:  # what was damaged
            self.event_log.report("resumed", s.name, note, step=0)
        welcome = self.come_late() if self.members.standing < MEMBER else None
        self.meet()
        self.agent = HostedAgent(s.index, s.problem.host([s.index]), s.network.at(0))
        X = first_point(s)
        self.value = s.problem.host([s.index]).value(X[None])
        self.state: StoppingState
        if welcome is not None:
            self.state, self.stamp = self.method.start(welcome.message.point, self.agent), 0
        elif self.saved is None:
            self.state, self.stamp = self.method.start(X, self.agent), 0
        else:
            self.state, self.stamp = self.restored(X, self.saved), int(self.saved.facts["stamp"])
            self.event_log.record("resumed", step=self.wakes, life=life, notes=self.checkpoints.notes)
        self.live(life)
        self.tell(*self.method.answer(self.state, [], self.agent), "answer", [])
        self.save()  # the neighbors' degrees are known from here on
        if self.saved is not None and self.checkpoints.agreed is None:
            self.catch_up()

    def restored(self, X: Array, saved: Saved) -> StoppingState:
        """The state of a checkpoint; CheckpointError if it is of other data."""
        if not np.allclose(self.value, saved.values, rtol=1e-10, atol=0.0):
            raise saved.refuse("belongs to other data: the objective at the start differs")
        stranger = StandIn(self.settings.agents, self.agent.neighbors.tolist())
        first = self.method.start(X, stranger)
        like = self.method.know(first, saved.state.get("standing", first.standing), stranger)
        state: StoppingState = unflatten(like, saved)
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
            self.log.start(life, self.stamp, self.members.record.standing)
        self.state = self.method.recall(
            self.method.restart(self.state, life), self.members.record, self.agent
        )
        self.exchange.life, self.exchange.stamp = life, 0.0

    def come_late(self) -> StampedMessage:
        """Wait until a neighbor sends a message as to a member: the agent begins where that one is."""
        index, connections = self.settings.index, self.connections
        self.view.phase = "waiting to be let in"
        while True:
            try:
                connections.wait(lambda: bool(self.exchange.news) or any(n.done for n in self.neighbors))
            except Absent:
                raise Absent(
                    f"no neighbor has let this agent in for {connections.wait_limit:g} s: none can be "
                    "reached, or the others are about to end the run"
                ) from None
            for letter in self.exchange.take():
                if are_members(letter.standing)[index]:
                    if self.log is not None:
                        self.log.event("join", 0, [letter], self.exchange.trim_of)
                    self.members.keep(letter.standing)
                    return letter
            if (done := [n.name for n in self.neighbors if n.done]) != []:
                raise RunEnded(f"this agent came too late: {done[0]} has the answer of those who took part")

    def meet(self) -> None:
        """Wait for the neighbors' degrees, which the weights follow from, if they are not known yet."""
        network = self.settings.network
        if not isinstance(network, Neighborhood):
            return

        def unknown() -> list[Neighbor]:
            told = list(self.exchange.news.values())  # if the files of this agent were lost, others know more
            return [
                n
                for n in self.neighbors
                if n.takes_part
                and not (n.degree or n.degree_in_file or n.degree_in_hello)
                and not any(letter.standing[n.index] == LEFT for letter in told)
            ]

        def fix() -> bool:
            """Whether all are known. They are kept at once: a connection may end before the wait does."""
            if unknown():
                return False
            for n in self.neighbors:
                n.degree = n.degree or n.degree_in_file or n.degree_in_hello
            return True

        try:
            self.connections.wait(fix)
        except Absent:
            raise self.absence(unknown()) from None
        network.learn({n.index: n.degree or 0 for n in self.neighbors})

    @property
    def neighbors(self) -> list[Neighbor]:
        """All of the file."""
        return self.connections.neighbors

    @property
    def member_neighbors(self) -> list[Neighbor]:
        """Those who take part."""
        return [n for n in self.neighbors if n.takes_part]

    def catch_up(self) -> None:
        """After a restart, hear everybody once, if that is soon: sums of different age do not fit well."""
        everybody, deadline = len(self.member_neighbors), self.connections.deadline
        seconds = min(CATCH_UP, deadline / 2) if deadline else CATCH_UP  # who is missing is named later
        self.connections.listen(lambda: len(self.exchange.news) >= everybody, seconds)

    # The iteration

    def iterate(self) -> Stop:
        """Wake until all agents have agreed to stop."""
        self.view.phase, self.clock = "running", time.monotonic()
        took, calm, signal = 0.0, False, None
        while signal is None:
            self.listen(took, calm or self.out or not self.takes_part)
            self.renew_life()
            self.see_to_members()
            began, letters = time.monotonic(), self.exchange.take()
            if works := not self.out and self.takes_part:
                state, letter = self.method.wake(self.state, letters, self.agent)
                self.wakes += 1
                self.tell(state, letter, "wake", letters)
                self.send()
                self.state = self.method.compute(self.state, self.agent)  # while the message travels
                calm = self.measure()
            else:
                self.say_again(letters)
            took = time.monotonic() - began
            signal = self.connections.pending_signal()
            self.members.end_if_left(self.state, self.agent)
            if (stop := self.end(calm)) is not None:
                return stop
            if signal is not None or (works and self.wakes % self.settings.checkpoint == 0):
                self.save()
        raise StoppedBySignal(signal, f"after wake {self.wakes}")

    @property
    def takes_part(self) -> bool:
        """Whether this agent is a member, as far as it knows."""
        return self.method.takes_part(self.state, self.agent)

    def say_again(self, letters: list[StampedMessage]) -> None:
        """What an agent does that has given up or left, until all others know."""
        state = self.method.give_up(self.state, self.agent) if self.out else self.state
        self.tell(*self.method.answer(state, letters, self.agent), "out" if self.out else "answer", letters)
        self.send()

    def send(self) -> None:
        """Send the latest message to all neighbors whose lines are free."""
        for n in self.neighbors:
            self.connections.send_pending(n)

    def see_to_members(self) -> None:
        """Pass on what is asked for here, and carry out what this agent may."""
        if (standing := self.members.wanted(self.state, self.agent)) is not None:
            if self.log is not None:
                self.log.members(standing)
            self.state = self.method.know(self.state, standing, self.agent)

    def listen(self, took: float, calm: bool) -> None:
        """Read, write, and wait for news: of half the neighbors, or of one for as long as a wake takes."""
        exchange, neighbors = self.exchange, self.member_neighbors
        began = time.monotonic()
        least = began + (CALM if calm else min(took, IDLE))

        def ready() -> bool:
            enough = 2 * len(exchange.news) >= len(neighbors) and not calm
            return enough or (bool(exchange.news) and time.monotonic() >= least)

        self.connections.loop.call_later(least - began, self.connections.wake)
        self.connections.listen(ready, IDLE)
        self.check_silence(time.monotonic())

    def check_silence(self, now: float) -> None:
        """Raise `Absent` if a neighbor has been silent for longer than the deadline."""
        connections, passed = self.connections, now - self.clock
        self.clock, self.seconds = now, self.seconds + passed
        passed = min(passed, MAX_TICK)  # if more have passed, this process itself stood still
        for n in connections.neighbors:
            n.silent += passed
        self.unheard += passed
        deadline, limit = connections.deadline, max(connections.deadline, connections.startup_grace)
        silent = [n for n in self.member_neighbors if n.silent > limit]
        if deadline and silent:
            self.save()
            raise self.absence(silent) if self.takes_part else self.members.unconfirmed(silent)
        lost = [j for j in self.members.ids if self.unheard[j] > limit and j != self.settings.index]
        if deadline and lost and self.takes_part:
            if (disputed := self.members.disputed()) is not None:
                self.save()
                raise disputed
            # Of a set that has changed nobody may know whether it is linked; then its levels never come. In
            # the set of the files a neighbor is silent first, unless what was said of an agent is false.
            if self.view.members is None and not (self.unheard[lost] > 2 * limit).any():
                return
            self.save()
            names = ", ".join(map(self.members.name, lost))
            raise Absent(
                f"nothing has been heard of {names} for {limit:g} s, from any neighbor: they are away, "
                "do not agree who takes part, somebody has said false things of them, or those who take part "
                "are not linked with each other"
            )

    def absence(self, late: list[Neighbor]) -> DestinyError:
        """The error to raise: which neighbors are missing, and why."""
        limit = self.connections.wait_limit
        text = " and ".join(
            f"{n.name} has been silent for {limit:g} s: it "
            + (n.trouble if n.connection is None else "is connected and may stand still")
            for n in late
        )
        return (
            SettingsError(text) if all(n.connection is None and n.disagrees for n in late) else Absent(text)
        )

    def tell(
        self, state: StoppingState, letter: StampedMessage, kind: str, letters: list[StampedMessage]
    ) -> None:
        """Take over a state, and make its message the one to send; what must be on disk before is."""
        if self.exchange.agreed and epoch(state.standing) != epoch(self.state.standing):
            self.connections.abort_all(
                RunEnded("who takes part has changed after the end: files were lost; start a new run")
            )
            return
        if epoch(state.standing) != epoch(self.state.standing):
            self.unheard[:] = 0.0
        self.unheard[state.stamps > self.state.stamps] = 0.0
        self.state, self.stamp = state, int(letter.stamp)
        self.members.after(state, self.agent)
        if not np.isfinite(state.X).all() or self.method.flaw(letter) is not None:
            self.exchange.abandon_run(f"diverged: its numbers were not finite any more in wake {self.wakes}")
        if self.log is not None:
            self.log.event(kind, self.stamp, letters, self.exchange.trim_of)
        self.exchange.publish(letter)
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
            self.members.forget()
            self.event_log.record("resumed", step=self.wakes, notes=[f"neighbors have heard of life {heard}"])
            self.live(self.new_life(heard))

    # The end

    def end(self, calm: bool) -> Stop | None:
        """The end, if this agent is done, or all have given up or are done; the state is on disk then."""
        method, limit = self.method, self.settings.rounds
        done = method.done(self.state, self.agent)
        used = self.wakes >= limit and not calm
        if not (done or self.out) and (used or method.ended(self.state)):
            self.out = True
            self.view.phase = "out of rounds, waiting for the others"
            self.say_again([])
        if not (done or (self.out and method.all_ended(self.state))):
            return None
        if done:
            stop = Stop(AGREED, True)
        elif self.wakes >= limit:
            stop = Stop(f"out of rounds: {self.wakes} wakes of {limit} used")
        else:
            stop = Stop(f"out of rounds: another agent has used its {limit} wakes, this one {self.wakes}")
        self.checkpoints.agree(self.snapshot(reason=stop.reason, converged=stop.converged))
        self.exchange.agreed = True
        for n in self.connections.neighbors:
            n.silent = 0.0  # from here on agents wait for rounds
        return stop

    def answer(self, peer: Neighbor, letter: StampedMessage) -> None:
        """A neighbor is not done, and this agent is: say so again, with an echo of what it has said."""
        self.renew_life()
        self.tell(*self.method.answer(self.state, [letter], self.agent), "answer", [letter])
        self.connections.send_pending(peer)

    def average(self, stop: Stop) -> Outcome:
        """The answer and its measures, by the rounds of synchronous agents."""
        s = self.settings
        self.view.phase = "averaging"
        self.send()
        network = self.members.network(self.state, self.agent)
        hosted = OneAgent([s.index], s.problem.host([s.index]), network, self.exchange, Mixer())
        X, sent = self.state.X[None], self.numbers_sent
        outcome = answers.find(
            hosted, s.problem, parts_of(s.problem), X, stop, self.wakes, self.seconds, s.tolerance
        )
        self.checkpoints.write_outbox(self.outbox, hosted.traffic.turns)
        return replace(
            outcome,
            notes=[*outcome.notes, *self.members.remarks(self.state)],
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
        """Numbers sent to neighbors so far, without those of averages."""
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
            "degrees": {n.name: n.degree or n.degree_in_file for n in self.connections.neighbors},
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
        exchange.agreed, exchange.majority = agreed, s.options.majority
        exchange.standing = lambda: self.members.record.standing
        self.members.told_by = exchange.told_by
        return exchange

    def close(self) -> None:
        """Close connections and files."""
        super().close()
        if self.log is not None:
            self.log.close()


def method_of(settings: Settings) -> TerminationDetection:
    """The method, with agents that agree to stop; with tolerance 0 they never do."""
    assert isinstance(settings.algorithm, AsyncAlgorithmBase)
    tolerance = settings.tolerance if settings.tolerance > 0 else -1.0
    return TerminationDetection(settings.algorithm, tolerance, settings.options.late)


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
    numbers = max(message.size, n * p + n + AVERAGED)
    return numbers, 8 * numbers
