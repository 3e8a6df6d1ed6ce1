"""Minimize a quadratic function on the Stiefel manifold: a Riemannian trust region with truncated CG.

The method of Absil, Baker and Gallivan (2007), for <B, X> + <X, A X> / 2 with a symmetric A.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from destiny.geometry.own_units import EPS, OwnUnits
from destiny.geometry.stiefel import polar, sym, tangent
from destiny.protocols import Array

STEPS = 60  # outer steps; the gradient's reduction by 1e-4 takes about ten
PRODUCTS = 400  # inner iterations of a step: more than CG ever took on the instances tried
TRUNCATION = 0.03  # of the gradient's norm: CG ends there, and the outer iteration is superlinear no more
ROUNDING = 1e-13  # relative error of a value of the function
RIGHT = 1e-12  # distance from a stationary point at which `polished` ends
GOOD = 1e-10  # the same at which it does not begin: where features have similar units, X is nearer already


@dataclass(frozen=True)
class Minimum:
    """Where the search ended.

    Attributes
    ----------
    X : ndarray (n, p)
    products : int
        Products of A with a matrix n x p that it took.
    """

    X: Array
    products: int


def minimize(A: Array, B: Array, X: Array, relative: float, floor: float) -> Minimum:
    """Minimize <B, X> + <X, A X> / 2 from ``X`` (n, p).

    Ends where the Riemannian gradient is ``relative`` times that at the start, or ``floor`` times the
    Euclidean one, or where rounding allows no progress.
    """
    size = max(float(np.linalg.norm(A)), np.finfo(np.float64).tiny)
    p = X.shape[1]
    radius, products = np.sqrt(p) / 4, 1
    AX = A @ X
    f = _value(B, X, AX)
    first: float | None = None
    for _ in range(STEPS):
        G = AX + B
        S = sym(X.T @ G)
        g = G - X @ S
        length = float(np.linalg.norm(g))
        first = length if first is None else first
        if length <= max(relative * first, floor * float(np.linalg.norm(G))):
            break
        step, hessian_step, used, bounded = _truncated_cg(A, X, S, g, TRUNCATION * length, radius)
        Y = polar(X + step)
        AY = A @ Y
        products += used + 1
        fy = _value(B, Y, AY)
        predicted = -float(np.vdot(g, step) + np.vdot(step, hessian_step) / 2)
        if predicted < 100 * ROUNDING * (abs(f) + size):  # values no longer tell: the gradient must fall
            if np.linalg.norm(tangent(Y, AY + B)) >= length:
                break
            ratio = 1.0
        else:
            ratio = (f - fy) / predicted
        if ratio > 0.1:
            X, AX, f = Y, AY, fy
        radius = _next_radius(radius, ratio, bounded, 2 * np.sqrt(p))
        if radius < ROUNDING:
            break
    return Minimum(X, products)


def polished(A: Array, B: Array, minimum: Minimum) -> Minimum:
    """The minimum, or a better one in the units of each row of X, where the norm of the gradient sees none.

    The trust region of `minimize` in these units (`destiny.geometry.own_units`), from where that ended.
    """
    X, products = minimum.X, minimum.products
    rows = np.abs(np.diagonal(A))
    units = OwnUnits.at(X, A @ X + B, rows)
    distance = units.distance
    if distance <= GOOD:
        return minimum
    first = np.sqrt(units.inner(X, X)) / 4
    radius = first
    f = _value(B, X, A @ X)
    for _ in range(STEPS):
        solve = units.inverse()
        g = units.slope
        target = TRUNCATION * np.sqrt(max(0.0, float(np.vdot(g, solve(g)))))
        step, image, used, bounded = _truncated_cg(A, X, units.S, g, target, radius, solve, units.inner)
        Y = polar(X + step)
        AY = A @ Y
        products += used + 1
        fy = _value(B, Y, AY)
        new = OwnUnits.at(Y, AY + B, rows)
        predicted = -float(np.vdot(g, step) + np.vdot(step, image) / 2)
        # The terms of f, not f itself: where rows of X are small, so are those of the largest features.
        terms = float(np.vdot(np.abs(Y), np.abs(A) @ np.abs(Y)) / 2 + np.vdot(np.abs(B), np.abs(Y)))
        if predicted < 100 * EPS * terms:
            if new.distance >= distance:
                break
            ratio = 1.0
        else:
            ratio = (f - fy) / predicted
        if ratio > 0.1:
            X, f, units, distance = Y, fy, new, new.distance
            if distance <= RIGHT:
                break
        radius = _next_radius(radius, ratio, bounded, 8 * first)
        if radius < ROUNDING * first:
            break
    return Minimum(X, products)


def _next_radius(radius: float, ratio: float, bounded: bool, largest: float) -> float:
    """The radius after a step with this ratio of actual to predicted decrease."""
    if ratio < 0.25:
        return radius * 0.25
    return min(2 * radius, largest) if ratio > 0.75 and bounded else radius


def _itself(V: Array) -> Array:
    return V


def _vdot(V: Array, W: Array) -> float:
    return float(np.vdot(V, W))


def _truncated_cg(
    A: Array,
    X: Array,
    S: Array,
    g: Array,
    target: float,
    radius: float,
    solve: Callable[[Array], Array] = _itself,
    inner: Callable[[Array, Array], float] = _vdot,
) -> tuple[Array, Array, int, bool]:
    """Steihaug's CG: the tangent step, its image under the Hessian, products, whether it met the radius.

    ``inner`` measures steps, and ``solve`` is the preconditioner of the same metric.
    """
    step, image = np.zeros_like(X), np.zeros_like(X)
    z = solve(g)
    r, direction, rr = g, -z, float(np.vdot(g, z))
    for k in range(1, PRODUCTS + 1):
        hessian_step = tangent(X, A @ direction - direction @ S)
        bend = float(np.vdot(direction, hessian_step))
        ss, sd, dd = (inner(a, b) for a, b in ((step, step), (step, direction), (direction, direction)))
        alpha = rr / bend if bend > 0 else np.inf
        if bend <= 0 or ss + 2 * alpha * sd + alpha**2 * dd >= radius**2:
            tau = (-sd + np.sqrt(sd**2 + dd * (radius**2 - ss))) / dd
            return step + tau * direction, image + tau * hessian_step, k, True
        step, image, r = step + alpha * direction, image + alpha * hessian_step, r + alpha * hessian_step
        z = solve(r)
        new = float(np.vdot(r, z))
        if np.sqrt(max(new, 0.0)) <= target:
            break
        direction, rr = new / rr * direction - z, new
    return step, image, k, False


def nearest_equal(A: Array, B: Array, Y: Array, X: Array) -> Array:
    """Of the points Y Q that are as stationary as Y, the one nearest to X; Y itself where Q matters."""
    turned = Y @ polar(Y.T @ X)
    (own, size), (other, _) = (_slope(A, B, Z) for Z in (Y, turned))
    return turned if other <= 2 * own + ROUNDING * size else Y


def _slope(A: Array, B: Array, X: Array) -> tuple[float, float]:
    """Norms of the Riemannian and of the Euclidean gradient."""
    G = A @ X + B
    return float(np.linalg.norm(tangent(X, G))), float(np.linalg.norm(G))


def _value(B: Array, X: Array, AX: Array) -> float:
    return float(np.vdot(X, AX) / 2 + np.vdot(B, X))
