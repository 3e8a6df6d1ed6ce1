"""Exact diffusion (Yuan, Ying, Zhao & Sayed 2019; close to NIDS) along any direction."""

from __future__ import annotations

from dataclasses import dataclass, field

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.scheme import Scheme, mix_with_step_size
from destiny.algorithms.blocks.step_sizes import Constant, Lipschitz, Move, Pace, StepRule
from destiny.geometry.stiefel import deviation, norm, scalar
from destiny.protocols import Agents, Array


@dataclass(frozen=True)
class ExactDiffusionState:
    """Every array has the hosted agents on axis 0; mean(psi) = mean(X) at every step."""

    X: Array
    psi: Array
    H: Array
    beta: Array
    pace: Pace


@dataclass(frozen=True)
class ExactDiffusion(Scheme):
    """psi+ = X - eta H(X),  phi = psi+ + X - psi,  X+ = (phi + W phi)/2, starting from psi = X.

    One matrix a round, and larger stable steps than `Extra`. All agents must take the same step: a number, or
    that of `Lipschitz`, which the agents mix in every round.
    """

    step_size: StepRule = field(default_factory=Lipschitz)
    rules = (Constant, Lipschitz)
    kind = "exact-diffusion"
    about = About(
        "exact diffusion",
        "Yuan, Ying, Zhao & Sayed, IEEE TSP 2019",
        sends=1,
        numbers_auto=1,
        needs="symmetric W, fixed network",
        traits=frozenset({"fixed"}),
    )

    def init(self, X: Array, agents: Agents) -> ExactDiffusionState:
        """Run the opening rounds; psi = X."""
        o = self.open(X, agents)
        return ExactDiffusionState(X, X, o.H, o.beta, o.pace)

    def step(self, s: ExactDiffusionState, agents: Agents) -> ExactDiffusionState:
        """The recursion of the class docstring, in one round."""
        psi = s.X - s.pace.eta * s.H
        phi = psi + s.X - s.psi
        (mixed,), pace = mix_with_step_size(agents, self.step_size, s.pace, phi)
        X = (phi + mixed) / 2
        H = self.direction_at(X, deviation(X), s.beta, agents)
        move = Move(X - s.X, H - s.H, H - s.H, scalar(norm(phi - mixed)), scalar(norm(H)))
        return ExactDiffusionState(X, psi, H, s.beta, self.step_size.update(pace, move))
