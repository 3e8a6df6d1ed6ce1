"""How well a network mixes, with its own weights and links and with others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from destiny.errors import NetworkError
from destiny.networks import Network, spectrum
from destiny.networks.network import make
from destiny.protocols import Topology
from destiny.run.own import as_topology

SAMPLED_ROUNDS = 64  # of a changing network, over which its mixing is averaged
FDLA_AGENTS = 64  # up to here the best weights (fdla) take a second or two
DENSE_AGENTS = 1000  # up to here links and weights are tried: each costs a dense eigenvalue decomposition


@dataclass(frozen=True)
class Mixing:
    """How much one round reduces disagreement.

    Attributes
    ----------
    lambda_ : float
        Factor by which a round reduces it; for a changing network the root mean square over its rounds.
    spectrum : (low, high) or None
        Smallest and largest eigenvalue of W other than 1; None for a network that changes.
    """

    lambda_: float
    spectrum: tuple[float, float] | None

    @classmethod
    def of(cls, network: Topology) -> Mixing:
        """Return the mixing of a fixed network or, sampled, of one that changes."""
        if isinstance(network, Network):
            return cls(network.lambda_, network.spectrum)
        return cls(mean_square_lambda(network), None)


def format_lambda(lambda_: float) -> str:
    """Return lambda as text; near 1 as 1 - gap, since only the gap tells networks apart there."""
    return f"{lambda_:.3f}" if lambda_ < 0.995 else f"1 - {1 - lambda_:.2g}"


def mean_square_lambda(network: Topology) -> float:
    """Return sqrt(||E[W^T W] - 11^T/d||) over the first `SAMPLED_ROUNDS` rounds.

    Raises NetworkError if a matrix of a user's own class is not doubly stochastic.
    """
    network = as_topology(network)
    squares = [(W := network.at(round)).T.tocsr() @ W for round in range(SAMPLED_ROUNDS)]
    left = 1 - spectrum.gap(csr_array(sum(squares[1:], squares[0]) / SAMPLED_ROUNDS))
    return float(np.sqrt(np.clip(left, 0, 1)))


def with_other_weights(network: Network) -> dict[str, Network]:
    """Return networks with the same links, by weight rule; rules that would take long are left out."""
    networks = {}
    for rule in ("metropolis", "max-degree", "best-constant", "fdla"):
        if rule == network.weights or network.agents > (FDLA_AGENTS if rule == "fdla" else DENSE_AGENTS):
            continue
        networks[rule] = make(network.edges, network.agents, rule, network.name)
    return networks


def with_more_links(network: Network, count: int) -> tuple[list[tuple[int, int]], Network] | None:
    """Return up to ``count`` more links and the network with them; None if there are none to add.

    Each link joins the two agents that are furthest apart in the slowest mode of averaging (for equal weights
    the Fiedler vector): the gain of a link grows with the square of that distance.
    """
    if network.agents > DENSE_AGENTS or network.weights == "given":
        return None
    added: list[tuple[int, int]] = []
    for _ in range(count):
        _, vectors = np.linalg.eigh(network.W.toarray() - 1 / network.agents)
        distance = np.abs(vectors[:, -1, None] - vectors[:, -1])
        distance[network.W.toarray() != 0] = -1
        i, j = (int(k) for k in np.unravel_index(distance.argmax(), distance.shape))
        if distance[i, j] <= 0:  # all agents that differ are linked
            break
        added.append((min(i, j), max(i, j)))
        pairs = np.concatenate([network.edges, [[i, j]]])
        try:
            network = make(pairs, network.agents, network.weights, network.name)
        except NetworkError:
            return None
    return (added, network) if added else None


def weak_points(network: Network) -> dict[str, list[Any]]:
    """Return the agents and links without which the network would be disconnected."""
    import networkx as nx

    bridges: list[Any] = list(nx.bridges(network.graph))
    return {
        "agents": sorted(nx.articulation_points(network.graph)),
        "links": sorted((min(link), max(link)) for link in bridges),
    }
