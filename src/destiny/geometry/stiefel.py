"""The Stiefel manifold St(n, p) = {X : X^T X = I_p}, on single matrices and on stacks ``(agents, n, p)``."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from destiny.errors import ProblemError
from destiny.protocols import Array
from destiny.validation import is_whole

WELL_CONDITIONED = 0.05  # least over largest eigenvalue of X^T X: X (X^T X)^{-1/2} loses a factor 20 at most
# A gradient on the manifold below this part of the Euclidean gradient: the point counts as stationary, and
# residuals are relative to the Euclidean gradient. Relative to less, rounding would keep them above 1e-10.
STATIONARY = 1e-4
SAFE_REGION = 1 / 6  # the region R of Lemma 2.1, in which the theory holds: ||X^T X - I||_F <= 1/6


def transpose(X: Array) -> Array:
    """X^T of the last two axes, as a view."""
    return X.swapaxes(-1, -2)


def sym(M: Array) -> Array:
    """(M + M^T) / 2."""
    return (M + transpose(M)) / 2


def inner(X: Array, Y: Array) -> Array:
    """``<X, Y> = tr(X^T Y)`` of each matrix, ``(..., n, p) -> (...)``."""
    flat = (*X.shape[:-2], -1)
    # One dot product per matrix: its bits do not depend on the other matrices of the stack.
    return np.asarray(np.vecdot(X.reshape(flat), Y.reshape(flat)))


def norm(X: Array) -> Array:
    """Frobenius norm of each matrix, ``(..., n, p) -> (...)``."""
    return np.sqrt(inner(X, X))


def scalar(values: Array) -> Array:
    """``(...) -> (..., 1, 1)``, a view: one number for each matrix of a stack, to multiply it with."""
    return values[..., None, None]


def tangent(X: Array, D: Array) -> Array:
    """Project D on the tangent space at X, D - X sym(X^T D); grad f becomes the Riemannian gradient."""
    return D - X @ sym(transpose(X) @ D)


def polar(X: Array) -> Array:
    """Nearest point of the manifold, the polar factor X (X^T X)^{-1/2} of X; NaN where X is not finite.

    It is computed from the eigenvalues of X^T X if that is well conditioned, and otherwise from the SVD of X,
    which takes several times as long.
    """
    stack = X.reshape(-1, *X.shape[-2:])
    gram = transpose(stack) @ stack
    finite = np.asarray(np.isfinite(gram).all(axis=(1, 2)))
    w, V = np.linalg.eigh(np.where(finite[:, None, None], gram, identity(X.shape[-1])))
    by_eigenvalues = finite & (w[:, 0] > WELL_CONDITIONED * w[:, -1])
    w = np.where(by_eigenvalues[:, None], w, 1.0)
    nearest = stack @ ((V / np.sqrt(w)[:, None, :]) @ transpose(V))
    nearest[~finite] = np.nan
    if (by_svd := finite & ~by_eigenvalues).any():
        U, _, Vt = np.linalg.svd(stack[by_svd], full_matrices=False)
        nearest[by_svd] = U @ Vt
    return np.asarray(nearest.reshape(X.shape))


def qr(X: Array) -> Array:
    """Q of the QR factorization with the diagonal of R made positive, hence unique."""
    Q, R = np.linalg.qr(X)
    signs = np.where(np.diagonal(R, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    return np.asarray(Q * signs[..., None, :])


def deviation(X: Array) -> Array:
    """X^T X - I, zero on the manifold."""
    return transpose(X) @ X - identity(X.shape[-1])


def violation(X: Array) -> Array:
    """||X^T X - I||_F of each matrix, ``(..., n, p) -> (...)``."""
    return norm(deviation(X))


@lru_cache
def identity(p: int) -> Array:
    """I_p, read-only and cached."""
    I = np.eye(p)
    I.flags.writeable = False
    return I


def random_point(n: int, p: int, seed: int = 0) -> Array:
    """A uniformly distributed point ``(n, p)`` of St(n, p): QR of a Gaussian matrix.

    Raises `ProblemError` unless 1 <= p <= n and ``seed`` is a whole number >= 0.
    """
    if not 1 <= p <= n:
        raise ProblemError(
            f"a point of St(n, p) needs 1 <= p <= n; found n = {n}, p = {p}: choose a smaller p"
        )
    if not is_whole(seed) or seed < 0:
        raise ProblemError(f"seed must be a whole number >= 0; found {seed!r}")
    return qr(np.random.default_rng(seed).standard_normal((n, p)))


def subspace_distance(X: Array, Y: Array) -> float:
    """||X X^T - Y Y^T||_2, the sine of the largest angle between two subspaces of equal dimension."""
    X, Y = polar(X), polar(Y)
    # The norm of the part of Y orthogonal to X: sqrt(1 - cos^2) would lose half of the digits.
    return min(1.0, float(np.linalg.norm(Y - X @ (X.T @ Y), 2)))


def residual_scale(start: Array, slope: Array) -> Array:
    """The norm that residuals are relative to, ``(agents, 1, 1)``.

    It is that of the first tracker, ``start``, or of the gradient, ``slope``, where the start is stationary.
    """
    return scalar(np.where(start > STATIONARY * slope, start, slope))
