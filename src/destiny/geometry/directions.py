"""Directions for the steps of a method: fields that vanish at the stationary points, at one gradient each.

A direction is a function of ``slope``, grad f at a point near X, and of E = X^T X - I:

    h        slope at X X^T X            slope (3 I - X^T X)/2 - X sym(X^T slope)   + beta X E   DESTINY
    expen    slope at X (3 I - X^T X)/2  the same                                   + beta X E   ExPen
    plam     slope at X                  slope - X sym(X^T slope)                   + beta X E   PLAM
    landing  slope at X                  (slope X^T X - X slope^T X)/2              + beta X E   landing

and, for PCA only (slope = -C X), Sanger's rule, whose columns tend to the eigenvectors themselves:

    sanger   slope at X                  slope - X triu(X^T slope)
    oja      slope at X                  slope - X N^-1 triu(X^T slope),  N = diag(X^T X)

On the manifold all equal the Riemannian gradient (landing up to the factor 1/2, Sanger's up to a rotation).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from destiny.geometry.lagrangian import assemble
from destiny.geometry.stiefel import deviation, identity, sym, transpose
from destiny.protocols import Array


@dataclass(frozen=True)
class Direction:
    """A direction in two parts: the point at which to evaluate grad f, and a formula."""

    point: Callable[[Array, Array], Array]
    """(X, E) -> evaluation point."""
    assemble: Callable[[Array, Array, Array, float | Array], Array]
    """(X, E, slope, beta) -> the direction."""

    def __call__(self, gradient: Callable[[Array], Array], X: Array, beta: float | Array) -> Array:
        """The direction at X, of the same shape; one evaluation of ``gradient``."""
        E = deviation(X)
        return self.assemble(X, E, gradient(self.point(X, E)), beta)


def at_cubic(X: Array, E: Array) -> Array:
    """X X^T X."""
    return X @ (identity(X.shape[-1]) + E)


def at_dissolved(X: Array, E: Array) -> Array:
    """X (3 I - X^T X) / 2."""
    return X @ (identity(X.shape[-1]) - E / 2)


def at_itself(X: Array, E: Array) -> Array:  # noqa: ARG001
    """X itself."""
    return X


def plam(X: Array, E: Array, slope: Array, beta: float | Array) -> Array:
    """slope - X sym(X^T slope) + beta X E: gradient of the augmented Lagrangian (Gao, Liu & Yuan 2019)."""
    return slope + X @ (beta * E - sym(transpose(X) @ slope))


def landing(X: Array, E: Array, slope: Array, beta: float | Array) -> Array:
    """skew(slope X^T) X + beta X E (Ablin & Peyre 2022); its two parts are orthogonal."""
    turn = slope @ ((identity(X.shape[-1]) + E) / 2)
    turn += X @ (beta * E - transpose(slope) @ X / 2)
    return turn


def sanger(X: Array, E: Array, slope: Array, beta: float | Array) -> Array:  # noqa: ARG001
    """The generalized Hebbian rule (Sanger 1989), slope - X triu(X^T slope)."""
    return slope - X @ np.triu(transpose(X) @ slope)


def oja(X: Array, E: Array, slope: Array, beta: float | Array) -> Array:  # noqa: ARG001
    """Sanger's rule with every projection divided by its column's norm (Krasulina's form)."""
    squares = np.diagonal(E, axis1=-2, axis2=-1)[..., :, None] + 1
    return slope - X @ (np.triu(transpose(X) @ slope) / squares)


DIRECTIONS: dict[str, Direction] = {
    "h": Direction(at_cubic, assemble),
    "expen": Direction(at_dissolved, assemble),
    "plam": Direction(at_itself, plam),
    "landing": Direction(at_itself, landing),
    "sanger": Direction(at_itself, sanger),
    "oja": Direction(at_itself, oja),
}
"""Directions by name."""
ANY_F = ("h", "expen", "plam", "landing")
"""Directions for any smooth objective."""
