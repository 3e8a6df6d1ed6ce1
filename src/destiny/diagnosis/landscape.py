"""A near-stationary point and the curvature around it: a short pooled descent, then Lanczos on the Hessian.

The agents' gradients are averaged in this process, which no agent could do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy.linalg import eigh_tridiagonal

from destiny import networks
from destiny.algorithms import WenYin
from destiny.geometry.stiefel import norm, polar, sym, tangent
from destiny.problems import pooled
from destiny.protocols import Array, Problem
from destiny.run.loop import iterate

DESCENT = 200  # steps at most: seconds at the paper's sizes
NEAR = 1e-5  # of the start's slope: the Hessian there is that of the answer to a few digits
LANCZOS = 80  # products with the Hessian: resolves curvature ratios up to a thousand or so
TINY = 1e-6  # of ||V|| = 1, for differences of gradients
ROUNDING = 1e-15  # of a gradient, relative
NOISE = 1e-7  # of the largest curvature: below it lies what differences of gradients cannot tell from zero

Field = Callable[[Array], Array]


@dataclass(frozen=True)
class Landscape:
    """A near-stationary point of the mean objective and the curvature around it.

    Attributes
    ----------
    X : ndarray (n, p)
    reached : float
        Riemannian gradient there, relative to the start's.
    slope : float
        Spectral norm of the mean gradient at the start: what beta="auto" starts from.
    threshold : float
        3/2 lambda_max(sym(X^T grad f)): DESTINY's direction needs a larger penalty. Negative if any will do.
    curvatures, shares : ndarray (k,)
        Ritz values of the Riemannian Hessian and, for each, the share of the squared gradient that the
        displacement from the start causes along it. Directions along which f is constant have none.
    """

    X: Array
    reached: float
    slope: float
    threshold: float
    curvatures: Array
    shares: Array

    @property
    def largest(self) -> float:
        """Largest curvature along the manifold."""
        return float(self.curvatures.max())

    @property
    def smallest(self) -> float:
        """Smallest positive curvature on the way; an upper bound where `condition` exceeds a thousand."""
        positive = self.curvatures[self.curvatures > 0]
        return float(positive.min()) if len(positive) else 0.0

    @property
    def condition(self) -> float:
        """The condition number kappa: `largest` over `smallest`; infinite without curvature."""
        return self.largest / self.smallest if self.smallest > 0 else float("inf")

    @property
    def hidden(self) -> bool:
        """Whether one direction is so steep that the others cannot be resolved."""
        return len(self.curvatures) == 1 and self.X.size > 1 and self.largest > 0

    @property
    def saddle(self) -> bool:
        """Whether f curves downwards near the point: it may be a saddle."""
        return bool(self.curvatures.min() < -1e-3 * self.largest)


def descend_and_probe(problem: Problem, X: Array, steps: int = DESCENT, products: int = LANCZOS) -> Landscape:
    """Descend from X ``(n, p)`` on the mean objective and return the point with the curvatures there."""
    whole = pooled(problem)
    near, reached = descend(whole, X, steps)
    mean = whole.host([0])

    def gradient(Y: Array) -> Array:
        return np.asarray(mean.gradient(Y[None])[0])

    start = gradient(X)
    here = gradient(near)
    curvatures, shares = spectrum(gradient, near, polar(X) - near, products)
    return Landscape(
        X=near,
        reached=reached,
        slope=float(np.linalg.norm(start, 2)),
        threshold=1.5 * float(np.linalg.eigvalsh(sym(near.T @ here))[-1]),
        curvatures=curvatures,
        shares=shares,
    )


def descend(whole: Problem, X: Array, steps: int) -> tuple[Array, float]:
    """Return a near-stationary point of a pooled problem, and its slope relative to the start's."""
    method = WenYin()
    for moment in islice(iterate(whole, networks.complete(1), method, start=polar(X)), steps + 1):
        state = moment.parts[0]
        reached = float(method.residual(state)[0])
        if reached < NEAR:
            break
    return polar(state.X[0]), reached


def hessian(gradient: Field, X: Array) -> Field:
    """Return the Riemannian Hessian at X as a function of tangent directions, by central differences."""

    def along(V: Array) -> Array:
        length = float(norm(V))
        if length == 0:
            return np.zeros_like(V)
        Y = TINY / length * V
        ahead, behind = (tangent(Z, gradient(Z)) for Z in (X + Y, X - Y))
        return tangent(X, ahead - behind) * (length / (2 * TINY))

    return along


def spectrum(gradient: Field, X: Array, way: Array, products: int) -> tuple[Array, Array]:
    """Return Ritz values of the Hessian at X, and the shares of Hess[way] along their directions.

    Lanczos starts from Hess[way]. Directions along which f is constant (rotations of the basis in PCA,
    features that never occur) are in the kernel and never appear, as in a run.
    """
    apply = hessian(gradient, X)
    V = apply(tangent(X, way))
    if not np.isfinite(V).all() or norm(V) == 0:
        return np.zeros(1), np.ones(1)
    basis: list[Array] = []
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    W, length = V, float(norm(V))
    largest = 0.0
    for _ in range(min(products, X.size)):
        V = W / length
        basis.append(V)
        W = apply(V)
        diagonal.append(float(np.vdot(V, W)))
        for _ in range(2):  # once is not enough to keep the basis orthogonal
            for U in basis:
                W = W - np.vdot(U, W) * U
        length = float(norm(W))
        largest = max(largest, abs(diagonal[-1]), length)
        if length < 1e-6 * largest:  # the rest is the noise of differences
            break
        off_diagonal.append(length)
    values, vectors = eigh_tridiagonal(np.array(diagonal), np.array(off_diagonal[: len(diagonal) - 1]))
    shares = vectors[0] ** 2
    # Off the exact answer directions that should be flat curve by about the slope that is left.
    here = gradient(X)
    left = max(3 * float(norm(tangent(X, here))), ROUNDING / TINY * float(norm(here)))
    noise = max(NOISE * float(np.abs(values).max()), left)
    resolved = (np.abs(values) > noise) & (shares > 1e-18)  # rounding has no share
    if not resolved.any():
        return np.zeros(1), np.ones(1)
    return values[resolved], shares[resolved]
