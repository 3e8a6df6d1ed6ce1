"""Networks by name: paths, grids, stars, trees, and random graphs."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from destiny.errors import NetworkError
from destiny.networks.links import is_connected, tidy
from destiny.networks.network import Network, make
from destiny.networks.weights import Weights
from destiny.validation import check_integer, check_positive, check_probability


def ring(agents: int, *, weights: Weights = "metropolis") -> Network:
    """Each agent linked to the one before and the one after it."""
    agents = check_integer("agents", agents, 1)
    k = np.arange(agents)
    return make(_pairs(k, (k + 1) % agents), agents, weights, "ring")


def path(agents: int, *, weights: Weights = "metropolis") -> Network:
    """A ring without one of its links."""
    agents = check_integer("agents", agents, 1)
    k = np.arange(agents)
    return make(_pairs(k[:-1], k[1:]), agents, weights, "path")


def star(agents: int, *, weights: Weights = "metropolis") -> Network:
    """Agent 0 linked to all others, which have no other links."""
    agents = check_integer("agents", agents, 1)
    leaves = np.arange(1, agents)
    return make(_pairs(np.zeros_like(leaves), leaves), agents, weights, "star")


def complete(agents: int, *, weights: Weights = "metropolis") -> Network:
    """All agents linked to each other; Metropolis weights average in one round."""
    agents = check_integer("agents", agents, 1)
    return make(_pairs(*np.triu_indices(agents, 1)), agents, weights, "complete")


def grid(rows: int, cols: int, *, weights: Weights = "metropolis") -> Network:
    """Agents on a chessboard, linked to the squares beside, above and below; row by row."""
    rows, cols = check_integer("rows", rows, 1), check_integer("cols", cols, 1)
    k = np.arange(rows * cols).reshape(rows, cols)
    pairs = np.concatenate([_pairs(k[:-1], k[1:]), _pairs(k[:, :-1], k[:, 1:])])
    return make(pairs, rows * cols, weights, f"grid {rows} x {cols}")


def torus(rows: int, cols: int, *, weights: Weights = "metropolis") -> Network:
    """A grid whose opposite borders are linked."""
    rows, cols = check_integer("rows", rows, 1), check_integer("cols", cols, 1)
    k = np.arange(rows * cols).reshape(rows, cols)
    pairs = np.concatenate([_pairs(k, np.roll(k, 1, axis)) for axis in (0, 1)])
    return make(pairs, rows * cols, weights, f"torus {rows} x {cols}")


def hypercube(dimension: int, *, weights: Weights = "metropolis") -> Network:
    """2^dimension agents, linked where the binary digits of their indices differ in one place."""
    dimension = check_integer("dimension", dimension, 0)
    k = np.arange(2**dimension)
    pairs = [_pairs(k, k ^ 2**bit) for bit in range(dimension)]
    return make(np.concatenate([_none(), *pairs]), len(k), weights, f"hypercube of dimension {dimension}")


def exponential(agents: int, *, weights: Weights = "metropolis") -> Network:
    """Agent i linked to i + 1, i + 2, i + 4, ... and i - 1, i - 2, i - 4, ..., all modulo d.

    About 2 log2(d) neighbors, and a spectral gap that shrinks only like 1 / log(d).
    """
    agents = check_integer("agents", agents, 1)
    k = np.arange(agents)
    pairs = [_pairs(k, (k + 2**hop) % agents) for hop in range((agents - 1).bit_length())]
    return make(np.concatenate([_none(), *pairs]), agents, weights, "exponential")


def _pairs(i: NDArray[Any], j: NDArray[Any]) -> NDArray[Any]:
    return np.stack([i.ravel(), j.ravel()], axis=1)


def _none() -> NDArray[Any]:
    return np.empty((0, 2), dtype=np.int64)


if TYPE_CHECKING:
    import networkx as nx

TRIES = 1000  # enough if at least about 1 in 200 draws is connected


def erdos_renyi(agents: int, prob: float, seed: int = 0, *, weights: Weights = "metropolis") -> Network:
    """Erdos-Renyi: each of the d (d - 1) / 2 possible links exists with probability ``prob``.

    Parameters
    ----------
    agents : int
    prob : float
        Well above log(d) / d nearly every draw is connected: 0.97 of them for d = 32, prob = 0.2.
    seed : int
    weights : str or matrix (d, d)
    """
    import networkx as nx

    agents, seed = check_integer("agents", agents, 1), check_integer("seed", seed, 0)
    prob = check_probability("prob", prob)
    name = f"erdos-renyi prob={prob:g} seed={seed}"
    pairs = _until_connected(
        lambda rng: nx.fast_gnp_random_graph(agents, prob, seed=rng), agents, seed, f"prob = {prob:g}"
    )
    return make(pairs, agents, weights, name)


def random_regular(agents: int, degree: int, seed: int = 0, *, weights: Weights = "metropolis") -> Network:
    """Every agent has ``degree`` neighbors, drawn at random.

    Parameters
    ----------
    agents : int
    degree : int
        agents * degree must be even; from 3 up nearly every draw is connected.
    seed : int
    weights : str or matrix (d, d)
    """
    import networkx as nx

    agents, seed = check_integer("agents", agents, 1), check_integer("seed", seed, 0)
    degree = check_integer("degree", degree, 0)
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
    """Agents at random points of the unit square, linked if at most ``radius`` apart.

    Parameters
    ----------
    agents : int
    radius : float
        Above sqrt(2 log(d) / d) or so most draws are connected.
    seed : int
    weights : str or matrix (d, d)
    """
    import networkx as nx

    agents, seed = check_integer("agents", agents, 1), check_integer("seed", seed, 0)
    check_positive("radius", radius, NetworkError)
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
        Even, half of the neighbors on each side.
    prob : float
        0 keeps the ring; a few percent already bring far agents close.
    seed : int
    weights : str or matrix (d, d)
    """
    import networkx as nx

    agents, seed = check_integer("agents", agents, 1), check_integer("seed", seed, 0)
    degree, prob = check_integer("degree", degree, 0), check_probability("prob", prob)
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
    """Index pairs ``(E, 2)`` of the first connected draw; raises `NetworkError` after `TRIES` draws."""
    rng = Random(seed)
    for _ in range(TRIES):
        pairs = np.array(draw(rng).edges, dtype=np.int64).reshape(-1, 2)
        if is_connected(tidy(pairs, agents), agents):
            return pairs
    raise NetworkError(
        f"a random network must be connected; found none in {TRIES} draws, as {setting} is too small "
        f"for {agents} agents: raise it"
    )
