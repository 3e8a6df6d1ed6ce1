"""Gradient tracking in other orders than DESTINY's: DIGing, adapt-then-combine, DRFGT."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.scheme import mix_with_curvature
from destiny.algorithms.blocks.step_sizes import Lipschitz, StepRule
from destiny.algorithms.blocks.tracking import Tracking, TrackingState
from destiny.geometry.stiefel import deviation, norm, scalar
from destiny.protocols import Agents, Array


@dataclass(frozen=True)
class DIGing(Tracking):
    """X+ = W X - eta D, D+ = W D + H(X+) - H(X).

    One round, as DESTINY, but the step is not averaged: the largest stable one is several times smaller, and
    Barzilai-Borwein steps lose consensus easily. The default is a constant.
    """

    step_size: StepRule = field(default_factory=lambda: Lipschitz(0.2, gap=0.5))
    averaged = False
    kind = "diging"
    about = About("DIGing", "Nedic, Olshevsky & Shi 2017; Qu & Li 2018", sends=2)

    def step(self, s: TrackingState, agents: Agents) -> TrackingState:
        """The recursion of the class docstring, in one round."""
        (WX, WD), pace = mix_with_curvature(agents.mix, self.step_size, s.pace, s.X, s.D)
        X: Array = WX - pace.eta * s.D
        E = deviation(X)
        H = self.direction_at(X, E, s.beta, agents)
        dH = H - s.H
        return self.finish_step(replace(s, pace=pace), X, E, WD + dH, H, dH, scalar(norm(s.X - WX)))


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


@dataclass(frozen=True)
class DRFGT(DIGing):
    """X+ = W X - eta D, D+ = W D + L(X+) - L(X), with L the landing field.

    Reconstructed from the abstract: the whole field is tracked, its penalty included. For larger steps take
    `Destiny` with direction "landing", the same field in DESTINY's form.
    """

    direction: str = field(default="landing", init=False)
    kind = "drfgt"
    about = About(
        "DRFGT",
        "Sun, Chen, Garcia & Shahrampour, arXiv 2405.11590",
        sends=2,
        traits=frozenset({"reconstruction"}),
    )
