"""Gradient tracking along any direction: every agent follows its estimate D_i of the mean direction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from destiny.algorithms.blocks.mixing_estimate import Mixing
from destiny.algorithms.blocks.scheme import Scheme
from destiny.algorithms.blocks.step_sizes import Move, Pace, network_limit, scalar
from destiny.errors import SettingsError
from destiny.geometry.stiefel import deviation, norm
from destiny.protocols import Agents, Array

SAFE = 1 / 6  # the region R of Lemma 2.1: ||X^T X - I||_F <= 1/6
PATIENCE = 10  # steps an agent watches forces cancel before it doubles beta; BB's own swings are shorter
ESCAPE = 3  # steps it watches X move away outside R: there the rest of h falls faster than beta's part grows
RESCUES = 4  # doublings of an escaping agent: if 16 times beta does not hold X, it is the network, not beta
SLOW = 0.95  # lambda from which on a network is named as what was in the way: 360 rounds to average to 1e-8
CANCELLED = 0.1  # forces cancel when what is left of them is below a tenth of the penalty's pull


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
    """What DESTINY, DIGing and ATC tracking share; they differ in what is mixed when.

    mean(D) = mean(H) at every step, so agents need not take the same step to be exact.

    Parameters
    ----------
    watch : bool
        Double beta where agents agree and the tracker is at rest but X^T X != I: the penalty is then below
        its threshold 3/2 lambda_max(sym(X^T grad f)), and the run would settle at an infeasible point. With
        beta "auto" also where X moves away outside the region R.
    beta, step_size, direction, gossip, lambda_
        As in `Scheme`.
    """

    watch: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.watch, bool):
            raise SettingsError(f"watch must be true or false; found {self.watch!r}")

    def init(self, X: Array, agents: Agents) -> TrackingState:
        """All agents start from one X; what is "auto" is learnt by gossip, and D starts as the mixed H."""
        o = self.open(X, agents)
        violation = scalar(norm(o.E))
        zero = np.zeros_like(violation)
        return TrackingState(
            X=X, D=o.D, H=o.H, beta=o.beta, pace=o.pace,
            violation=violation, worst=violation, stalled=zero, escaping=zero, doublings=zero,
            disagreement=zero, scale=scalar(norm(o.D)), mixing=Mixing.start(agents.ids, o.lambda_),
        )  # fmt: skip

    def step(self, s: TrackingState, agents: Agents) -> TrackingState:
        """X+ = W (X - eta D), D+ = W D + H(X+) - H(X): one round, DESTINY's form."""
        V = s.X - s.pace.eta * s.D
        if self.estimates:
            X, WD, *mixed = agents.mix(V, s.D, *s.mixing.riders)
            s = self.adapt(s, s.mixing.update(agents.ids, *mixed))
        else:
            X, WD = agents.mix(V, s.D)
        E = deviation(X)
        H = self.towards(X, E, s.beta, agents)
        dH = H - s.H
        D = WD
        D += dH
        V -= X
        return self.arrive(s, X, E, D, H, dH, scalar(norm(V)))

    @property
    def estimates(self) -> bool:
        """Whether agents go on estimating how well the network mixes."""
        return self.lambda_ is None and self.step_size.network and self.opening > 0

    def adapt(self, s: TrackingState, mixing: Mixing) -> TrackingState:
        """The state with a new estimate of lambda, and the bound on the step that follows from it."""
        if mixing.lambda_ is s.mixing.lambda_:
            return replace(s, mixing=mixing)
        limit = network_limit(self.step_size, mixing.lambda_, self.averaged)
        known = np.isfinite(limit) & np.isfinite(s.pace.limit) & (s.pace.limit > 0)
        bound = np.where(
            known, s.pace.bound * np.divide(limit, s.pace.limit, where=known, out=np.ones_like(limit)), limit
        )
        return replace(s, mixing=mixing, pace=replace(s.pace, limit=limit, bound=bound))

    def arrive(
        self, s: TrackingState, X: Array, E: Array, D: Array, H: Array, dH: Array, disagreement: Array
    ) -> TrackingState:
        """The state after a move from s: next step size, penalty watched."""
        violation = scalar(norm(E))
        length = scalar(norm(D))
        pace = self.step_size.update(s.pace, Move(X - s.X, D - s.D, dH, disagreement, length))
        after = TrackingState(
            X, D, H, s.beta, pace, violation, np.maximum(s.worst, violation),
            s.stalled, s.escaping, s.doublings, disagreement, s.scale, s.mixing,
        )  # fmt: skip
        return self.watched(after, s.violation, length) if self.watch else after

    def watched(self, s: TrackingState, before: Array, length: Array) -> TrackingState:
        """Double beta where X rests off the manifold, its pull cancelled by everything else, or escapes."""
        # Where links come and go an agent may hear nobody in a round: its disagreement then tells nothing.
        disagreement = np.maximum(s.disagreement, s.pace.slow) if self.estimates else s.disagreement
        stuck = disagreement < CANCELLED * s.violation
        # A beta given as a number is taken literally as long as the run moves; one at rest is a wrong answer.
        leaving = (s.violation > (SAFE if self.beta == "auto" else np.inf)) & (s.violation > before)
        stuck &= length < CANCELLED * s.beta * s.violation
        if not (stuck.any() or leaving.any() or s.stalled.any() or s.escaping.any()):
            return s  # as nearly always
        stalled = np.where(stuck, s.stalled + 1, 0.0)
        escaping = np.where(leaving, s.escaping + 1, 0.0)
        double = (stalled >= PATIENCE) | ((escaping >= ESCAPE) & (s.doublings < RESCUES))
        if not double.any():
            return replace(s, stalled=stalled, escaping=escaping)
        beta = np.where(double, 2 * s.beta, s.beta)
        pull = s.X @ ((beta - s.beta) * deviation(s.X))
        return replace(
            s, beta=beta, H=s.H + pull, D=s.D + pull,
            pace=self.step_size.steeper(s.pace, 2 * (beta - s.beta)),
            stalled=np.where(double, 0.0, stalled), escaping=np.where(double, 0.0, escaping),
            doublings=s.doublings + double,
        )  # fmt: skip

    def residual(self, s: TrackingState) -> Array:
        """How far an agent is from done as far as it can tell, relative to the start, ``(agents,)``."""
        return residual(s)

    def remarks(self, s: TrackingState, ids: Array, converged: bool) -> list[str]:
        """What the numbers of a run do not tell; and what stood in the way if it did not converge."""
        told = [] if converged else slow_network(float(s.mixing.lambda_.max()))
        if (count := int(s.doublings.sum())) > 0:
            told.append(
                f"beta was too small to hold X^T X = I: {int((s.doublings > 0).sum())} of {len(ids)} agents "
                f"doubled it, {count} times in all (largest beta now {s.beta.max():.3g})"
            )
        if (worst := float(s.worst.max())) > SAFE:
            told.append(
                f"agent {ids[int(s.worst.argmax())]} was outside the region ||X^T X - I|| <= 1/6, where the "
                f"method is known to be safe, for a while (largest value {worst:.2g})"
            )
        return told


def slow_network(lambda_: float) -> list[str]:
    """What to say of a network that mixes slowly, if a run on it did not converge."""
    if lambda_ < SLOW:
        return []
    rounds = int(np.log(1e-8) / np.log(lambda_))
    return [
        f"the network mixes slowly, lambda {lambda_:.4f}: {rounds} rounds to average to 1e-8, and a run "
        "takes several times that; more links help"
    ]


def residual(s: Any) -> Array:
    """Tracker relative to the start, disagreement, distance from the manifold: the largest, ``(agents,)``."""
    tracker = norm(s.D) / np.where(s.scale > 0, s.scale, 1.0)[:, 0, 0]
    largest: Array = np.maximum(tracker, np.maximum(s.disagreement, s.violation)[:, 0, 0])
    return largest
