"""Mixing weights on given links: symmetric, rows sum to 1, stored as CSR with sorted indices.

Every rule sets one weight per link; the diagonal completes each row to 1. Memory is linear in the number of
links.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csr_array, sparray, spmatrix

from destiny.errors import NetworkError
from destiny.networks import fastest
from destiny.networks.links import Links, degrees
from destiny.validation import check_positive, did_you_mean

Weights: TypeAlias = "ArrayLike | sparray[Any, Any] | spmatrix[Any]"
"""Name of a rule, or a matrix ``(d, d)``."""

WHOLE_SPECTRUM = 2000  # agents; one dense eigenvalue solve still takes about a second
MANY_SPECTRA = 500  # agents; fdla takes several hundred such solves, here about a minute


def assemble(links: Links, w: NDArray[np.float64], agents: int) -> csr_array[Any, Any]:
    """Mixing matrix ``(d, d)`` with weight ``w[e]`` on link e; the diagonal completes each row to 1."""
    i, j = links.T
    own = 1 - (np.bincount(i, w, agents) + np.bincount(j, w, agents))
    k = np.arange(agents)
    entries = np.concatenate([w, w, own])
    # scipy takes the width of the indices over; 32 bits halve what every mix has to read
    places = [np.concatenate(ends).astype(np.int32) for ends in ([i, j, k], [j, i, k])]
    # conversion from triplets sorts the indices and keeps explicit zeros, so the diagonal is always stored
    W = csr_array(coo_array((entries, (places[0], places[1])), shape=(agents, agents)))
    for part in (W.data, W.indices, W.indptr):  # shared by all rounds: must not change
        part.flags.writeable = False
    return W


def metropolis(links: Links, agents: int, *, eps: float = 1.0) -> csr_array[Any, Any]:
    """Metropolis constant-edge weights, W_ij = 1 / (max(deg_i, deg_j) + eps).

    Parameters
    ----------
    links : ndarray (E, 2)
    agents : int
    eps : float
        Each agent needs only its neighbors' degrees. With eps = 1 its own weight is at least
        1 / (deg_i + 1); towards 0 a bipartite network stops mixing (lambda -> 1).

    Returns
    -------
    csr_array (d, d)
    """
    check_positive("eps", eps, NetworkError)
    degree = degrees(links, agents)
    return assemble(links, 1 / (degree[links].max(axis=1, initial=0) + eps), agents)


def max_degree(links: Links, agents: int) -> csr_array[Any, Any]:
    """I - L / (dmax + 1), L the graph Laplacian."""
    return _constant(links, agents, 1 / (degrees(links, agents).max() + 1))


def best_constant(links: Links, agents: int) -> csr_array[Any, Any]:
    """I - 2 L / (lambda_2(L) + lambda_max(L)): the smallest lambda with one weight for all links."""
    _limit("best-constant", agents, WHOLE_SPECTRUM)
    return _constant(links, agents, fastest.constant(links, agents))


def lazy(links: Links, agents: int) -> csr_array[Any, Any]:
    """(I + W) / 2 with Metropolis W: no negative eigenvalues, but slower."""
    degree = degrees(links, agents)
    return assemble(links, 0.5 / (degree[links].max(axis=1, initial=0) + 1), agents)


def fdla(links: Links, agents: int) -> csr_array[Any, Any]:
    """Fastest distributed linear averaging: the symmetric weights on these links with the smallest lambda.

    Weights may be negative. The search starts from best-constant, so the result is never worse. Another
    machine may compute weights that differ in the last digits: parties that mix together should share one
    file.
    """
    _limit("fdla", agents, MANY_SPECTRA)
    return assemble(links, fastest.averaging(links, agents), agents)


RULES: dict[str, Callable[[Links, int], csr_array[Any, Any]]] = {
    "metropolis": metropolis,
    "max-degree": max_degree,
    "best-constant": best_constant,
    "lazy": lazy,
    "fdla": fdla,
}
"""Weight rules by name: functions of the links and the number of agents that return a mixing matrix."""


def by_name(name: str) -> Callable[[Links, int], csr_array[Any, Any]]:
    """The rule of that name; raises `NetworkError` if there is none."""
    if name not in RULES:
        near = did_you_mean(name, RULES)
        raise NetworkError(f"weights must be a matrix or one of {', '.join(RULES)}; found {name!r}{near}")
    return RULES[name]


def _constant(links: Links, agents: int, weight: float) -> csr_array[Any, Any]:
    return assemble(links, np.full(len(links), float(weight)), agents)


def _limit(rule: str, agents: int, most: int) -> None:
    if agents > most:
        raise NetworkError(
            f"{rule} weights need dense eigenvalue solves, possible up to {most} agents; found {agents}: "
            "use metropolis"
        )
