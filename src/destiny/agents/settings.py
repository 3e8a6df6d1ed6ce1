"""The settings of one agent, from its file: complete when they are made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from destiny._version import __version__
from destiny.agents.transport.connections import Address
from destiny.agents.transport.messages import Hello
from destiny.agents.transport.neighbor import Neighbor
from destiny.agents.transport.tls import TlsFiles
from destiny.engines.mixers import Messages
from destiny.engines.same_settings import digest
from destiny.protocols import Array, Method, ProblemBase, TopologyBase
from destiny.run.choice import Choice

CHECKPOINTS = "checkpoints"
NOISE = "noise.key"  # beside the checkpoints, the secret that the noise of private data comes from


@dataclass(frozen=True)
class Settings:
    """What an agent file asks for, checked; `destiny.agents.read` makes it."""

    name: str
    index: int
    agents: int
    run: str
    listen: Address
    out: Path
    deadline: float
    files: TlsFiles
    neighbors: list[Neighbor]
    problem: ProblemBase
    network: TopologyBase
    start: Array | None
    seed: int
    algorithm: Method
    choice: Choice | None
    """How the algorithm was chosen, if the file has none."""
    rounds: int
    tolerance: float
    checkpoint: int
    every: int
    messages: Messages
    participants: list[str]
    """Names of all agents in the order of their index, if the file has them."""
    disclosure: str
    """What neighbors learn, in a sentence."""
    common: dict[str, Any]
    """What must be equal at all agents, by name; nothing of an agent's data."""
    options: Any = None
    """What the file says for methods of an extension alone (`AgentKind.read_options`)."""

    @property
    def authorities(self) -> list[Path]:
        """The files of the authorities that neighbors are pinned to."""
        return [n.pin.authority for n in self.neighbors if n.pin.authority is not None]

    @property
    def who_dials(self) -> str:
        """Which end of each link calls the other: neither side can see that neither does."""
        dialled = ", ".join(n.name for n in self.neighbors if n.dial)
        awaited = ", ".join(n.name for n in self.neighbors if not n.dial)
        parts = [f"this agent dials {dialled}"] if dialled else []
        if awaited:
            parts.append(f"{awaited} must dial this agent")
        return "; ".join(parts)

    @property
    def hello(self) -> Hello:
        """The HELLO of this agent."""
        return Hello(
            agent=self.name,
            index=self.index,
            run=self.run,
            version=__version__,
            digest=digest(self.common).hex(),
            settings=self.common,
            degree=len(self.neighbors),
            need=0,
        )
