"""Principal axes of an answer of PCA, and what to say of those that are wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from destiny.geometry.stiefel import norm, transpose
from destiny.protocols import Array
from destiny.run.stopping import Stop

ROUNDING = 1e-14  # of the largest variance: no variance at all
SEEN = 100  # times the tolerance, of the largest variance: a larger variance has an axis to 1 %
WRONG = 0.01  # of its variance: an axis with a larger residual is wrong


@dataclass(frozen=True)
class PrincipalAxes:
    """Principal axes in the span of an answer.

    Attributes
    ----------
    vectors : ndarray (n, p)
        Largest variance first.
    share : float
        The smallest variance as a share of the largest.
    wrong : bool
        Whether an axis v with variance t has a residual ||C v - t v|| above `WRONG` t.
    rows : ndarray (n,)
        Norms of the rows of the gradient, one for each feature.
    """

    vectors: Array
    share: float
    wrong: bool
    rows: Array

    def doubt(self, tolerance: float) -> str | None:
        """What to say if the smallest variance is too small for its axis to be right.

        Data of fewer than p dimensions have no variance to find. What tells them from features in very
        different units, whose variance is lost in rounding, are the rows of the gradient.
        """
        if ROUNDING < self.share < SEEN * tolerance and self.wrong:
            return (
                f"a variance is {self.share:.0e} of the largest, which the tolerance does not see, and its "
                "axis is wrong: scale the features, or lower the tolerance"
            )
        rows = self.rows[self.rows > ROUNDING * self.rows.max()]
        if self.share > ROUNDING or not rows.size or rows.min() > np.sqrt(ROUNDING) * rows.max():
            return None
        return (
            f"a variance is less than {ROUNDING:.0e} of the largest, which rounding hides, and features have "
            "very different scales: its axis may be wrong; scale the features"
        )

    def judge(self, stop: Stop, tolerance: float) -> Stop:
        """The end of a run, which has not converged if an axis is in doubt."""
        doubt = self.doubt(tolerance) if stop.converged else None
        return stop if doubt is None else Stop(f"did not converge: {doubt}")


def rayleigh_ritz(X: Array, gradient: Array) -> PrincipalAxes:
    """Principal axes in span(X), from the eigenvectors of X^T C X = -X^T grad f(X), p x p."""
    variances, V = (a[..., ::-1] for a in np.linalg.eigh(-transpose(X) @ gradient))
    vectors = np.asarray(X @ V)
    lengths = np.linalg.norm(gradient @ V + vectors * variances, axis=0)
    wrong = bool((lengths > WRONG * np.abs(variances)).any())
    share = float(variances[-1] / (variances[0] or 1.0))
    return PrincipalAxes(vectors, share, wrong, norm(gradient[:, None]))
