"""How asynchronous agents agree to stop: levels that are flooded with every message, and no barrier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from destiny.protocols import About, Array, AsyncAlgorithmBase, LocalAgent, TopologyBase

BUSY, QUIET, ALL_QUIET, DONE, OUT = 0.0, 1.0, 2.0, 3.0, 4.0
SLACK = 10.0  # times the tolerance is quiet enough once somebody is done
LARGEST = 2.0**53  # a stamp is a whole number below: exact in float64


@dataclass(frozen=True)
class Letter:
    """A message of the method, and what its sender knows of all levels (`destiny.protocols.Message`)."""

    message: Any
    levels: Array
    """Newest level heard of each agent, ``(d,)``."""
    stamps: Array
    """When that was said: the stamp of that agent's message, ``(d,)``."""

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
    stamps: Array
    newest: Array
    """Stamp of the newest letter of each agent, ``(d,)``."""
    echo: Array
    """The agent's own stamp that each neighbour had heard when it sent that letter, ``(d,)``."""
    busy: Array
    """Stamp of the last wake after which the agent was not quiet, ``()``; infinite before the first wake."""

    @property
    def X(self) -> Array:
        """The iterate ``(n, p)``."""
        return np.asarray(self.inner.X)


@dataclass(frozen=True)
class UntilQuiet(AsyncAlgorithmBase):
    """An asynchronous method whose agents agree to stop. Every agent has a level:

        0  its residual is above the tolerance
        1  it is not, and every neighbour has answered a message that was sent after it fell
        2  level 1, and all others were at 1 or above when last heard of
        3  level 2, and all others too; or level 1 and somebody is at 3, and then a residual of ten times the
           tolerance is small enough for level 1: done
        4  it has given up, for instance because it is out of time: everybody is to end

    Levels travel with every message, with the stamp at which they were set; the newer word replaces the
    older. A done agent goes on answering, for those who have not heard yet or come back from an old
    checkpoint: by further wakes, or by `answer`, which leaves its iterate where it is.

    Parameters
    ----------
    inner : AsyncAlgorithmBase
    tolerance : float
    """

    inner: AsyncAlgorithmBase
    tolerance: float

    @property
    def kind(self) -> str:
        return self.inner.kind

    @property
    def about(self) -> About | None:
        """What the method says of itself."""
        return self.inner.about

    def on(self, network: TopologyBase) -> UntilQuiet:
        """The same with what the method needs to know of a network."""
        return replace(self, inner=self.inner.on(network))

    def start(self, X: Array, agent: LocalAgent) -> StoppingState:
        """First state from the common start X ``(n, p)``: nobody is quiet."""
        none = np.zeros(agent.agents)
        return StoppingState(self.inner.start(X, agent), none, none, none, none, np.asarray(np.inf))

    def restart(self, state: StoppingState, life: int) -> StoppingState:
        """The state of a checkpoint to go on from; the agent is quiet again once its neighbours answer."""
        return replace(state, inner=self.inner.restart(state.inner, life), busy=np.asarray(np.inf))

    def wake(
        self, state: StoppingState, inbox: Sequence[Letter], agent: LocalAgent
    ) -> tuple[StoppingState, Letter]:
        """One iteration of the method, and the agent's level after it."""
        inner, message = self.inner.wake(state.inner, [letter.message for letter in inbox], agent)
        s = replace(self._hear(state, inbox, agent), inner=inner)
        # Who is done may stay where it is: an agent between two of them that differ is never quite calm.
        slack = SLACK if (s.levels == DONE).any() else 1.0
        calm = self.inner.residual(inner) <= slack * self.tolerance
        busy = s.busy if calm and np.isfinite(s.busy) else np.asarray(message.stamp)
        quiet = calm and bool((s.echo[agent.neighbours] > busy).all())
        levels, stamps = s.levels.copy(), s.stamps.copy()
        others = np.delete(levels, agent.index)
        levels[agent.index] = _level(others) if quiet else BUSY
        stamps[agent.index] = message.stamp
        s = replace(s, levels=levels, stamps=stamps, busy=busy)
        return s, Letter(message, levels, stamps)

    def answer(
        self, state: StoppingState, inbox: Sequence[Letter], agent: LocalAgent
    ) -> tuple[StoppingState, Letter]:
        """Say the same again, level included, with an echo of what has come."""
        inner, message = self.inner.answer(state.inner, [letter.message for letter in inbox], agent)
        s = self._hear(state, inbox, agent)
        stamps = s.stamps.copy()
        stamps[agent.index] = message.stamp
        s = replace(s, inner=inner, stamps=stamps)
        return s, Letter(message, s.levels, stamps)

    def give_up(self, state: StoppingState, agent: LocalAgent) -> StoppingState:
        """The same at level 4, which ends the run of everybody who hears of it."""
        levels = state.levels.copy()
        levels[agent.index] = OUT
        return replace(state, levels=levels)

    def flaw(self, message: Letter) -> str | None:
        """What no agent of this method sends: of the method, and of levels and stamps."""
        m = message
        if (why := self.inner.flaw(m.message)) is not None:
            return why
        if not all(_are_whole(part) for part in (m.sender, m.stamp, m.heard, m.stamps)) or m.stamp == 0:
            return "a stamp that is no whole number, or out of range"
        if not (_are_whole(m.levels) and (m.levels <= OUT).all()):
            return f"a level that is none of 0 to {OUT:.0f}"
        return None

    def residual(self, state: StoppingState) -> float:
        return self.inner.residual(state.inner)

    def done(self, state: StoppingState, agent: LocalAgent) -> bool:
        """Whether the agent knows that all have agreed to stop, and is quiet itself."""
        return bool(state.levels[agent.index] == DONE)

    def all_done(self, state: StoppingState) -> bool:
        """Whether every agent is done, as far as this one has heard: nobody needs its answers any more."""
        return bool((state.levels == DONE).all())

    def ended(self, state: StoppingState) -> bool:
        """Whether somebody has given up, as far as this agent has heard."""
        return bool((state.levels == OUT).any())

    def _hear(self, s: StoppingState, inbox: Sequence[Letter], agent: LocalAgent) -> StoppingState:
        """Keep the newest word of every agent, and the newest echo of every neighbour."""
        if not inbox:
            return s
        levels, stamps, newest, echo = (a.copy() for a in (s.levels, s.stamps, s.newest, s.echo))
        for letter in inbox:
            newer = letter.stamps > stamps
            newer[agent.index] = False
            levels[newer], stamps[newer] = letter.levels[newer], letter.stamps[newer]
            j = int(letter.sender)
            if letter.stamp > newest[j]:
                newest[j], echo[j] = letter.stamp, letter.heard[agent.index]
        return replace(s, levels=levels, stamps=stamps, newest=newest, echo=echo)


def _are_whole(numbers: Array) -> bool:
    return bool(((numbers >= 0) & (numbers < LARGEST) & (numbers == np.floor(numbers))).all())


def _level(others: Array) -> float:
    """The level of a quiet agent, from those of all other agents."""
    if (others == DONE).any() or (others >= ALL_QUIET).all():
        return DONE
    return ALL_QUIET if (others >= QUIET).all() else QUIET
