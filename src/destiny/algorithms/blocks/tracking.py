"""Gradient tracking along any direction: every agent follows D_i, its estimate of the mean direction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny.algorithms.blocks.mixing_estimate import Mixing
from destiny.algorithms.blocks.scheme import Scheme
from destiny.algorithms.blocks.step_sizes import Move, Pace
from destiny.errors import SettingsError
from destiny.geometry.stiefel import SAFE_REGION, deviation, inner, norm, scalar
from destiny.protocols import Agents, Array

PATIENCE = 10  # steps at rest off the manifold before beta is doubled; oscillations of BB steps are shorter
ESCAPE = 3  # steps away from the manifold outside R before beta is raised: there H without penalty dominates
RESCUES = 4  # times that an escaping agent raises beta: what none of them holds is the fault of the network
SLOW = 0.95  # lambda from which on a note names the network: 360 rounds to average to 1e-8
CANCELLED = 0.1  # at rest: ||D|| is below a tenth of the penalty's part of it


@dataclass(frozen=True)
class TrackingState:
    """Every array has the hosted agents on axis 0."""

    X: Array
    D: Array
    H: Array
    beta: Array
    pace: Pace
    violation: Array
    worst: Array
    stalled: Array
    escaping: Array
    doublings: Array
    disagreement: Array
    scale: Array
    mixing: Mixing


@dataclass(frozen=True)
class Tracking(Scheme):
    """Base of DESTINY, DIGing and ATC tracking, which mix the same quantities in different orders.

    mean(D) = mean(H) at every step, so that the limit is exact even if agents take different steps.

    Parameters
    ----------
    watch : bool
        Raise beta where agents agree and the tracker vanishes but X^T X != I: the penalty is then below its
        threshold 3/2 lambda_max(sym(X^T grad f)), and the run would end at an infeasible point. With beta
        "auto", raise it also where X moves away from the manifold outside the region R.
    beta, step_size, direction, gossip, lambda_
        As in `Scheme`.
    """

    watch: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.watch, bool):
            raise SettingsError(f"watch must be true or false; found {self.watch!r}")

    def init(self, X: Array, agents: Agents) -> TrackingState:
        """Run the opening rounds; D starts as the mixed H."""
        o = self.open(X, agents)
        violation = scalar(norm(o.E))
        zero = np.zeros_like(violation)
        return TrackingState(
            X=X,
            D=o.D,
            H=o.H,
            beta=o.beta,
            pace=o.pace,
            violation=violation,
            worst=violation,
            stalled=zero,
            escaping=zero,
            doublings=zero,
            disagreement=zero,
            scale=scalar(norm(o.D)),
            mixing=Mixing.start(agents.ids, o.lambda_),
        )

    def step(self, s: TrackingState, agents: Agents) -> TrackingState:
        """X+ = W (X - eta D), D+ = W D + H(X+) - H(X), in one round."""
        V = s.X - s.pace.eta * s.D
        if self.estimates_lambda:
            X, WD, *mixed = agents.mix(V, s.D, *s.mixing.probes)
            s = self.adapt(s, s.mixing.update(agents.ids, *mixed))
        else:
            X, WD = agents.mix(V, s.D)
        E = deviation(X)
        H = self.direction_at(X, E, s.beta, agents)
        dH = H - s.H
        D = WD
        D += dH
        V -= X
        return self.finish_step(s, X, E, D, H, dH, scalar(norm(V)))

    @property
    def estimates_lambda(self) -> bool:
        """Whether agents estimate lambda during the run, and send probes along."""
        return self.lambda_ is None and self.step_size.needs_lambda and self.opening > 0

    def adapt(self, s: TrackingState, mixing: Mixing) -> TrackingState:
        """The state with a new estimate of lambda; the bound on the step changes as its limit does."""
        if mixing.lambda_ is s.mixing.lambda_:
            return replace(s, mixing=mixing)
        limit = self.step_size.network_limit(mixing.lambda_, self.averaged)
        finite = np.isfinite(limit) & np.isfinite(s.pace.limit) & (s.pace.limit > 0)
        ratio = np.divide(limit, s.pace.limit, where=finite, out=np.ones_like(limit))
        bound = np.where(finite, s.pace.bound * ratio, limit)
        return replace(s, mixing=mixing, pace=replace(s.pace, limit=limit, bound=bound))

    def finish_step(
        self, s: TrackingState, X: Array, E: Array, D: Array, H: Array, dH: Array, disagreement: Array
    ) -> TrackingState:
        """The state after a step from ``s`` to X, with the next step size and, if ``watch``, penalty."""
        violation = scalar(norm(E))
        length = scalar(norm(D))
        pace = self.step_size.update(s.pace, Move(X - s.X, D - s.D, dH, disagreement, length))
        after = TrackingState(
            X=X,
            D=D,
            H=H,
            beta=s.beta,
            pace=pace,
            violation=violation,
            worst=np.maximum(s.worst, violation),
            stalled=s.stalled,
            escaping=s.escaping,
            doublings=s.doublings,
            disagreement=disagreement,
            scale=s.scale,
            mixing=s.mixing,
        )
        return self.adapt_penalty(after, s.violation, length) if self.watch else after

    def adapt_penalty(self, s: TrackingState, before: Array, length: Array) -> TrackingState:
        """Raise beta where X rests off the manifold, or escapes from it; ``before`` is the last violation.

        It is doubled at least, and becomes twice as large as it must be for the tracker to point back to the
        manifold (`outward`). H and D change by the same matrix, so mean(D) = mean(H) holds.
        """
        # Without a link in this round the disagreement is 0 and says nothing: take its average as well.
        disagreement = np.maximum(s.disagreement, s.pace.slow) if self.estimates_lambda else s.disagreement
        stuck = disagreement < CANCELLED * s.violation
        # A beta given as a number stays as long as the run moves; a run at rest would end at a wrong answer.
        leaving = (s.violation > (SAFE_REGION if self.beta == "auto" else np.inf)) & (s.violation > before)
        stuck &= length < CANCELLED * s.beta * s.violation
        if not (stuck.any() or leaving.any() or s.stalled.any() or s.escaping.any()):
            return s
        stalled = np.where(stuck, s.stalled + 1, 0.0)
        escaping = np.where(leaving, s.escaping + 1, 0.0)
        double = (stalled >= PATIENCE) | ((escaping >= ESCAPE) & (s.doublings < RESCUES))
        if not double.any():
            return replace(s, stalled=stalled, escaping=escaping)
        E = deviation(s.X)
        beta = np.where(double, np.maximum(2 * s.beta, s.beta + 2 * outward(s.D, s.X @ E)), s.beta)
        pull = s.X @ ((beta - s.beta) * E)
        return replace(
            s,
            beta=beta,
            H=s.H + pull,
            D=s.D + pull,
            pace=self.step_size.add_curvature(s.pace, 2 * (beta - s.beta)),
            stalled=np.where(double, 0.0, stalled),
            escaping=np.where(double, 0.0, escaping),
            doublings=s.doublings + double,
        )

    def tracked(self, s: TrackingState) -> tuple[Array, Array]:
        """The trackers D and the directions H."""
        return s.D, s.H

    def residual(self, s: TrackingState) -> Array:
        """Residual that an agent can compute by itself, ``(agents,)``; see `residual`."""
        return residual(s)

    def remarks(self, s: TrackingState, ids: NDArray[np.intp], converged: bool) -> list[str]:
        """Sentences on doublings of beta, the region R and, if the run did not converge, a slow network."""
        notes = [] if converged else slow_network_notes(float(s.mixing.lambda_.max()))
        if (count := int(s.doublings.sum())) > 0:
            notes.append(
                f"beta was too small to hold X^T X = I: {int((s.doublings > 0).sum())} of {len(ids)} agents "
                f"raised it, {count} times in all (largest beta now {s.beta.max():.3g})"
            )
        if (worst := float(s.worst.max())) > SAFE_REGION:
            notes.append(
                f"agent {ids[int(s.worst.argmax())]} was outside the region ||X^T X - I|| <= 1/6, where the "
                f"method is known to be safe, for a while (largest value {worst:.2g})"
            )
        return notes


def outward(D: Array, XE: Array) -> Array:
    """By how much beta is too small for a step along -D to reduce ||X^T X - I||, ``(agents, 1, 1)``.

    By the identity of docs/theory.md <H, X E> has the sign of beta - 3/2 Lambda. Where f curves upwards
    across the manifold, Lambda grows with E, so that no multiple of the beta at the start is enough.
    """
    square = inner(XE, XE)
    return scalar(np.divide(-inner(D, XE), square, out=np.zeros_like(square), where=square > 0))


def slow_network_notes(lambda_: float) -> list[str]:
    """A list with a sentence on a network with this lambda; empty if lambda is below `SLOW`."""
    if lambda_ < SLOW:
        return []
    rounds = int(np.log(1e-8) / np.log(lambda_))
    return [
        f"the network mixes slowly, lambda {lambda_:.4f}: {rounds} rounds to average to 1e-8, and a run "
        "takes several times that; more links help"
    ]


def residual(s: Any) -> Array:
    """The largest of ||D_i|| relative to the start, disagreement and ||X_i^T X_i - I||, ``(agents,)``."""
    tracker = norm(s.D) / np.where(s.scale > 0, s.scale, 1.0)[:, 0, 0]
    largest: Array = np.maximum(tracker, np.maximum(s.disagreement, s.violation)[:, 0, 0])
    return largest
