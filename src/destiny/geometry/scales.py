"""Numbers that bound the entries of matrices: sums of them over agents bound sums of the matrices."""

from __future__ import annotations

import numpy as np

from destiny.protocols import Array


def symmetric_scales(A: Array) -> Array:
    """u ``(..., n)`` with |A_jk|^2 <= u_j u_k for symmetric A ``(..., n, n)``.

    It is the diagonal if A is semidefinite. By Cauchy and Schwarz, sums over agents satisfy
    sum |A_jk| <= sqrt(sum u_j sum u_k).
    """
    sizes = np.abs(A)
    u = np.diagonal(sizes, axis1=-2, axis2=-1).copy()
    u = np.where(u > 0, u, sizes.max(axis=-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = sizes / np.sqrt(u[..., :, None] * u[..., None, :])
    return np.asarray(u * np.maximum(1.0, np.nan_to_num(excess, nan=0.0, posinf=0.0).max(axis=-1)))


def column_scales(R: Array, u: Array) -> tuple[Array, Array]:
    """Larger u ``(..., n)`` and v ``(..., p)`` with |R_jk|^2 <= u_j v_k, for R ``(..., n, p)``.

    u grows only where it is 0 and the row of R is not.
    """
    u = np.where(u > 0, u, np.abs(R).max(axis=-1))
    ratios = np.divide(R * R, u[..., None], out=np.zeros_like(R), where=u[..., None] > 0)
    return u, ratios.max(axis=-2)


def matrix_scales(R: Array) -> tuple[Array, Array]:
    """u ``(..., n)`` and v ``(..., p)`` with |R_jk| <= u_j v_k for R ``(..., n, p)``, v at most 1.

    Sums over agents satisfy sum |R_jk| <= sum u_j sum v_k.
    """
    sizes = np.abs(R)
    u = sizes.max(axis=-1)
    shares = np.divide(sizes, u[..., None], out=np.zeros_like(sizes), where=u[..., None] > 0)
    return u, shares.max(axis=-2)
