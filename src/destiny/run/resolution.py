"""What a tolerance can see: how far the answer is from a stationary point, whatever the units of features.

Observers only: gradients beyond those of the agents, out of band, never counted or timed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from destiny.geometry.generalised import MassMatrix
from destiny.geometry.own_units import NOISE, Gradient, OwnUnits, lowest_curvature, row_curvatures
from destiny.geometry.proximal import tangent_prox
from destiny.protocols import Array, Regulariser
from destiny.run.metrics import Composite, Measures
from destiny.run.stopping import CONVERGED, Stop

WRONG = 1e-3  # distance of X from a stationary point: no run that has converged may leave more
ALIKE = 4  # times the tolerance: what runs leave where features are alike (notes/convergence.md)
UNSEEN = 100  # times the tolerance: beyond it the tolerance does not see features
PRODUCTS = 8  # of the Hessian, to look for negative curvature
NEGATIVE = -0.01  # of the size of the curvature: larger than the errors of differences of gradients
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
        regulariser: Regulariser | None = None,
    ) -> tuple[Resolution, OwnUnits]:
        """From the gradient of f at X ``(n, p)`` and the curvatures of its rows ``(n,)``."""
        slope = None
        if regulariser is not None:
            t = Composite.at(regulariser, gradient).t
            slope = (X - tangent_prox(regulariser, X, gradient, t)) / t
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
    gradient: Gradient,
    X: Array,
    *,
    quadratic: bool,
    regulariser: Regulariser | None = None,
    mass: MassMatrix | None = None,
) -> Resolution | None:
    """The resolution of an answer X ``(n, p)``, by gradients of the whole network; None if f is flat."""
    scale = float(np.abs(gradient(X)).max())
    if not 0 < scale < np.inf:
        return None
    if regulariser is not None:
        scale = 1.0  # its units are those of f

    def scaled(Z: Array) -> Array:
        """The gradient in units of its own size, with respect to L^T X where M = L L^T."""
        if mass is None:
            return gradient(Z) / scale
        return mass.gradient(gradient(mass.unwhiten(Z))) / scale

    with np.errstate(all="ignore"):
        Z = X if mass is None else mass.whiten(X)
        rows = row_curvatures(scaled, Z, quadratic)
        found, units = Resolution.at(Z, scaled(Z), rows, regulariser)
        if regulariser is not None:
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
