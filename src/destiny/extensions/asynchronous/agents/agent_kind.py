"""What the process of an agent asks of asynchronous agents (`destiny.agents.agent_kinds.AgentKind`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from destiny.agents.settings import Settings
from destiny.agents.transport.neighbor import Neighbor
from destiny.config.files import AgentMessages
from destiny.config.tables import given
from destiny.engines.mixers import Messages, from_keys
from destiny.errors import SettingsError
from destiny.extensions.asynchronous.agents.async_agent import AsyncAgent, largest_message
from destiny.extensions.asynchronous.async_checks import NO_PRIVATE_SUMS, prepared_async
from destiny.extensions.asynchronous.async_protocol import AsyncAlgorithmBase
from destiny.extensions.asynchronous.members import mixing_of, slowest_mixing
from destiny.networks.local_view import Neighborhood
from destiny.protocols import ProblemBase, TopologyBase

SYMMETRIC = 1e-12  # what weights computed in double precision may miss


@dataclass(frozen=True)
class AsyncOptions:
    """What an agent file says for asynchronous methods alone."""

    late: tuple[int, ...] = ()
    """Agents that do not take part from the start, by index."""
    majority: bool = True
    """Whether more than half of its neighbors, or any one, must tell an agent that another one has left."""
    replay: bool = False
    """Whether an agent writes down from which messages its steps were made."""


class AsyncAgentKind:
    """Agents that do not wait for each other."""

    def refuse_private(self, method: str, remedy: str) -> None:
        """Raise that messages cannot be private."""
        raise SettingsError(
            f"{method} cannot have private sums, which agents use unless they are told otherwise: "
            f"{NO_PRIVATE_SUMS}; {remedy}, or choose a synchronous method"
        )

    def read_messages(self, table: AgentMessages, method: str) -> tuple[Messages, str]:
        """[messages]: plain, which somebody must have written down."""
        if table.private is not False:
            self.refuse_private(
                method,
                "write private = false into [messages] of every agent's file, which lets each neighbor read "
                "all numbers this agent sends",
            )
        plain = from_keys(given(table))
        return plain, (
            f"{plain}: each neighbor learns all numbers this agent sends, from which it can work out "
            "gradients and, in the worst case, data; and how fast this agent computes"
        )

    def read_options(
        self,
        me: Any,
        run: Any,
        network: TopologyBase,
        neighbors: Sequence[Neighbor],
    ) -> AsyncOptions:
        """removal and late of [agent], replay of [run]."""
        return AsyncOptions(read_late(me, network, neighbors), me.removal != "any", bool(run.replay))

    def common(self, options: AsyncOptions) -> dict[str, Any]:
        """Who comes late."""
        return {"late": list(options.late)} if options.late else {}

    def fit(
        self,
        method: AsyncAlgorithmBase,
        problem: ProblemBase,
        network: TopologyBase,
        messages: Messages,
        options: AsyncOptions,
    ) -> AsyncAlgorithmBase:
        """The method on this network, once it fits problem, network and messages."""
        if options.late and not isinstance(network, Neighborhood):
            method = method.on(slowest_mixing(network, options.late))
        return prepared_async(method, problem, network, messages)

    def without(
        self, method: AsyncAlgorithmBase, network: TopologyBase, late: Sequence[int], names: str
    ) -> AsyncAlgorithmBase:
        """The method on a network from which ``late`` agents, of these names, are away at first."""
        if mixing_of(network.at(0), set(range(network.agents)) - set(late)) is None:
            raise SettingsError(
                f"those who do not come late must be linked with each other; without {names} they are not"
            )
        return method.on(slowest_mixing(network, tuple(late)))

    def process(self, settings: Settings, loud: bool) -> AsyncAgent:
        """One agent, from its settings."""
        return AsyncAgent(settings, loud)

    def largest_message(self, settings: Settings) -> tuple[int, int]:
        """Numbers and bytes of the largest message of an agent."""
        return largest_message(settings)


def read_late(me: Any, network: TopologyBase, neighbors: Sequence[Neighbor]) -> tuple[int, ...]:
    """late of [agent]: who does not take part from the start."""
    late, count = sorted(set(me.late or [])), me.agents
    if not late:
        return ()
    if len(late) == count or not all(0 <= other < count for other in late):
        raise SettingsError(
            f"[agent] late must be indices from 0 to {count - 1} of some agents, not of all; found {late}"
        )
    if isinstance(network, Neighborhood):
        for n in neighbors:
            if n.index in late and n.around is None:
                raise SettingsError(
                    f"[[neighbor]] {n.name!r} may come late and needs neighbors, the indices of all its "
                    "neighbors: the weights follow from it before it is there"
                )
        return tuple(late)
    W = network.at(0)
    if abs(W - W.T).max() > SYMMETRIC:
        raise SettingsError("[agent] late needs symmetric weights: use metropolis weights")
    if mixing_of(W, set(range(count)) - set(late)) is None:
        raise SettingsError(
            f"those who take part from the start must be linked with each other; without agents {late} they "
            "are not"
        )
    return tuple(late)
