"""Base of the penalty methods for one agent: gradient tracking without neighbors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from destiny.algorithms.blocks.tracking import Tracking, TrackingState
from destiny.geometry.stiefel import deviation
from destiny.protocols import Agents, Array


@dataclass(frozen=True)
class SingleAgentTracking(Tracking):
    """X+ = X - eta H(X): gradient tracking with one agent, so that D = H and nothing is sent.

    Parameters
    ----------
    beta, step_size, watch
        As in `Tracking`; "auto" is the spectral norm of the gradient at the start.
    """

    direction: str = field(default="plam", init=False)
    gossip: int = field(default=20, init=False)  # not used: one agent has no opening rounds
    lambda_: float | None = field(default=0.0, init=False)

    @property
    def opening(self) -> int:
        """0: one agent measures everything itself."""
        return 0

    def step(self, s: TrackingState, agents: Agents) -> TrackingState:
        """One gradient, no round."""
        X = self.project(s.X - self.step_length(s) * s.D)
        E = deviation(X)
        H = self.direction_at(X, E, s.beta, agents)
        dH = H - s.H
        return self.finish_step(s, X, E, H, H, dH, np.zeros_like(s.violation))

    def step_length(self, s: TrackingState) -> Array:
        """eta, ``(agents, 1, 1)``; a subclass may shorten it."""
        return s.pace.eta

    def remarks(self, s: TrackingState, ids: NDArray[np.intp], converged: bool) -> list[str]:
        """The notes of `Tracking` except that on the region R, which is DESTINY's."""
        return super().remarks(replace(s, worst=np.zeros_like(s.worst)), ids, converged)

    def project(self, X: Array) -> Array:
        """X itself; a subclass may project it."""
        return X
