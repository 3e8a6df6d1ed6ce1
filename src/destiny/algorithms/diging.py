"""DIGing: gradient tracking in combine-then-adapt form."""

from __future__ import annotations

from dataclasses import dataclass, field

from destiny.algorithms.about import About
from destiny.algorithms.tracking import Tracking, TrackingState
from destiny.steps import BB, StepRule, scalar
from destiny.stiefel import deviation, norm
from destiny.types import Agents, Array


@dataclass(frozen=True)
class DIGing(Tracking):
    """X+ = W X - eta D, D+ = W D + H(X+) - H(X).

    One round, as DESTINY, but the step is not averaged: the largest stable one is several times smaller.
    """

    step_size: StepRule = field(default_factory=lambda: BB(cap=0.1))
    kind = "diging"
    about = About("DIGing", "Nedic, Olshevsky & Shi 2017; Qu & Li 2018", sends=2)

    def step(self, s: TrackingState, agents: Agents) -> TrackingState:
        """One round."""
        WX, WD = agents.mix(s.X, s.D)
        X: Array = WX - s.pace.eta * s.D
        E = deviation(X)
        H = self.towards(X, E, s.beta, agents)
        dH = H - s.H
        return self.arrive(s, X, E, WD + dH, H, dH, scalar(norm(s.X - WX)))
