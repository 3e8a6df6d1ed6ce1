"""Who takes part, as one asynchronous agent knows it: its record on disk, and what operators ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from destiny.agents.observation import View
from destiny.agents.outcome import Outcome
from destiny.agents.process import identity
from destiny.agents.settings import CHECKPOINTS, Settings
from destiny.agents.transport.event_loop import Absent, RunEnded
from destiny.agents.transport.neighbor import Neighbor
from destiny.errors import DestinyError, SettingsError
from destiny.extensions.asynchronous.agents.async_checkpoints import (
    AsyncCheckpoints,
    read_record,
    read_requests,
    write_requests,
)
from destiny.extensions.asynchronous.async_protocol import AsyncAlgorithmBase, LocalAgent
from destiny.extensions.asynchronous.members import (
    LEAVING,
    LEFT,
    MEMBER,
    AmongMembers,
    are_members,
    asked,
    first_standing,
    member_ids,
    merged,
    mixing_of,
)
from destiny.extensions.asynchronous.termination import StoppingState, TerminationDetection
from destiny.networks.local_view import Neighborhood
from destiny.protocols import Array, TopologyBase
from destiny.validation import did_you_mean


class Left(DestinyError):
    """The agent has left the run for good, as it was asked to."""

    code = 0


class Membership:
    """The members as one agent knows them.

    Attributes
    ----------
    record : Record
        As on disk.
    told_by : callable
        The neighbors that say an agent leaves or has left.
    """

    def __init__(
        self, settings: Settings, method: TerminationDetection, files: AsyncCheckpoints, view: View
    ) -> None:
        self.settings, self.method, self.files, self.view = settings, method, files, view
        self.neighbors = view.connections.neighbors
        self.told_by: Callable[[int], list[Neighbor]] = lambda _: []
        self.record = files.read_record(first_standing(settings.agents, settings.options.late))
        self.show(self.record.standing)

    @property
    def standing(self) -> float:
        """Of this agent."""
        return float(self.record.standing[self.settings.index])

    @property
    def ids(self) -> list[int]:
        """The indices of those who take part."""
        return member_ids(self.record.standing)

    def show(self, standing: Array) -> None:
        """Tell the connections and the views who takes part."""
        for n in self.neighbors:
            came, its = n.takes_part, standing[n.index]
            n.standing = "late" if its < MEMBER else "left" if its == LEFT else "member"
            n.silent = n.silent if came else 0.0
        members = member_ids(standing)
        self.view.members = None if len(members) == self.settings.agents else members

    def keep(self, standing: Array, **changes: Any) -> None:
        """Record a standing, and what else has changed, before anything follows from it."""
        new = replace(self.record, standing=merged(self.record.standing, standing), **changes)
        if new.same_as(self.record):
            return
        self.files.write_record(new)
        before, after = (are_members(record.standing) for record in (self.record, new))
        self.record = new
        self.show(new.standing)
        for j in np.flatnonzero(before != after):
            before[j] = after[j]
            what = "takes part from now on" if after[j] else f"has left for good{self.by_word_of(int(j))}"
            count = f"{int(before.sum())} of {len(after)} agents take part"
            self.view.event_log.report("members", self.name(int(j)), f"{self.name(int(j))} {what}: {count}")

    def after(self, state: StoppingState, agent: LocalAgent) -> None:
        """Record what follows from a state, before its message leaves."""
        record = self.method.record(self.record, state, agent)
        self.keep(record.standing, bound=record.bound)

    def forget(self) -> None:
        """The files of this agent were lost: it cannot know any more what it may change."""
        self.keep(self.record.standing, bound=np.inf)

    def wanted(self, state: StoppingState, agent: LocalAgent) -> Array | None:
        """A standing to know from now on: what is asked for here, and what this agent may carry out."""
        standing = state.standing
        for j in self.files.requests():
            standing = asked(standing, j, joins=False)
        for n in self.neighbors:
            if n.standing == "late" and n.connection is not None:
                standing = asked(standing, n.index, joins=True)
        if not self.record.met and all(self.was_met(n, standing) for n in self.neighbors):
            self.keep(self.record.standing, met=True)
        asking = replace(state, standing=standing)
        made = self.method.carry_out(asking, self.record, agent)
        standing = standing if made is None else made
        return None if np.array_equal(standing, state.standing) else standing

    def was_met(self, n: Neighbor, standing: Array) -> bool:
        """Whether a neighbor has said which life of this agent it knows; one that is to leave need not."""
        return n.connection_count > 0 or not n.takes_part or standing[n.index] == LEAVING

    # Leaving

    def by_word_of(self, j: int) -> str:
        """The neighbors that say an agent has left, in words; nothing if it was asked for here."""
        names = ", ".join(n.name for n in self.told_by(j))
        return f" by the word of {names}" if names and j not in self.files.requests() else ""

    def disputed(self) -> DestinyError | None:
        """The error to raise if neighbors say that somebody has left, and too few of them do."""
        for j in self.ids:
            if self.record.standing[j] == MEMBER and (told := self.told_by(j)):
                names, who = ", ".join(n.name for n in told), self.name(j)
                return SettingsError(
                    f"{names} took {who} out of the run, and this agent did not, as more than half of its "
                    f"neighbors must say so: agree by destiny agents remove FILE {j}, or ask {names}"
                )
        return None

    def refuse_departed(self) -> None:
        """Raise the error with which an earlier process has ended, if it takes part no more."""
        if (why := self.files.departure()) is not None:
            raise self.departed(why)

    def end_if_left(self, state: StoppingState, agent: LocalAgent) -> None:
        """Raise `Left` if this agent has left and its neighbors know, `RunEnded` if it was taken out."""
        if state.standing[self.settings.index] != LEFT:
            return
        wanted = self.settings.index in self.files.requests()
        if not wanted or self.method.may_go(state, agent, [n.index for n in self.neighbors if n.done]):
            why = "asked" if wanted else f"taken out of the run{self.by_word_of(self.settings.index)}"
            self.files.depart(why)
            raise self.departed(why)

    def departed(self, why: str) -> DestinyError:
        """The error with which an agent ends that takes part no more."""
        name = self.settings.name
        if why == "asked":
            return Left(f"{name} has left the run for good, and its neighbors know")
        return RunEnded(f"{name} was {why}")

    def unconfirmed(self, silent: list[Neighbor]) -> Absent:
        """The error of an agent that has left, and whose neighbors do not answer."""
        names, deadline = ", ".join(n.name for n in silent), self.settings.deadline
        return Absent(
            f"{self.settings.name} has left, but {names} did not say so for {deadline:g} s: start it again, "
            "unless the run is over"
        )

    # The answer

    def network(self, state: StoppingState, agent: LocalAgent) -> TopologyBase:
        """The network of those who take part, in which the averages of the answer are made."""
        s, members = self.settings, member_ids(state.standing)
        if len(members) == s.agents:
            return s.network
        near = AmongMembers(agent, state.standing)
        # Diameter and spectrum of the file are those of another network.
        network = Neighborhood(s.index, near.neighbors.tolist(), s.agents, max(1, len(members) - 1))
        network.weigh(near.weights, near.own_weight)
        return network

    def name(self, j: int) -> str:
        """The name of an agent if it is known here, else its index."""
        if j == self.settings.index:
            return self.settings.name
        return next((n.name for n in self.neighbors if n.index == j), f"agent {j}")

    def remarks(self, state: StoppingState) -> list[str]:
        """Whose answer it is, if not that of all agents of the files."""
        members, notes = member_ids(state.standing), []
        if len(members) < self.settings.agents:
            names = ", ".join(self.name(j) for j in members)
            notes.append(f"the answer is that of {names}, who took part at the end")
        if state.standing[self.settings.index] == LEAVING:
            notes.append("this agent asked to leave too late: its data are part of the answer")
        return notes


def request_leave(settings: Settings, name: str | None = None) -> str:
    """Ask this agent to leave for good, or to see to it that a neighbor is taken out; what happens then."""
    s = settings
    if not isinstance(s.algorithm, AsyncAlgorithmBase):
        raise SettingsError(
            f"{s.algorithm.kind} is synchronous, and its trackers add up over all agents: nobody can leave; "
            "start a new run without that agent, or choose destiny-async"
        )
    names = {str(j): j for j in range(s.agents)}
    names |= {n.name: n.index for n in s.neighbors} | {s.name: s.index}
    who = s.name if name is None else name
    if who not in names:
        if who.isdigit():
            raise SettingsError(f"this run has agents 0 to {s.agents - 1}; found {who}")
        raise SettingsError(
            f"{who!r} is no neighbor of {s.name}: name another agent by its index{did_you_mean(who, names)}"
        )
    folder = s.out / CHECKPOINTS
    standing = read_record(folder, first_standing(s.agents, s.options.late)).standing
    if Outcome.read(s.out, identity(s)) is not None:
        raise SettingsError(f"the run is over: {s.out} has its answer, which nobody can leave any more")
    if standing[names[who]] == LEFT:
        raise SettingsError(f"{who} has left the run already")
    if standing[names[who]] < MEMBER:
        raise SettingsError(f"{who} has not come yet, and nobody waits for it: there is nothing to leave")
    stay = [j for j in member_ids(standing) if j != names[who]]
    if not isinstance(s.network, Neighborhood):
        W = s.network.at(0)
        if abs(W - W.T).max() > 1e-12 or mixing_of(W, stay) is None:
            raise SettingsError(
                f"without {who}, those who stay are not linked with each other by symmetric weights: "
                "they could not go on; start a new run with other links"
            )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_requests(folder, sorted({*read_requests(folder), names[who]}))
    if names[who] == s.index:
        return f"{who} leaves as soon as its agent runs and its neighbors know; it then ends by itself"
    agreed = "" if not s.options.majority else "; others follow when more than half of their neighbors say so"
    return f"{s.name} takes {who} out of the run as soon as its agent runs: {who} cannot come back{agreed}"
