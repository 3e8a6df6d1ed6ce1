"""A network that stays: who talks to whom, with which weights, and how fast it averages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from destiny.errors import NetworkError
from destiny.networks import checks, drawing, spectrum
from destiny.networks.arguments import positive
from destiny.networks.links import Links, adjacency, degrees, require_connected, tidy
from destiny.networks.weights import Weights, by_name
from destiny.protocols import Array

DISTANCES = 2000  # agents; up to here facts() looks for the diameter, in under 2 s
CHUNK = 2**24  # distances held at once while looking for the diameter: 128 MB


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """d agents, their links and their mixing weights, checked when it is made.

    The builders (`ring`, `erdos_renyi`, `from_edges`, ...) make it.

    Parameters
    ----------
    edges : ndarray (E, 2)
        The links, i < j, in lexicographic order.
    W : csr_array (d, d)
        Symmetric, rows sum to 1, 0 where there is no link.
    name : str
    weights : str
        Name of the rule behind ``W``; "given" for a matrix of the user's.
    connected : bool
        False allows a network in pieces, of use only within `periodic` or `sequence`.
    """

    edges: Links
    W: csr_array[Any, Any]
    name: str = "network"
    weights: str = "given"
    connected: bool = True
    verified = True

    def __post_init__(self) -> None:
        checks.check_matrix(self.W)
        checks.check_network(self.W, self.edges, connected=self.connected)

    @property
    def agents(self) -> int:
        """d."""
        return int(self.W.shape[0])

    def at(self, round: int) -> csr_array[Any, Any]:  # noqa: ARG002
        """Mixing matrix ``(d, d)``, the same in every round."""
        return self.W

    @cached_property
    def graph(self) -> nx.Graph[int]:
        """The links as a networkx graph on 0..d-1."""
        graph: nx.Graph[int] = nx.empty_graph(self.agents)
        graph.add_edges_from(self.edges.tolist())
        return graph

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """Number of neighbours of every agent ``(d,)``."""
        return degrees(self.edges, self.agents)

    @cached_property
    def spectral_gap(self) -> float:
        """1 - lambda."""
        return min(self._ends) if self.connected else spectrum.gap(self.W)

    @property
    def lambda_(self) -> float:
        """||W - 11^T/d||_2: the factor by which one round shrinks disagreement."""
        return 1 - self.spectral_gap

    @cached_property
    def _ends(self) -> tuple[float, float]:
        return spectrum.ends(self.W)

    @property
    def spectrum(self) -> tuple[float, float]:
        """Where the eigenvalues of W lie, the 1 that belongs to the mean aside: (lowest, highest)."""
        below, above = self._ends
        return below - 1, 1 - above

    @cached_property
    def diameter(self) -> int:
        """Largest number of links between two agents, exact; about 10 s for 10,000 agents."""
        require_connected(self.edges, self.agents)
        A = adjacency(self.edges, self.agents)
        rows = max(1, CHUNK // self.agents)
        chunks = (np.arange(k, min(k + rows, self.agents)) for k in range(0, self.agents, rows))
        return int(max(shortest_path(A, unweighted=True, indices=chunk).max() for chunk in chunks))

    def rounds_to_average(self, accuracy: float = 1e-6) -> int:
        """Rounds after which any disagreement has shrunk to ``accuracy`` times its size."""
        accuracy = positive("accuracy", accuracy)
        if self.agents == 1 or accuracy >= 1:
            return 0
        if self.spectral_gap <= 0:
            raise NetworkError(f"{self.name} is in pieces, which never agree: connect them")
        if self.spectral_gap >= 1:
            return 1
        # log1p keeps the digits of a small gap; at least 1 as the agents differ before any round
        return max(1, math.ceil(math.log(accuracy) / math.log1p(-self.spectral_gap)))

    def facts(self) -> dict[str, Any]:
        """What there is to know, as plain numbers; the diameter up to 2000 agents."""
        known: dict[str, Any] = {
            "name": self.name,
            "agents": self.agents,
            "links": len(self.edges),
            "degree_min": int(self.degrees.min()),
            "degree_mean": float(self.degrees.mean()),
            "degree_max": int(self.degrees.max()),
        }
        if self.connected and self.agents <= DISTANCES:
            known["diameter"] = self.diameter
        known |= {"weights": self.weights, "lambda": self.lambda_, "spectral_gap": self.spectral_gap}
        if self.connected:
            known["rounds_to_1e-6"] = self.rounds_to_average()
        return known

    def layout(self) -> Array:
        """Where to draw the agents, ``(d, 2)``."""
        return drawing.layout(self.edges, self.agents)

    def draw(self, path: str | PathLike[str]) -> Path:
        """Write a picture of the network (PNG, or what the suffix says) and return its path."""
        return drawing.draw(self, path)

    def __str__(self) -> str:
        facts = self.facts()
        width = max(map(len, facts))
        lines = (
            f"  {key.replace('_', ' '):{width}}  {_short(value)}"
            for key, value in facts.items()
            if key != "name"
        )
        return "\n".join([self.name, *lines])

    def __repr__(self) -> str:
        return (
            f"<Network {self.name!r}: {self.agents} agents, {len(self.edges)} links, weights {self.weights}>"
        )


def make(pairs: NDArray[Any], agents: int, weights: Weights, name: str, *, connected: bool = True) -> Network:
    """Network on index pairs ``(E, 2)`` with a rule's weights or given ones."""
    links = tidy(pairs, agents)
    if connected:
        require_connected(links, agents)  # rules that look at the spectrum need it
    if isinstance(weights, str):
        return Network(links, by_name(weights)(links, agents), name, weights, connected)
    W = checks.as_mixing(weights)
    if W.shape[0] != agents:
        raise NetworkError(f"weights must be {agents} x {agents} for {agents} agents; found shape {W.shape}")
    checks.check_support(W, links)
    return Network(checks.used(W), W, name, "given", connected)  # a link of weight 0 carries nothing


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
