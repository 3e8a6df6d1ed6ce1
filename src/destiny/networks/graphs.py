"""Networks with a regular shape. Links are index arithmetic, so a hundred thousand agents take no time.

Every builder takes ``weights``: the name of a rule ("metropolis", "max-degree", "best-constant", "lazy",
"fdla") or a matrix ``(d, d)``, and returns a `Network`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny.networks.network import Network, make
from destiny.networks.weights import Weights
from destiny.validation import check_integer


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

    About 2 log2(d) neighbours, and a spectral gap that shrinks only like 1 / log(d).
    """
    agents = check_integer("agents", agents, 1)
    k = np.arange(agents)
    pairs = [_pairs(k, (k + 2**hop) % agents) for hop in range((agents - 1).bit_length())]
    return make(np.concatenate([_none(), *pairs]), agents, weights, "exponential")


def _pairs(i: NDArray[Any], j: NDArray[Any]) -> NDArray[Any]:
    return np.stack([i.ravel(), j.ravel()], axis=1)


def _none() -> NDArray[Any]:
    return np.empty((0, 2), dtype=np.int64)
