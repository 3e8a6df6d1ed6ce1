"""Principal axes of an answer of PCA, and what to say of those that may be wrong."""

from __future__ import annotations

import numpy as np

from destiny.geometry.stiefel import norm, transpose
from destiny.protocols import Array

ROUNDING = 1e-14  # of the largest variance: no variance at all


def rayleigh_ritz(X: Array, gradient: Array) -> tuple[Array, float]:
    """Principal axes in span(X), largest variance first, and the smallest variance as a share of the largest.

    They come from the eigenvectors of X^T C X = -X^T grad f(X), p x p.
    """
    variances, V = np.linalg.eigh(-transpose(X) @ gradient)
    return np.asarray(X @ V[:, ::-1]), float(variances[0] / (variances[-1] or 1.0))


def unseen_variance(share: float, gradient: Array, tolerance: float) -> str | None:
    """A note if the smallest variance, this share of the largest, is too small for its axis to be right.

    Data of fewer than p dimensions have no variance to find. What tells them from features in very different
    units, whose variance is lost in rounding, are the rows of the gradient: one for each feature.
    """
    if ROUNDING < share < 100 * tolerance:
        return (
            f"a variance is {share:.0e} of the largest, which the tolerance does not see: its axis may be "
            "wrong; scale the features, or lower the tolerance"
        )
    rows = norm(gradient[:, None])
    rows = rows[rows > ROUNDING * rows.max()]
    if share > ROUNDING or not rows.size or rows.min() > np.sqrt(ROUNDING) * rows.max():
        return None
    return (
        f"a variance is less than {ROUNDING:.0e} of the largest, which rounding hides, and features have "
        "very different scales: its axis may be wrong; scale the features"
    )
