"""Gradient tracking in adapt-then-combine form, the tracker included: two rounds a step."""

from __future__ import annotations

from dataclasses import dataclass

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.tracking import Tracking, TrackingState
from destiny.geometry.stiefel import deviation, norm, scalar
from destiny.protocols import Agents


@dataclass(frozen=True)
class ATC(Tracking):
    """X+ = W (X - eta D), D+ = W (D + H(X+) - H(X)).

    The second mixing needs H(X+), hence a round of its own; DESTINY mixes D one step earlier instead.
    """

    kind = "atc"
    about = About("ATC tracking", "Xu, Zhu, Soh & Xie 2015 (Aug-DGM); Di Lorenzo & Scutari 2016", 1, rounds=2)

    def step(self, s: TrackingState, agents: Agents) -> TrackingState:
        """The recursion of the class docstring, in two rounds."""
        V = s.X - s.pace.eta * s.D
        (X,) = agents.mix(V)
        E = deviation(X)
        H = self.direction_at(X, E, s.beta, agents)
        dH = H - s.H
        (D,) = agents.mix(s.D + dH)
        return self.finish_step(s, X, E, D, H, dH, scalar(norm(V - X)))
