"""What is measured of a run, as printed in Section 4.1 of the paper and beyond. Observers only.

Every function takes the agents' iterates as a stack ``X (d, n, p)``; Xbar is their mean. Where the constraint
is X^T M X = I (``mass``), measures are those of Z = L^T X with M = L L^T, for which Z^T Z = I.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from destiny.geometry import lagrangian
from destiny.geometry.generalized import MassMatrix
from destiny.geometry.proximal import tangent_prox
from destiny.geometry.stiefel import STATIONARY, norm, polar, subspace_distance, tangent, violation
from destiny.protocols import Array, Observer, Regularizer

ORTHONORMAL = (
    1e-8  # ||Y^T Y - I|| up to which a proximal step Y is an answer; 1e-15 where a run has converged
)


@dataclass(frozen=True)
class Measures:
    """The four numbers reported at every measurement."""

    objective: float
    stationarity: float
    consensus: float
    feasibility: float

    @property
    def worst(self) -> float:
        """Largest of the three that tend to zero; NaN if any is."""
        return float(np.max([self.stationarity, self.consensus, self.feasibility]))

    @property
    def worst_name(self) -> str:
        """The name of that measure."""
        names = ("stationarity", "consensus", "feasibility")
        return names[int(np.argmax([self.stationarity, self.consensus, self.feasibility]))]

    def as_dict(self) -> dict[str, float]:
        """By name, in the order of the history's columns."""
        return asdict(self)


@dataclass(frozen=True)
class Composite:
    """Measures of f + r with a regularizer r, by a proximal step on the tangent space.

    Attributes
    ----------
    regularizer : Regularizer
    t : float
        Step of the prox: 1 / ||nabla f||_2, so that multiplying f and r changes nothing. Stationarity takes
        the gradient at the start, the answer of a run that at its end.
    """

    regularizer: Regularizer
    t: float

    @classmethod
    def at(cls, regularizer: Regularizer, gradient: Array) -> Composite:
        """The measures with the step of a gradient ``(n, p)`` of f."""
        size = float(np.linalg.norm(gradient, 2))
        return cls(regularizer, 1 / size if size > 0 else 1.0)

    def step(self, X: Array, gradient: Array) -> tuple[float, Array]:
        """The stationarity of X ``(n, p)`` on the manifold, not yet relative, and the answer next to it.

        Stationarity is ||Y - X|| / t with Y of `tangent_prox`; it is ||grad f(X)|| if r = 0. The answer is Y,
        which has exact zeros; it is X while Y is not orthonormal yet.
        """
        Y = tangent_prox(self.regularizer, X, gradient, self.t)
        return float(norm(Y - X)) / self.t, Y if violation(Y) <= ORTHONORMAL else X

    def value(self, observer: Observer, X: Array) -> float:
        """f(X) + r(X)."""
        return observer.value(X) + float(self.regularizer.value(X))


@dataclass(frozen=True)
class Spread:
    """What the measures ask of the agents' iterates: their mean, and a few numbers per agent.

    Attributes
    ----------
    mean : ndarray (n, p)
        Xbar.
    table : ndarray (d, 3)
        ``numbers`` of every agent.
    """

    mean: Array
    table: Array

    @staticmethod
    def numbers(X: Array, mean: Array, mass: MassMatrix | None = None) -> Array:
        """||X_i - Xbar||_F, ||X_i^T X_i - I||_F and whether X_i is finite, of the agents of a stack."""
        if mass is not None:
            X, mean = mass.whiten(X), mass.whiten(mean)
        finite = np.isfinite(X).all(axis=(1, 2))
        return np.stack([norm(X - mean), violation(X), finite.astype(np.float64)], axis=1)

    @property
    def finite(self) -> bool:
        return bool(self.table[:, 2].all())


def substationarity(observer: Observer, X: Array) -> float:
    """||grad f(Xbar)||_F with grad f(X) = nabla f(X) - X sym(X^T nabla f(X)), not yet relative."""
    return _slope(observer, X.mean(axis=0))


def substationarity_on_manifold(observer: Observer, X: Array) -> float:
    """The same at polar(Xbar): it does not vanish at Xbar = 0, where opposite agents would look converged."""
    return _slope(observer, polar(X.mean(axis=0)))


def _slope(observer: Observer, X: Array, mass: MassMatrix | None = None) -> float:
    """||grad f(X)||_F at one X ``(n, p)``."""
    gradient = observer.gradient(X)
    if mass is not None:
        X, gradient = mass.whiten(X), mass.gradient(gradient)
    return float(norm(tangent(X, gradient)))


