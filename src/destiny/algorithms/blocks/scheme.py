"""What gradient tracking, EXTRA, exact diffusion and descent share: a direction, its penalty, a step size.

A method of this family is a scheme (how agents agree) times a direction (where they go, in
`destiny.directions`). A scheme's own file has its recursion and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from destiny.algorithms.blocks.opening import asks, check_gossip, check_lambda, check_step, learn
from destiny.algorithms.blocks.step_sizes import BB, Pace, StepRule, first
from destiny.errors import SettingsError, is_number
from destiny.geometry.directions import ANY_F, DIRECTIONS
from destiny.geometry.stiefel import deviation
from destiny.protocols import Agents, Array


@dataclass(frozen=True)
class Opening:
    """What the agents have before their first step."""

    E: Array
    """X^T X - I."""
    H: Array
    """Their directions, the penalty's part included."""
    D: Array
    """Their directions, mixed in the opening rounds; the mean is that of H."""
    beta: Array
    pace: Pace
    lambda_: Array
    """How well the network mixes, as given or estimated."""


@dataclass(frozen=True)
class Scheme:
    """Settings of every method of the family.

    Parameters
    ----------
    beta : "auto" or a number, taken literally
        Penalty. "auto" is the spectral norm of the network's mean gradient at the start.
    step_size : StepRule
        A rule of `destiny.steps`.
    direction : "h", "expen", "plam" or "landing"
        What the agents follow; see `destiny.directions`.
    gossip : int
        Rounds at the start in which the agents learn what they were not told; none if nothing is missing.
    lambda_ : None or a number in [0, 1)
        How well the network mixes, if known; otherwise `BB` has it estimated in the same rounds.
    """

    beta: float | Literal["auto"] = "auto"
    step_size: StepRule = field(default_factory=BB)
    direction: str = "h"
    gossip: int = 20
    lambda_: float | None = None
    rules: ClassVar[tuple[type, ...]] = ()  # the step rules a scheme can use; empty means all
    directions: ClassVar[tuple[str, ...]] = ANY_F
    averaged: ClassVar[bool] = True  # whether the steps themselves are mixed

    def __post_init__(self) -> None:
        if self.beta != "auto" and not (is_number(self.beta) and self.beta >= 0):
            raise SettingsError(f'beta must be "auto" or a number >= 0; found {self.beta!r}')
        if self.direction not in self.directions:
            known = ", ".join(self.directions)
            raise SettingsError(f"direction must be one of {known}; found {self.direction!r}")
        check_step(self.step_size, self.rules)
        check_gossip(self.gossip)
        check_lambda(self.lambda_)

    @property
    def opening(self) -> int:
        """Rounds before the first step."""
        return self.gossip if self.beta == "auto" or asks(self.step_size, self.lambda_) else 0

    def open(self, X: Array, agents: Agents) -> Opening:
        """Everything the agents need for their first step, learnt from their neighbours where need be."""
        direction = DIRECTIONS[self.direction]
        E = deviation(X)
        slope = agents.gradient(direction.point(X, E))
        H = direction.assemble(X, E, slope, 0.0)
        known = learn(
            agents, X, slope, H, self.step_size, self.opening, self.lambda_,
            field=lambda Y: direction(agents.gradient, Y, 0.0),
        )  # fmt: skip
        beta = known.size if self.beta == "auto" else np.full_like(known.size, self.beta)
        # The penalty's part of H is local: added to H and D alike it keeps mean(D) = mean(H).
        pull = X @ (beta * E)
        # Off the manifold the penalty curves like 2 beta, along it the rest does.
        L = np.maximum(known.curvature, 2 * beta)
        pace = first(self.step_size, known.size, known.lambda_, L, self.averaged)
        return Opening(E, H + pull, known.D + pull, beta, pace, known.lambda_)

    def towards(self, X: Array, E: Array, beta: Array, agents: Agents, step: int | None = None) -> Array:
        """The direction at X, from E = X^T X - I; of a step's mini-batches if its number is given."""
        direction = DIRECTIONS[self.direction]
        return direction.assemble(X, E, agents.gradient(direction.point(X, E), step), beta)


def heed(
    mix: Callable[..., tuple[Array, ...]], rule: StepRule, pace: Pace, *arrays: Array
) -> tuple[tuple[Array, ...], Pace]:
    """One round (or several) that also tells the neighbours how curved an agent has found its own f_i.

    Where steps are not averaged, an agent with few samples or none would take the long steps its own data
    allow, and pull the others apart. Only a rule that looks at curvature asks for it.
    """
    if not rule.network or rule.unit != "gradient":
        return mix(*arrays), pace
    *mixed, curvature = mix(*arrays, pace.curvature)
    return tuple(mixed), replace(pace, curvature=np.maximum(pace.curvature, curvature))


def even(agents: Agents, rule: StepRule, pace: Pace, *arrays: Array) -> tuple[tuple[Array, ...], Pace]:
    """One round that also evens out the agents' step sizes, unless they were given as a number.

    Methods without a tracker are exact only if all agents take the same step in the end. An agent whose
    curvature asks for a shorter step draws all others down to it, round by round.
    """
    if rule.eta is not None:
        return agents.mix(*arrays), pace
    *mixed, eta = agents.mix(*arrays, pace.eta)
    return tuple(mixed), replace(pace, eta=eta)
