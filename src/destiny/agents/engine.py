"""One agent among its neighbours, as `iterate` sees it; nobody there has a view of the whole network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from destiny.agents.exchange import Exchange
from destiny.agents.outbox import Sent
from destiny.agents.transport.connections import Hub
from destiny.agents.transport.event_loop import Absent
from destiny.engines.hosted import HostedAgents, Traffic
from destiny.errors import DestinyError, SettingsError
from destiny.networks.local_view import Neighbourhood
from destiny.protocols import Array, Problem, Topology
from destiny.storage.checkpoint import Saved

S = TypeVar("S")


@dataclass(frozen=True)
class Alone:
    """Engine of a process that hosts one agent (`destiny.engines.hosted.Engine`)."""

    hub: Hub
    index: int
    sent: Sent
    leader = True

    def same(self, facts: Mapping[str, Any]) -> None:
        """HELLO has compared the settings."""

    def connect(self, problem: Problem, network: Topology) -> AgentTeam:
        """Meet all neighbours."""
        exchange = Exchange(self.hub, network, self.index, self.sent)
        self.hub.open(exchange)
        try:
            self.hub.meet()
        except Absent:
            raise self.nobody() from None
        if isinstance(network, Neighbourhood):
            network.learn({n.index: n.degree or 0 for n in self.hub.neighbours})
        return AgentTeam(HostedAgents([self.index], problem.host([self.index]), network, exchange))

    def nobody(self) -> DestinyError:
        """Who has not come, and why."""
        late = [n for n in self.hub.neighbours if not (n.degree or n.degree_in_hello)]
        told = " and ".join(f"{n.name} {n.trouble}" for n in late)
        text = f"not all neighbours have come within {self.hub.patience:g} s: {told}"
        return SettingsError(text) if all(n.wrong for n in late) else Absent(text)

    def newest(self, folder: Path, agents: int) -> tuple[Saved | None, list[str]]:
        """An agent finds its own checkpoints before it meets anybody."""
        raise NotImplementedError


class AgentTeam:
    """The one agent of this process (`destiny.engines.hosted.Team`)."""

    leader = True

    def __init__(self, agents: HostedAgents) -> None:
        self.agents = agents

    @property
    def hosts(self) -> list[NDArray[np.intp]]:
        """The agent."""
        return [self.agents.ids]

    @property
    def traffic(self) -> Traffic:
        """What the run has cost this agent so far."""
        return self.agents.traffic

    def rewind(self, traffic: Traffic) -> None:
        """Count on from ``traffic``."""
        self.agents.traffic = replace(traffic)

    def each(self, task: Callable[[Any, HostedAgents], S], parts: Sequence[Any]) -> list[S]:
        """Run the task for the agent."""
        with np.errstate(over="ignore", invalid="ignore"):
            return [task(parts[0], self.agents)]

    def split(self, stack: Array) -> list[Array]:
        """The agent's row of an array of all agents; an array of one row is its own."""
        return [np.ascontiguousarray(stack if len(stack) == 1 else stack[self.agents.ids])]

    def join(self, parts: Sequence[Any]) -> Any:
        """The agent's own state: nobody has more."""
        return parts[0]

    own = collect = join

    def set_flood(self, parts: Sequence[Array] | None) -> None:
        """Start a new max-consensus among the agents, or end it with None."""
        self.agents.flood = None if parts is None else parts[0]

    @property
    def flood(self) -> Array:
        """What this agent has heard as the largest value so far."""
        assert self.agents.flood is not None
        return self.agents.flood

    def told(self, value: Any) -> Any:
        """Every agent speaks for itself."""
        return value

    def noticed(self, signal: str | None) -> str | None:
        """A signal is for this agent alone."""
        return signal

    def same(self, facts: Mapping[str, Any], start: Array) -> Array:  # noqa: ARG002
        """HELLO has compared the settings."""
        return start

    def _nobody_can(self, *_: Any) -> NoReturn:
        raise DestinyError("an agent does not see the whole network: average over its neighbours instead")

    gather = mean = values = gradient = value = save = _nobody_can

    def close(self) -> None:
        """The hub is closed by whoever opened it."""
