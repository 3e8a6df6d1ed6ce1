"""PCAL (Gao, Liu & Yuan 2019): PLAM with columns of unit norm."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from destiny.algorithms.blocks.about import for_one_agent
from destiny.algorithms.blocks.single_agent import SingleAgentTracking
from destiny.algorithms.blocks.step_sizes import Alternating, StepRule
from destiny.algorithms.blocks.tracking import TrackingState
from destiny.protocols import Agents, Array


@dataclass(frozen=True)
class PCAL(SingleAgentTracking):
    """X+ = normalised(X - eta (P - X diag(X^T P))), P = G - X sym(X^T G) + beta X (X^T X - I), G = grad f(X).

    ``normalised`` divides every column by its norm; X diag(X^T P) is the part of P along the columns. As the
    iterates are bounded, it is less sensitive to a small beta than `PLAM`. The authors' first step, clipping
    and beta depend on the scale of f; those of this package do not.
    """

    step_size: StepRule = field(default_factory=Alternating)
    kind = "pcal"
    about = for_one_agent("PCAL", "Gao, Liu & Yuan, SIAM J. Sci. Comput. 2019")

    def init(self, X: Array, agents: Agents) -> TrackingState:
        """As in `PLAM`, from X with normalised columns."""
        s = super().init(normalise_columns(X), agents)
        H = remove_along_columns(s.X, s.H)
        return replace(s, D=H, H=H)

    def direction_at(self, X: Array, E: Array, beta: Array, agents: Agents, step: int | None = None) -> Array:
        """The direction of `PLAM` without its part along the columns."""
        return remove_along_columns(X, super().direction_at(X, E, beta, agents, step))

    def project(self, X: Array) -> Array:
        """Divide every column by its norm."""
        return normalise_columns(X)


def normalise_columns(X: Array) -> Array:
    """Every column divided by its norm."""
    return np.asarray(X / np.linalg.norm(X, axis=-2, keepdims=True))


def remove_along_columns(X: Array, P: Array) -> Array:
    """P - X diag(X^T P), for columns of unit norm."""
    return np.asarray(P - X * np.sum(X * P, axis=-2, keepdims=True))
