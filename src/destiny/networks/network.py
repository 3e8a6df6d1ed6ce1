"""Fixed networks: links, mixing weights, and how fast they average."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny import notebook
from destiny.errors import NetworkError
from destiny.networks import checks, drawing, spectrum
from destiny.networks.links import Links, adjacency, degrees, require_connected, tidy
from destiny.networks.weights import Weights, by_name
from destiny.protocols import Array, TopologyBase
from destiny.validation import check_positive

if TYPE_CHECKING:
    import networkx as nx

DISTANCES = 2000  # agents up to which facts() has the diameter, computed in under 2 s
CHUNK = 2**24  # distances in memory at a time while the diameter is computed: 128 MB


@dataclass(frozen=True, eq=False, repr=False)
class Network(TopologyBase):
    """d agents, their links and their mixing weights.

    The builders (`ring`, `erdos_renyi`, `from_edges`, ...) return it. Raises `NetworkError` for a matrix that
    is not symmetric, has rows that do not sum to 1, weights off the links, or lambda = 1.

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
    changes = False

    def __post_init__(self) -> None:
        checks.check_matrix(self.W)
        checks.check_network(self.W, self.edges, connected=self.connected)

    @property
    def agents(self) -> int:
        """Number of agents d."""
        return int(self.W.shape[0])

    def at(self, round: int) -> csr_array[Any, Any]:  # noqa: ARG002
        """Mixing matrix ``(d, d)``, the same in every round."""
        return self.W

    @cached_property
    def graph(self) -> nx.Graph[int]:
        """The links as a networkx graph on 0..d-1."""
        import networkx as nx  # longer to import than all of this package

        graph: nx.Graph[int] = nx.empty_graph(self.agents)
        graph.add_edges_from(self.edges.tolist())
        return graph

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """Number of neighbors of every agent ``(d,)``."""
        return degrees(self.edges, self.agents)

    @cached_property
    def spectral_gap(self) -> float:
        """1 - lambda."""
        return min(self._ends) if self.connected else spectrum.gap(self.W)

    @property
    def lambda_(self) -> float:
        """||W - 11^T/d||_2, the factor by which one round shrinks disagreement."""
        return 1 - self.spectral_gap

    @cached_property
    def _ends(self) -> tuple[float, float]:
        return spectrum.ends(self.W)

    @property
    def spectrum(self) -> tuple[float, float]:
        """Smallest and largest eigenvalue of W, without the eigenvalue 1 of the mean."""
        below, above = self._ends
        return below - 1, 1 - above

    @cached_property
    def diameter(self) -> int:
        """Largest distance between two agents, in links; takes about 10 s for 10,000 agents."""
        from scipy.sparse.csgraph import shortest_path

        require_connected(self.edges, self.agents)
        A = adjacency(self.edges, self.agents)
        rows = max(1, CHUNK // self.agents)
        chunks = (np.arange(k, min(k + rows, self.agents)) for k in range(0, self.agents, rows))
        return int(max(shortest_path(A, unweighted=True, indices=chunk).max() for chunk in chunks))

    def rounds_to_average(self, accuracy: float = 1e-6) -> int:
        """Rounds after which disagreement has shrunk by the factor ``accuracy``.

        Raises `NetworkError` if the network is in pieces.
        """
        check_positive("accuracy", accuracy, NetworkError)
        if self.agents == 1 or accuracy >= 1:
            return 0
        if self.spectral_gap <= 0:
            raise NetworkError(f"{self.name} is in pieces, which never agree: connect them")
        if self.spectral_gap >= 1:
            return 1
        # log1p keeps the digits of a small gap; at least 1 as the agents differ before any round
        return max(1, math.ceil(math.log(accuracy) / math.log1p(-self.spectral_gap)))

    def facts(self) -> dict[str, Any]:
        """Properties of the network as a dictionary of names, numbers and strings.

        The diameter is among them up to 2000 agents.
        """
        facts: dict[str, Any] = {
            "name": self.name,
            "agents": self.agents,
            "links": len(self.edges),
            "degree_min": int(self.degrees.min()),
            "degree_mean": float(self.degrees.mean()),
            "degree_max": int(self.degrees.max()),
        }
        if self.connected and self.agents <= DISTANCES:
            facts["diameter"] = self.diameter
        facts |= {"weights": self.weights, "lambda": self.lambda_, "spectral_gap": self.spectral_gap}
        if self.connected:
            facts["rounds_to_1e-6"] = self.rounds_to_average()
        return facts

    def all_edges(self) -> Links:
        """The links ``(E, 2)``."""
        return self.edges

    def layout(self) -> Array:
        """Positions of the agents in a drawing, ``(d, 2)``."""
        return drawing.layout(self.edges, self.agents)

    def draw(self, path: str | PathLike[str]) -> Path:
        """Write a picture to ``path``, in the format of its suffix (PNG without one), and return it."""
        return drawing.draw(self, path)

    def plot(self, axes: Any = None) -> Any:
        """Draw the network into matplotlib Axes, by default of a new figure of pyplot, and return them."""
        return drawing.plot(self, axes)

    def _repr_html_(self) -> str:
        rows = [
            (key.replace("_", " "), _short(value)) for key, value in self.facts().items() if key != "name"
        ]
        return notebook.page(notebook.heading(self.name), drawing.to_svg(self), notebook.table(rows))

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
    """Network on index pairs ``(E, 2)``, with ``weights`` the name of a rule or a matrix."""
    links = tidy(pairs, agents)
    if connected:
        require_connected(links, agents)  # rules based on the spectrum need it
    if isinstance(weights, str):
        return Network(links, by_name(weights)(links, agents), name, weights, connected)
    W = checks.as_mixing(weights)
    if W.shape[0] != agents:
        raise NetworkError(f"weights must be {agents} x {agents} for {agents} agents; found shape {W.shape}")
    checks.check_support(W, links)
    return Network(
        checks.weighted_links(W), W, name, "given", connected
    )  # a link of weight 0 carries nothing


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
