"""DPRGD (Deng & Hu 2023): projected Riemannian gradient descent."""

from __future__ import annotations

from dataclasses import dataclass, field

from destiny.algorithms.blocks.about import About
from destiny.algorithms.drsgd import DRSGD, DescentState
from destiny.protocols import Array


@dataclass(frozen=True)
class DPRGD(DRSGD):
    """X+ = R(W^t X - eta grad f(X)), with diminishing steps by default.

    Inexact in the same way as `DRSGD`, from which it differs in that it uses the neighbours' average itself
    instead of its tangent part.
    """

    alpha: float = field(default=1.0, init=False)
    kind = "dprgd"
    about = About(
        "DPRGD",
        "Deng & Hu, arXiv 2304.08241",
        sends=1,
        rounds="rounds",
        traits=frozenset({"inexact", "stochastic"}),
    )

    def move(self, s: DescentState, WX: Array) -> Array:
        """X+ from the neighbours' average WX."""
        return self.retract(WX - s.pace.eta * s.H)
