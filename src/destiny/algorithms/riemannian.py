"""Methods that stay on the manifold: Riemannian gradient descent and tracking by retraction or projection."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.consensus import Consensus
from destiny.algorithms.blocks.opening import (
    OpeningEstimates,
    as_step_rule,
    check_gossip,
    needs_opening,
    opening_rounds,
)
from destiny.algorithms.blocks.scheme import mix_with_curvature
from destiny.algorithms.blocks.step_sizes import BB, Diminishing, Move, Pace, StepRule, initial_pace
from destiny.errors import SettingsError
from destiny.geometry.stiefel import norm, polar, qr, scalar, tangent
from destiny.protocols import Agents, Array
from destiny.validation import is_number

RETRACTIONS = {"polar": polar, "qr": qr}


def check_alpha(alpha: float) -> None:
    """Raise `SettingsError` unless ``alpha``, the step of the consensus part, is in (0, 1]."""
    if not is_number(alpha) or not 0 < alpha <= 1:
        raise SettingsError(f"alpha must be in (0, 1]; found {alpha!r}")


@dataclass(frozen=True)
class Riemannian(Consensus):
    """Settings of the methods on the manifold.

    Parameters
    ----------
    step_size : StepRule
        A rule of `destiny.steps`.
    retraction : "polar" or "qr"
        How a step returns to the manifold.
    gossip : int
        Opening rounds, which estimate the first step and lambda; none if both are given.
    rounds, mixing, lambda_
        Communication per step; see `Consensus`.
    """

    step_size: StepRule = field(kw_only=True)
    retraction: Literal["polar", "qr"] = "polar"
    gossip: int = 20
    rules: ClassVar[tuple[type[StepRule], ...]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "step_size", as_step_rule(self.step_size, self.rules))
        check_gossip(self.gossip)
        if self.retraction not in RETRACTIONS:
            raise SettingsError(f"retraction must be polar or qr; found {self.retraction!r}")

    @property
    def step_rule(self) -> StepRule:
        return self.step_size

    @property
    def opening(self) -> int:
        """Number of rounds before the first step."""
        return self.gossip if needs_opening(self.step_size, self.lambda_) else 0

    def open(self, X: Array, agents: Agents) -> tuple[Array, Array, Pace]:
        """Run the opening rounds; return the Riemannian gradients, the same after mixing, and the pace."""
        slope = agents.gradient(X)
        H = tangent(X, slope)
        estimates: OpeningEstimates = opening_rounds(
            agents,
            X,
            slope,
            H,
            self.step_size,
            self.opening,
            self.lambda_,
            field=lambda Y: self.riemannian_gradient(Y, agents),
        )
        # A step with several rounds mixes with W^rounds.
        lambda_ = estimates.lambda_**self.rounds
        return H, estimates.D, initial_pace(self.step_size, estimates.size, lambda_, estimates.curvature)

    def riemannian_gradient(self, X: Array, agents: Agents, step: int | None = None) -> Array:
        """Riemannian gradients of the f_i, or of the mini-batches of a step, ``(agents, n, p)``."""
        return tangent(X, agents.gradient(X, step))

    def retract(self, X: Array) -> Array:
        """Apply the retraction to each matrix."""
        return np.asarray(RETRACTIONS[self.retraction](X))


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
        """X+ from the neighbors' average WX."""
        return self.retract(s.X + self.alpha * tangent(s.X, WX) - s.pace.eta * s.H)


@dataclass(frozen=True)
class DPRGD(DRSGD):
    """X+ = R(W^t X - eta grad f(X)), with diminishing steps by default.

    Inexact in the same way as `DRSGD`, from which it differs in that it uses the neighbors' average itself
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
        """X+ from the neighbors' average WX."""
        return self.retract(WX - s.pace.eta * s.H)


@dataclass(frozen=True)
class RiemannianState:
    """Every array has the hosted agents on axis 0; mean(D) = mean(H) at every step."""

    X: Array
    D: Array
    """Tracker of the mean Riemannian gradient, in the ambient space."""
    H: Array
    """Riemannian gradients of the agents' own f_i."""
    pace: Pace
    disagreement: Array
    scale: Array


@dataclass(frozen=True)
class DRGTA(Riemannian):
    """X+ = R_X(alpha P_X(W^t X) - eta P_X(D)),  D+ = W^t D + grad f(X+) - grad f(X).

    P_X projects on the tangent space at X, R_X retracts. With one round and BB steps as printed
    (``alpha=1, step_size=PlainBB()``) it locks into a cycle of two and does not converge; the defaults do.

    Parameters
    ----------
    alpha : float in (0, 1]
        Step of the consensus part.
    step_size : StepRule
        By default `BB` with cap 0.5; the curvature estimates of neighbors are averaged as well.
    rounds, mixing, lambda_, retraction, gossip
        As in `Riemannian`.
    """

    step_size: StepRule = field(default_factory=lambda: BB(cap=0.5), kw_only=True)
    alpha: float = 0.5
    kind = "drgta"
    about = About(
        "DRGTA", "Chen, Garcia, Hong & Shahrampour, ICML 2021", sends=2, numbers_auto=1, rounds="rounds"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_alpha(self.alpha)

    def init(self, X: Array, agents: Agents) -> RiemannianState:
        """Run the opening rounds; D starts as the mixed Riemannian gradient."""
        H, D, pace = self.open(X, agents)
        return RiemannianState(X, D, H, pace, np.zeros_like(pace.eta), scalar(norm(D)))

    def step(self, s: RiemannianState, agents: Agents) -> RiemannianState:
        """The recursion of the class docstring, in ``rounds`` rounds."""
        (WX, WD), pace = mix_with_curvature(partial(self.average, agents), self.step_size, s.pace, s.X, s.D)
        X = self.move(s, WX)
        H = self.riemannian_gradient(X, agents)
        dH = H - s.H
        D = WD + dH
        disagreement = scalar(norm(WX - s.X))
        move = Move(X - s.X, D - s.D, dH, disagreement, scalar(norm(D)))
        return RiemannianState(X, D, H, self.step_size.update(pace, move), disagreement, s.scale)

    def move(self, s: RiemannianState, WX: Array) -> Array:
        """X+ from the neighbors' average WX."""
        # P_X(X) = 0 on the manifold, so P_X(W X) is P_X(W X - X).
        return self.retract(s.X + tangent(s.X, self.alpha * WX - s.pace.eta * s.D))

    def tracked(self, s: RiemannianState) -> tuple[Array, Array]:
        """The trackers D and the directions H."""
        return s.D, s.H

    def residual(self, s: RiemannianState) -> Array:
        """The larger of ||P_X(D_i)|| relative to the start and the disagreement, ``(agents,)``."""
        tracker = norm(tangent(s.X, s.D)) / np.where(s.scale > 0, s.scale, 1.0)[:, 0, 0]
        return np.maximum(tracker, s.disagreement[:, 0, 0])


@dataclass(frozen=True)
class DPRGT(DRGTA):
    """X+ = R(W^t X - eta P_X(D)),  D+ = W^t D + grad f(X+) - grad f(X).

    DRGTA with the neighbors' average itself instead of its tangent part; R is the projection on the
    manifold ("polar") or a QR factorization.
    """

    alpha: float = field(default=1.0, init=False)
    kind = "dprgt"
    about = About("DPRGT", "Deng & Hu, arXiv 2304.08241", sends=2, numbers_auto=1, rounds="rounds")

    def move(self, s: RiemannianState, WX: Array) -> Array:
        """X+ from the neighbors' average WX."""
        return self.retract(WX - s.pace.eta * tangent(s.X, s.D))
