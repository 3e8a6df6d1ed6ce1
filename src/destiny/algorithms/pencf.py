"""PenCF (Xiao, Liu & Yuan 2020): an exact penalty model over a ball, along an approximate gradient."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from destiny.algorithms.blocks.about import for_one_agent
from destiny.algorithms.blocks.single_agent import SingleAgentTracking
from destiny.algorithms.blocks.step_sizes import Alternating, StepRule
from destiny.algorithms.blocks.tracking import TrackingState
from destiny.geometry.directions import DIRECTIONS
from destiny.geometry.stiefel import deviation, identity, inner, norm, scalar, sym, transpose
from destiny.protocols import Agents, Array

MEMORY = 50  # a trial must not exceed the largest of so many values: the authors' nonmonotone rule
HALVINGS = 3  # of a step at most
BALL = 1.0001  # radius in units of sqrt(p), the norm of every point of the manifold
FAR, TOO_FAR = 0.1, 0.5  # infeasibility from which `pull_back` acts, and from which its second formula does


@dataclass(frozen=True)
class PenCFState(TrackingState):
    """Every array has the hosted agents on axis 0."""

    recent: Array
    """The penalty function at the last points, ``(agents, 50, 1)``."""


@dataclass(frozen=True)
class PenCF(SingleAgentTracking):
    """X+ = ball(X - eta P),  P = G - X sym(X^T G) + beta X (X^T X - I),  G = grad f(X).

    P approximates the gradient of ``f(X) - 1/2 <Lam(X), X^T X - I> + beta/4 ||X^T X - I||_F^2``, where Lam(X)
    = sym(X^T G); ``ball`` scales X down to ||X||_F <= 1.0001 sqrt(p). A step is halved, three times at most,
    while that function exceeds its largest value at the last 50 points, and X is pulled back towards the
    manifold if it ends far from it. The authors' beta, 1/2 ||G||_F / p at the start, can be below the
    threshold lambda_max(Lam) on OLSR; X then stays near the manifold but not on it, at the edge of the ball
    or pulled back again and again. "auto" is ||G||_2, and ``watch`` raises it where lambda_max(Lam(X))
    exceeds it; a number is taken literally.
    """

    step_size: StepRule = field(default_factory=Alternating)
    kind = "pencf"
    about = for_one_agent("PenCF", "Xiao, Liu & Yuan, Optim. Methods Softw. 2022")

    def init(self, X: Array, agents: Agents) -> PenCFState:
        """As in `PLAM`, with the penalty function at the start as all `MEMORY` values."""
        s = super().init(X, agents)
        now = penalty(s.X, deviation(s.X), agents.gradient(s.X), s.beta, agents)
        return PenCFState(**vars(s), recent=np.repeat(now, MEMORY, axis=1))

    def step(self, s: PenCFState, agents: Agents) -> PenCFState:  # type: ignore[override]  # its own state
        """One value and one gradient for each trial; no round."""
        eta = s.pace.eta
        worst = s.recent.max(axis=1, keepdims=True)
        for trial in range(HALVINGS + 1):
            X = pull_back(ball(s.X - eta * s.D))
            E = deviation(X)
            G = agents.gradient(X)
            now = penalty(X, E, G, s.beta, agents)
            bad = ~(now <= worst)
            if trial == HALVINGS or not bad.any():
                break
            eta = np.where(bad, eta / 2, eta)
        raised = self.raise_penalty(s, X, G)
        H = DIRECTIONS["plam"].assemble(X, E, G, raised.beta)
        after = self.finish_step(raised, X, E, H, H, H - s.H, np.zeros_like(eta))
        recent = np.concatenate([s.recent[:, 1:], now], axis=1)
        # Values under another beta cannot be compared.
        recent = np.where(after.beta != s.beta, penalty(X, E, G, after.beta, agents), recent)
        return PenCFState(**vars(after), recent=recent)

    def raise_penalty(self, s: PenCFState, X: Array, G: Array) -> PenCFState:
        """The state with a beta "auto" of at least the threshold lambda_max(Lam(X)), else twice that.

        `Tracking.adapt_penalty` does not notice a small beta here: in the ball X neither rests nor escapes.
        """
        least = scalar(largest_eigenvalue(sym(transpose(X) @ G)))
        low = (s.beta < least) & (self.beta == "auto") & self.watch
        return replace(s, beta=np.where(low, 2 * least, s.beta), doublings=s.doublings + low)


def penalty(X: Array, E: Array, G: Array, beta: Array, agents: Agents) -> Array:
    """``f(X) - 1/2 <Lam(X), E> + beta/4 ||E||_F^2``, ``(agents, 1, 1)``."""
    multiplier = sym(transpose(X) @ G)
    return scalar(agents.value(X) - inner(multiplier, E) / 2) + beta / 4 * scalar(inner(E, E))


def largest_eigenvalue(M: Array) -> Array:
    """Largest eigenvalue of each symmetric matrix, ``(agents,)``; -inf where an entry is not finite."""
    finite = np.asarray(np.isfinite(M).all(axis=(1, 2)))
    return np.where(finite, np.linalg.eigvalsh(np.where(finite[:, None, None], M, 0.0))[:, -1], -np.inf)


def ball(X: Array) -> Array:
    """The nearest point with ||X||_F <= 1.0001 sqrt(p)."""
    return np.asarray(X / np.maximum(1.0, scalar(norm(X)) / (BALL * np.sqrt(X.shape[-1]))))


def pull_back(X: Array) -> Array:
    """X, or one iteration towards its polar factor where ||E|| > `FAR`, E = X^T X - I.

    It is X (I - E/2), or 2 X (E + 2 I)^-1 where ||E|| > `TOO_FAR`.
    """
    E = deviation(X)
    away = scalar(norm(E))
    if not (away > FAR).any():
        return X
    I = identity(X.shape[-1])
    finite = np.isfinite(away)  # a diverging run is stopped later, with a reason
    whole = np.linalg.inv(np.where(finite, E, 0.0) + 2 * I)
    near = np.where(away > TOO_FAR, X @ (2 * whole), X @ (I - E / 2))
    return np.where(away > FAR, near, X)
