"""PG-EXTRA on the Stiefel manifold, as in REXTRA (Wu et al. 2025): EXTRA with a projection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.riemannian import Riemannian
from destiny.algorithms.blocks.scheme import mix_with_step_size
from destiny.algorithms.blocks.step_sizes import Constant, Lipschitz, Move, Pace, StepRule
from destiny.algorithms.extra import Extra
from destiny.geometry.stiefel import norm, scalar
from destiny.protocols import Agents, Array


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
