"""Base of the methods on the manifold: Riemannian gradients, a retraction, a step size, several rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from destiny.algorithms.blocks.consensus import Consensus
from destiny.algorithms.blocks.opening import (
    OpeningEstimates,
    check_gossip,
    check_step,
    needs_opening,
    opening_rounds,
)
from destiny.algorithms.blocks.step_sizes import Pace, StepRule, initial_pace
from destiny.errors import SettingsError
from destiny.geometry.stiefel import polar, qr, tangent
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
        check_step(self.step_size, self.rules)
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
