"""PLAM (Gao, Liu & Yuan 2019), and what it shares with the other penalty methods for one agent."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from destiny.algorithms.about import About
from destiny.algorithms.tracking import Tracking, TrackingState
from destiny.stiefel import deviation
from destiny.types import Agents, Array


@dataclass(frozen=True)
class Alone(Tracking):
    """X+ = X - eta H(X): gradient tracking where nobody else is, so D = H and nothing is sent.

    Parameters
    ----------
    beta, step_size, watch
        As in `Tracking`; "auto" is the spectral norm of the gradient at the start.
    """

    direction: str = field(default="plam", init=False)
    gossip: int = field(default=20, init=False)  # not used: there is nobody to ask
    lambda_: float | None = field(default=0.0, init=False)

    @property
    def opening(self) -> int:
        """Rounds before the first step: what one agent finds at its start is all there is to know."""
        return 0

    def step(self, s: TrackingState, agents: Agents) -> TrackingState:
        """No round."""
        X = self.settle(s.X - self.stride(s) * s.D)
        E = deviation(X)
        H = self.towards(X, E, s.beta, agents)
        dH = H - s.H
        return self.arrive(s, X, E, H, H, dH, np.zeros_like(s.violation))

    def stride(self, s: TrackingState) -> Array:
        """How far along -D."""
        return s.pace.eta

    def remarks(self, s: TrackingState, ids: Array) -> list[str]:
        """What `Tracking` says, but for the region R, which is DESTINY's."""
        return super().remarks(replace(s, worst=np.zeros_like(s.worst)), ids)

    def settle(self, X: Array) -> Array:
        """Where a step ends: here, where it led to."""
        return X


@dataclass(frozen=True)
class PLAM(Alone):
    """X+ = X - eta (G - X sym(X^T G) + beta X (X^T X - I)),  G = grad f(X).

    Gradient descent on the augmented Lagrangian with its multiplier in closed form. The manifold attracts
    where beta > lambda_max(sym(X^T G)): no condition for PCA and SDL, but one for OLSR, where ||G||_2 is just
    the threshold if the start is next to the answer. ``watch`` doubles a beta "auto" that does not hold X;
    given as a number below the threshold, it lets X grow without end.
    """

    kind = "plam"
    about = About(
        "PLAM", "Gao, Liu & Yuan, SIAM J. Sci. Comput. 2019", sends=0, rounds=0, needs="nothing", alone=True
    )
