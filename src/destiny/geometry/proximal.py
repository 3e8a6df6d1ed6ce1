"""Proximal steps on the tangent space, for f + r with a regularizer r."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from destiny.geometry.stiefel import identity, norm, sym, tangent, transpose
from destiny.protocols import Array, Regularizer

ACCURACY = 2e-15  # of ||sym(X^T (Y - X))|| relative to sqrt(p): rounding
NEWTON = 60  # Newton steps at most; most points take 3 to 10, very sparse ones 20 to 30
PROGRESS = 0.5  # a Newton step that leaves less of the residual is taken without a look at the dual value
ARMIJO = 1e-3  # share of the predicted growth of the dual value that a shortened step must reach
HALVINGS = 10  # of a Newton step, before a plain pass takes its place
DAMPING = 0.01  # times the root of the relative residual: the derivative may be singular; chosen on digits
CONJUGATE = 60  # steps of conjugate gradients for a Newton step, to a tenth of the residual
DIFFERENCE = 1e-7  # for derivatives along directions of norm 1 where ||X|| is of order 1


def apply_prox(regularizer: Regularizer | None, Z: Array, t: Array | float) -> Array:
    """The prox of a regularizer; Z itself without one."""
    return Z if regularizer is None else regularizer.prox(Z, t)


def cubic_retraction(Y: Array) -> Array:
    """Y (3 I - Y^T Y) / 2: of a Y near the manifold, a point quadratically nearer; no inverse is needed."""
    return Y @ ((3 * identity(Y.shape[-1]) - transpose(Y) @ Y) / 2)


def tangent_prox(regularizer: Regularizer | None, X: Array, G: Array, t: float) -> Array:
    """The Y ``(n, p)`` that minimizes ``<G, Y> + r(Y) + ||Y - X||^2 / (2 t)`` with sym(X^T (Y - X)) = 0.

    X is on the manifold and G a Euclidean gradient. Y - X = 0 if and only if X is stationary for f + r, and
    ||Y - X|| / t is the norm of the Riemannian gradient if r = 0 (Chen, Ma, So & Zhang 2020). Y has the zeros
    that the prox makes, and Y^T Y - I = (Y - X)^T (Y - X): near a stationary point, rounding.
    """
    D = tangent(X, G)
    if regularizer is None:
        return X - t * D

    def step(multiplier: Array) -> tuple[Array, Array]:
        """Y for a multiplier, and the gradient of the dual problem there, which is to vanish."""
        Y = regularizer.prox(X - t * (D + X @ multiplier), t)
        return Y, sym(transpose(X) @ (Y - X))

    def dual(multiplier: Array, Y: Array) -> float:
        V = Y - X
        return float(np.vdot(D + X @ multiplier, V) + regularizer.value(Y) + np.vdot(V, V) / (2 * t))

    point = np.zeros((X.shape[-1], X.shape[-1]))
    Y, E = step(point)
    first = error = float(norm(E))
    value = dual(point, Y)
    for _ in range(NEWTON):
        if not error > ACCURACY * np.sqrt(X.shape[-1]):
            break
        damping = DAMPING * float(np.sqrt(error / first))
        move = _conjugate_gradients(_derivative(step, point, E, t), E, damping) / t
        growth = float(np.vdot(E, move))
        for size in 0.5 ** np.arange(HALVINGS):
            new = point + size * move
            Y, E_new = step(new)
            best = dual(new, Y)
            if norm(E_new) <= PROGRESS * error or best >= value + ARMIJO * size * growth:
                break
        else:
            new = point + E / t  # ascends the dual problem with the step 1 / L
            Y, E_new = step(new)
            best = dual(new, Y)
        point, E, value, error = new, E_new, best, float(norm(E_new))
    return Y


def _derivative(
    step: Callable[[Array], tuple[Array, Array]], point: Array, E: Array, t: float
) -> Callable[[Array], Array]:
    """Minus the derivative of E by t times the multiplier, along a direction; positive semidefinite."""

    def along(V: Array) -> Array:
        h = DIFFERENCE / float(norm(V))
        return (E - step(point + (h / t) * V)[1]) / h

    return along


def _conjugate_gradients(matrix: Callable[[Array], Array], right: Array, damping: float) -> Array:
    """Solve (matrix + damping I) V = right to a tenth of the right side."""
    V, R = np.zeros_like(right), right
    P, square = R, float(np.vdot(R, R))
    goal = 0.01 * square
    for _ in range(CONJUGATE):
        Q = matrix(P) + damping * P
        alpha = square / float(np.vdot(P, Q))
        V, R = V + alpha * P, R - alpha * Q
        before, square = square, float(np.vdot(R, R))
        if not goal < square < np.inf:
            break
        P = R + (square / before) * P
    return V
