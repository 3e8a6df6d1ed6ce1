"""How different the agents are: their gradients and their curvatures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from destiny.algorithms.blocks.step_sizes import bend
from destiny.errors import ProblemError
from destiny.geometry.directions import DIRECTIONS
from destiny.geometry.stiefel import norm
from destiny.protocols import Array, Hosted

NOISE = 1e-14  # of the largest row of the gradients: rounding errors of centred data
LOOKS = 12  # power iterations: the accelerated method takes 8 before its first step


@dataclass(frozen=True, eq=False)
class Differences:
    """What every agent sees at the common start and near the answer, both ``(n, p)``."""

    hosted: Hosted
    agents: int
    start: Array
    near: Array

    @cached_property
    def slopes(self) -> Array:
        """grad f_i at the start, ``(d, n, p)``."""
        slopes = self.hosted.gradient(self.everywhere(self.start))
        broken = np.flatnonzero(~np.isfinite(slopes).all(axis=(1, 2)))
        if len(broken):
            raise ProblemError(f"the gradient of agent {broken[0]} is not finite at the start: check its f_i")
        return slopes

    @property
    def gradients(self) -> Array:
        """||grad f_i|| at the start, ``(d,)``."""
        return norm(self.slopes)

    @property
    def apart(self) -> float:
        """||grad f_i - grad f|| over ||grad f||, root mean square over the agents."""
        mean = self.slopes.mean(axis=0)
        size = float(norm(mean))
        return float(np.sqrt(np.mean(norm(self.slopes - mean) ** 2))) / size if size > 0 else 0.0

    @property
    def empty(self) -> NDArray[np.intp]:
        """Agents without a gradient: they hold no data, or nothing but zeros."""
        return np.flatnonzero(self.gradients <= 1e-12 * self.gradients.max())

    @property
    def rows(self) -> Array:
        """How much of all agents' gradients lies in each row of X, ``(n,)``: a row is a feature."""
        return np.asarray(np.sqrt(np.sum(self.slopes**2, axis=(0, 2))))

    @property
    def scales(self) -> Array:
        """`rows` without those of features that never change, in which there are zeros or rounding errors."""
        rows = self.rows
        return np.asarray(rows[rows > NOISE * rows.max()])

    @property
    def spread(self) -> float:
        """Largest curvature of an agent over the median one."""
        L = self.steep("landing")
        middle = float(np.median(L))
        return float(L.max()) / middle if middle > 0 else float("inf")

    def steep(self, direction: str, beta: float = 0.0) -> Array:
        """Largest curvature of each agent's field at the two points, ``(d,)``."""
        if (direction, beta) not in self._found:
            at = (steepest(self.hosted, self.everywhere(X), direction, beta) for X in (self.start, self.near))
            self._found[direction, beta] = np.maximum(*at)
        return self._found[direction, beta]

    @cached_property
    def _found(self) -> dict[tuple[str, float], Array]:
        return {}

    def everywhere(self, X: Array) -> Array:
        """One X at every agent, ``(d, n, p)``."""
        return np.broadcast_to(X, (self.agents, *X.shape))


def steepest(hosted: Hosted, X: Array, direction: str, beta: float) -> Array:
    """Largest curvature of each agent's field at its X, ``(d,)``, by power iterations on differences."""

    def field(Y: Array) -> Array:
        return DIRECTIONS[direction](hosted.gradient, Y, beta)

    here = field(X)
    V = np.random.default_rng(0).standard_normal(X.shape)
    for _ in range(LOOKS):
        V = bend(field, X, here, V)
    return norm(V)
