"""One agent among its neighbours, as `iterate` sees it; nobody there has a view of the whole network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from scipy.sparse import csr_array

from destiny.agents.exchange import Exchange
from destiny.agents.outbox import Outbox
from destiny.agents.transport.connections import Connections
from destiny.agents.transport.event_loop import Absent
from destiny.engines.hosted import HostedAgents
from destiny.engines.single_worker import SingleWorkerTeam
from destiny.errors import DestinyError, SettingsError
from destiny.networks.local_view import Neighbourhood
from destiny.protocols import Array, Problem, TopologyBase
from destiny.storage.checkpoint import Saved

if TYPE_CHECKING:
    from destiny.agents.privacy.setup import Privacy


@dataclass(frozen=True)
class SingleAgentEngine:
    """Engine of a process that hosts one agent (`destiny.engines.team.Engine`)."""

    connections: Connections
    index: int
    outbox: Outbox
    privacy: Privacy | None = None
    """Keys and log, where sums are private."""
    few_bits: bool = False
    """Whether messages hold integers."""
    leader = True

    def require_same(self, facts: Mapping[str, Any]) -> None:
        """HELLO has compared the settings."""

    def connect(self, problem: Problem, network: TopologyBase) -> AgentTeam:
        """Meet all neighbours."""
        exchange = self.open(network)
        try:
            self.connections.meet()
        except Absent:
            raise self.nobody() from None
        self._learn(network)
        agents = OneAgent([self.index], problem.host([self.index]), network, exchange)
        agents.masked = exchange.masked
        exchange.begin()
        return AgentTeam(agents)

    def open(self, network: TopologyBase) -> Exchange:
        """Listen and call; nobody was met yet."""
        exchange = self._exchange(network)
        self.connections.open(exchange)
        return exchange

    def serve(self, network: TopologyBase) -> None:
        """Listen and call, to repeat what was sent: this agent has its answer."""
        exchange = self.open(network)
        self._learn(network)
        exchange.begin()

    def _learn(self, network: TopologyBase) -> None:
        if isinstance(network, Neighbourhood):
            network.learn({n.index: n.degree or 0 for n in self.connections.neighbours})

    def _exchange(self, network: TopologyBase) -> Exchange:
        parts = self.connections, network, self.index, self.outbox
        return Exchange(*parts, self.few_bits) if self.privacy is None else self.privacy.exchange(*parts)

    def nobody(self) -> DestinyError:
        """The error to raise: which neighbours are missing, and why."""
        late = [n for n in self.connections.neighbours if not (n.degree or n.degree_in_hello)]
        reasons = " and ".join(f"{n.name} {n.trouble}" for n in late)
        text = f"not all neighbours have come within {self.connections.wait_limit:g} s: {reasons}"
        return SettingsError(text) if late and all(n.disagrees for n in late) else Absent(text)

    def newest(self, folder: Path, agents: int) -> tuple[Saved | None, list[str]]:
        """Not used: an agent reads its own checkpoints before it connects."""
        raise NotImplementedError


class OneAgent(HostedAgents):
    """An agent that counts what it sends itself, whether or not it knows the whole network."""

    def count_links(self, W: csr_array[Any, Any]) -> int:
        """Links to its neighbours."""
        (agent,) = self.ids
        mine = slice(W.indptr[agent], W.indptr[agent + 1])
        return int(np.count_nonzero(W.data[mine][W.indices[mine] != agent]))


class AgentTeam(SingleWorkerTeam):
    """The one agent of this process (`destiny.engines.team.Team`)."""

    leader = True

    def join(self, parts: Sequence[Any]) -> Any:
        """The agent's own state: nobody has more."""
        return parts[0]

    collect = join

    def broadcast(self, value: Any) -> Any:
        return value

    def any_signal(self, signal: str | None) -> str | None:
        return signal

    def require_same(self, facts: Mapping[str, Any], start: Array) -> Array:  # noqa: ARG002
        """HELLO has compared the settings."""
        return start

    def _nobody_can(self, *_: Any) -> NoReturn:
        raise DestinyError("an agent does not see the whole network: average over its neighbours instead")

    gather = mean = values = gradient = mass = value = save = _nobody_can

    def close(self) -> None:
        """The connections is closed by whoever opened it."""
