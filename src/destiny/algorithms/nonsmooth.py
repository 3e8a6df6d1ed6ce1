"""Methods for f + r where r has kinks, by smoothing or subgradients: THANOS and DRSM."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from destiny.algorithms.blocks.tracking import TrackingState
from destiny.algorithms.destiny import Destiny
from destiny.algorithms.riemannian import DRSGD, DescentState
from destiny.errors import SettingsError
from destiny.geometry.stiefel import deviation, tangent
from destiny.protocols import About, Agents, Array, Regularizer, forward
from destiny.validation import is_number


@dataclass(frozen=True)
class ThanosState(TrackingState):
    """The state of gradient tracking, H with the gradient of the smoothed r, and the smoothing."""

    sigma: Array
    """Smoothing of r, ``(agents, 1, 1)``."""


@forward
class SmoothedAgents(Agents):
    """Agents with the gradients of f_i plus the Moreau envelope of r."""

    def __init__(self, inner: Agents, sigma: Array) -> None:
        self.inner, self.sigma = inner, sigma

    def gradient(self, X: Array, step: int | None = None) -> Array:
        return self.inner.gradient(X, step) + envelope_gradient(self.inner.regularizer, X, self.sigma)

    def hessian(self) -> None:
        """None: the envelope is not quadratic."""


@dataclass(frozen=True)
class Thanos(Destiny):
    """DESTINY with nabla f_i(X) + (X - prox(X)) / sigma for nabla f_i(X), prox being that of sigma r.

    This is the gradient of f_i plus the Moreau envelope of r, which is smooth and differs from r by at most
    a multiple of sigma. Inexact: the bias shrinks with sigma, while steps become as short. Reconstructed from
    the abstract: sigma is constant.

    Parameters
    ----------
    sigma : float
        Smoothing relative to 1 / ||mean gradient||_2 at the start.
    beta, step_size, direction, watch, gossip, lambda_
        As in `Destiny`.
    """

    sigma: float = 0.1
    kind = "thanos"
    about = About(
        "THANOS",
        "Wang & Liu 2023, arXiv:2303.15882",
        sends=2,
        traits=frozenset({"inexact", "reconstruction", "regularized"}),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_number(self.sigma) or self.sigma <= 0:
            raise SettingsError(f"sigma must be a positive number; found {self.sigma!r}")

    def init(self, X: Array, agents: Agents) -> ThanosState:
        """Run the opening rounds on f; the gradient of the smoothed r is then added to H and D alike."""
        s = super().init(X, agents)
        sigma = np.divide(self.sigma, s.beta, out=np.full_like(s.beta, self.sigma), where=s.beta > 0)
        parts = {f.name: getattr(s, f.name) for f in fields(s)}
        if agents.regularizer is not None:
            H = self.direction_at(X, deviation(X), s.beta, smoothed(agents, sigma))
            parts |= {"D": s.D + (H - s.H), "H": H}
        return ThanosState(**parts, sigma=sigma)

    def step(self, s: TrackingState, agents: Agents) -> TrackingState:
        """A step of DESTINY on the smoothed objective."""
        assert isinstance(s, ThanosState)
        return super().step(s, agents if agents.regularizer is None else smoothed(agents, s.sigma))

    def finish_step(self, s: TrackingState, *args: Any) -> ThanosState:
        """As in DESTINY, with the same smoothing."""
        assert isinstance(s, ThanosState)
        after = super().finish_step(s, *args)
        return ThanosState(**{f.name: getattr(after, f.name) for f in fields(TrackingState)}, sigma=s.sigma)


def smoothed(agents: Agents, sigma: Array) -> Agents:
    """The agents with a smoothed r."""
    return SmoothedAgents(agents, sigma)  # type: ignore[abstract]  # `forward` adds the rest


def envelope_gradient(regularizer: Regularizer | None, X: Array, sigma: Array) -> Array:
    """(X - prox(X)) / sigma, the gradient of the Moreau envelope of r; 0 without r."""
    return np.zeros_like(X) if regularizer is None else (X - regularizer.prox(X, sigma)) / sigma


NEAR = 1e-6  # of a step: how far from X the point may be whose subgradient is taken


@dataclass(frozen=True)
class DRSM(DRSGD):
    """X+ = R_X(alpha P_X(W^t X) - eta P_X(grad f(X) + g)),  g a subgradient of r.

    `DRSGD` with a subgradient, (X - Y) / t in the subdifferential of r at Y = prox of t r at X, where t is a
    millionth of the step. Inexact: subgradients do not vanish at kinks, so that steps must, and entries come
    close to zero without ever being zero.

    Parameters
    ----------
    alpha, step_size, rounds, mixing, lambda_, retraction, gossip
        As in `DRSGD`.
    """

    kind = "drsm"
    about = About(
        "DRSM",
        "Wang, Hu, Chen, Deng & So 2023",
        sends=1,
        rounds="rounds",
        traits=frozenset({"inexact", "reconstruction", "regularized", "stochastic"}),
    )

    def init(self, X: Array, agents: Agents) -> DescentState:
        """Run the opening rounds on f; a subgradient of r is then added."""
        s = super().init(X, agents)
        if agents.regularizer is None:
            return s
        return replace(s, H=s.H + tangent(X, envelope_gradient(agents.regularizer, X, NEAR * s.pace.eta)))

    def step(self, s: DescentState, agents: Agents) -> DescentState:
        """The recursion of the class docstring, in ``rounds`` rounds."""
        if agents.regularizer is None:
            return super().step(s, agents)
        return super().step(s, smoothed(agents, NEAR * s.pace.eta))
