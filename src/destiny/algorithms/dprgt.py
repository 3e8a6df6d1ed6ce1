"""DPRGT (Deng & Hu 2023): projected Riemannian gradient tracking."""

from __future__ import annotations

from dataclasses import dataclass, field

from destiny.algorithms.blocks.about import About
from destiny.algorithms.drgta import DRGTA, RiemannianState
from destiny.geometry.stiefel import tangent
from destiny.protocols import Array


@dataclass(frozen=True)
class DPRGT(DRGTA):
    """X+ = R(W^t X - eta P_X(D)),  D+ = W^t D + grad f(X+) - grad f(X).

    DRGTA with the neighbours' average itself instead of its tangent part; R is the projection on the
    manifold ("polar") or a QR factorisation.
    """

    alpha: float = field(default=1.0, init=False)
    kind = "dprgt"
    about = About("DPRGT", "Deng & Hu, arXiv 2304.08241", sends=2, numbers_auto=1, rounds="rounds")

    def move(self, s: RiemannianState, WX: Array) -> Array:
        """X+ from the neighbours' average WX."""
        return self.retract(WX - s.pace.eta * tangent(s.X, s.D))
