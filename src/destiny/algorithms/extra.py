"""EXTRA (Shi, Ling, Wu & Yin 2015), exact diffusion and PG-EXTRA: exact with one matrix a round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.scheme import Scheme, mix_with_step_size
from destiny.algorithms.blocks.step_sizes import Constant, Lipschitz, Move, Pace, StepRule
from destiny.algorithms.riemannian import Riemannian
from destiny.geometry.stiefel import deviation, norm, scalar
from destiny.protocols import Agents, Array


@dataclass(frozen=True)
class ExtraState:
    """Every array has the hosted agents on axis 0; mean(C) = 0 at every step."""

    X: Array
    C: Array
    """Half the disagreements with the neighbors, added up: what keeps the agents' directions in balance."""
    H: Array
    beta: Array
    pace: Pace


@dataclass(frozen=True)
class Extra(Scheme):
    """X+ = W X + C - eta H(X),  C+ = C + (W X - X)/2, starting from C = 0.

    The same as X^{k+2} = (I + W) X^{k+1} - (I + W) X^k / 2 - eta (H^{k+1} - H^k), with its sum written as C.
    Since mean(C) = 0, a fixed point has eta mean(H) = 0: it is exact if all agents take the same step. That
    is a number, or that of `Lipschitz`, which the agents mix in every round. Along "h", the default, this
    is RF-EXTRA (Li & Hu, arXiv 2604.23754) as far as its abstract describes it.
    """

    step_size: StepRule = field(default_factory=Lipschitz)
    rules = (Constant, Lipschitz)
    kind = "extra"
    about = About(
        "EXTRA",
        "Shi, Ling, Wu & Yin, SIAM J. Optim. 2015",
        sends=1,
        numbers_auto=1,
        needs="symmetric W, fixed network",
        traits=frozenset({"fixed"}),
    )

    def init(self, X: Array, agents: Agents) -> ExtraState:
        """Run the opening rounds; C = 0."""
        o = self.open(X, agents)
        return ExtraState(X, np.zeros_like(X), o.H, o.beta, o.pace)

    def step(self, s: ExtraState, agents: Agents) -> ExtraState:
        """The recursion of the class docstring, in one round."""
        (WX,), pace = mix_with_step_size(agents, self.step_size, s.pace, s.X)
        X = WX + s.C - pace.eta * s.H
        H = self.direction_at(X, deviation(X), s.beta, agents)
        gap = WX - s.X
        move = Move(X - s.X, H - s.H, H - s.H, scalar(norm(gap)), scalar(norm(H)))
        return ExtraState(X, s.C + gap / 2, H, s.beta, self.step_size.update(pace, move))


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


@dataclass(frozen=True)
class PGExtraState:
    """Every array has the hosted agents on axis 0; mean(C) = 0 at every step."""

    X: Array
    C: Array
    H: Array
    """Riemannian gradients of the agents' own f_i."""
    pace: Pace


@dataclass(frozen=True)
class PGExtra(Riemannian):
    """X+ = polar(W X + C - eta grad f(X)),  C+ = C + (W X - X)/2, starting from C = 0.

    EXTRA on Riemannian gradients with a projection: feasible at every step, one matrix a round, and exact if
    all agents take the same step. A reconstruction of REXTRA from its abstract; the same as
    Z^{k+2} = W X^{k+1} + Z^{k+1} - (X^k + W X^k)/2 - eta (grad f(X^{k+1}) - grad f(X^k)), X = polar(Z).
    """

    step_size: StepRule = field(default_factory=Lipschitz, kw_only=True)
    rounds: int = field(default=1, init=False)
    mixing: Literal["plain", "chebyshev", "fastmix"] = field(default="plain", init=False)
    retraction: Literal["polar", "qr"] = field(default="polar", init=False)
    rules = (Constant, Lipschitz)
    kind = "pg-extra"
    about = About(
        "PG-EXTRA",
        "Shi, Ling, Wu & Yin 2015; REXTRA: Wu et al., arXiv 2505.15537",
        sends=1,
        numbers_auto=1,
        needs=Extra.about.needs,
        traits=frozenset({"fixed", "reconstruction"}),
    )

    def init(self, X: Array, agents: Agents) -> PGExtraState:
        """Run the opening rounds; C = 0."""
        H, _, pace = self.open(X, agents)
        return PGExtraState(X, np.zeros_like(X), H, pace)

    def step(self, s: PGExtraState, agents: Agents) -> PGExtraState:
        """The recursion of the class docstring, in one round."""
        (WX,), pace = mix_with_step_size(agents, self.step_size, s.pace, s.X)
        X = self.retract(WX + s.C - pace.eta * s.H)
        H = self.riemannian_gradient(X, agents)
        gap = WX - s.X
        move = Move(X - s.X, H - s.H, H - s.H, scalar(norm(gap)), scalar(norm(H)))
        return PGExtraState(X, s.C + gap / 2, H, self.step_size.update(pace, move))
