"""DRCGD (Chen et al. 2024): Riemannian conjugate gradients with projection."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.riemannian import Riemannian
from destiny.algorithms.blocks.step_sizes import Diminishing, Move, Pace, StepRule
from destiny.geometry.stiefel import inner, norm, scalar, tangent
from destiny.protocols import Agents, Array


@dataclass(frozen=True)
class ConjugateState:
    """Every array has the hosted agents on axis 0."""

    X: Array
    H: Array
    """Riemannian gradients of the agents' own f_i."""
    P: Array
    """Search directions."""
    pace: Pace


@dataclass(frozen=True)
class DRCGD(Riemannian):
    """X+ = R(W^t X + eta P),  P+ = b W^t P (made tangent) - grad f(X+),  b = |grad f(X+)|^2 / |grad f(X)|^2.

    Inexact: it follows the agents' own gradients without tracking, so on heterogeneous data it levels off far
    from a stationary point. Written from memory of the published rule; b is capped at 1.
    """

    step_size: StepRule = field(default_factory=lambda: Diminishing(share=0.2), kw_only=True)
    kind = "drcgd"
    about = About(
        "DRCGD", "Chen et al., ICLR 2024", 2, rounds="rounds", traits=frozenset({"inexact", "reconstruction"})
    )

    def init(self, X: Array, agents: Agents) -> ConjugateState:
        """Run the opening rounds; P = -H."""
        H, _, pace = self.open(X, agents)
        return ConjugateState(X, H, -H, pace)

    def step(self, s: ConjugateState, agents: Agents) -> ConjugateState:
        """The recursion of the class docstring, in ``rounds`` rounds."""
        WX, WP = self.average(agents, s.X, s.P)
        X = self.retract(WX + s.pace.eta * s.P)
        H = self.riemannian_gradient(X, agents)
        new, old = scalar(inner(H, H)), scalar(inner(s.H, s.H))
        b = np.divide(np.minimum(new, old), old, out=np.zeros_like(old), where=old > 0)
        P = b * tangent(X, WP) - H
        move = Move(X - s.X, H - s.H, H - s.H, scalar(norm(WX - s.X)), scalar(norm(P)))
        return ConjugateState(X, H, P, self.step_size.update(s.pace, move))
