"""The approximate augmented Lagrangian of the paper (Section 2.2, below eq. (2.3)) and its directions.

With the multiplier in closed form, eq. (2.2), and the expansion of eq. (2.3), the penalty function is

    h(X) = g(X) + beta b(X),   g(X) = 3/2 f(X) - 1/2 f(X X^T X),   b(X) = 1/4 ||X^T X - I||_F^2 .

Its exact gradient needs grad f at two points; G and H = G + beta X (X^T X - I) need it at one. All
functions act on single matrices and on stacks; ``f`` and ``gradient`` are callables on the same shapes.
"""

from __future__ import annotations

from collections.abc import Callable

from destiny.geometry.stiefel import deviation, identity, sym, transpose, violation
from destiny.protocols import Array

Function = Callable[[Array], Array]


def cubic(X: Array) -> Array:
    """X X^T X, where the paper evaluates grad f."""
    return X @ (transpose(X) @ X)


def dissolve(X: Array) -> Array:
    """X (3 I - X^T X) / 2, where constraint dissolving evaluates grad f; for fast growing f."""
    return X - X @ deviation(X) / 2


def b(X: Array) -> Array:
    """b(X) = 1/4 ||X^T X - I||_F^2."""
    return violation(X) ** 2 / 4


def g(f: Function, X: Array) -> Array:
    """g(X) = 3/2 f(X) - 1/2 f(X X^T X)."""
    return 1.5 * f(X) - f(cubic(X)) / 2


def h(f: Function, X: Array, beta: float) -> Array:
    """h(X) = g(X) + beta b(X), the approximate augmented Lagrangian."""
    return g(f, X) + beta * b(X)


def gradient_h(gradient: Function, X: Array, beta: float) -> Array:
    """The exact gradient of h: two gradient evaluations, at X and at X X^T X."""
    at_cubic = gradient(cubic(X))
    along = at_cubic @ (transpose(X) @ X) / 2 + X @ sym(transpose(X) @ at_cubic)
    return 1.5 * gradient(X) - along + beta * X @ deviation(X)


def assemble(X: Array, E: Array, slope: Array, beta: float | Array) -> Array:
    """H from E = X^T X - I and ``slope``, grad f at the evaluation point.

    H = slope (3 I - X^T X) / 2 - X sym(X^T slope) + beta X (X^T X - I); the Riemannian gradient where E = 0.
    """
    H = slope @ (identity(X.shape[-1]) - E / 2)
    H += X @ (beta * E - sym(transpose(X) @ slope))
    return H


def G(gradient: Function, X: Array) -> Array:
    """G(X): H without the penalty."""
    return H(gradient, X, 0.0)


def H(gradient: Function, X: Array, beta: float | Array) -> Array:
    """H(X) = G(X) + beta X (X^T X - I): DESTINY's direction, one gradient evaluation."""
    return assemble(X, deviation(X), gradient(cubic(X)), beta)
