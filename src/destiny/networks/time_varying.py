"""Networks whose links change from round to round: at random, in turn, or one after the other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.errors import NetworkError
from destiny.networks import checks, drawing, spectrum
from destiny.networks.links import Links, require_connected, tidy
from destiny.networks.network import Network
from destiny.networks.weights import metropolis
from destiny.protocols import Array, TopologyBase
from destiny.validation import check_integer, check_probability

ROUNDS_SAMPLED = 8  # rounds have the same distribution: the smallest eigenvalue of more would hardly differ
ROUNDS_KEPT = 8  # all threads of a process need the same round; several networks in use need a few more


def link_loss(network: Network, prob: float, seed: int = 0) -> LinkLoss:
    """A network in which every link is down with probability ``prob``, independently in each round.

    Parameters
    ----------
    network : Network
    prob : float
        In [0, 1).
    seed : int
    """
    _require_connected(network)
    return LinkLoss(network, check_integer("seed", seed, 0), check_probability("prob", prob, certain=False))


def matchings(network: Network, seed: int = 0) -> Matchings:
    """Agents that communicate in pairs: in each round, a random maximal matching of the network's links.

    Parameters
    ----------
    network : Network
    seed : int
    """
    _require_connected(network)
    return Matchings(network, check_integer("seed", seed, 0))


@dataclass(frozen=True, eq=False)
class RandomTopology(TopologyBase):
    """Base of networks with some links of ``network`` in each round, a function of (seed, round) alone."""

    network: Network
    seed: int
    verified = True

    @property
    def agents(self) -> int:
        """Number of agents d."""
        return self.network.agents

    @property
    def edges(self) -> Links:
        """Links that may be up in some round, ``(E, 2)``."""
        return self.network.edges

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def alive(self, rng: np.random.Generator) -> NDArray[Any]:
        """The links of ``edges`` that are up, as a mask or as indices."""

    def links(self, round: int) -> Links:
        """The links that are up in a round, ``(links, 2)``."""
        links: Links = self.edges[self.alive(np.random.default_rng([self.seed, round]))]
        return links

    def at(self, round: int) -> csr_array[Any, Any]:
        """Mixing matrix of a round ``(d, d)``: Metropolis weights on the links that are up."""
        return _weights(self, round)

    @cached_property
    def lowest(self) -> float:
        """Smallest eigenvalue of the mixing matrices of the first 8 rounds."""
        return min(spectrum.lowest(self.at(round)) for round in range(ROUNDS_SAMPLED))

    @property
    def with_all_links(self) -> Network:
        """The network whose links come and go."""
        return self.network

    def all_edges(self) -> Links:
        """Links alive in some round ``(E, 2)``."""
        return self.edges

    def layout(self) -> Array:
        """Positions of the agents in a drawing, ``(d, 2)``."""
        return self.network.layout()

    def draw(self, path: str | PathLike[str]) -> Path:
        """Write a picture of the network with all links up to ``path`` and return the path."""
        return self.network.draw(path)

    def facts(self) -> dict[str, Any]:
        """Properties of the network as a dictionary of names, numbers and strings."""
        return {"name": self.name, "agents": self.agents, "links": len(self.edges), "seed": self.seed}

    def __str__(self) -> str:
        return f"{self.name}\n  {self.agents} agents, {len(self.edges)} links, seed {self.seed}"


@dataclass(frozen=True, eq=False)
class LinkLoss(RandomTopology):
    """A network whose links fail at random; `link_loss` returns it."""

    prob: float

    @property
    def name(self) -> str:
        return f"{self.network.name} losing links with probability {self.prob:g}"

    def alive(self, rng: np.random.Generator) -> NDArray[Any]:
        """Mask ``(E,)`` of the links that are up."""
        return rng.random(len(self.edges)) >= self.prob

    def facts(self) -> dict[str, Any]:
        """Properties of the network as a dictionary of names, numbers and strings."""
        return super().facts() | {"loss": self.prob}


@dataclass(frozen=True, eq=False)
class Matchings(RandomTopology):
    """Agents that communicate in pairs; `matchings` returns it."""

    @property
    def name(self) -> str:
        return f"random matchings of {self.network.name}"

    def alive(self, rng: np.random.Generator) -> NDArray[Any]:
        """Indices of the links of a maximal matching."""
        return greedy_matching(self.edges, rng.permutation(len(self.edges)), self.agents)


def greedy_matching(links: Links, priority: NDArray[np.int64], agents: int) -> NDArray[np.int64]:
    """Indices of the greedy matching that takes links in order of ``priority``, if both ends are still free.

    A link that comes first at both its ends belongs to the matching whatever the others are. Taking all such
    links at once, a few sweeps over the links are enough.
    """
    left = np.arange(len(links))
    matching = []
    while len(left):
        (i, j), rank = links[left].T, priority[left]
        first = np.full(agents, len(links))
        np.minimum.at(first, i, rank)
        np.minimum.at(first, j, rank)
        first_at_both = (first[i] == rank) & (first[j] == rank)
        matching.append(left[first_at_both])
        busy = np.zeros(agents, dtype=bool)
        busy[links[left[first_at_both]]] = True
        left = left[~(busy[i] | busy[j])]
    return np.sort(np.concatenate([*matching, left]))


@lru_cache(maxsize=ROUNDS_KEPT)
def _weights(changing: RandomTopology, round: int) -> csr_array[Any, Any]:
    return metropolis(changing.links(round), changing.agents)


def _require_connected(network: Network) -> None:
    require_connected(network.edges, network.agents, "the network whose links come and go")


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
