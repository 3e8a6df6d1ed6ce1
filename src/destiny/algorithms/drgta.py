"""DRGTA (Chen, Garcia, Hong & Shahrampour 2021): Riemannian gradient tracking."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.riemannian import Riemannian, check_alpha
from destiny.algorithms.blocks.scheme import mix_with_curvature
from destiny.algorithms.blocks.step_sizes import BB, Move, Pace, StepRule
from destiny.geometry.stiefel import norm, scalar, tangent
from destiny.protocols import Agents, Array


@dataclass(frozen=True)
class RiemannianState:
    """Every array has the hosted agents on axis 0; mean(D) = mean(H) at every step."""

    X: Array
    D: Array
    """Tracker of the mean Riemannian gradient, in the ambient space."""
    H: Array
    """Riemannian gradients of the agents' own f_i."""
    pace: Pace
    disagreement: Array
    scale: Array


@dataclass(frozen=True)
class DRGTA(Riemannian):
    """X+ = R_X(alpha P_X(W^t X) - eta P_X(D)),  D+ = W^t D + grad f(X+) - grad f(X).

    P_X projects on the tangent space at X, R_X retracts. With one round and BB steps as printed
    (``alpha=1, step_size=PlainBB()``) it locks into a cycle of two and does not converge; the defaults do.

    Parameters
    ----------
    alpha : float in (0, 1]
        Step of the consensus part.
    step_size : StepRule
        By default `BB` with cap 0.5; the curvature estimates of neighbours are averaged as well.
    rounds, mixing, lambda_, retraction, gossip
        As in `Riemannian`.
    """

    step_size: StepRule = field(default_factory=lambda: BB(cap=0.5), kw_only=True)
    alpha: float = 0.5
    kind = "drgta"
    about = About(
        "DRGTA", "Chen, Garcia, Hong & Shahrampour, ICML 2021", sends=2, numbers_auto=1, rounds="rounds"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_alpha(self.alpha)

    def init(self, X: Array, agents: Agents) -> RiemannianState:
        """Run the opening rounds; D starts as the mixed Riemannian gradient."""
        H, D, pace = self.open(X, agents)
        return RiemannianState(X, D, H, pace, np.zeros_like(pace.eta), scalar(norm(D)))

    def step(self, s: RiemannianState, agents: Agents) -> RiemannianState:
        """The recursion of the class docstring, in ``rounds`` rounds."""
        (WX, WD), pace = mix_with_curvature(partial(self.average, agents), self.step_size, s.pace, s.X, s.D)
        X = self.move(s, WX)
        H = self.riemannian_gradient(X, agents)
        dH = H - s.H
        D = WD + dH
        disagreement = scalar(norm(WX - s.X))
        move = Move(X - s.X, D - s.D, dH, disagreement, scalar(norm(D)))
        return RiemannianState(X, D, H, self.step_size.update(pace, move), disagreement, s.scale)

    def move(self, s: RiemannianState, WX: Array) -> Array:
        """X+ from the neighbours' average WX."""
        # P_X(X) = 0 on the manifold, so P_X(W X) is P_X(W X - X).
        return self.retract(s.X + tangent(s.X, self.alpha * WX - s.pace.eta * s.D))

    def tracked(self, s: RiemannianState) -> tuple[Array, Array]:
        """The trackers D and the directions H."""
        return s.D, s.H

    def residual(self, s: RiemannianState) -> Array:
        """The larger of ||P_X(D_i)|| relative to the start and the disagreement, ``(agents,)``."""
        tracker = norm(tangent(s.X, s.D)) / np.where(s.scale > 0, s.scale, 1.0)[:, 0, 0]
        return np.maximum(tracker, s.disagreement[:, 0, 0])
