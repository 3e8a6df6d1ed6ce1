"""Feasible methods of one agent: Wen and Yin's curvilinear search, multiplier correction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from destiny.algorithms.blocks.about import for_one_agent
from destiny.algorithms.blocks.curvature import largest_curvature, secants
from destiny.algorithms.blocks.step_sizes import FIRST, Move, alternating
from destiny.errors import SettingsError
from destiny.geometry.stiefel import identity, inner, norm, polar, scalar, transpose, violation
from destiny.protocols import Agents, AlgorithmBase, Array
from destiny.validation import is_number, is_whole

DRIFT = 1e-13  # infeasibility at which X is orthonormalized again, as the authors do
ROUNDING = 1e-14  # of |f|: a difference below it says nothing about ascent or descent


@dataclass(frozen=True)
class WenYinState:
    """Every array has the hosted agents on axis 0; scalars ``(agents, 1, 1)``."""

    X: Array
    G: Array
    """grad f(X)."""
    D: Array
    """G - X G^T X."""
    tau: Array
    """First trial of the next step."""
    C: Array
    """Zhang & Hager's weighted average of the values so far, the reference of the line search."""
    Q: Array
    """Weight of C."""
    count: Array
    scale: Array
    """||D|| at the start."""


@dataclass(frozen=True)
class WenYin(AlgorithmBase):
    """X+ = X(tau),  X(tau) = (I + tau/2 A)^-1 (I - tau/2 A) X,  A = G X^T - X G^T,  G = grad f(X).

    The curve stays on the manifold and starts along -(G - X G^T X). tau starts from alternating
    Barzilai-Borwein steps and shrinks until f(X(tau)) <= C - rho tau ||G - X G^T X||^2, where C averages
    earlier values (Zhang & Hager); the last trial is accepted in any case. The authors' first tau (1e-3)
    depends on the scale of f, this one does not. The search tolerates rounding errors of f: otherwise it
    would stop at a gradient of about 1e-8.

    Parameters
    ----------
    rho : float in (0, 1)
        Required decrease, relative to that of the linear model.
    gamma : float in [0, 1]
        Weight of earlier values in C; 0 makes the search monotone.
    shrink : float in (0, 1)
        Factor of tau after a rejected trial.
    trials : int
        Largest number of trials in a search.
    """

    rho: float = 1e-4
    gamma: float = 0.85
    shrink: float = 0.2
    trials: int = 5
    kind = "wen-yin"
    about = for_one_agent("Wen-Yin", "Wen & Yin, Math. Program. 2013")

    def __post_init__(self) -> None:
        for name in ("rho", "shrink"):
            value = getattr(self, name)
            if not is_number(value) or not 0 < value < 1:
                raise SettingsError(f"{name} must be in (0, 1); found {value!r}")
        if not is_number(self.gamma) or not 0 <= self.gamma <= 1:
            raise SettingsError(f"gamma must be in [0, 1]; found {self.gamma!r}")
        if not is_whole(self.trials) or self.trials < 1:
            raise SettingsError(f"trials must be a whole number of at least 1; found {self.trials!r}")

    def init(self, X: Array, agents: Agents) -> WenYinState:
        """Start from the nearest point of the manifold."""
        X = polar(X)
        G = agents.gradient(X)
        D = downhill(X, G)
        size = scalar(np.linalg.norm(G, 2, axis=(1, 2)))
        tau = np.divide(FIRST, size, out=np.zeros_like(size), where=size > 0)
        return WenYinState(
            X, G, D, tau, scalar(agents.value(X)), np.ones_like(tau), np.zeros_like(tau), scalar(norm(D))
        )

    def step(self, s: WenYinState, agents: Agents) -> WenYinState:
        """One search along the curve: one value for each trial and one gradient; no round."""
        return WenYinState(**self.next_state(s, *self.search(s, agents), agents))

    def search(self, s: WenYinState, agents: Agents) -> tuple[Array, Array, Array]:
        """X(tau) at which f is small enough, or the last one tried; f there, and tau."""
        tau = s.tau
        slope = self.rho * scalar(inner(s.D, s.D))
        for trial in range(self.trials):
            X = self.trial(s, tau)
            f = scalar(agents.value(X))
            bad = ~(f <= s.C - tau * slope + ROUNDING * np.abs(s.C))
            if trial == self.trials - 1 or not bad.any():
                break
            tau = np.where(bad, self.shrink * tau, tau)
        return X, f, tau

    def trial(self, s: WenYinState, tau: Array) -> Array:
        """X(tau)."""
        return curve(s.X, s.G, tau)

    def next_state(self, s: WenYinState, X: Array, f: Array, tau: Array, agents: Agents) -> dict[str, Array]:
        """The fields of the state after a step of length tau to X, with the first tau of the next."""
        X = np.where(scalar(violation(X)) > DRIFT, polar(X), X)
        G = agents.gradient(X)
        D = downhill(X, G)
        Q = self.gamma * s.Q + 1
        C = (self.gamma * s.Q * s.C + f) / Q
        J = D - s.D
        tau = alternating(Move(X - s.X, J, J, np.zeros_like(tau), scalar(norm(D))), s.count + 1, tau)
        return {"X": X, "G": G, "D": D, "tau": tau, "C": C, "Q": Q, "count": s.count + 1, "scale": s.scale}

    def residual(self, s: WenYinState) -> Array:
        """||G - X G^T X|| relative to the start, ``(agents,)``."""
        return norm(s.D) / np.where(s.scale > 0, s.scale, 1.0)[:, 0, 0]


