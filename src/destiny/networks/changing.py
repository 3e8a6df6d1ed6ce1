"""Networks whose links come and go at random, the same in every process without talking.

Every round's matrix is symmetric and doubly stochastic, and the rounds together connect all agents: what
gradient tracking needs to stay exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.networks import spectrum
from destiny.networks.arguments import integer, probability
from destiny.networks.links import Links, require_connected
from destiny.networks.network import Network
from destiny.networks.weights import metropolis
from destiny.protocols import Array

ROUNDS_SAMPLED = 8  # rounds are alike: more of them would not change the smallest eigenvalue by much
ROUNDS_KEPT = 8  # all threads of a process ask for the same round; networks used side by side need a few more


def link_loss(network: Network, prob: float, seed: int = 0) -> LinkLoss:
    """A network whose links fail: each is down with probability ``prob``, independently in each round.

    Parameters
    ----------
    network : Network
    prob : float
        In [0, 1).
    seed : int
    """
    _require_whole(network)
    return LinkLoss(network, integer("seed", seed, 0), probability("prob", prob, certain=False))


def matchings(network: Network, seed: int = 0) -> Matchings:
    """Agents that talk in pairs: each round a random maximal matching of the network's links.

    Parameters
    ----------
    network : Network
    seed : int
    """
    _require_whole(network)
    return Matchings(network, integer("seed", seed, 0))


@dataclass(frozen=True, eq=False)
class Redrawn(ABC):
    """Some links of a network, drawn anew in each round as a pure function of (seed, round)."""

    network: Network
    seed: int
    verified = True

    @property
    def agents(self) -> int:
        """d."""
        return self.network.agents

    @property
    def edges(self) -> Links:
        """Links alive in some round ``(E, 2)``."""
        return self.network.edges

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is, in a few words."""

    @abstractmethod
    def alive(self, rng: np.random.Generator) -> NDArray[Any]:
        """Which of ``edges`` are alive, as a mask or as indices."""

    def links(self, round: int) -> Links:
        """Links alive in a round."""
        links: Links = self.edges[self.alive(np.random.default_rng([self.seed, round]))]
        return links

    def at(self, round: int) -> csr_array[Any, Any]:
        """Mixing matrix of a round ``(d, d)``: Metropolis weights on the links alive."""
        return _weights(self, round)

    @cached_property
    def lowest(self) -> float:
        """Smallest eigenvalue of the mixing matrix over some rounds."""
        return min(spectrum.lowest(self.at(round)) for round in range(ROUNDS_SAMPLED))

    def layout(self) -> Array:
        """Where to draw the agents, ``(d, 2)``."""
        return self.network.layout()

    def draw(self, path: str | PathLike[str]) -> Path:
        """Write a picture of the network with all its links up, and return its path."""
        return self.network.draw(path)

    def facts(self) -> dict[str, Any]:
        """What there is to know, as plain numbers."""
        return {"name": self.name, "agents": self.agents, "links": len(self.edges), "seed": self.seed}

    def __str__(self) -> str:
        return f"{self.name}\n  {self.agents} agents, {len(self.edges)} links, seed {self.seed}"


@dataclass(frozen=True, eq=False)
class LinkLoss(Redrawn):
    """A network whose links fail; made by `link_loss`."""

    prob: float

    @property
    def name(self) -> str:
        """What it is, in a few words."""
        return f"{self.network.name} losing links with probability {self.prob:g}"

    def alive(self, rng: np.random.Generator) -> NDArray[Any]:
        """Mask ``(E,)`` of the links that are up."""
        return rng.random(len(self.edges)) >= self.prob

    def facts(self) -> dict[str, Any]:
        """What there is to know, as plain numbers."""
        return super().facts() | {"loss": self.prob}


@dataclass(frozen=True, eq=False)
class Matchings(Redrawn):
    """Agents that talk in pairs; made by `matchings`."""

    @property
    def name(self) -> str:
        """What it is, in a few words."""
        return f"random matchings of {self.network.name}"

    def alive(self, rng: np.random.Generator) -> NDArray[Any]:
        """Indices of links that share no agent, with no room for another."""
        return greedy_matching(self.edges, rng.permutation(len(self.edges)), self.agents)


def greedy_matching(links: Links, priority: NDArray[np.int64], agents: int) -> NDArray[np.int64]:
    """Indices of the links a pass in order of ``priority`` takes, where both ends are still free.

    A link that comes first at both its ends is taken by that pass whatever the rest looks like; taking
    all such links at once, a handful of sweeps does the work of the pass.
    """
    left = np.arange(len(links))
    taken = []
    while len(left):
        (i, j), rank = links[left].T, priority[left]
        first = np.full(agents, len(links))
        np.minimum.at(first, i, rank)
        np.minimum.at(first, j, rank)
        wins = (first[i] == rank) & (first[j] == rank)
        taken.append(left[wins])
        busy = np.zeros(agents, dtype=bool)
        busy[links[left[wins]]] = True
        left = left[~(busy[i] | busy[j])]
    return np.sort(np.concatenate([*taken, left]))


@lru_cache(maxsize=ROUNDS_KEPT)
def _weights(changing: Redrawn, round: int) -> csr_array[Any, Any]:
    return metropolis(changing.links(round), changing.agents)


def _require_whole(network: Network) -> None:
    require_connected(network.edges, network.agents, "the network whose links come and go")
