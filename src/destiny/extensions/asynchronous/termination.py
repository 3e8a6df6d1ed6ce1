"""How asynchronous agents agree to stop: levels that are flooded with every message, and no barrier."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from destiny.extensions.asynchronous.async_protocol import AsyncAlgorithmBase, LocalAgent
from destiny.extensions.asynchronous.members import (
    LEFT,
    AmongMembers,
    Record,
    are_members,
    carried_out,
    epoch,
    first_standing,
    member_ids,
    merged,
)
from destiny.protocols import About, Array, TopologyBase

BUSY, QUIET, ALL_QUIET, DONE, OUT = 0.0, 1.0, 2.0, 3.0, 4.0
SLACK = 10.0  # times the tolerance is quiet enough once somebody is done
LARGEST = 2.0**53  # a stamp is a whole number below: exact in float64


@dataclass(frozen=True)
class StampedMessage:
    """A message of the method, and what its sender knows of all levels (`Message`)."""

    message: Any
    levels: Array
    """Newest level heard of each agent, ``(d,)``."""
    stamps: Array
    """When that was said: the stamp of that agent's message, ``(d,)``."""
    standing: Array
    """Who takes part as far as the sender knows, ``(d,)`` (`members`): levels are about it."""

    @property
    def sender(self) -> Array:
        return np.asarray(self.message.sender)

    @property
    def stamp(self) -> Array:
        return np.asarray(self.message.stamp)

    @property
    def heard(self) -> Array:
        return np.asarray(self.message.heard)


@dataclass(frozen=True)
class StoppingState:
    """State of one agent: that of the method, and what it knows of the others' levels."""

    inner: Any
    levels: Array
    """0 of an agent that has said nothing about this set of members."""
    stamps: Array
    standing: Array
    newest: Array
    """Stamp of the newest letter of each agent, ``(d,)``."""
    echo: Array
    """The agent's own stamp that each neighbor had heard when it sent that letter, ``(d,)``."""
    spoke: Array
    """The epoch in which it sent that letter, ``(d,)``."""
    busy: Array
    """Stamp of the last wake after which the agent was not quiet, ``()``; infinite before the first wake."""

    @property
    def X(self) -> Array:
        """The iterate ``(n, p)``."""
        return np.asarray(self.inner.X)


