"""Models <r_i, X> + <X, A_i X> / 2 of the f_i: their matrices A_i, as messages too, and their minimisers."""

from __future__ import annotations

import numpy as np

from destiny.algorithms.blocks.leading_axes import refined
from destiny.algorithms.blocks.trust_region import minimise, nearest_equal, polished
from destiny.geometry.stiefel import norm
from destiny.protocols import Agents, Array

FLOOR = 1e-14  # relative to the Euclidean gradient: a smaller Riemannian gradient of the model is rounding
DIFFERENCE = 1e-4  # step of the differences: the errors of rounding and of truncation are about equal
PROBE_SEED = 1917  # any fixed number: probes must be equal on every engine


def solve_each(model: Array, R: Array, X: Array) -> tuple[Array, Array]:
    """Minimise each agent's model from its X; the minimisers, and the products taken ``(agents, 1, 1)``."""
    new, products = np.empty_like(X), np.empty((len(X), 1, 1))
    for i, A in enumerate(unpack(model, X.shape[1])):
        minimum = minimise(A, R[i], X[i], 0.0, FLOOR)
        better = polished(A, R[i], minimum) if R[i].any() else minimum
        new[i] = better.X if better is not minimum else nearest_equal(A, R[i], minimum.X, X[i])
        if not R[i].any():
            new[i] = refined(A, new[i])
        products[i] = better.products
    return new, products


def left_hessian(agents: Agents, X: Array) -> Array:
    """Symmetric A_i ``(agents, n, n)`` with Hess f_i(X)[V] about A_i V, by central differences."""
    k, n, p = X.shape
    A = np.empty((k, n, n))
    for start in range(0, n, p):
        rows = np.arange(start, min(start + p, n))
        V = np.zeros((k, n, p))
        V[:, rows, np.arange(len(rows))] = 1.0
        A[:, :, rows] = hessian_product(agents, X, V)[:, :, : len(rows)]
    return (A + A.swapaxes(1, 2)) / 2


def hessian_product(agents: Agents, X: Array, V: Array) -> Array:
    """Hess f_i(X)[V] by a central difference of two gradients."""
    t = DIFFERENCE
    return (agents.gradient(X + t * V) - agents.gradient(X - t * V)) / (2 * t)


def misfit(agents: Agents, X: Array, A: Array) -> Array:
    """||H V - A_i V|| / ||H V|| of a random V, ``(agents,)``: 0 where the Hessian is of the form V -> A V."""
    V = np.stack(
        [np.random.default_rng([PROBE_SEED, int(i)]).standard_normal(X.shape[1:]) for i in agents.ids]
    )
    V /= norm(V)[:, None, None]
    HV = hessian_product(agents, X, V)
    size = norm(HV)
    return np.divide(norm(HV - A @ V), size, out=np.zeros_like(size), where=size > 0)


def pack(A: Array) -> Array:
    """The upper triangles of symmetric matrices, ``(agents, n, n) -> (agents, n (n + 1) / 2)``."""
    rows, columns = np.triu_indices(A.shape[1])
    return np.ascontiguousarray(A[:, rows, columns])


def unpack(triangles: Array, n: int) -> Array:
    """The symmetric matrices ``(agents, n, n)`` of `pack`."""
    rows, columns = np.triu_indices(n)
    A = np.empty((len(triangles), n, n))
    A[:, rows, columns] = triangles
    A[:, columns, rows] = triangles
    return A
