"""Models <r_i, X> + <X, A_i X> / 2 of the f_i: their matrices A_i, as messages too, and their minimizers."""

from __future__ import annotations

import numpy as np

from destiny.algorithms.averaged.leading_axes import refined
from destiny.algorithms.averaged.trust_region import minimize, nearest_equal, polished
from destiny.protocols import Array

FLOOR = 1e-14  # relative to the Euclidean gradient: a smaller Riemannian gradient of the model is rounding


def solve_each(model: Array, R: Array, X: Array) -> tuple[Array, Array]:
    """Minimize each agent's model from its X; the minimizers, and the products taken ``(agents, 1, 1)``."""
    new, products = np.empty_like(X), np.empty((len(X), 1, 1))
    for i, A in enumerate(unpack(model, X.shape[1])):
        minimum = minimize(A, R[i], X[i], 0.0, FLOOR)
        better = polished(A, R[i], minimum) if R[i].any() else minimum
        new[i] = better.X if better is not minimum else nearest_equal(A, R[i], minimum.X, X[i])
        if not R[i].any():
            new[i] = refined(A, new[i])
        products[i] = better.products
    return new, products


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
