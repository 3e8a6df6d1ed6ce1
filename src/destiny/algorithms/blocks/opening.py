"""The rounds before the first step, in which agents learn what they were not told; and settings for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from destiny.algorithms.blocks.gossip import survey
from destiny.algorithms.blocks.step_sizes import StepRule, scalar, steepest
from destiny.errors import ProblemError, SettingsError, is_number, is_whole
from destiny.protocols import Agents, Array


@dataclass(frozen=True)
class Learnt:
    """What the agents know after the opening rounds; scalars ``(agents, 1, 1)``."""

    D: Array
    """Their directions, mixed; the mean is unchanged."""
    size: Array
    """Spectral norm of the mean gradient."""
    lambda_: Array
    """How well the network mixes; 0 where nobody asked."""
    curvature: Array
    """Largest curvature of an agent's direction, roughly; 0 where nobody asked."""


def learn(
    agents: Agents, X: Array, slope: Array, H: Array, rule: StepRule, rounds: int, lambda_: float | None,
    field: Callable[[Array], Array],
) -> Learnt:  # fmt: skip
    """Average the agents' gradients and directions (and curvatures, if the rule asks) for some rounds."""
    require_finite(agents, slope)
    curved = rule.eta is None and rule.unit == "curvature"
    L = steepest(field, X, slope) if curved else np.zeros((len(X), 1, 1))
    known = np.full_like(L, lambda_ or 0.0)
    D = H
    if rounds:
        # The mean of L^8 over the agents is ruled by the largest, and that is what limits the step.
        (slope, D, *rest), felt = survey(agents, slope, H, *([eighth(L)] if curved else []), rounds=rounds)
        L = eighth_root(rest[0]) if curved else L
        known = felt if lambda_ is None else known
    return Learnt(D, scalar(np.linalg.norm(slope, 2, axis=(1, 2))), known, L)


def require_finite(agents: Agents, slope: Array) -> None:
    """Refuse an objective whose gradient at the start is not made of numbers, naming the agent."""
    broken = agents.ids[~np.isfinite(slope).all(axis=(1, 2))]
    if len(broken):
        raise ProblemError(f"the gradient of agent {broken[0]} is not finite at the start: check its f_i")


def eighth(L: Array) -> Array:
    """L^8."""
    return np.square(np.square(np.square(L)))


def eighth_root(L: Array) -> Array:
    """By square roots, which keep the bits when everything is scaled by a power of two."""
    return np.sqrt(np.sqrt(np.sqrt(L)))


def asks(rule: StepRule, lambda_: float | None) -> bool:
    """Whether a step rule needs the opening rounds."""
    return rule.eta is None or (rule.network and lambda_ is None)


def check_step(rule: StepRule, allowed: tuple[type, ...] = ()) -> None:
    """Refuse what is not a step rule, or not one of those a method can use."""
    if not hasattr(rule, "update") or isinstance(rule, type):
        raise SettingsError(f"the step size must be a rule such as Constant(0.1); found {rule!r}")
    if allowed and not isinstance(rule, allowed):
        raise SettingsError(
            f"the step size must be one of {', '.join(a.kind for a in allowed)}, as agents with different "  # type: ignore[attr-defined]
            f"steps would agree on a wrong answer here; found {getattr(rule, 'kind', rule)}"
        )


def check_gossip(gossip: int) -> None:
    """Refuse an opening too short to learn from."""
    if not is_whole(gossip) or gossip < 5:  # two windows to compare, one to average: see survey
        raise SettingsError(f"gossip must be a whole number of at least 5 rounds; found {gossip!r}")


def check_lambda(lambda_: float | None) -> None:
    """Refuse a lambda no network has."""
    if lambda_ is not None and not (is_number(lambda_) and 0 <= lambda_ < 1):
        raise SettingsError(f"lambda must be in [0, 1); found {lambda_!r}")
