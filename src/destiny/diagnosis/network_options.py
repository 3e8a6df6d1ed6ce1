"""How well a network mixes, and how well it would with other weights or a few more links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
from scipy.sparse import csr_array

from destiny.errors import NetworkError
from destiny.networks import Network, spectrum
from destiny.networks.network import make
from destiny.protocols import Topology

LOOKED_AT = 64  # rounds of a changing network that stand for all of them
SEARCHED = 64  # agents: up to here the best weights of all (fdla) take a second or two
DENSE = 1000  # agents: up to here links and weights are tried; a trial is one dense eigenvalue solve


@dataclass(frozen=True)
class Mixing:
    """What one round does to disagreement.

    Attributes
    ----------
    lambda_ : float
        Factor by which a round shrinks it; of a changing network the root mean square over its rounds.
    spectrum : (low, high) or None
        Where the eigenvalues of W lie, the 1 aside; None for a network that changes.
    """

    lambda_: float
    spectrum: tuple[float, float] | None

    @classmethod
    def of(cls, network: Topology) -> Mixing:
        """Of a network that stays, or of one that changes."""
        if isinstance(network, Network):
            return cls(network.lambda_, network.spectrum)
        return cls(expected(network), None)


def shown(lambda_: float) -> str:
    """lambda for people: near 1 only the gap tells networks apart."""
    return f"{lambda_:.3f}" if lambda_ < 0.995 else f"1 - {1 - lambda_:.2g}"


def expected(network: Topology) -> float:
    """sqrt(||E[W W] - 11^T/d||): what a round leaves of the worst disagreement, in the mean square."""
    squares = [(W := network.at(round)) @ W for round in range(LOOKED_AT)]
    left = 1 - spectrum.gap(csr_array(sum(squares[1:], squares[0]) / LOOKED_AT))
    return float(np.sqrt(np.clip(left, 0, 1)))


def reweighted(network: Network) -> dict[str, Network]:
    """The same links under every other rule that is quick to work out."""
    found = {}
    for rule in ("metropolis", "max-degree", "best-constant", "fdla"):
        if rule == network.weights or network.agents > (SEARCHED if rule == "fdla" else DENSE):
            continue
        found[rule] = make(network.edges, network.agents, rule, network.name)
    return found


def linked(network: Network, count: int) -> tuple[list[tuple[int, int]], Network] | None:
    """The network with a few more links, one after the other between the two sides of its bottleneck.

    The slowest mode of averaging (for equal weights the Fiedler vector) says which agents are furthest apart;
    the gain of a link grows with the square of that distance.
    """
    if network.agents > DENSE or network.weights == "given":
        return None
    added: list[tuple[int, int]] = []
    for _ in range(count):
        _, vectors = np.linalg.eigh(network.W.toarray() - 1 / network.agents)
        distance = np.abs(vectors[:, -1, None] - vectors[:, -1])
        distance[network.W.toarray() != 0] = -1
        i, j = (int(k) for k in np.unravel_index(distance.argmax(), distance.shape))
        if distance[i, j] <= 0:  # everybody is linked to everybody who differs
            break
        added.append((min(i, j), max(i, j)))
        pairs = np.concatenate([network.edges, [[i, j]]])
        try:
            network = make(pairs, network.agents, network.weights, network.name)
        except NetworkError:
            return None
    return (added, network) if added else None


def weak_points(network: Network) -> dict[str, list[Any]]:
    """Agents and links without which the network falls apart."""
    bridges: list[Any] = list(nx.bridges(network.graph))
    return {
        "agents": sorted(nx.articulation_points(network.graph)),
        "links": sorted((min(link), max(link)) for link in bridges),
    }