def reference(observer: Observer, mean: Array, mass: MassMatrix | None = None) -> float:
    """What substationarity is relative to: its value at the mean ``(n, p)`` of the start.

    Where the start is nearly stationary already (an earlier answer; PCA with p = n is everywhere), the size
    of the Euclidean gradient instead: a part of rounding errors would say nothing.
    """
    gradient = observer.gradient(mean)
    if mass is not None:
        mean, gradient = mass.whiten(mean), mass.gradient(gradient)
    size, start = float(norm(gradient)), float(norm(tangent(mean, gradient)))
    return start if start > STATIONARY * size else size  # that of a random start is far larger


def composite_reference(observer: Observer, mean: Array, composite: Composite) -> float:
    """What the stationarity of f + r is relative to, as `reference`."""
    X = polar(mean)
    gradient = observer.gradient(X)
    size, start = float(norm(gradient)), composite.step(X, gradient)[0]
    return start if start > STATIONARY * size else size


def sparsity(X: Array) -> float:
    """Share of the entries of X that are exactly zero."""
    return float(np.mean(X == 0))


def relative(value: float, start: float) -> float:
    """``value / start``; a start that is stationary already leaves the value as it is."""
    return value / start if start > 0 else value


def consensus(X: Array) -> float:
    """sqrt((1/d) sum ||X_i - Xbar||_F^2)."""
    return _rms(norm(X - X.mean(axis=0)))


def feasibility(X: Array) -> float:
    """sqrt((1/d) sum ||X_i^T X_i - I||_F^2)."""
    return _rms(violation(X))


def _rms(values: Array) -> float:
    """Root of the mean square of the agents' numbers."""
    return float(np.sqrt(np.mean(values**2)))


def objective(observer: Observer, X: Array) -> float:
    """f at polar(Xbar), the answer a run would return now."""
    return observer.value(polar(X.mean(axis=0)))


def tracking_error(D: Array, H: Array) -> float:
    """||mean(D) - mean(H)||_F relative to the mean size of H: rounding only, at every step (eq. (2.4))."""
    size = float(norm(H).mean())
    return relative(float(norm(D.mean(axis=0) - H.mean(axis=0))), size)


def distance_to(X: Array, reference: Array) -> float:
    """Sine of the largest angle between span(Xbar) and a known subspace ``(n, p)``."""
    return subspace_distance(X.mean(axis=0), reference)


def region(X: Array) -> float:
    """max_i ||X_i^T X_i - I||_F; the paper's region R is where this is at most 1/6 (Lemma 2.1)."""
    return float(violation(X).max())


def merit(observer: Observer, X: Array, D: Array, beta: float, rho: float) -> float:
    """h(Xbar) + ||Xbar - X||_F^2 + rho ||Dbar - D||_F^2, the merit function of Section 3.2.

    The paper prints h of the *sum* of the iterates; only the mean makes it a descent function.
    """
    mean = X.mean(axis=0)
    h = float(lagrangian.h(lambda Y: np.asarray(observer.value(Y)), mean, beta))
    spread = float(np.sum((X - mean) ** 2))
    return h + spread + rho * float(np.sum((D - D.mean(axis=0)) ** 2))


def measure(
    observer: Observer,
    X: Spread,
    start: float,
    composite: Composite | None = None,
    mass: MassMatrix | None = None,
) -> Measures:
    """All four, with substationarity relative to ``start``; NaN where the iterates are not finite.

    Those of f + r if there is a ``composite``; objective and stationarity are then those of polar(Xbar).
    """
    if not X.finite:
        return Measures(*[float("nan")] * 4)
    with np.errstate(over="ignore", invalid="ignore"):
        if composite is not None:
            nearest = polar(X.mean)
            slope, answer = composite.step(nearest, observer.gradient(nearest))
            return Measures(
                composite.value(observer, answer),
                relative(slope, start),
                _rms(X.table[:, 0].copy()),
                _rms(X.table[:, 1].copy()),
            )
        return Measures(
            observer.value(polar(X.mean) if mass is None else mass.polar(X.mean)),
            relative(_slope(observer, X.mean, mass), start),
            _rms(X.table[:, 0].copy()),  # in one piece: the sum's bits depend on the layout
            _rms(X.table[:, 1].copy()),
        )
