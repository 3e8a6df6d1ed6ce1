"""One agent among its neighbors, as `iterate` sees it; nobody there has a view of the whole network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from scipy.sparse import csr_array

from destiny.agents.exchange import Exchange
from destiny.agents.outbox import Outbox
from destiny.agents.statements import Statements
from destiny.agents.transport.connections import Connections
from destiny.agents.transport.event_loop import Absent, RunEnded
from destiny.engines.hosted import HostedAgents
from destiny.engines.mixers import PLAIN, Messages
from destiny.engines.mixers.private import PrivateMixer
from destiny.engines.same_settings import spelled_columns
from destiny.engines.single_worker import SingleWorkerTeam
from destiny.engines.words import OutOfRangeError
from destiny.errors import DestinyError, PrivacyError, SettingsError
from destiny.networks.local_view import Neighborhood
from destiny.protocols import Array, Bounds, Problem, TopologyBase
from destiny.storage.checkpoint import Saved

if TYPE_CHECKING:
    from destiny.agents.privacy.hiding import AgentHiding


@dataclass(frozen=True)
class SingleAgentEngine:
    """Engine of a process that hosts one agent (`destiny.engines.team.Engine`)."""

    connections: Connections
    index: int
    outbox: Outbox
    statements: Statements | None = None
    """What agents tell all others once, where sums are made."""
    hiding: AgentHiding | None = None
    """Keys and log, where messages are private."""
    few_bits: bool = False
    """Whether messages hold integers."""
    leader = True

    def require_same(self, facts: Mapping[str, Any]) -> None:
        """HELLO has compared the settings."""

    def connect(self, problem: Problem, network: TopologyBase, messages: Messages = PLAIN) -> AgentTeam:
        """Meet all neighbors."""
        exchange = self.open(network)
        try:
            self.connections.meet()
        except Absent:
            raise self.nobody() from None
        exchange.begin()
        self._learn(network)
        mixer = messages.mixer(1, network.agents)
        if self.hiding is not None:
            mixer = PrivateMixer(network.agents, self.hiding)
        hosted, columns = problem.host([self.index]), spelled_columns(problem)
        return AgentTeam(OneAgent([self.index], hosted, network, exchange, mixer, columns))

    def open(self, network: TopologyBase) -> Exchange:
        """Listen and call; nobody was met yet."""
        exchange = self._exchange(network)
        self.connections.open(exchange)
        return exchange

    def serve(self, network: TopologyBase) -> None:
        """Listen and call, to repeat what was sent: this agent has its answer."""
        self.open(network)
        self._learn(network)

    def _learn(self, network: TopologyBase) -> None:
        """What follows from who takes part: weights, the tree for sums, masks."""
        known = self.statements if self.statements is not None and self.statements.all_known() else None
        if isinstance(network, Neighborhood):
            network.learn({n.index: n.degree or 0 for n in self.connections.neighbors})
            if known is not None:
                network.learn_links(known.links)
        if known is not None and self.hiding is not None:
            self.hiding.begin(known)

    def _exchange(self, network: TopologyBase) -> Exchange:
        begun = None if self.hiding is None else self.hiding.log.end
        return Exchange(
            self.connections, network, self.index, self.outbox, self.statements, self.few_bits, begun
        )

    def nobody(self) -> DestinyError:
        """The error to raise: which neighbors are missing, and why."""
        late = [n for n in self.connections.neighbors if not (n.degree or n.degree_in_hello)]
        reasons = " and ".join(f"{n.name} {n.trouble}" for n in late)
        text = f"not all neighbors have come within {self.connections.wait_limit:g} s: {reasons}"
        return SettingsError(text) if late and all(n.disagrees for n in late) else Absent(text)

    def newest(self, folder: Path, agents: int) -> tuple[Saved | None, list[str]]:
        """Not used: an agent reads its own checkpoints before it connects."""
        raise NotImplementedError


class OneAgent(HostedAgents):
    """An agent that counts what it sends itself, whether or not it knows the whole network."""

    exchange: Exchange

    @property
    def tree_messages(self) -> int:
        """Messages of a sum that this agent sends."""
        return self.tree.messages(self.ids.tolist())

    def all_reduce(self, *arrays: Array, bounds: Bounds | None = None) -> tuple[Array, ...]:
        """As that of all engines; an agent whose numbers cannot be sent ends the run for all."""
        try:
            return super().all_reduce(*arrays, bounds=bounds)
        except OutOfRangeError as error:  # its text has numbers of this agent
            self.exchange.connections.send_bye("has numbers that its private messages cannot carry")
            raise RunEnded(str(error)) from error
        except PrivacyError as error:
            self.exchange.connections.send_bye(str(error))
            raise RunEnded(str(error)) from error

    def count_links(self, W: csr_array[Any, Any]) -> int:
        """Links to its neighbors."""
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

    def first(self, parts: Sequence[Array]) -> Array:
        """The agent's own row."""
        return np.asarray(parts[0][0])

    def broadcast(self, value: Any) -> Any:
        return value

    def any_signal(self, signal: str | None) -> str | None:
        return signal

    def require_same(self, facts: Callable[[], Mapping[str, Any]], start: Array) -> Array:  # noqa: ARG002
        """HELLO has compared the settings."""
        return start

    def _nobody_can(self, *_: Any) -> NoReturn:
        raise DestinyError("an agent does not see the whole network: average over its neighbors instead")

    gather = mean = values = gradient = mass = value = save = _nobody_can

    def close(self) -> None:
        """The connections is closed by whoever opened it."""
