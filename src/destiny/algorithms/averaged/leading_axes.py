"""Eigenvectors of quadratic objectives <X, A X> / 2, each as accurate as its own eigenvalue allows.

The gradient does not see eigenvalues that are far smaller than others: where features are in very different
units, X is stationary to rounding with some of its axes in any direction.
"""

from __future__ import annotations

import numpy as np

from destiny.geometry.stiefel import polar
from destiny.protocols import Array

EPS = float(np.finfo(np.float64).eps)
ACCURATE = 1e-10  # relative to the eigenvalue: a smaller residual of an axis needs no better one
CLEAR = 100.0  # of what rounding does to an eigenvalue: eigenvalues that are less apart are equal


def own_residual(A: Array, X: Array) -> float:
    """The largest ||A x - t x|| / |t| of the Ritz pairs (x, t) in the span of X ``(n, p)``."""
    AX = A @ X
    values, V = np.linalg.eigh(X.T @ AX)
    lengths = np.linalg.norm(AX @ V - (X @ V) * values, axis=0)
    return float(np.max(lengths / np.maximum(np.abs(values), np.finfo(np.float64).tiny)))


def refined(A: Array, X: Array) -> Array:
    """X ``(n, p)`` itself, or the p lowest eigenvectors of A, turned towards X, where X misses some of them.

    They are taken only where they are well defined: on two machines they are equal up to rounding.
    """
    p = X.shape[1]
    if p == len(A) or own_residual(A, X) <= ACCURATE:
        return X
    values, vectors = graded_eigh(A, p + 1)
    if values[p] - values[p - 1] <= CLEAR * _rounding(A, vectors[:, p - 1 :]).max():
        return X
    return vectors[:, :p] @ polar(vectors[:, :p].T @ X)


def graded_eigh(A: Array, count: int) -> tuple[Array, Array]:
    """The ``count`` lowest eigenvalues and their vectors ``(n, count)``.

    With the largest rows first, LAPACK finds small eigenvalues of a matrix D B D with a diagonal D and a
    well-conditioned B to the accuracy of their own size; in another order, to that of the largest.
    """
    order = np.argsort(-np.abs(np.diagonal(A)), kind="stable")
    values, sorted_vectors = np.linalg.eigh(A[np.ix_(order, order)])
    vectors = np.empty((len(A), count))
    vectors[order] = sorted_vectors[:, :count]
    return values[:count], vectors


def _rounding(A: Array, vectors: Array) -> Array:
    """What an error of EPS sqrt(A_ii A_jj) in each A_ij does to the eigenvalues of some eigenvectors."""
    return np.asarray(len(A) * EPS * (np.sqrt(np.abs(np.diagonal(A))) @ np.abs(vectors)) ** 2)
