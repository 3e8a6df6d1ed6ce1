"""What is measured of a run, as printed in Section 4.1 of the paper and beyond. Observers only.

Every function takes the agents' iterates as a stack ``X (d, n, p)``; Xbar is their mean.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from destiny import lagrangian
from destiny.stiefel import norm, polar, subspace_distance, tangent, violation
from destiny.types import Array, Observer

SAFE_START = 1 / 6  # the region R of Lemma 2.1, from which the theory starts


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

    def as_dict(self) -> dict[str, float]:
        """By name, in the order of the history's columns."""
        return asdict(self)


def substationarity(observer: Observer, X: Array) -> float:
    """||grad f(Xbar)||_F with grad f(X) = nabla f(X) - X sym(X^T nabla f(X)), not yet relative."""
    mean = X.mean(axis=0)
    return float(norm(tangent(mean, observer.gradient(mean))))


def substationarity_on_manifold(observer: Observer, X: Array) -> float:
    """The same at polar(Xbar): it does not vanish at Xbar = 0, where opposite agents would look converged."""
    answer = polar(X.mean(axis=0))
    return float(norm(tangent(answer, observer.gradient(answer))))


def reference(observer: Observer, X: Array) -> float:
    """What substationarity is relative to: its value at the start X ``(d, n, p)``.

    Where the start is nearly stationary already (an earlier answer; PCA with p = n is everywhere), the size
    of the Euclidean gradient instead: a part of rounding errors would say nothing.
    """
    mean = X.mean(axis=0)
    gradient = observer.gradient(mean)
    size, start = float(norm(gradient)), float(norm(tangent(mean, gradient)))
    return start if start > 1e-6 * size else size  # a start drawn at random is nowhere near 1e-6


def relative(value: float, start: float) -> float:
    """``value / start``; a start that is stationary already leaves the value as it is."""
    return value / start if start > 0 else value


def consensus(X: Array) -> float:
    """sqrt((1/d) sum ||X_i - Xbar||_F^2)."""
    return float(np.sqrt(np.mean(norm(X - X.mean(axis=0)) ** 2)))


def feasibility(X: Array) -> float:
    """sqrt((1/d) sum ||X_i^T X_i - I||_F^2)."""
    return float(np.sqrt(np.mean(violation(X) ** 2)))


def objective(observer: Observer, X: Array) -> float:
    """f at polar(Xbar), the answer a run would return now."""
    return observer.value(polar(X.mean(axis=0)))


def tracking_error(D: Array, H: Array) -> float:
    """||mean(D) - mean(H)||_F relative to the mean size of H: rounding only, at every step (eq. (2.4))."""
    size = float(norm(H).mean())
    return relative(float(norm(D.mean(axis=0) - H.mean(axis=0))), size)


def distance_to(X: Array, known: Array) -> float:
    """Sine of the largest angle between span(Xbar) and a known subspace ``(n, p)``."""
    return subspace_distance(X.mean(axis=0), known)


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


def measure(observer: Observer, X: Array, start: float) -> Measures:
    """All four, with substationarity relative to ``start``; NaN where the iterates are not finite."""
    if not np.isfinite(X).all():
        return Measures(*[float("nan")] * 4)
    with np.errstate(over="ignore", invalid="ignore"):
        return Measures(
            objective(observer, X),
            relative(substationarity(observer, X), start),
            consensus(X),
            feasibility(X),
        )
