"""Proximal DESTINY: gradient tracking and linearized proximal steps, for f + r with a regularizer r."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Literal

import numpy as np

from destiny.algorithms.accelerated import DestinyAccelerated, MomentumState
from destiny.errors import SettingsError
from destiny.geometry.proximal import apply_prox, cubic_retraction
from destiny.geometry.stiefel import norm, residual_scale, scalar, sym, transpose
from destiny.protocols import About, Agents, Array
from destiny.validation import is_number

PASSES = 3  # of the multiplier a step; with 1 the last digits took 3 times as long on digits, start of seed 0


@dataclass(frozen=True)
class ProxState(MomentumState):
    """The state of `DestinyAccelerated` without penalty: H = nabla f_i(X) - X sym(X^T nabla f_i(X))."""

    multiplier: Array
    """Lambda_i, symmetric, ``(agents, p, p)``: keeps proximal steps in the tangent space."""
    gap: Array
    """||X - Y|| / eta of the last proximal step without momentum, ``(agents, 1, 1)``; 0 at a solution."""


@dataclass(frozen=True)
class DestinyProx(DestinyAccelerated):
    """Minimizes (1/d) sum f_i(X) + r(X) exactly, for a regularizer r that all agents know.

    D tracks the mean of the Riemannian gradients, and every agent takes linearized proximal steps along it
    (those of `SLPG`):

        Lambda+ = Lambda + sym(X^T (Y - X)) / eta  with  Y = prox(X - eta (D + X Lambda)),
        X+ = M A(prox(X + mu (X - X_before) - eta (D + X Lambda+))),  A(Y) = Y (3 I - Y^T Y) / 2,
        D+ = M D + H(X+) - H(X),

    prox being that of eta r. Mixing M, step eta and momentum mu are those of `DestinyAccelerated`, from
    curvatures that the agents measure; momentum restarts where the last move and the proximal step disagree.
    Lambda is p x p and stays with the agent; its line is repeated three times a step. docs/sparse.md has the
    details and measurements.

    Parameters
    ----------
    eta : "auto" or a number, taken literally
        Step size.
    momentum : bool
        False is mu = 0, gradient tracking with plain proximal steps, which takes several times the rounds.
    rounds, spectrum, lowest, gossip
        As in `DestinyAccelerated`.
    """

    beta: float | Literal["auto"] = field(default=0.0, init=False)
    direction: str = field(default="plam", init=False)
    eta: float | Literal["auto"] = "auto"
    momentum: bool = True
    kind = "destiny-prox"
    about = About(
        "Proximal DESTINY",
        "this package; docs/sparse.md",
        sends=2,
        numbers=3,
        rounds="rounds",
        traits=frozenset({"regularized"}),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eta != "auto" and not (is_number(self.eta) and self.eta > 0):
            raise SettingsError(f'eta must be "auto" or a positive number; found {self.eta!r}')
        if not isinstance(self.momentum, bool):
            raise SettingsError(f"momentum must be true or false; found {self.momentum!r}")

    @property
    def opening(self) -> int:
        """Number of rounds before the first step."""
        return 0 if self.eta != "auto" and self.spectrum is not None else self.gossip

    def init(self, X: Array, agents: Agents) -> ProxState:
        """Run the opening rounds; D starts as the mixed H. Raise `ProblemError` for infinite gradients."""
        start = super().init(X, agents)
        p = X.shape[-1]
        s = ProxState(
            **{f.name: getattr(start, f.name) for f in fields(start)},
            multiplier=np.zeros((len(X), p, p)),
            gap=np.zeros_like(start.beta),
        )
        # The largest step there is: start.scale is the norm of D, or of the gradient where D is rounding.
        s, slope = self.slope(s, agents)
        return replace(s, scale=residual_scale(norm(slope), start.scale[:, 0, 0]))

    def move(self, s: ProxState, agents: Agents) -> Array:
        """A(Y) - X, ``(agents, n, p)``."""
        Z = s.X - s.eta * (s.D + s.X @ s.multiplier)
        if self.momentum:
            Z += s.mu * (s.X - s.before)
        return cubic_retraction(apply_prox(agents.regularizer, Z, s.eta)) - s.X

    def slope(self, s: ProxState, agents: Agents) -> tuple[ProxState, Array]:
        """The state with the next multiplier, and (X - Y) / eta of a proximal step Y without momentum."""
        multiplier = s.multiplier
        for _ in range(PASSES):
            Y = apply_prox(agents.regularizer, s.X - s.eta * (s.D + s.X @ multiplier), s.eta)
            slope = np.divide(s.X - Y, s.eta, out=np.zeros_like(Y), where=s.eta > 0)
            multiplier = multiplier - sym(transpose(s.X) @ slope)
        return replace(s, multiplier=multiplier, gap=scalar(norm(slope))), slope

    def set_step_size(self, s: MomentumState, before: Array) -> MomentumState:
        """Set eta as in `DestinyAccelerated`, unless it is given."""
        s = super().set_step_size(s, before)
        return s if self.eta == "auto" else replace(s, eta=np.full_like(s.eta, self.eta))

    def residual(self, s: MomentumState) -> Array:
        """The largest of the gap relative to the start, disagreement and ||X_i^T X_i - I||, ``(agents,)``."""
        assert isinstance(s, ProxState)
        gap = s.gap / np.where(s.scale > 0, s.scale, 1.0)
        largest: Array = np.maximum(gap, np.maximum(s.disagreement, s.violation))[:, 0, 0]
        return largest