@dataclass(frozen=True)
class TerminationDetection(AsyncAlgorithmBase):
    """An asynchronous method whose agents agree who takes part, and when to stop. Every member has a level:

        0  its residual is above the tolerance
        1  it is not, and every neighbor has answered a message that was sent after it fell
        2  level 1, and all others were at 1 or above when last heard of
        3  level 2, and all others too; or level 1 and somebody is at 3, and then a residual of ten times the
           tolerance is small enough for level 1: done
        4  it has given up, for instance because it is out of time: everybody is to end

    Levels travel with every message, with the stamp at which they were set; the newer word replaces the
    older. A done agent goes on answering, for those who have not heard yet or come back from an old
    checkpoint: by further wakes, or by `answer`, which leaves its iterate where it is.

    Who takes part travels in the same way. A level is about one set of members: when an agent hears of
    another set, all levels that it knows of are 0 again, and it listens to no levels but those of agents that
    know the same set. Somebody is done only after all members were at level 2, so a set is changed by a
    member that never was, and keeps that in its `Record`: then nobody is done, and nobody will be.

    Parameters
    ----------
    inner : AsyncAlgorithmBase
    tolerance : float
    late : tuple of int
        Agents that do not take part from the start.
    """

    inner: AsyncAlgorithmBase
    tolerance: float
    late: tuple[int, ...] = ()

    @property
    def kind(self) -> str:
        return self.inner.kind

    @property
    def about(self) -> About | None:
        """What the method says of itself."""
        return self.inner.about

    def on(self, network: TopologyBase) -> TerminationDetection:
        """The same with what the method needs to know of a network."""
        return replace(self, inner=self.inner.on(network))

    def start(self, X: Array, agent: LocalAgent) -> StoppingState:
        """First state from the common start X ``(n, p)``: nobody is quiet."""
        none, standing = np.zeros(agent.agents), first_standing(agent.agents, self.late)
        inner = self.inner.start(X, AmongMembers(agent, standing))
        return StoppingState(inner, none, none, standing, none, none, none, np.asarray(np.inf))

    def restart(self, state: StoppingState, life: int) -> StoppingState:
        """The state of a checkpoint to go on from; the agent is quiet again once its neighbors answer."""
        return replace(state, inner=self.inner.restart(state.inner, life), busy=np.asarray(np.inf))

    def wake(
        self, state: StoppingState, inbox: Sequence[StampedMessage], agent: LocalAgent
    ) -> tuple[StoppingState, StampedMessage]:
        """One iteration of the method, and the agent's level after it; of one that has left, an answer."""
        s, news = self._hear(state, inbox, agent)
        if not self.takes_part(s, agent):
            return self.answer(s, [], agent)
        near = AmongMembers(agent, s.standing)
        inner, message = self.inner.wake(s.inner, news, near)
        # Who is done may stay where it is: an agent between two of them that differ is never quite calm.
        slack = SLACK if (s.levels == DONE).any() else 1.0
        calm = self.inner.residual(inner) <= slack * self.tolerance
        busy = s.busy if calm and np.isfinite(s.busy) else np.asarray(message.stamp)
        answered = (s.echo > busy) & (s.spoke == epoch(s.standing))
        quiet = calm and bool(answered[near.neighbors].all())
        levels, stamps = s.levels.copy(), s.stamps.copy()
        others = [j for j in member_ids(s.standing) if j != agent.index]
        levels[agent.index] = _level(levels[others]) if quiet else BUSY
        stamps[agent.index] = message.stamp
        s = replace(s, inner=inner, levels=levels, stamps=stamps, busy=busy)
        return s, StampedMessage(message, levels, stamps, s.standing)

    def compute(self, state: StoppingState, agent: LocalAgent) -> StoppingState:
        """What the method computes before its next wake; nothing for one that does not take part."""
        if not self.takes_part(state, agent):
            return state
        return replace(state, inner=self.inner.compute(state.inner, AmongMembers(agent, state.standing)))

    def answer(
        self, state: StoppingState, inbox: Sequence[StampedMessage], agent: LocalAgent
    ) -> tuple[StoppingState, StampedMessage]:
        """Say the same again, level included, with an echo of what has come."""
        s, news = self._hear(state, inbox, agent)
        inner, message = self.inner.answer(s.inner, news, AmongMembers(agent, s.standing))
        stamps = s.stamps.copy()
        stamps[agent.index] = message.stamp
        s = replace(s, inner=inner, stamps=stamps)
        return s, StampedMessage(message, s.levels, stamps, s.standing)

    def give_up(self, state: StoppingState, agent: LocalAgent) -> StoppingState:
        """The same at level 4, which ends the run of everybody who hears of it."""
        levels = state.levels.copy()
        levels[agent.index] = OUT
        return replace(state, levels=levels)

    # Who takes part

    def know(self, state: StoppingState, standing: Array, agent: LocalAgent) -> StoppingState:
        """The state of an agent that knows this standing too; what was said about another set is void."""
        if (standing <= state.standing).all():  # nothing new, as nearly always
            return state
        new = merged(state.standing, standing)
        if epoch(new) == epoch(state.standing):
            return replace(state, standing=new)
        before = AmongMembers(agent, state.standing).neighbors
        inner = self.inner.relink(state.inner, before, AmongMembers(agent, new))
        none = np.zeros_like(state.levels)
        return replace(state, inner=inner, standing=new, levels=none, busy=np.asarray(np.inf))

    def recall(self, state: StoppingState, record: Record, agent: LocalAgent) -> StoppingState:
        """The state of a checkpoint with what the agent must not have forgotten; it is not quiet yet."""
        levels = state.levels.copy()
        if levels[agent.index] < DONE:
            levels[agent.index] = BUSY
        return self.know(replace(state, levels=levels), record.standing, agent)

    def carry_out(self, state: StoppingState, record: Record, agent: LocalAgent) -> Array | None:
        """The standing to know from now on if changes are asked for that this agent may make; else None."""
        wanted = carried_out(state.standing)
        may = record.after(state.standing, self._bound(state, agent)).may_change(agent.index)
        return wanted if may and epoch(wanted) > epoch(state.standing) else None

    def record(self, record: Record, state: StoppingState, agent: LocalAgent) -> Record:
        """What must be on disk before the message of this state leaves, after an earlier record."""
        return record.after(state.standing, self._bound(state, agent))

    def takes_part(self, state: StoppingState, agent: LocalAgent) -> bool:
        """Whether the agent is a member as far as it knows."""
        return bool(are_members(state.standing)[agent.index])

    def may_go(self, state: StoppingState, agent: LocalAgent, done: Collection[int] = ()) -> bool:
        """Whether the agent has left, and all neighbors that stay know; ``done`` are those that have ended.

        A member that is at level 2, or has ended, has heard from all other members of the same set.
        """
        near = AmongMembers(agent, state.standing).neighbors
        levels = state.levels[are_members(state.standing)]
        all_know = bool(np.isin(levels, (ALL_QUIET, DONE)).any()) or any(j in done for j in near)
        knows = bool((state.spoke[near] == epoch(state.standing)).all())
        return bool(state.standing[agent.index] == LEFT) and (all_know or knows)

    # The end

    def flaw(self, message: StampedMessage) -> str | None:
        """What no agent of this method sends: of the method, and of levels, stamps and standings."""
        m = message
        if (why := self.inner.flaw(m.message)) is not None:
            return why
        if not all(_are_whole(part) for part in (m.sender, m.stamp, m.heard, m.stamps)) or m.stamp == 0:
            return "a stamp that is no whole number, or out of range"
        if not (_are_whole(m.levels) and (m.levels <= OUT).all()):
            return f"a level that is none of 0 to {OUT:.0f}"
        if not (_are_whole(m.standing) and (m.standing <= LEFT).all()):
            return f"a standing that is none of 0 to {LEFT:.0f}"
        return None

    def residual(self, state: StoppingState) -> float:
        return self.inner.residual(state.inner)

    def done(self, state: StoppingState, agent: LocalAgent) -> bool:
        """Whether the agent knows that all have agreed to stop, and is quiet itself."""
        return bool(state.levels[agent.index] == DONE)

    def all_done(self, state: StoppingState) -> bool:
        """Whether every member is done, as far as this one has heard: nobody needs its answers any more."""
        return bool((state.levels[are_members(state.standing)] == DONE).all())

    def ended(self, state: StoppingState) -> bool:
        """Whether somebody has given up, as far as this agent has heard."""
        return bool((state.levels == OUT).any())

    def all_ended(self, state: StoppingState) -> bool:
        """Whether every member is done or has given up, as far as this agent has heard."""
        return bool((state.levels[are_members(state.standing)] >= DONE).all())

    def _bound(self, state: StoppingState, agent: LocalAgent) -> bool:
        return bool(state.levels[agent.index] >= ALL_QUIET)

    def _hear(
        self, s: StoppingState, inbox: Sequence[StampedMessage], agent: LocalAgent
    ) -> tuple[StoppingState, list[Any]]:
        """The newest word of every agent and echo of every neighbor; and the messages to compute with.

        Who does not take part is not listened to: it may not know that it was taken out, and change a set
        that others are done in.
        """
        members = are_members(s.standing)
        letters = [m for m in inbox if members[int(m.sender)]]
        for letter in letters:
            s = self.know(s, letter.standing, agent)
        levels, stamps, newest, echo, spoke = (
            a.copy() for a in (s.levels, s.stamps, s.newest, s.echo, s.spoke)
        )
        here = epoch(s.standing)
        for letter in letters:
            j, number = int(letter.sender), epoch(letter.standing)
            # All that the sender knows was merged: with the same number it is the same set.
            newer = (letter.stamps > stamps) & (number == here)
            newer[agent.index] = False
            levels[newer], stamps[newer] = letter.levels[newer], letter.stamps[newer]
            if letter.stamp > newest[j]:
                newest[j], echo[j], spoke[j] = letter.stamp, letter.heard[agent.index], number
        s = replace(s, levels=levels, stamps=stamps, newest=newest, echo=echo, spoke=spoke)
        near = AmongMembers(agent, s.standing).neighbors
        return s, [letter.message for letter in letters if int(letter.sender) in near]


def _are_whole(numbers: Array) -> bool:
    return bool(((numbers >= 0) & (numbers < LARGEST) & (numbers == np.floor(numbers))).all())


def _level(others: Array) -> float:
    """The level of a quiet agent, from those of all other members."""
    if (others == DONE).any() or (others >= ALL_QUIET).all():
        return DONE
    return ALL_QUIET if (others >= QUIET).all() else QUIET
