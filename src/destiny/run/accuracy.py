"""What an answer is worth: its distance from a stationary point in any units, and the axes of PCA.

Observers only: gradients beyond those of the agents, out of band, never counted or timed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from destiny.engines.team import Team
from destiny.geometry.generalized import MassMatrix
from destiny.geometry.own_units import NOISE, Gradient, OwnUnits, lowest_curvature, row_curvatures
from destiny.geometry.proximal import tangent_prox
from destiny.geometry.stiefel import norm, transpose
from destiny.problems.quadratic import Quadratic
from destiny.protocols import Array, Hosted, ProblemBase, Regularizer
from destiny.run.metrics import Composite, Measures
from destiny.run.stopping import CONVERGED, Stop

WRONG = 1e-3  # distance of X from a stationary point: no run that has converged may leave more
ALIKE = 4  # times the tolerance: what runs leave where features are alike (notes/convergence.md)
UNSEEN = 100  # times the tolerance: beyond it the tolerance does not see features
PRODUCTS = 8  # of the Hessian, to look for negative curvature
NEGATIVE = -0.01  # of the size of the curvature: larger than the errors of differences of gradients
ROUNDING = 1e-14  # of the largest variance: no variance at all
DWARFED = 0.5  # of what an answer explains: beyond it the mean weighs more than all variance found
DISAGREE = 100.0  # times the tolerance: the largest measure where agents' residuals met it was 2.1 times


@dataclass(frozen=True)
class Resolution:
    """How well the answer of a run is resolved.

    Attributes
    ----------
    distance : float
        About how far X is from a stationary point (`destiny.geometry.own_units`).
    spread : float
        Largest over smallest size of the curvature of the objective along an entry of X.
    curvature : float
        An upper bound of the lowest curvature on the manifold at X, relative to these sizes.
    """

    distance: float
    spread: float
    curvature: float = 0.0

    @classmethod
    def at(
        cls,
        X: Array,
        gradient: Array,
        rows: Array,
        regularizer: Regularizer | None = None,
    ) -> tuple[Resolution, OwnUnits]:
        """From the gradient of f at X ``(n, p)`` and the curvatures of its rows ``(n,)``."""
        slope = None
        if regularizer is not None:
            t = Composite.at(regularizer, gradient).t
            slope = (X - tangent_prox(regularizer, X, gradient, t)) / t
        units = OwnUnits.at(X, gradient, rows, slope)
        return cls(units.distance, float(units.sizes.max() / units.sizes.min())), units

    def judge(self, stop: Stop, tolerance: float) -> Stop:
        """The end of a run, which has not converged if X is wrong beyond what the tolerance allows."""
        if not stop.converged or not self.distance > max(WRONG, UNSEEN * tolerance):
            return stop
        return Stop(f"did not converge: {self._sentence()}")

    def remarks(self, tolerance: float) -> list[str]:
        """Notes on a run that has converged."""
        notes, right = [], self.distance <= max(WRONG, UNSEEN * tolerance)
        if right and self.distance > UNSEEN * tolerance:
            notes.append(self._sentence())
        elif right and self.distance > max(WRONG, ALIKE * tolerance):
            notes.append(
                f"X is about {self.distance:.0e} away from a stationary point, which a tolerance of "
                f"{tolerance:g} lets pass: an axis may be wrong; lower the tolerance, or scale the features"
            )
        if self.curvature < min(NEGATIVE, -NOISE * self.spread):  # or it may be rounding
            advice = ", but a saddle or a maximum; choose another start or seed" if right else ""
            notes.append(
                "the curvature at the answer is negative along some direction: it is not a minimum" + advice
            )
        return notes

    def _sentence(self) -> str:
        return (
            f"X is about {self.distance:.0e} away from a stationary point, which the tolerance does not see, "
            f"as curvatures differ by a factor of {self.spread:.0e}: scale the features, or lower the "
            "tolerance"
        )


def resolve(
    gradient: Gradient, X: Array, problem: ProblemBase, mass: MassMatrix | None = None
) -> Resolution | None:
    """The resolution of an answer X ``(n, p)``, by gradients of the whole network; None if f is flat."""
    quadratic, regularizer = problem.quadratic, problem.regularizer
    scale = float(np.abs(gradient(X)).max())
    if not 0 < scale < np.inf:
        return None
    if regularizer is not None:
        scale = 1.0  # its units are those of f

    def scaled(Z: Array) -> Array:
        """The gradient in units of its own size, with respect to L^T X where M = L L^T."""
        if mass is None:
            return gradient(Z) / scale
        return mass.gradient(gradient(mass.unwhiten(Z))) / scale

    with np.errstate(all="ignore"):
        Z = X if mass is None else mass.whiten(X)
        rows = row_curvatures(scaled, Z, quadratic)
        found, units = Resolution.at(Z, scaled(Z), rows, regularizer)
        if regularizer is not None:
            return found
        lowest = lowest_curvature(scaled, units, PRODUCTS, quadratic)
        return Resolution(found.distance, found.spread, lowest)


def contradicted(stop: Stop, measures: Measures, tolerance: float) -> Stop:
    """The end of a run by the agents' residuals, which has not converged if the measures are not small."""
    if not stop.converged or measures.worst <= DISAGREE * tolerance:
        return stop
    return Stop(
        f"did not converge: {measures.worst_name} is {measures.worst:.1e}, although "
        f"{stop.reason.removeprefix(CONVERGED)}: the method's residual must not be small where this is not"
    )


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


def mean_share(team: Team, X: Array, gradient: Array) -> float:
    """Of PCA: how much of what an answer ``(n, p)`` explains is the mean of the data and not their variance.

    ``gradient`` is that of the network at X. Out of band, for an observer; 0 where the sums are not known.
    """
    parts = team.each(lambda _, agents: totals_of(agents.hosted), [None] * len(team.hosts))
    known = [part for part in parts if part is not None]
    return share_of(team.mean(known), X, gradient) if known else 0.0


def totals_of(hosted: Hosted) -> Array | None:
    """Sums of the features and numbers of samples of hosted agents ``(agents, n + 1)``, if they are known."""
    return hosted.totals if isinstance(hosted, Quadratic) else None


def share_of(totals: Array, X: Array, gradient: Array) -> float:
    """m ||X^T mean||^2 / tr(X^T C X), from averages over the agents: ``gradient`` is -C X."""
    explained = -float(np.vdot(X, gradient))
    if not explained > 0:
        return 0.0
    return float(np.sum(np.square(X.T @ totals[:-1])) / (totals[-1] * explained))


def uncentered(share: float) -> str | None:
    """A sentence, where the mean hides the variance."""
    if share <= DWARFED:
        return None
    return (
        f"the data are not centered: their mean makes up {100 * share:.0f} % of what the answer explains, so "
        "that its first axis is little else; for the axes of largest variance set center = true in [problem] "
        "(destiny.problems.centered)"
    )
