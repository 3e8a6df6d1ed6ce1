"""Agents of methods that extensions add: what the process of an agent asks of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from destiny import registry
from destiny.engines.mixers import Messages
from destiny.errors import SettingsError
from destiny.protocols import AlgorithmBase, Method, ProblemBase, TopologyBase

if TYPE_CHECKING:
    from destiny.agents.process import AgentProcess
    from destiny.agents.settings import Settings
    from destiny.agents.transport.neighbor import Neighbor
    from destiny.config.files import AgentMessages


class AgentKind(Protocol):
    """The agents of some methods, where they are not those of a run by rounds."""

    def refuse_private(self, method: str, remedy: str) -> None:
        """Raise why messages cannot be private, if they cannot."""

    def read_messages(self, table: AgentMessages, method: str) -> tuple[Messages, str]:
        """[messages] of an agent file, and what neighbors learn."""

    def read_options(
        self,
        me: Any,
        run: Any,
        network: TopologyBase,
        neighbors: Sequence[Neighbor],
    ) -> Any:
        """What the keys of `destiny.registry.agent_keys` say; becomes `Settings.options`."""

    def common(self, options: Any) -> dict[str, Any]:
        """What of them must be equal at all agents."""

    def fit(
        self, method: Any, problem: ProblemBase, network: TopologyBase, messages: Messages, options: Any
    ) -> Method:
        """The method on this network, once it fits problem, network and messages."""

    def without(self, method: Any, network: TopologyBase, late: Sequence[int], names: str) -> Method:
        """The method on a network from which ``late`` agents, of these names, are away at first."""

    def process(self, settings: Settings, loud: bool) -> AgentProcess:
        """One agent, from its settings."""

    def largest_message(self, settings: Settings) -> tuple[int, int]:
        """Numbers and bytes of the largest message of an agent."""


def agent_kind(method: object) -> AgentKind | None:
    """The agents of a method; None if it runs by rounds, or is not chosen yet."""
    if method is None or isinstance(method, AlgorithmBase):
        return None
    return next(filter(None, (e.agent_kind(method) for e in registry.extensions())), None)


def refuse_keys(table: str, content: Any) -> None:
    """Refuse keys of agent files that are for the methods of extensions."""
    for name, key in registry.agent_keys(table).items():
        if getattr(content, name) not in (None, []):
            raise SettingsError(f"[{table}] {name} {key.refusal}")
