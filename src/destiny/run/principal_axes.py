"""Principal axes of an answer of PCA, and what to say of those that are wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from destiny.geometry.stiefel import norm, transpose
from destiny.protocols import Array
from destiny.run.stopping import Stop

ROUNDING = 1e-14  # of the largest variance: no variance at all


@dataclass(frozen=True)
class PrincipalAxes:
    """Principal axes in the span of an answer.

    Attributes
    ----------
    vectors : ndarray (n, p)
        Largest variance first.
    share : float
        The smallest variance as a share of the largest.
    rows : ndarray (n,)
        Norms of the rows of the gradient, one for each feature.
    """

    vectors: Array
    share: float
    rows: Array

    def doubt(self) -> str | None:
        """What to say if rounding hides the smallest variance, so that its axis may be wrong.

        Data of fewer than p dimensions have no variance to find. What tells them from features in very
        different units, whose variance is lost in rounding, are the rows of the gradient.
        """
        rows = self.rows[self.rows > ROUNDING * self.rows.max()]
        if self.share > ROUNDING or not rows.size or rows.min() > np.sqrt(ROUNDING) * rows.max():
            return None
        return (
            f"a variance is less than {ROUNDING:.0e} of the largest, which rounding hides, and features have "
            "very different scales: its axis may be wrong; scale the features"
        )

    def judge(self, stop: Stop) -> Stop:
        """The end of a run, which has not converged if an axis is in doubt."""
        doubt = self.doubt() if stop.converged else None
        return stop if doubt is None else Stop(f"did not converge: {doubt}")


def rayleigh_ritz(X: Array, gradient: Array) -> PrincipalAxes:
    """Principal axes in span(X), from the eigenvectors of X^T C X = -X^T grad f(X), p x p."""
    variances, V = (a[..., ::-1] for a in np.linalg.eigh(-transpose(X) @ gradient))
    vectors = np.asarray(X @ V)
    share = float(variances[-1] / (variances[0] or 1.0))
    return PrincipalAxes(vectors, share, norm(gradient[:, None]))
