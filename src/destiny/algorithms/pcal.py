"""PCAL (Gao, Liu & Yuan 2019): PLAM with columns of unit norm."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from destiny.algorithms.blocks.about import for_one_agent
from destiny.algorithms.blocks.single_agent import Alone
from destiny.algorithms.blocks.step_sizes import Alternating, StepRule
from destiny.algorithms.blocks.tracking import TrackingState
from destiny.protocols import Agents, Array


@dataclass(frozen=True)
class PCAL(Alone):
    """X+ = columns(X - eta (P - X diag(X^T P))),  P = G - X sym(X^T G) + beta X (X^T X - I),  G = grad f(X).

    ``columns`` divides every column by its norm, and diag(X^T P) takes what goes along a column out of the
    step. Bounded iterates make it less sensitive to a small beta than `PLAM`. The authors' first step, the
    clipping of later ones and their beta depend on the scale of f; those of this package do not.
    """

    step_size: StepRule = field(default_factory=Alternating)
    kind = "pcal"
    about = for_one_agent("PCAL", "Gao, Liu & Yuan, SIAM J. Sci. Comput. 2019")

    def init(self, X: Array, agents: Agents) -> TrackingState:
        """The start's columns are normalised too."""
        s = super().init(columns(X), agents)
        H = across(s.X, s.H)
        return replace(s, D=H, H=H)

    def towards(self, X: Array, E: Array, beta: Array, agents: Agents, step: int | None = None) -> Array:
        """PLAM's direction without its part along the columns."""
        return across(X, super().towards(X, E, beta, agents, step))

    def settle(self, X: Array) -> Array:
        """On the product of spheres."""
        return columns(X)


def columns(X: Array) -> Array:
    """Every column divided by its norm."""
    return np.asarray(X / np.linalg.norm(X, axis=-2, keepdims=True))


def across(X: Array, P: Array) -> Array:
    """P - X diag(X^T P), for columns of unit norm."""
    return np.asarray(P - X * np.sum(X * P, axis=-2, keepdims=True))
