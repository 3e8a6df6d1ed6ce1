"""How much the gradients and curvatures of the agents differ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from destiny.algorithms.blocks.curvature import curvature_along
from destiny.errors import ProblemError
from destiny.geometry.directions import DIRECTIONS
from destiny.geometry.stiefel import norm
from destiny.protocols import Array, Hosted

NOISE = 1e-14  # relative to the largest row of the gradients: rounding errors of centered data
POWER_ITERATIONS = 12  # the accelerated method takes 8 before its first step


@dataclass(frozen=True, eq=False)
class Differences:
    """Gradients and curvatures of every agent at the common start and near the answer, both ``(n, p)``."""

    hosted: Hosted
    agents: int
    start: Array
    near: Array

    @cached_property
    def start_gradients(self) -> Array:
        """grad f_i at the start, ``(d, n, p)``; ProblemError if one is not finite."""
        gradients = self.hosted.gradient(self.replicate(self.start))
        broken = np.flatnonzero(~np.isfinite(gradients).all(axis=(1, 2)))
        if len(broken):
            raise ProblemError(f"the gradient of agent {broken[0]} is not finite at the start: check its f_i")
        return gradients

    def require_finite(self) -> None:
        """Raise ProblemError if a gradient at the start is not finite."""
        _ = self.start_gradients

    @property
    def gradient_norms(self) -> Array:
        """||grad f_i|| at the start, ``(d,)``."""
        return norm(self.start_gradients)

    @property
    def gradient_spread(self) -> float:
        """||grad f_i - grad f|| / ||grad f|| at the start, root mean square over the agents."""
        mean = self.start_gradients.mean(axis=0)
        size = float(norm(mean))
        return float(np.sqrt(np.mean(norm(self.start_gradients - mean) ** 2))) / size if size > 0 else 0.0

    @property
    def agents_without_data(self) -> NDArray[np.intp]:
        """Agents whose gradient is zero: they hold no data, or only zeros."""
        return np.flatnonzero(self.gradient_norms <= 1e-12 * self.gradient_norms.max())

    @property
    def row_norms(self) -> Array:
        """Norms of the rows of all agents' gradients, ``(n,)``; a row of X belongs to a feature."""
        return np.asarray(np.sqrt(np.sum(self.start_gradients**2, axis=(0, 2))))

    @property
    def feature_scales(self) -> Array:
        """`row_norms` without those of constant features, which are zero or rounding errors."""
        rows = self.row_norms
        return np.asarray(rows[rows > NOISE * rows.max()])

    @property
    def curvature_ratio(self) -> float:
        """Largest curvature of an agent over the median of the agents."""
        L = self.largest_curvature("landing")
        middle = float(np.median(L))
        return float(L.max()) / middle if middle > 0 else float("inf")

    def largest_curvature(self, direction: str, beta: float = 0.0) -> Array:
        """Return the largest curvature of each agent's field at the two points, ``(d,)``."""
        if (direction, beta) not in self._cache:
            at = (
                largest_curvatures(self.hosted, self.replicate(X), direction, beta)
                for X in (self.start, self.near)
            )
            self._cache[direction, beta] = np.maximum(*at)
        return self._cache[direction, beta]

    @cached_property
    def _cache(self) -> dict[tuple[str, float], Array]:
        return {}

    def replicate(self, X: Array) -> Array:
        """Return X repeated for every agent, ``(d, n, p)``."""
        return np.broadcast_to(X, (self.agents, *X.shape))


def largest_curvatures(hosted: Hosted, X: Array, direction: str, beta: float) -> Array:
    """Return the largest curvature of each agent's field at its X, ``(d,)``, by power iteration."""

    def field(Y: Array) -> Array:
        return DIRECTIONS[direction](hosted.gradient, Y, beta)

    here = field(X)
    V = np.random.default_rng(0).standard_normal(X.shape)
    for _ in range(POWER_ITERATIONS):
        V = curvature_along(field, X, here, V)
    return norm(V)
