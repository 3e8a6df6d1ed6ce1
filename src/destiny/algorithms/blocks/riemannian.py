"""What the methods on the manifold share: Riemannian gradients, a retraction, a step size, several rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from destiny.algorithms.blocks.consensus import Consensus
from destiny.algorithms.blocks.opening import Learnt, asks, check_gossip, check_step, learn
from destiny.algorithms.blocks.step_sizes import Pace, StepRule, first
from destiny.errors import SettingsError, is_number
from destiny.geometry.stiefel import polar, qr, tangent
from destiny.protocols import Agents, Array

RETRACTIONS = {"polar": polar, "qr": qr}


def check_alpha(alpha: float) -> None:
    """Refuse a step of the consensus part outside (0, 1]."""
    if not is_number(alpha) or not 0 < alpha <= 1:
        raise SettingsError(f"alpha must be in (0, 1]; found {alpha!r}")


@dataclass(frozen=True)
class Riemannian(Consensus):
    """Settings of every method of this family.

    Parameters
    ----------
    step_size : StepRule
        A rule of `destiny.steps`.
    retraction : "polar" or "qr"
        How a step comes back to the manifold.
    gossip : int
        Rounds at the start in which the agents learn what they were not told; none if nothing is missing.
    rounds, mixing, lambda_
        Communication per step; see `Consensus`.
    """

    step_size: StepRule = field(kw_only=True)
    retraction: Literal["polar", "qr"] = "polar"
    gossip: int = 20
    rules: ClassVar[tuple[type, ...]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_step(self.step_size, self.rules)
        check_gossip(self.gossip)
        if self.retraction not in RETRACTIONS:
            raise SettingsError(f"retraction must be polar or qr; found {self.retraction!r}")

    @property
    def opening(self) -> int:
        """Rounds before the first step."""
        return self.gossip if asks(self.step_size, self.lambda_) else 0

    def open(self, X: Array, agents: Agents) -> tuple[Array, Array, Pace]:
        """Riemannian gradients at the start, the same mixed, and the pace."""
        slope = agents.gradient(X)
        H = tangent(X, slope)
        known: Learnt = learn(
            agents, X, slope, H, self.step_size, self.opening, self.lambda_,
            field=lambda Y: self.slope(Y, agents),
        )  # fmt: skip
        # One step mixes several rounds: to it the network looks as well connected as W^rounds.
        lambda_ = known.lambda_**self.rounds
        return H, known.D, first(self.step_size, known.size, lambda_, known.curvature)

    def slope(self, X: Array, agents: Agents, step: int | None = None) -> Array:
        """Riemannian gradients of the agents' own f_i, or of a step's mini-batches."""
        return tangent(X, agents.gradient(X, step))

    def retract(self, X: Array) -> Array:
        """Back to the manifold."""
        return np.asarray(RETRACTIONS[self.retraction](X))
