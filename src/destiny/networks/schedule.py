"""Networks that alternate from round to round."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from destiny.errors import NetworkError
from destiny.networks import checks, drawing, spectrum
from destiny.networks.links import Links, require_connected, tidy
from destiny.networks.network import Network
from destiny.protocols import Array, TopologyBase


def periodic(networks: Iterable[Network]) -> Schedule:
    """Several networks in a cycle: round k uses network k modulo their number.

    Parameters
    ----------
    networks : iterable of Network
        With as many agents each; together they must connect all agents, alone they need not
        (``from_edges(..., connected=False)``).
    """
    schedule = Schedule(_same_agents(networks), repeats=True)
    links = tidy(
        np.concatenate([checks.weighted_links(network.W) for network in schedule.networks]), schedule.agents
    )
    require_connected(links, schedule.agents, "the networks of a period, taken together,")
    return schedule


def sequence(networks: Iterable[Network]) -> Schedule:
    """Several networks one after the other, a round each; all later rounds use the last one.

    Parameters
    ----------
    networks : iterable of Network
        With as many agents each; the last must be connected.
    """
    schedule = Schedule(_same_agents(networks), repeats=False)
    last = checks.weighted_links(schedule.networks[-1].W)
    require_connected(last, schedule.agents, "the last network of a sequence")
    return schedule


@dataclass(frozen=True, eq=False)
class Schedule(TopologyBase):
    """Networks that alternate; `periodic` and `sequence` return it."""

    networks: tuple[Network, ...]
    repeats: bool
    verified = True

    @property
    def agents(self) -> int:
        """Number of agents d."""
        return self.networks[0].agents

    @property
    def name(self) -> str:
        order = "periodic" if self.repeats else "sequence"
        return f"{order} of {', '.join(network.name for network in self.networks)}"

    @cached_property
    def edges(self) -> Links:
        """Links of any of the networks, ``(E, 2)``."""
        return tidy(np.concatenate([network.edges for network in self.networks]), self.agents)

    def at(self, round: int) -> csr_array[Any, Any]:
        """Mixing matrix of a round ``(d, d)``."""
        count = len(self.networks)
        return self.networks[round % count if self.repeats else min(round, count - 1)].W

    @cached_property
    def lowest(self) -> float:
        """Smallest eigenvalue of any of the networks' mixing matrices."""
        return min(spectrum.lowest(W) for W in {id(n.W): n.W for n in self.networks}.values())

    @property
    def transient(self) -> int:
        """Rounds before the last network of a sequence; 0 of a period."""
        return 0 if self.repeats else len(self.networks) - 1

    def all_edges(self) -> Links:
        """Links alive in some round ``(E, 2)``."""
        return self.edges

    def layout(self) -> Array:
        """Positions of the agents in a drawing, ``(d, 2)``."""
        return drawing.layout(self.edges, self.agents)

    def facts(self) -> dict[str, Any]:
        """Properties of the network as a dictionary of names, numbers and strings."""
        parts = [network.name for network in self.networks]
        return {"name": self.name, "agents": self.agents, "links": len(self.edges), "networks": parts}

    def __str__(self) -> str:
        return (
            f"{self.name}\n  {self.agents} agents, {len(self.edges)} links in {len(self.networks)} networks"
        )


def _same_agents(networks: Iterable[Network]) -> tuple[Network, ...]:
    members = tuple(networks)
    if not members:
        raise NetworkError("a changing network needs at least 1 network; found none: give a list of networks")
    for k, network in enumerate(members):
        if network.agents != members[0].agents:
            raise NetworkError(
                "networks that take turns must have as many agents each; "
                f"found {members[0].agents} in network 0 and {network.agents} in network {k}"
            )
    return members