def downhill(X: Array, G: Array) -> Array:
    """G - X G^T X, minus the derivative of the curve at tau = 0; zero at the stationary points."""
    return G - X @ (transpose(G) @ X)


def curve(X: Array, G: Array, tau: Array) -> Array:
    """X(tau), by linear systems of size 2p, or n if that is not larger."""
    n, p = X.shape[-2:]
    G = tau / 2 * G  # first, so that the entries of the systems do not depend on the scale of f
    if 2 * p >= n:
        A = G @ transpose(X) - X @ transpose(G)
        return np.asarray(np.linalg.solve(identity(n) + A, X - A @ X), np.float64)
    U = np.concatenate([G, X], axis=-1)  # A = U V^T
    V = transpose(np.concatenate([X, -G], axis=-1))
    return np.asarray(X - 2 * U @ np.linalg.solve(identity(2 * p) + V @ U, V @ X))


UPDATES = ("reflection", "projection")


@dataclass(frozen=True)
class CorrectionState(WenYinState):
    """That of `WenYin`; scalars ``(agents, 1, 1)``."""

    curvature: Array
    """Largest change of G - X G^T X relative to that of X so far."""


@dataclass(frozen=True)
class MultiplierCorrection(WenYin):
    """X+ = Y polar(rho I - Y^T grad f(Y)),  Y a feasible step from X,  V = X - tau grad f(X).

    Y = -X + 2 V (V^T V)^-1 V^T X reflects X at the span of V (gradient reflection), or Y = polar(V) projects
    V (gradient projection). At a stationary point the multiplier X^T grad f(X) is symmetric; the rotation
    makes that of Y more so, and leaves the span alone. On PCA there is nothing to rotate. A reflection cannot
    move a square X, which the rotation alone then moves, slowly.

    tau is found as in `WenYin`, by Barzilai-Borwein steps and a search on f. rho is the largest curvature
    measured so far, or ||grad f(Y)||_2 if that is larger: the authors' depends on the scale of f.

    Parameters
    ----------
    update : "reflection" or "projection"
        How Y is made.
    rho, gamma, shrink, trials
        As in `WenYin`; ``rho`` is that of its search.
    """

    update: Literal["reflection", "projection"] = "reflection"
    kind = "multiplier-correction"
    about = for_one_agent(
        "Multiplier correction", "Gao, Liu, Chen & Yuan 2018; Wang, Gao & Liu 2021", "reconstruction"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.update not in UPDATES:
            raise SettingsError(f"update must be reflection or projection; found {self.update!r}")

    def init(self, X: Array, agents: Agents) -> CorrectionState:
        """As `WenYin`; the curvature is measured by power iterations."""
        s = super().init(X, agents)
        L = largest_curvature(lambda Y: downhill(Y, agents.gradient(Y)), s.X, s.G)
        return CorrectionState(**vars(s), curvature=L)

    def step(self, s: WenYinState, agents: Agents) -> CorrectionState:
        """A search for Y, then the rotation: one value for each trial and two gradients; no round."""
        assert isinstance(s, CorrectionState)
        Y, f, tau = self.search(s, agents)
        X = self.correct(Y, agents.gradient(Y), s.curvature)
        parts = self.next_state(s, X, f, tau, agents)
        L = np.maximum(s.curvature, secants(parts["X"] - s.X, parts["D"] - s.D)[0])
        return CorrectionState(**parts, curvature=L)

    def trial(self, s: WenYinState, tau: Array) -> Array:
        """Y(tau)."""
        V = s.X - tau * s.G
        return polar(V) if self.update == "projection" else reflect(s.X, V)

    def correct(self, Y: Array, G: Array, curvature: Array) -> Array:
        """Y rotated by the polar factor of rho I - Y^T G."""
        rho = np.maximum(curvature, scalar(np.linalg.norm(G, 2, axis=(1, 2))))
        M = rho * identity(Y.shape[-1]) - transpose(Y) @ G
        return np.where(rho > 0, Y @ polar(np.where(rho > 0, M, identity(Y.shape[-1]))), Y)


def reflect(X: Array, V: Array) -> Array:
    """X reflected at the span of V, -X + 2 V (V^T V)^-1 V^T X, ``(agents, n, p)``."""
    Q = np.linalg.qr(V)[0]
    return np.asarray(2 * Q @ (transpose(Q) @ X) - X)
