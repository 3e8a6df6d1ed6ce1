"""Networks that take turns."""

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
from destiny.protocols import Array


def periodic(networks: Iterable[Network]) -> Schedule:
    """Networks in turn, over and over; round k uses network k mod their number.

    Parameters
    ----------
    networks : iterable of Network
        With as many agents each; together they must connect all agents, alone they need not
        (``from_edges(..., connected=False)``).
    """
    schedule = Schedule(_alike(networks), repeats=True)
    heard = tidy(np.concatenate([checks.used(network.W) for network in schedule.networks]), schedule.agents)
    require_connected(heard, schedule.agents, "the networks of a period, taken together,")
    return schedule


def sequence(networks: Iterable[Network]) -> Schedule:
    """Networks one after the other, a round each; the last one stays.

    Parameters
    ----------
    networks : iterable of Network
        With as many agents each; the last must be connected.
    """
    schedule = Schedule(_alike(networks), repeats=False)
    last = checks.used(schedule.networks[-1].W)
    require_connected(last, schedule.agents, "the last network of a sequence")
    return schedule


@dataclass(frozen=True, eq=False)
class Schedule:
    """Networks that take turns; made by `periodic` and `sequence`."""

    networks: tuple[Network, ...]
    repeats: bool
    verified = True

    @property
    def agents(self) -> int:
        """d."""
        return self.networks[0].agents

    @property
    def name(self) -> str:
        """What it is, in a few words."""
        order = "periodic" if self.repeats else "sequence"
        return f"{order} of {', '.join(network.name for network in self.networks)}"

    @cached_property
    def edges(self) -> Links:
        """Links alive in some round ``(E, 2)``."""
        return tidy(np.concatenate([network.edges for network in self.networks]), self.agents)

    def at(self, round: int) -> csr_array[Any, Any]:
        """Mixing matrix of a round ``(d, d)``: that network's own."""
        count = len(self.networks)
        return self.networks[round % count if self.repeats else min(round, count - 1)].W

    @cached_property
    def lowest(self) -> float:
        """Smallest eigenvalue of any of the networks' mixing matrices."""
        return min(spectrum.lowest(W) for W in {id(n.W): n.W for n in self.networks}.values())

    def layout(self) -> Array:
        """Where to draw the agents, ``(d, 2)``."""
        return drawing.layout(self.edges, self.agents)

    def facts(self) -> dict[str, Any]:
        """What there is to know, as plain numbers."""
        parts = [network.name for network in self.networks]
        return {"name": self.name, "agents": self.agents, "links": len(self.edges), "networks": parts}

    def __str__(self) -> str:
        return (
            f"{self.name}\n  {self.agents} agents, {len(self.edges)} links in {len(self.networks)} networks"
        )


def _alike(networks: Iterable[Network]) -> tuple[Network, ...]:
    found = tuple(networks)
    if not found:
        raise NetworkError("a changing network needs at least 1 network; found none: give a list of networks")
    for k, network in enumerate(found):
        if network.agents != found[0].agents:
            raise NetworkError(
                "networks that take turns must have as many agents each; "
                f"found {found[0].agents} in network 0 and {network.agents} in network {k}"
            )
    return found
