"""EXTRA (Shi, Ling, Wu & Yin 2015) along any direction: exact with one matrix a round."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.scheme import Scheme, mix_with_step_size
from destiny.algorithms.blocks.step_sizes import Constant, Lipschitz, Move, Pace, StepRule
from destiny.geometry.stiefel import deviation, norm, scalar
from destiny.protocols import Agents, Array


@dataclass(frozen=True)
class ExtraState:
    """Every array has the hosted agents on axis 0; mean(C) = 0 at every step."""

    X: Array
    C: Array
    """Half the disagreements with the neighbours, added up: what keeps the agents' directions in balance."""
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
