"""What the penalty methods for one agent share: gradient tracking where nobody else is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from destiny.algorithms.blocks.tracking import Tracking, TrackingState
from destiny.geometry.stiefel import deviation
from destiny.protocols import Agents, Array


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

    def remarks(self, s: TrackingState, ids: Array, converged: bool) -> list[str]:
        """What `Tracking` says, but for the region R, which is DESTINY's."""
        return super().remarks(replace(s, worst=np.zeros_like(s.worst)), ids, converged)

    def settle(self, X: Array) -> Array:
        """Where a step ends: here, where it led to."""
        return X
