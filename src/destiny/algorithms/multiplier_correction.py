"""Multiplier correction (Gao, Liu, Chen & Yuan 2018; Wang, Gao & Liu 2021): a step, then a rotation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from destiny.algorithms.blocks.about import for_one_agent
from destiny.algorithms.blocks.curvature import largest_curvature, secants
from destiny.algorithms.wen_yin import WenYin, WenYinState, downhill
from destiny.errors import SettingsError
from destiny.geometry.stiefel import identity, polar, scalar, transpose
from destiny.protocols import Agents, Array

UPDATES = ("reflection", "projection")


@dataclass(frozen=True)
class CorrectionState(WenYinState):
    """That of `WenYin`; scalars ``(agents, 1, 1)``."""

    curvature: Array
    """Largest change of G - X G^T X relative to that of X so far."""


@dataclass(frozen=True)
class MultiplierCorrection(WenYin):
    """X+ = Y polar(rho I - Y^T grad f(Y)),  Y a feasible step from X,  V = X - tau grad f(X).

    Y = -X + 2 V (V^T V)^-1 V^T X reflects X at the span of V (gradient reflection), or Y = polar(V) projects
    V (gradient projection). At a stationary point the multiplier X^T grad f(X) is symmetric; the rotation
    makes that of Y more so, and leaves the span alone. On PCA there is nothing to rotate. A reflection cannot
    move a square X, which the rotation alone then moves, slowly.

    tau is found as in `WenYin`, by Barzilai-Borwein steps and a search on f. rho is the largest curvature
    measured so far, or ||grad f(Y)||_2 if that is larger: the authors' depends on the scale of f.

    Parameters
    ----------
    update : "reflection" or "projection"
        How Y is made.
    rho, gamma, shrink, trials
        As in `WenYin`; ``rho`` is that of its search.
    """

    update: Literal["reflection", "projection"] = "reflection"
    kind = "multiplier-correction"
    about = for_one_agent(
        "Multiplier correction", "Gao, Liu, Chen & Yuan 2018; Wang, Gao & Liu 2021", "reconstruction"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.update not in UPDATES:
            raise SettingsError(f"update must be reflection or projection; found {self.update!r}")

    def init(self, X: Array, agents: Agents) -> CorrectionState:
        """As `WenYin`; the curvature is measured by power iterations."""
        s = super().init(X, agents)
        L = largest_curvature(lambda Y: downhill(Y, agents.gradient(Y)), s.X, s.G)
        return CorrectionState(**vars(s), curvature=L)

    def step(self, s: WenYinState, agents: Agents) -> CorrectionState:
        """A search for Y, then the rotation: one value for each trial and two gradients; no round."""
        assert isinstance(s, CorrectionState)
        Y, f, tau = self.search(s, agents)
        X = self.correct(Y, agents.gradient(Y), s.curvature)
        parts = self.next_state(s, X, f, tau, agents)
        L = np.maximum(s.curvature, secants(parts["X"] - s.X, parts["D"] - s.D)[0])
        return CorrectionState(**parts, curvature=L)

    def trial(self, s: WenYinState, tau: Array) -> Array:
        """Y(tau)."""
        V = s.X - tau * s.G
        return polar(V) if self.update == "projection" else reflect(s.X, V)

    def correct(self, Y: Array, G: Array, curvature: Array) -> Array:
        """Y rotated by the polar factor of rho I - Y^T G."""
        rho = np.maximum(curvature, scalar(np.linalg.norm(G, 2, axis=(1, 2))))
        M = rho * identity(Y.shape[-1]) - transpose(Y) @ G
        return np.where(rho > 0, Y @ polar(np.where(rho > 0, M, identity(Y.shape[-1]))), Y)


def reflect(X: Array, V: Array) -> Array:
    """X reflected at the span of V, -X + 2 V (V^T V)^-1 V^T X, ``(agents, n, p)``."""
    Q = np.linalg.qr(V)[0]
    return np.asarray(2 * Q @ (transpose(Q) @ X) - X)
