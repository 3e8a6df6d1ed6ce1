"""PCAL (Gao, Liu & Yuan 2019): PLAM with columns of unit norm; and the alternating Barzilai-Borwein steps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from destiny.algorithms.about import About
from destiny.algorithms.plam import Alone
from destiny.algorithms.tracking import TrackingState
from destiny.steps import FIRST, Move, Pace, StepRule, Unit, positive, scalar, secants, within
from destiny.stiefel import inner
from destiny.types import Agents, Array

SLANT = 1e-5  # cosine of the angle between S and J below which it is taken for noise: condition 4e10


def alternating(move: Move, count: Array, before: Array) -> Array:
    """|<S, J>| / <J, J> in odd steps and <S, S> / |<S, J>| in even ones; ``before`` where X did not move.

    The authors clip the step to fixed numbers; here, scale-free, it is the cosine between S and J.
    """
    secant, sound, _ = secants(move)  # ||J|| / ||S||, as J = dH for one agent
    with np.errstate(divide="ignore", invalid="ignore"):
        slant = scalar(np.abs(inner(move.S, move.J)) / np.sqrt(inner(move.S, move.S) * inner(move.J, move.J)))
        slant = np.clip(slant, SLANT, 1.0)
        eta = np.where(count % 2 == 1, slant, 1 / slant) / secant
    return np.where(sound & np.isfinite(eta), eta, before)


@dataclass(frozen=True)
class Alternating:
    """Alternating Barzilai-Borwein steps, for one agent.

    No step moves X by more than ``reach``, as in `BB`: the long step alone would leave the manifold's
    neighbourhood where the curvature along it is small or negative.
    """

    eta: float | None = None
    reach: float = 0.25
    kind = "bb-alternating"
    network = False
    share = FIRST
    unit: ClassVar[Unit] = "gradient"

    def __post_init__(self) -> None:
        positive("eta", self.eta, optional=True)
        positive("reach", self.reach)

    def update(self, pace: Pace, move: Move) -> Pace:
        """The other formula's turn."""
        count = pace.count + 1
        eta = within(alternating(move, count, pace.eta), self.reach, move.length)
        return replace(pace, eta=eta, count=count)

    def steeper(self, pace: Pace, by: Array) -> Pace:
        """Not beyond what the part just added allows by itself."""
        return replace(pace, eta=within(pace.eta, 1.0, by))


@dataclass(frozen=True)
class PCAL(Alone):
    """X+ = columns(X - eta (P - X diag(X^T P))),  P = G - X sym(X^T G) + beta X (X^T X - I),  G = grad f(X).

    ``columns`` divides every column by its norm, and diag(X^T P) takes what goes along a column out of the
    step. Bounded iterates make it less sensitive to a small beta than `PLAM`. The authors' first step, the
    clipping of later ones and their beta depend on the scale of f; those of this package do not.
    """

    step_size: StepRule = field(default_factory=Alternating)
    kind = "pcal"
    about = About(
        "PCAL", "Gao, Liu & Yuan, SIAM J. Sci. Comput. 2019", sends=0, rounds=0, needs="nothing", alone=True
    )

    def init(self, X: Array, agents: Agents) -> TrackingState:
        """The start's columns are normalised too."""
        s = super().init(columns(X), agents)
        H = across(s.X, s.H)
        return replace(s, D=H, H=H)

    def towards(self, X: Array, E: Array, beta: Array, agents: Agents) -> Array:
        """PLAM's direction without its part along the columns."""
        return across(X, super().towards(X, E, beta, agents))

    def settle(self, X: Array) -> Array:
        """On the product of spheres."""
        return columns(X)


def columns(X: Array) -> Array:
    """Every column divided by its norm."""
    return np.asarray(X / np.linalg.norm(X, axis=-2, keepdims=True))


def across(X: Array, P: Array) -> Array:
    """P - X diag(X^T P), for columns of unit norm."""
    return np.asarray(P - X * np.sum(X * P, axis=-2, keepdims=True))
