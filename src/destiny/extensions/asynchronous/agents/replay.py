"""Make an asynchronous run again, to the same bits, from the files and logs of all agents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from destiny.agents.agent_file import read
from destiny.agents.process import identity
from destiny.agents.settings import CHECKPOINTS, Settings
from destiny.engines.same_settings import difference
from destiny.errors import DestinyError, SettingsError
from destiny.extensions.asynchronous.agents import replay_log
from destiny.extensions.asynchronous.agents.async_agent import first_point, method_of
from destiny.extensions.asynchronous.agents.async_checkpoints import AsyncCheckpoints
from destiny.extensions.asynchronous.agents.replay_log import Event
from destiny.extensions.asynchronous.async_protocol import AsyncAlgorithmBase
from destiny.extensions.asynchronous.local_agent import HostedAgent
from destiny.extensions.asynchronous.members import Record
from destiny.extensions.asynchronous.termination import StampedMessage, StoppingState
from destiny.networks.local_view import Neighborhood
from destiny.storage.checkpoint import Saved, flatten

AGENT_FILE = "agent.toml"


@dataclass
class ReplayedAgent:
    """One agent of a run that is made again.

    Attributes
    ----------
    saved : Saved
        Its last state in the files of the run.
    states : dict from int to StoppingState
        By stamp, those that the log or the files refer to.
    done : int
        Events of the log that were made again.
    welcome : StoppingState or None
        Where an agent that has just come late begins.
    """

    settings: Settings
    events: list[Event]
    saved: Saved
    agent: HostedAgent
    first: StoppingState
    state: StoppingState
    states: dict[int, StoppingState | None] = field(default_factory=dict)
    done: int = 0
    welcome: StoppingState | None = None

    @property
    def wakes(self) -> int:
        """Wakes in all lives, those that were forgotten included."""
        return sum(event.kind == "wake" for event in self.events)

    @property
    def starts(self) -> int:
        """Lives."""
        return sum(event.kind == "start" for event in self.events)

    @property
    def final(self) -> StoppingState:
        """The state that the files of the run have, made again."""
        state = self.states[int(self.saved.facts["stamp"])]
        assert state is not None
        return state

    @property
    def same_bits(self) -> bool:
        """Whether it is the same to the bit."""
        again = flatten(self.final)
        return again.keys() == self.saved.state.keys() and all(
            np.array_equal(again[name], array) for name, array in self.saved.state.items()
        )


def find_files(paths: Sequence[Path]) -> list[Path]:
    """The agent files among some paths, of which a folder stands for those of the agents in it."""
    files: list[Path] = []
    for path in paths:
        files += sorted(path.glob(f"*/{AGENT_FILE}")) if path.is_dir() else [path]
    if not files:
        raise SettingsError(f"there is no NAME/{AGENT_FILE} in {', '.join(map(str, paths))}: name the files")
    return files


def replay(files: Sequence[Path]) -> list[ReplayedAgent]:
    """Make the run of these agent files again: an event is due as soon as all messages that it used exist."""
    with threadpool_limits(1), np.errstate(over="ignore", invalid="ignore"):
        agents = _open(files)
        uses = Counter(key for one in agents for event in one.events for key in event.heard)
        letters: dict[tuple[int, int], StampedMessage] = {}
        while any(one.done < len(one.events) for one in agents):
            before = sum(one.done for one in agents)
            for one in agents:
                _advance(one, letters, uses)
            if sum(one.done for one in agents) == before:
                raise _missing(agents, letters)
        return agents


def _open(files: Sequence[Path]) -> list[ReplayedAgent]:
    everybody = sorted((read(path) for path in files), key=lambda s: s.index)
    for s in everybody:
        if not isinstance(s.algorithm, AsyncAlgorithmBase):
            raise SettingsError(f"{s.name} has no asynchronous method: its bits follow from the files alone")
    d, late = everybody[0].agents, everybody[0].options.late
    there = [s.index for s in everybody]
    if len(set(there)) < len(there) or not set(range(d)) - set(late) <= set(there):
        found = ", ".join(map(str, there))
        raise SettingsError(f"a replay needs the files of all {d} agents, each once; found agents {found}")
    degrees = {s.index: len(s.neighbors) for s in everybody} | {
        n.index: n.degree_in_file or 0 for s in everybody for n in s.neighbors if n.index not in there
    }
    for s in everybody:
        if s.run != everybody[0].run or (difference(s.common, everybody[0].common)) is not None:
            raise SettingsError(f"{s.name} and {everybody[0].name} are agents of different runs")
        if isinstance(s.network, Neighborhood):
            s.network.learn(degrees)
    return [one for s in everybody if (one := _agent(s)) is not None]


def _agent(s: Settings) -> ReplayedAgent | None:
    """One agent before its first event; None of a place that nobody has taken."""
    names = [n.name for n in s.neighbors]
    saved = AsyncCheckpoints(s.out / CHECKPOINTS, identity(s), s.index, names).saved
    if saved is None and s.index in s.options.late:
        return None
    if saved is None:
        raise SettingsError(f"{s.out} has no checkpoint: there is nothing to compare a replay with")
    agent = HostedAgent(s.index, s.problem.host([s.index]), s.network.at(0))
    first = method_of(s).start(first_point(s), agent)
    events = list(replay_log.read(s.out / replay_log.FILE))
    wanted = {event.stamp for event in events if event.kind == "start"} | {int(saved.facts["stamp"])}
    return ReplayedAgent(s, events, saved, agent, first, first, dict.fromkeys(wanted))


def _advance(one: ReplayedAgent, letters: dict[tuple[int, int], StampedMessage], uses: Counter[Any]) -> None:
    """Make the events of one agent again, as far as their messages exist."""
    method = method_of(one.settings)
    while one.done < len(one.events) and all(key in letters for key in one.events[one.done].heard):
        event = one.events[one.done]
        one.done += 1
        standing = np.array(event.standing)
        if event.kind == "start":
            before = one.states[event.stamp] if event.stamp else one.welcome or one.first
            if before is None:
                raise DestinyError(
                    f"the log of {one.settings.name} goes on from {event.stamp}, which it lacks"
                )
            one.welcome = None
            one.state = method.recall(method.restart(before, event.life), Record(standing), one.agent)
            continue
        if event.kind == "members":
            one.state = method.know(one.state, standing, one.agent)
            continue
        inbox = [
            event.trims[key].of(letters[key]) if key in event.trims else letters[key] for key in event.heard
        ]
        uses.subtract(event.heard)
        for key in event.heard:
            if not uses[key]:
                del letters[key]
        if event.kind == "join":
            one.welcome = method.start(inbox[0].message.point, one.agent)
            continue
        if event.kind == "wake":
            state, letter = method.wake(one.state, inbox, one.agent)
            one.state = method.compute(state, one.agent)
        else:
            state = method.give_up(one.state, one.agent) if event.kind == "out" else one.state
            one.state, letter = method.answer(state, inbox, one.agent)
        if int(letter.stamp) != event.stamp:
            raise DestinyError(
                f"the log of {one.settings.name} has message {event.stamp}, where {int(letter.stamp)} is "
                "made: it belongs to another run, or lines are missing"
            )
        if event.stamp in one.states:
            one.states[event.stamp] = one.state
        if uses[one.settings.index, event.stamp]:
            letters[one.settings.index, event.stamp] = letter


def _missing(agents: Sequence[ReplayedAgent], letters: dict[tuple[int, int], StampedMessage]) -> DestinyError:
    """The error to raise: a message that was used and that no log has."""
    one = next(one for one in agents if one.done < len(one.events))
    sender, stamp = next(key for key in one.events[one.done].heard if key not in letters)
    name = next((n.name for n in one.settings.neighbors if n.index == sender), f"agent {sender}")
    return DestinyError(
        f"{one.settings.name} has used message {stamp} of {name}, which the log of that agent does not have: "
        "lines are missing, and the run cannot be made again"
    )
