"""CDADT: gradients and constraint tracked together for X^T M X = I, with momentum and nothing to tune."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from destiny.algorithms.accelerated import (
    FIRST_LOOK,
    LOOK,
    REACH,
    DestinyAccelerated,
    MomentumState,
)
from destiny.algorithms.blocks.curvature import curvature_along, eighth_power, secants
from destiny.algorithms.blocks.mixing_estimate import Mixing
from destiny.algorithms.blocks.opening import require_finite
from destiny.errors import SettingsError
from destiny.geometry.generalized import landing_point, penalized_gradient
from destiny.geometry.stiefel import identity, norm, residual_scale, scalar, sym, transpose
from destiny.protocols import About, Agents, Array

PENALTY = 0.3  # beta over ||X^T D||_2; of 0.1 to 2, chosen on seeds 0 to 3 of docs/generalized.md
FORGET = 0.99  # factor of beta in a step where less is asked for; without it some starts keep a stiff penalty
THRESHOLD = 2.0  # beta over the largest eigenvalue of sym(X^T D): below 1.5 feasible points are unstable


@dataclass(frozen=True)
class CDADTState(MomentumState):
    """H_i is nabla f_i at Y_i, D its tracker: mean(D) = mean(H) and mean(E) = mean(mass) at every step.

    Disagreement is in units of ||X_i|| / sqrt(p), which is 1 for M = I.
    """

    E: Array
    """Tracker of M X."""
    mass: Array
    """d M_i X_i."""
    S: Array
    """Direction of the next step, from the trackers."""


@dataclass(frozen=True)
class CDADT(DestinyAccelerated):
    """Minimizes f under X^T M X = I with M = sum M_i, of which each agent knows its own M_i alone.

    E tracks M X and D tracks nabla f. With B = sym(X^T E) and Y = X (3 I - B) / 2,

        S  = D (3 I - B) / 2 - E sym(X^T D) + beta E (B - I),
        X+ = W (X - eta S + mu (X - X_before)),
        E+ = W E + d M_i (X+ - X),   D+ = W D + nabla f_i(Y+) - nabla f_i(Y):

    three matrices in one round. Wang, Xiao & Liu have mu = 0 and a step size to be chosen by hand; momentum,
    steps, penalty and the mixing on slow networks are those of `DestinyAccelerated`, in the geometry of M:
    nothing depends on the units of f and M. docs/generalized.md has the details and measurements.

    Parameters
    ----------
    beta : "auto" or a number, taken literally
        Penalty. "auto" is the largest that the eigenvalues of X^T D have asked for: 0.3 times their size, and
        twice those above zero.
    momentum : bool
        False is mu = 0.
    rounds, spectrum, lowest, gossip
        As in `DestinyAccelerated`.
    """

    direction: str = field(default="expen", init=False)
    momentum: bool = True
    square: ClassVar[str] = "X^T M X"
    kind = "cdadt"
    about = About(
        "CDADT",
        "Wang, Xiao & Liu 2024, arXiv:2409.04998",
        sends=3,
        numbers=3,
        rounds="rounds",
        traits=frozenset({"generalized", "reconstruction"}),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.momentum, bool):
            raise SettingsError(f"momentum must be true or false; found {self.momentum!r}")

    def init(self, X: Array, agents: Agents) -> CDADTState:
        """Run the opening rounds from an X with X^T M X = I. Raise `ProblemError` for infinite gradients."""
        H, mass = agents.gradient(X), agents.mass(X)
        require_finite(agents, H)
        zero = np.zeros((len(X), 1, 1))
        beta = self.penalty(X, H, zero)

        def own_field(Y: Array) -> Array:
            """S of an agent without neighbors."""
            MY = agents.mass(Y)
            gradient = agents.gradient(landing_point(Y, sym(transpose(Y) @ MY)))
            return penalized_gradient(Y, MY, gradient, beta)

        here = V = own_field(X)
        for _ in range(FIRST_LOOK):
            V = curvature_along(own_field, X, here, V, unit_of(X))
        L = scalar(norm(V))
        D, E, shared, lambda_ = self.average_start(agents, H, mass, eighth_power(L))
        beta = self.penalty(X, D, zero)
        S, one = penalized_gradient(X, E, D, beta), np.ones_like(zero)
        violation = scalar(norm(transpose(X) @ E - identity(X.shape[-1])))
        s = CDADTState(
            X=X,
            before=X,
            D=D,
            H=H,
            E=E,
            mass=mass,
            S=S,
            beta=beta,
            eta=zero,
            mu=zero,
            age=zero,
            steepest=V,
            curvature=L,
            shared=shared,
            uphill=zero,
            mixing=Mixing.start(agents.ids, lambda_),
            pace=np.minimum(1.0, self.gap * (1 - lambda_)),
            trust=one,
            ceiling=one,
            drift=zero,
            drifted=one * np.finfo(np.float64).max,
            count=zero,
            violation=violation,
            worst=violation,
            disagreement=zero,
            scale=residual_scale(norm(S), norm(D)),
        )
        return self.set_step_size(s, eighth_power(L))  # type: ignore[return-value]

    def penalty(self, X: Array, D: Array, least: Array) -> Array:
        """The larger of ``least`` and what sym(X^T D) asks for, or the penalty given; ``(agents, 1, 1)``."""
        if self.beta != "auto":
            return np.full_like(least, self.beta)
        product = sym(transpose(X) @ D)
        finite = np.isfinite(product).all(axis=(1, 2), keepdims=True)
        values = np.linalg.eigvalsh(np.where(finite, product, 0.0))
        asked = np.maximum(PENALTY * np.abs(values).max(axis=1), THRESHOLD * values[:, -1])
        return np.maximum(least, scalar(asked))

    def step(self, s: MomentumState, agents: Agents) -> CDADTState:
        """The recursion of the class docstring, in ``rounds`` rounds, and the settings of the next step."""
        assert isinstance(s, CDADTState)
        unit = unit_of(s.X)
        move = -s.eta * s.S
        if self.momentum:
            move += s.mu * (s.X - s.before)
        length = scalar(norm(move)) / unit
        move *= np.where(length > REACH, REACH / np.where(length > 0, length, 1.0), 1.0)
        move += s.X
        filter, mixing = self.filter_of_step(s, agents)
        probes = () if self.spectrum else mixing.probes
        X, D, E, shared, uphill, age, *mixed = filter(
            agents, move, s.D, s.E, s.shared, s.uphill, s.age, *probes
        )
        if probes:
            mixing = mixing.update(agents.ids, *mixed)
        mass = agents.mass(X)
        dM = mass - s.mass
        E += dM
        H = agents.gradient(landing_point(X, sym(transpose(X) @ E)))
        dH = H - s.H
        D += dH
        beta = self.penalty(X, D, FORGET * s.beta)
        S = penalized_gradient(X, E, D, beta)
        # What the agent's own move has changed, without what its neighbors have sent.
        change = S - penalized_gradient(s.X, E - dM, D - dH, beta)
        secant = secants((X - s.X) / unit, change / unit)[0]
        violation = scalar(norm(transpose(X) @ E - identity(X.shape[-1])))
        before = self.stiffness(s)
        moved = replace(
            s,
            X=X,
            before=s.X,
            D=D,
            H=H,
            E=E,
            mass=mass,
            S=S,
            beta=beta,
            shared=shared,
            mixing=mixing,
            pace=np.minimum(1.0, self.gap * (1 - mixing.lambda_)),
            count=s.count + 1,
            violation=violation,
            worst=np.maximum(s.worst, violation),
            disagreement=scalar(norm(move - X)) / unit,
        )
        moved = self.look(moved, secant, agents)
        updated = self.update_momentum(moved, X - s.X, S, uphill, age)
        return self.backoff(self.set_step_size(updated, before))  # type: ignore[return-value]

    def look(self, s: CDADTState, secant: Array, agents: Agents) -> CDADTState:
        """Raise L_i to the latest secant; every `LOOK` steps re-estimate it with one power iteration."""
        if s.count.flat[0] % LOOK:
            return replace(s, curvature=np.maximum(s.curvature, secant))

        def field(Y: Array) -> Array:
            """S where the agent moves to Y and the others stay."""
            E = s.E + (agents.mass(Y) - s.mass)
            gradient = agents.gradient(landing_point(Y, sym(transpose(Y) @ E)))
            return penalized_gradient(Y, E, s.D + (gradient - s.H), s.beta)

        V = curvature_along(field, s.X, s.S, s.steepest, unit_of(s.X))
        return replace(s, steepest=V, curvature=scalar(norm(V)))

    def tracked(self, s: MomentumState) -> tuple[Array, Array]:
        """Both trackers and what they track, side by side."""
        assert isinstance(s, CDADTState)
        return np.concatenate([s.D, s.E], axis=2), np.concatenate([s.H, s.mass], axis=2)

    def residual(self, s: MomentumState) -> Array:
        """The largest of ||S_i|| relative to the start, disagreement and ||X_i^T E_i - I||, ``(agents,)``."""
        assert isinstance(s, CDADTState)
        slope = norm(s.S) / np.where(s.scale > 0, s.scale, 1.0)[:, 0, 0]
        largest: Array = np.maximum(slope, np.maximum(s.disagreement, s.violation)[:, 0, 0])
        return largest


def unit_of(X: Array) -> Array:
    """||X_i||_F / sqrt(p), ``(agents, 1, 1)``: lengths in these units do not depend on those of M."""
    size = scalar(norm(X)) / np.sqrt(X.shape[-1])
    return np.where(size > 0, size, 1.0)
