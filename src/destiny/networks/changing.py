"""Networks with random links in each round, the same in every process without communication.

Every round's matrix is symmetric and doubly stochastic, and the rounds together connect all agents: what
gradient tracking needs to stay exact.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.networks import spectrum
from destiny.networks.links import Links, require_connected
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
