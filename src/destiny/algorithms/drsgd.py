"""DRSGD (Chen, Garcia, Hong & Shahrampour 2021): Riemannian gradient descent."""

from __future__ import annotations

from dataclasses import dataclass, field

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.riemannian import Riemannian, check_alpha
from destiny.algorithms.blocks.step_sizes import Diminishing, Move, Pace, StepRule
from destiny.geometry.stiefel import norm, scalar, tangent
from destiny.protocols import Agents, Array


@dataclass(frozen=True)
class DescentState:
    """Every array has the hosted agents on axis 0."""

    X: Array
    H: Array
    """Riemannian gradients of the agents' own f_i."""
    pace: Pace


@dataclass(frozen=True)
class DRSGD(Riemannian):
    """X+ = R_X(alpha P_X(W^t X) - eta grad f(X)), with diminishing steps by default.

    Inexact: every agent follows its own gradient, so with a constant step the agents stall apart, at a
    distance in proportion to the step; with diminishing steps they creep.

    Stochastic: on a problem with mini-batches (`destiny.problems.custom`) the gradients are those of samples
    drawn anew in each step. The first one is full: it sets the step size.

    Parameters
    ----------
    alpha : float in (0, 1]
        Step of the consensus part.
    step_size : StepRule
        By default `Diminishing`, eta / sqrt(k + 1).
    rounds, mixing, lambda_, retraction, gossip
        As in `Riemannian`.
    """

    step_size: StepRule = field(default_factory=Diminishing, kw_only=True)
    alpha: float = 1.0
    kind = "drsgd"
    about = About(
        "DRSGD",
        "Chen, Garcia, Hong & Shahrampour, ICML 2021",
        sends=1,
        rounds="rounds",
        traits=frozenset({"inexact", "stochastic"}),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_alpha(self.alpha)

    def init(self, X: Array, agents: Agents) -> DescentState:
        """Run the opening rounds."""
        H, _, pace = self.open(X, agents)
        return DescentState(X, H, pace)

    def step(self, s: DescentState, agents: Agents) -> DescentState:
        """The recursion of the class docstring, in ``rounds`` rounds."""
        (WX,) = self.average(agents, s.X)
        X = self.move(s, WX)
        H = self.riemannian_gradient(X, agents, s.pace.next)
        move = Move(X - s.X, H - s.H, H - s.H, scalar(norm(WX - s.X)), scalar(norm(H)))
        return DescentState(X, H, self.step_size.update(s.pace, move))

    def move(self, s: DescentState, WX: Array) -> Array:
        """X+ from the neighbours' average WX."""
        return self.retract(s.X + self.alpha * tangent(s.X, WX) - s.pace.eta * s.H)
