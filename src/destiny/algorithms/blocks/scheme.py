"""Base of gradient tracking, EXTRA, exact diffusion and descent: a direction, its penalty, a step size.

A method of this family combines a scheme, which says how agents agree, with a direction of
`destiny.directions`. The file of a scheme has its recursion and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from destiny.algorithms.blocks.opening import (
    as_step_rule,
    check_gossip,
    check_lambda,
    needs_opening,
    opening_rounds,
)
from destiny.algorithms.blocks.step_sizes import BB, Pace, StepRule, initial_pace
from destiny.errors import SettingsError
from destiny.geometry.directions import ANY_F, DIRECTIONS
from destiny.geometry.stiefel import deviation
from destiny.protocols import Agents, AlgorithmBase, Array
from destiny.validation import did_you_mean, is_number


@dataclass(frozen=True)
class Opening:
    """Quantities of the agents before their first step."""

    E: Array
    """X^T X - I."""
    H: Array
    """Directions, penalty included."""
    D: Array
    """Directions after the opening rounds; mean(D) = mean(H)."""
    beta: Array
    pace: Pace
    lambda_: Array
    """lambda as given or estimated, ``(agents, 1, 1)``."""


@dataclass(frozen=True)
class Scheme(AlgorithmBase):
    """Settings of the methods of this family.

    Parameters
    ----------
    beta : "auto" or a number, taken literally
        Penalty. "auto" is the spectral norm of the network's mean gradient at the start.
    step_size : StepRule
        A rule of `destiny.steps`.
    direction : "h", "expen", "plam" or "landing"
        The direction of the steps; see `destiny.directions`.
    gossip : int
        Opening rounds, which estimate beta, the first step and lambda; none if all that is needed is given.
    lambda_ : None or a number in [0, 1)
        ||W - 11^T/d||_2, how well the network mixes. By default it is estimated in the opening rounds if the
        step rule needs it.
    """

    beta: float | Literal["auto"] = "auto"
    step_size: StepRule = field(default_factory=BB)
    direction: str = "h"
    gossip: int = 20
    lambda_: float | None = None
    rules: ClassVar[tuple[type[StepRule], ...]] = ()
    """Step rules that a scheme can use; empty means all."""
    directions: ClassVar[tuple[str, ...]] = ANY_F
    averaged: ClassVar[bool] = True
    """Whether the steps themselves are mixed."""

    def __post_init__(self) -> None:
        if self.beta != "auto" and not (is_number(self.beta) and self.beta >= 0):
            raise SettingsError(f'beta must be "auto" or a number >= 0; found {self.beta!r}')
        if self.direction not in self.directions:
            names = ", ".join(self.directions)
            near = did_you_mean(self.direction, self.directions)
            raise SettingsError(f"direction must be one of {names}; found {self.direction!r}{near}")
        object.__setattr__(self, "step_size", as_step_rule(self.step_size, self.rules))
        check_gossip(self.gossip)
        check_lambda(self.lambda_)

    @property
    def step_rule(self) -> StepRule:
        return self.step_size

    @property
    def opening(self) -> int:
        """Number of rounds before the first step."""
        return self.gossip if self.beta == "auto" or needs_opening(self.step_size, self.lambda_) else 0

    def open(self, X: Array, agents: Agents) -> Opening:
        """Run the opening rounds from X; a gradient that is not finite raises `ProblemError`."""
        direction = DIRECTIONS[self.direction]
        E = deviation(X)
        slope = agents.gradient(direction.point(X, E))
        H = direction.assemble(X, E, slope, 0.0)
        estimates = opening_rounds(
            agents,
            X,
            slope,
            H,
            self.step_size,
            self.opening,
            self.lambda_,
            field=lambda Y: direction(agents.gradient, Y, 0.0),
        )
        beta = estimates.size if self.beta == "auto" else np.full_like(estimates.size, self.beta)
        # The penalty is local: added to H and D alike it keeps mean(D) = mean(H).
        pull = X @ (beta * E)
        # The penalty has curvature 2 beta across the manifold and none along it.
        L = np.maximum(estimates.curvature, 2 * beta)
        pace = initial_pace(self.step_size, estimates.size, estimates.lambda_, L, self.averaged)
        return Opening(E, H + pull, estimates.D + pull, beta, pace, estimates.lambda_)

    def direction_at(self, X: Array, E: Array, beta: Array, agents: Agents, step: int | None = None) -> Array:
        """The direction H(X) ``(agents, n, p)`` with E = X^T X - I; with ``step``, of its mini-batches."""
        direction = DIRECTIONS[self.direction]
        return direction.assemble(X, E, agents.gradient(direction.point(X, E), step), beta)


def mix_with_curvature(
    mix: Callable[..., tuple[Array, ...]], rule: StepRule, pace: Pace, *arrays: Array
) -> tuple[tuple[Array, ...], Pace]:
    """Mix ``arrays``; send the local curvature estimate along and keep the larger of it and the average.

    Return the mixed arrays and the pace with the new curvature. Where steps are not averaged, an agent with
    few samples or none would otherwise take steps that are too long for its neighbors. Rules that do not
    estimate the curvature during a run send nothing along.
    """
    if not rule.needs_lambda or rule.first_step_unit != "gradient":
        return mix(*arrays), pace
    *mixed, curvature = mix(*arrays, pace.curvature)
    return tuple(mixed), replace(pace, curvature=np.maximum(pace.curvature, curvature))


def mix_with_step_size(
    agents: Agents, rule: StepRule, pace: Pace, *arrays: Array
) -> tuple[tuple[Array, ...], Pace]:
    """Mix ``arrays`` and, unless the step size is given as a number, the step sizes as well.

    Return the mixed arrays and the pace with the mixed step size. Methods without a tracker are exact only if
    all agents take the same step in the limit; an agent that shortens its step shortens that of all others,
    round by round.
    """
    if rule.eta is not None:
        return agents.mix(*arrays), pace
    *mixed, eta = agents.mix(*arrays, pace.eta)
    return tuple(mixed), replace(pace, eta=eta)
