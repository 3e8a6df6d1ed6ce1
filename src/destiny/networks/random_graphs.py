"""Random networks, drawn again until connected; the same seed gives the same network everywhere."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from destiny.errors import NetworkError
from destiny.networks.arguments import integer, positive, probability
from destiny.networks.links import is_connected, tidy
from destiny.networks.network import Network, make
from destiny.networks.weights import Weights

TRIES = 1000  # finds a connected network unless fewer than about 1 in 200 are


def erdos_renyi(agents: int, prob: float, seed: int = 0, *, weights: Weights = "metropolis") -> Network:
    """Each of the d (d - 1) / 2 possible links is there with probability ``prob``.

    Parameters
    ----------
    agents : int
    prob : float
        Well above log(d) / d nearly every draw is connected: 0.97 of them for d = 32, prob = 0.2.
    seed : int
    weights : str or matrix (d, d)
    """
    agents, seed = integer("agents", agents, 1), integer("seed", seed, 0)
    prob = probability("prob", prob)
    name = f"erdos-renyi prob={prob:g} seed={seed}"
    pairs = _until_connected(
        lambda rng: nx.fast_gnp_random_graph(agents, prob, seed=rng), agents, seed, f"prob = {prob:g}"
    )
    return make(pairs, agents, weights, name)


def random_regular(agents: int, degree: int, seed: int = 0, *, weights: Weights = "metropolis") -> Network:
    """Every agent has ``degree`` neighbours, drawn at random.

    Parameters
    ----------
    agents : int
    degree : int
        agents * degree must be even; from 3 up nearly every draw is connected.
    seed : int
    weights : str or matrix (d, d)
    """
    agents, seed = integer("agents", agents, 1), integer("seed", seed, 0)
    degree = integer("degree", degree, 0)
    if degree >= agents or agents * degree % 2:
        raise NetworkError(
            "degree must be below agents, and agents * degree even; "
            f"found degree {degree} for {agents} agents: change one of them by 1"
        )
    pairs = _until_connected(
        lambda rng: nx.random_regular_graph(degree, agents, seed=rng), agents, seed, f"degree = {degree}"
    )
    return make(pairs, agents, weights, f"random-regular degree={degree} seed={seed}")


def random_geometric(
    agents: int, radius: float, seed: int = 0, *, weights: Weights = "metropolis"
) -> Network:
    """Agents dropped on the unit square, linked when within ``radius`` of each other.

    Parameters
    ----------
    agents : int
    radius : float
        Above sqrt(2 log(d) / d) or so most draws are connected.
    seed : int
    weights : str or matrix (d, d)
    """
    agents, seed = integer("agents", agents, 1), integer("seed", seed, 0)
    radius = positive("radius", radius)
    pairs = _until_connected(
        lambda rng: nx.random_geometric_graph(agents, radius, seed=rng), agents, seed, f"radius = {radius:g}"
    )
    return make(pairs, agents, weights, f"random-geometric radius={radius:g} seed={seed}")


def small_world(
    agents: int, degree: int, prob: float, seed: int = 0, *, weights: Weights = "metropolis"
) -> Network:
    """Watts-Strogatz: a ring with links to the ``degree`` nearest, each then moved with probability ``prob``.

    Parameters
    ----------
    agents : int
    degree : int
        Even, half of the neighbours on each side.
    prob : float
        0 keeps the ring; a few percent already bring far agents close.
    seed : int
    weights : str or matrix (d, d)
    """
    agents, seed = integer("agents", agents, 1), integer("seed", seed, 0)
    degree, prob = integer("degree", degree, 0), probability("prob", prob)
    if degree % 2 or degree >= agents:
        raise NetworkError(f"degree must be even and below agents; found degree {degree} for {agents} agents")
    pairs = _until_connected(
        lambda rng: nx.watts_strogatz_graph(agents, degree, prob, seed=rng),
        agents,
        seed,
        f"degree = {degree}",
    )
    return make(pairs, agents, weights, f"small-world degree={degree} prob={prob:g} seed={seed}")


def _until_connected(
    draw: Callable[[Random], nx.Graph[int]], agents: int, seed: int, setting: str
) -> NDArray[Any]:
    """Index pairs of the first connected draw; the stream of one generator runs on from draw to draw."""
    rng = Random(seed)
    for _ in range(TRIES):
        pairs = np.array(draw(rng).edges, dtype=np.int64).reshape(-1, 2)
        if is_connected(tidy(pairs, agents), agents):
            return pairs
    raise NetworkError(
        f"a random network must be connected; found none in {TRIES} draws, as {setting} is too small "
        f"for {agents} agents: raise it"
    )
