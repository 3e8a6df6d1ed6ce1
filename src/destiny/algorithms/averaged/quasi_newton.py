"""Limited-memory BFGS on the Stiefel manifold: a direction of descent from earlier points and gradients."""

from __future__ import annotations

import numpy as np

from destiny.geometry.stiefel import inner, norm, sym, tangent
from destiny.protocols import Array

CAUTION = 1e-6  # least cosine between s and y: BFGS needs a positive one, and cancellation leaves noise


def quasi_newton_direction(X: Array, G: Array, moves: Array, changes: Array) -> Array | None:
    """Minus the inverse BFGS matrix times the Riemannian gradient at X, ``(n, p)``; None without pairs.

    ``moves`` and ``changes (m, n, p)`` are differences of points and of Euclidean gradients, the latest last.
    They are read as products with the Riemannian Hessian at X, which along a tangent s is the projection of
    Hess f[s] - s sym(X^T G); so no pair is moved from one tangent space to the next.
    """
    pairs = usable_pairs(X, G, moves, changes)
    if not pairs:
        return None
    q = tangent(X, G)
    factors = []
    for s, y in reversed(pairs):
        a = np.vdot(s, q) / np.vdot(s, y)
        factors.append(a)
        q = q - a * y
    s, y = pairs[-1]
    q = q * (np.vdot(s, y) / np.vdot(y, y))
    for (s, y), a in zip(pairs, reversed(factors), strict=True):
        q = q + (a - np.vdot(y, q) / np.vdot(s, y)) * s
    return -q


def usable_pairs(X: Array, G: Array, moves: Array, changes: Array) -> list[tuple[Array, Array]]:
    """Tangent pairs (s, y) along which the curvature at X is positive, in their order."""
    S = tangent(X, moves)
    Y = tangent(X, changes - moves @ sym(X.T @ G))
    usable = inner(S, Y) > CAUTION * norm(S) * norm(Y)
    return list(zip(S[usable], Y[usable], strict=True))
