"""Weights chosen by their spectrum: the best single weight, and the best weight per link."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from destiny.networks.links import Links
from destiny.protocols import Array


def constant(links: Links, agents: int) -> float:
    """2 / (lambda_2(L) + lambda_max(L)), for which the two ends of the spectrum are equally far from 0."""
    if len(links) == 0:
        return 0.0
    with threadpool_limits(1):  # more threads would add in another order: other bits in another process
        spectrum = np.linalg.eigvalsh(_laplacian(links, np.ones(len(links)), agents))
    return float(2 / (spectrum[1] + spectrum[-1]))


def averaging(links: Links, agents: int) -> Array:
    """Weights ``(E,)`` that minimize ||I - L_w - 11^T/d||_2 (FDLA; Xiao and Boyd 2004).

    The norm is replaced by a smooth bound, mu log sum exp(|eigenvalue| / mu), minimized by L-BFGS for
    smaller and smaller mu: some 600 eigenvalue decompositions, where subgradient steps stop 1 % short
    of the optimum after 4000.
    """
    w = np.full(len(links), constant(links, agents))
    if len(links) == 0:
        return w
    with threadpool_limits(1):  # and matrices this small gain nothing from more
        return _descend(w, links, agents)


def _descend(w: Array, links: Links, agents: int) -> Array:
    """The best of the minimizers for a decreasing sequence of mu, or the start if none is better."""
    best, slowest = w, _norm(links, w, agents)
    if slowest < 1e-12:  # already averages in one round, up to rounding
        return best
    mu = 0.1 * slowest  # 1 or 0.001 end within 1e-3 of the same answer
    for _ in range(8):  # at the last mu the bound is within 3e-4 of the norm
        w = _search(w, links, agents, mu)
        if (norm := _norm(links, w, agents)) < slowest:
            best, slowest = w, norm
        mu /= 3
    return best


def _search(w: Array, links: Links, agents: int, mu: float) -> Array:
    from scipy.optimize import minimize  # a third of what importing the package would take

    # 100 iterations; three times as many gain less than 1e-4
    result = minimize(
        _smooth_norm, w, (links, agents, mu), method="L-BFGS-B", jac=True, options={"maxiter": 100}
    )
    return np.asarray(result.x)


def _smooth_norm(w: Array, links: Links, agents: int, mu: float) -> tuple[float, Array]:
    """The smooth bound and its gradient ``(E,)``; d(eigenvalue)/dw_e = -(u_i - u_j)^2."""
    values, vectors = np.linalg.eigh(_disagreement(links, w, agents))
    top = np.abs(values).max()  # taken out of the exponentials, which cannot overflow then
    up, down = np.exp((values - top) / mu), np.exp((-values - top) / mu)
    total = up.sum() + down.sum()
    M = (vectors * ((up - down) / total)) @ vectors.T
    i, j = links.T
    return top + mu * np.log(total), 2 * M[i, j] - M[i, i] - M[j, j]


def _norm(links: Links, w: Array, agents: int) -> float:
    return float(np.abs(np.linalg.eigvalsh(_disagreement(links, w, agents))).max())


def _disagreement(links: Links, w: Array, agents: int) -> Array:
    """I - L_w - 11^T/d, the map of deviations from the mean in one round."""
    return np.eye(agents) - _laplacian(links, w, agents) - 1 / agents


def _laplacian(links: Links, w: NDArray[np.float64], agents: int) -> Array:
    L = np.zeros((agents, agents))
    i, j = links.T
    L[i, j] = L[j, i] = -w
    np.fill_diagonal(L, -L.sum(axis=1))
    return L
