"""Stationarity in the units of each row of X, which the norm of a gradient does not see.

Where features have very different units, the gradient is that of the largest of them, and its norm is small
long before the other rows of X are right. Here every entry of the gradient is divided by a curvature of its
own: the result is a step in X, about the distance to a stationary point, whatever the units are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from destiny.geometry.stiefel import sym, tangent
from destiny.protocols import Array

EPS = float(np.finfo(np.float64).eps)
NOISE = 100 * EPS  # of the terms of an entry of the gradient: a smaller entry may be rounding
FLAT = 10 * EPS  # of the largest size: along such an entry f is flat, or rounding hides that it is not
PROBES = 6  # random columns per estimate: one of them alone may miss a row
PASSES = 3  # estimates of the rows' curvatures, each in the units that the one before has found
DIFFERENCE = (
    1e-4  # step of differences of gradients: the errors of rounding and of truncation are about equal
)
SPANNED = 1e-8  # of a matrix is left if those before it span it: rounding
SEED = 1917  # any fixed number: probes must be equal on every engine

Gradient = Callable[[Array], Array]


@dataclass(frozen=True)
class OwnUnits:
    """A point X of the manifold with a size of the curvature of f along each entry.

    The columns are turned to those of X Q in which sym(X^T grad f) is diagonal, with the entries s_k. Along
    entry (i, k) the curvature on the manifold is A_ii - s_k, with A the Hessian of f.

    Attributes
    ----------
    X : ndarray (n, p)
    S : ndarray (p, p)
        sym(X^T grad f(X)).
    Q : ndarray (p, p)
    slope : ndarray (n, p)
        Riemannian gradient.
    sizes : ndarray (n, p)
        |A_ii| + |s_k|; at least rounding of the largest.
    noise : ndarray (n, p)
        Entries of slope Q up to which rounding may be all there is; infinite where f is flat.
    """

    X: Array
    S: Array
    Q: Array
    slope: Array
    sizes: Array
    noise: Array

    @classmethod
    def at(cls, X: Array, gradient: Array, rows: Array, slope: Array | None = None) -> OwnUnits:
        """From the Euclidean gradient at X and the curvatures |A_ii| of the ``rows`` ``(n,)``.

        ``slope`` is what vanishes at a stationary point if that is not the Riemannian gradient.
        """
        S = sym(X.T @ gradient)
        s, Q = np.linalg.eigh(S)
        sizes = rows[:, None] + np.abs(s)
        sizes = np.maximum(sizes, max(EPS * sizes.max(), np.finfo(np.float64).tiny))
        roots = np.sqrt(rows)
        terms = np.outer(roots, roots @ np.abs(X @ Q)) + np.abs(X) @ np.abs(S) @ np.abs(Q)
        noise = np.where(sizes > FLAT * sizes.max(), NOISE * terms, np.inf)
        return cls(X, S, Q, gradient - X @ S if slope is None else slope, sizes, noise)

    @property
    def distance(self) -> float:
        """About how far X is from a stationary point: the norm of the slope by the sizes, beyond rounding."""
        beyond = np.maximum(np.abs(self.slope @ self.Q) - self.noise, 0.0)
        return float(np.linalg.norm(beyond / self.sizes))

    def inner(self, V: Array, W: Array) -> float:
        """The inner product of two matrices in these units."""
        return float(np.vdot((V @ self.Q) * self.sizes, W @ self.Q))

    def inverse(self) -> Gradient:
        """The tangent V with <V, W> in these units = <R, W> for all tangent W, as a function of R ``(n, p)``.

        V = (R - X L) / sizes, in turned columns, with the symmetric L that makes V tangent.
        """
        p = self.X.shape[1]
        Y, weights = self.X @ self.Q, 1 / self.sizes
        grams = np.einsum("ia,ik,ib->kab", Y, weights, Y, optimize=True)  # of Y, in the weights of column k
        upper = np.triu_indices(p)
        system = np.empty((len(upper[0]), len(upper[0])))
        for j, (a, b) in enumerate(zip(*upper, strict=True)):
            image = np.zeros((p, p))
            image[:, b] += grams[b, :, a]
            if a != b:
                image[:, a] += grams[a, :, b]
            system[:, j] = (image + image.T)[upper]
        solver = np.linalg.pinv(system)

        def solve(R: Array) -> Array:
            V = (R @ self.Q) * weights
            C = Y.T @ V
            L = np.zeros((p, p))
            L[upper] = solver @ (C + C.T)[upper]
            L = L + np.triu(L, 1).T
            return tangent(self.X, (V - (Y @ L) * weights) @ self.Q.T)

        return solve


def hessian_product(gradient: Gradient, X: Array, V: Array, quadratic: bool) -> Array:
    """Hess f(X)[V] by a central difference of gradients; exact, with any step, for a quadratic f."""
    t = 1.0 if quadratic else DIFFERENCE
    return (gradient(X + t * V) - gradient(X - t * V)) / (2 * t)


def row_curvatures(gradient: Gradient, X: Array, quadratic: bool) -> Array:
    """The curvatures |A_ii| of f along the rows of X, up to a factor of a few, ``(n,)``; 0 where f is flat.

    From products of the Hessian with random matrices. Large rows hide small ones in a product, unless each
    row of the matrix is as small as its curvature is large: the first pass finds about how large.
    """
    n, p = X.shape
    random = np.random.default_rng(SEED)
    rows: Array | None = None
    for _ in range(PASSES):
        units = np.ones(n) if rows is None else np.sqrt(rows)
        squares = np.zeros((2, n))
        for _ in range(-(-PROBES // p)):
            V = (
                random.standard_normal((n, p))
                * np.divide(1.0, units, out=np.zeros(n), where=units > 0)[:, None]
            )
            V /= np.abs(V).max()
            squares += [
                np.square(V).sum(axis=1),
                np.square(hessian_product(gradient, X, V, quadratic)).sum(axis=1),
            ]
        inputs, products = np.sqrt(squares)
        if not (products.max() > 0 and np.isfinite(products).all()):
            return np.zeros(n)
        if rows is None:
            # |A_ij| is at most sqrt(A_ii A_jj): what a row has of the largest is a lower bound of its root.
            rows = products**2 / (products.max() * inputs.max())
        else:
            rows = np.divide(products, inputs, out=np.zeros(n), where=inputs > 0)
    assert rows is not None
    return rows


def lowest_curvature(gradient: Gradient, units: OwnUnits, products: int, quadratic: bool) -> float:
    """An upper bound of the lowest curvature of f on the manifold at X, relative to the sizes of the units.

    By Rayleigh-Ritz in the space of ``products`` products of a random tangent matrix; 0 if there is none.
    """
    X, S, random = units.X, units.S, np.random.default_rng(SEED)
    V = tangent(X, (random.standard_normal(X.shape) / np.sqrt(units.sizes)) @ units.Q.T)
    basis: list[Array] = []
    images: list[Array] = []
    for _ in range(products):
        before = np.sqrt(units.inner(V, V))
        for _ in range(2):  # once more, for rounding
            for B in basis:
                V = V - units.inner(B, V) * B
            V = tangent(X, V)
        length = np.sqrt(units.inner(V, V))
        if not length > SPANNED * before:
            break
        V = V / length
        scale = float(np.linalg.norm(V))
        image = scale * hessian_product(gradient, X, V / scale, quadratic)
        basis.append(V)
        images.append(tangent(X, image - V @ S))
        V = tangent(X, (images[-1] @ units.Q / units.sizes) @ units.Q.T)
    if not basis:
        return 0.0
    H = np.array([[np.vdot(B, image) for image in images] for B in basis])
    return float(np.linalg.eigvalsh(sym(H))[0]) if np.isfinite(H).all() else 0.0
