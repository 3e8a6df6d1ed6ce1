"""FAPS (after Wang, Liu & Zhang 2020): PCA on a star, where agents send projections that hide their data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from destiny.algorithms.blocks.star import Star
from destiny.errors import SettingsError
from destiny.geometry.stiefel import norm, qr, scalar, transpose
from destiny.protocols import About, Agents, AlgorithmBase, Array, TopologyBase
from destiny.validation import is_number

SHARE = 0.3  # first beta_i over ||C_i||_2; this and WINDOW were chosen on seeds 0 to 3 of docs/star.md
WINDOW = 30  # steps after which a slope that has not halved means that beta is too small
HALVED = 0.5
FLOOR = 1e-11  # of the first slope: below it rounding stops the fall
PASSES = 3  # subspace iterations an agent takes between two rounds
FIRST = 10  # subspace iterations that estimate ||C_i||_2, before the first round


@dataclass(frozen=True)
class FAPSState:
    """Every array has the hosted agents on axis 0."""

    X: Array
    """Z, from what the center has sent."""
    own: Array
    """X_i, whose span tends to that of Z."""
    moved: Array
    """C_i X_i."""
    beta: Array
    slope: Array
    """||(I - Z Z^T) S||: that of the objective, once all X_i span Z."""
    scale: Array
    """The first slope."""
    mark: Array
    """The slope when beta was last looked at."""
    count: Array


@dataclass(frozen=True)
class FAPS(AlgorithmBase):
    """PCA with a coordinator: agents agree on the projection X X^T, not on X.

    With V_i = -(I - X_i X_i^T) C_i X_i and Lambda_i = X_i V_i^T + V_i X_i^T, which stay with the agent,

        S = mean of beta_i X_i X_i^T Z - Lambda_i Z,   Z+ = qf(S),
        X_i+ = qf((C_i + Lambda_i + beta_i Z+ Z+^T) X_i), three times:

    one round to the center, which computes S, and one back. It is an augmented Lagrangian method for
    sum f_i(X_i) subject to X_i X_i^T = Z Z^T, with multipliers in closed form. Reconstructed from the
    abstract; docs/star.md has measurements.

    Parameters
    ----------
    beta : "auto" or a number
        Penalty; "auto" is 0.3 ||C_i||_2 at first, and doubles when 30 steps have not halved the slope: agents
        that differ much need a larger one.
    star : Star, optional
        Filled in from the network, which must be a star.
    """

    beta: float | Literal["auto"] = "auto"
    star: Star | None = None
    kind = "faps"
    about = About(
        "FAPS",
        "Wang, Liu & Zhang 2020, arXiv:2012.03461",
        sends=1,
        rounds=2,
        needs="a star",
        problem="pca",
        traits=frozenset({"reconstruction", "semidefinite", "star"}),
    )

    def __post_init__(self) -> None:
        if self.beta != "auto" and not (is_number(self.beta) and self.beta > 0):
            raise SettingsError(f'beta must be "auto" or a positive number; found {self.beta!r}')

    def on(self, network: TopologyBase) -> FAPS:
        """The same with its star; raise `MismatchError` on other networks."""
        return replace(self, star=Star.of(network, self.kind))

    def init(self, X: Array, agents: Agents) -> FAPSState:
        """Z = X_i = X; no round."""
        V = X
        for _ in range(FIRST):
            product = -agents.gradient(V)
            V = qr(product)
        size = scalar(np.linalg.norm(product, 2, axis=(1, 2)))
        beta = SHARE * size if self.beta == "auto" else np.full_like(size, self.beta)
        zero = np.zeros_like(beta)
        far = np.full_like(beta, np.finfo(np.float64).max)
        return FAPSState(X, X, -agents.gradient(X), beta, zero, zero, far, zero)

    def step(self, s: FAPSState, agents: Agents) -> FAPSState:
        """The recursion of the class docstring, in two rounds."""
        assert self.star is not None  # filled in before the run
        V = s.own @ (transpose(s.own) @ s.moved) - s.moved

        def add_multiplier(product: Array, Y: Array, sign: float) -> Array:
            """``product`` + sign Lambda_i Y."""
            return product + sign * (s.own @ (transpose(V) @ Y) + V @ (transpose(s.own) @ Y))

        sent = add_multiplier(s.beta * (s.own @ (transpose(s.own) @ s.X)), s.X, -1.0)
        S = self.star.broadcast(agents, self.star.mean(agents, sent))
        slope = scalar(norm(S - s.X @ (transpose(s.X) @ S)))
        Z, X, product = qr(S), s.own, s.moved
        for _ in range(PASSES):
            X = qr(add_multiplier(product + s.beta * (Z @ (transpose(Z) @ X)), X, 1.0))
            product = -agents.gradient(X)
        moved = replace(s, X=Z, own=X, moved=product, slope=slope, count=s.count + 1)
        moved = replace(moved, scale=np.where(s.scale > 0, s.scale, slope))
        return self.stiffen(moved)

    def stiffen(self, s: FAPSState) -> FAPSState:
        """Every `WINDOW` steps, double a beta "auto" with which the slope has not halved."""
        if self.beta != "auto" or s.count.flat[0] % WINDOW:
            return s
        stuck = (s.slope > HALVED * s.mark) & (s.slope > FLOOR * s.scale)
        return replace(s, beta=np.where(stuck, 2 * s.beta, s.beta), mark=s.slope)

    def residual(self, s: FAPSState) -> Array:
        """The larger of the slope by the first one and the distance of X_i from span(Z), ``(agents,)``."""
        apart = norm(s.own - s.X @ (transpose(s.X) @ s.own))
        slope = np.divide(s.slope, s.scale, out=np.ones_like(s.slope), where=s.scale > 0)[:, 0, 0]
        return np.asarray(np.maximum(slope, apart))
