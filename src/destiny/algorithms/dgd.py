"""Decentralized gradient descent (Nedic & Ozdaglar 2009) along any direction: simple, and biased."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.scheme import Scheme
from destiny.algorithms.blocks.step_sizes import Lipschitz, Move, Pace, StepRule
from destiny.errors import SettingsError
from destiny.geometry.stiefel import deviation, norm, scalar
from destiny.protocols import Agents, Array


@dataclass(frozen=True)
class DGDState:
    """Every array has the hosted agents on axis 0."""

    X: Array
    H: Array
    beta: Array
    pace: Pace


@dataclass(frozen=True)
class DGD(Scheme):
    """X+ = W (X - eta H(X)), or X+ = W X - eta H(X) with order "combine".

    With a constant step it stalls where the agents' pulls balance the network's: a bias in proportion to
    eta. With `Diminishing` steps the bias vanishes, slowly, and gradients may be those of mini-batches.

    Parameters
    ----------
    order : "adapt" or "combine"
        Which comes first: adapt-then-combine or combine-then-adapt.
    beta, step_size, direction, gossip, lambda_
        As in `Scheme`.
    """

    step_size: StepRule = field(default_factory=lambda: Lipschitz(0.2))
    order: Literal["adapt", "combine"] = "adapt"
    kind = "dgd"
    about = About(
        "DGD", "Nedic & Ozdaglar, IEEE TAC 2009", sends=1, traits=frozenset({"inexact", "stochastic"})
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order not in ("adapt", "combine"):
            raise SettingsError(f"order must be adapt or combine; found {self.order!r}")

    def init(self, X: Array, agents: Agents) -> DGDState:
        """Run the opening rounds."""
        o = self.open(X, agents)
        return DGDState(X, o.H, o.beta, o.pace)

    def step(self, s: DGDState, agents: Agents) -> DGDState:
        """The recursion of the class docstring, in one round."""
        push = s.pace.eta * s.H
        sent = s.X - push if self.order == "adapt" else s.X
        (mixed,) = agents.mix(sent)
        X = mixed if self.order == "adapt" else mixed - push
        H = self.direction_at(X, deviation(X), s.beta, agents, s.pace.next)
        move = Move(X - s.X, H - s.H, H - s.H, scalar(norm(sent - mixed)), scalar(norm(H)))
        return DGDState(X, H, s.beta, self.step_size.update(s.pace, move))
