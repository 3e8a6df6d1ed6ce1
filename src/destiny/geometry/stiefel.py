"""The Stiefel manifold St(n, p) = {X : X^T X = I_p}, on single matrices and on stacks ``(agents, n, p)``."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from destiny.errors import ProblemError, is_whole
from destiny.protocols import Array


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


def tangent(X: Array, D: Array) -> Array:
    """D - X sym(X^T D): projection of D on the tangent space at X; of grad f, the Riemannian gradient."""
    return D - X @ sym(transpose(X) @ D)


def polar(X: Array) -> Array:
    """Nearest point of the manifold, X (X^T X)^{-1/2}; NaN where X is not finite.

    From the eigenvalues of X^T X, p x p, where its condition allows all digits; elsewhere from the SVD of X,
    several times the work.
    """
    stack = X.reshape(-1, *X.shape[-2:])
    square = transpose(stack) @ stack
    finite = np.asarray(np.isfinite(square).all(axis=(1, 2)))
    w, V = np.linalg.eigh(np.where(finite[:, None, None], square, identity(X.shape[-1])))
    sound = finite & (w[:, 0] > 0.05 * w[:, -1])  # the digits lost are those of the condition, here 20
    w = np.where(sound[:, None], w, 1.0)
    near = stack @ ((V / np.sqrt(w)[:, None, :]) @ transpose(V))
    near[~finite] = np.nan
    if (rest := finite & ~sound).any():
        U, _, Vt = np.linalg.svd(stack[rest], full_matrices=False)
        near[rest] = U @ Vt
    return np.asarray(near.reshape(X.shape))


def qr(X: Array) -> Array:
    """Q of the QR factorisation with the diagonal of R made positive, hence unique."""
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
    """I_p, made once: it is asked for in every step."""
    I = np.eye(p)
    I.flags.writeable = False
    return I


def random_point(n: int, p: int, seed: int = 0) -> Array:
    """A uniformly distributed point: QR of a Gaussian matrix. Equal seeds give equal points everywhere."""
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
    # From the part of Y outside X, not from sqrt(1 - cos^2): that would lose half of the digits.
    return min(1.0, float(np.linalg.norm(Y - X @ (X.T @ Y), 2)))
