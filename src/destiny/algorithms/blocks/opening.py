"""Initial rounds that estimate beta, the scale of the step and lambda when they are not given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from destiny.algorithms.blocks.curvature import eighth_power, eighth_root, largest_curvature
from destiny.algorithms.blocks.gossip import average_and_estimate_lambda
from destiny.algorithms.blocks.step_sizes import Constant, StepRule
from destiny.errors import ProblemError, SettingsError
from destiny.geometry.stiefel import scalar
from destiny.protocols import Agents, Array
from destiny.validation import is_number, is_whole


@dataclass(frozen=True)
class OpeningEstimates:
    """Results of the opening rounds; scalars ``(agents, 1, 1)``."""

    D: Array
    """The directions after mixing, ``(agents, n, p)``; their mean is unchanged."""
    size: Array
    """Spectral norm of the mean gradient."""
    lambda_: Array
    """lambda as given or estimated; 0 if there are no opening rounds and none is given."""
    curvature: Array
    """Eighth root of the mean of L^8 over the agents; 0 if the step rule does not need it."""


def opening_rounds(
    agents: Agents,
    X: Array,
    slope: Array,
    H: Array,
    rule: StepRule,
    rounds: int,
    lambda_: float | None,
    field: Callable[[Array], Array],
) -> OpeningEstimates:
    """Average gradients ``slope`` and directions H, ``(agents, n, p)``, for ``rounds`` rounds.

    If the rule needs the curvature of ``field``, the directions as a function of X, that of every agent is
    measured and averaged, too. Raises `ProblemError` if a gradient is not finite.
    """
    require_finite(agents, slope)
    by_curvature = rule.eta is None and rule.first_step_unit == "curvature"
    L = largest_curvature(field, X, slope) if by_curvature else np.zeros((len(X), 1, 1))
    result = np.full_like(L, lambda_ or 0.0)
    D = H
    if rounds:
        # The mean of L^8 over the agents is dominated by the largest L, which limits the step.
        shared = [eighth_power(L)] if by_curvature else []
        means, estimate = average_and_estimate_lambda(agents, slope, H, *shared, rounds=rounds)
        slope, D, *rest = means
        if by_curvature:  # a neighbor that lies can make an average as small as it likes, or negative
            L = eighth_root(rest[0] if agents.exact else np.maximum(rest[0], eighth_power(L)))
        result = estimate if lambda_ is None else result
    return OpeningEstimates(D, scalar(np.linalg.norm(slope, 2, axis=(1, 2))), result, L)


def require_finite(agents: Agents, slope: Array) -> None:
    """Raise `ProblemError` with the first agent whose gradient at the start is not finite."""
    broken = agents.ids[~np.isfinite(slope).all(axis=(1, 2))]
    if len(broken):
        raise ProblemError(f"the gradient of agent {broken[0]} is not finite at the start: check its f_i")


def needs_opening(rule: StepRule, lambda_: float | None) -> bool:
    """Whether a step rule needs opening rounds: for its first step, or for a lambda that is not given."""
    return rule.eta is None or (rule.needs_lambda and lambda_ is None)


def as_step_rule(given: StepRule | float, allowed: tuple[type[StepRule], ...] = ()) -> StepRule:
    """The rule itself, or that of a constant step; `SettingsError` unless its class is ``allowed``."""
    rule = Constant(given) if is_number(given) else given
    if not isinstance(rule, StepRule):
        raise SettingsError(f"the step size must be a number or a rule such as BB(); found {rule!r}")
    if allowed and not isinstance(rule, allowed):
        raise SettingsError(
            f"the step size must be one of {', '.join(a.kind for a in allowed)}, as agents with different "
            f"steps would agree on a wrong answer here; found {rule.kind}"
        )
    return rule


def check_gossip(gossip: int) -> None:
    """Raise `SettingsError` unless ``gossip`` is a whole number of at least 5 opening rounds."""
    # average_and_estimate_lambda compares two windows of energies and averages them in a third
    if not is_whole(gossip) or gossip < 5:
        raise SettingsError(f"gossip must be a whole number of at least 5 rounds; found {gossip!r}")


def check_lambda(lambda_: float | None) -> None:
    """Raise `SettingsError` unless ``lambda_`` is None or a number in [0, 1)."""
    if lambda_ is not None and not (is_number(lambda_) and 0 <= lambda_ < 1):
        raise SettingsError(f"lambda must be in [0, 1); found {lambda_!r}")
