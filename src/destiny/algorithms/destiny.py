"""DESTINY (Wang & Liu 2022, Algorithm 1): gradient tracking on H_i, one round of communication per step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from destiny.errors import SettingsError, is_number, is_whole
from destiny.gossip import survey
from destiny.lagrangian import POINTS, assemble
from destiny.steps import BB, Move, Pace, StepRule, scalar
from destiny.stiefel import deviation, identity, norm
from destiny.types import Agents, Array

SAFE = 1 / 6  # the region R of Lemma 2.1: ||X^T X - I||_F <= 1/6
PATIENCE = 10  # steps an agent watches forces cancel before it doubles beta; BB's own swings are shorter
ESCAPE = 3  # steps it watches X move away outside R: there the rest of h falls faster than beta's part grows
RESCUES = 4  # doublings of an escaping agent: if 16 times beta does not hold X, it is the network, not beta
CANCELLED = 0.1  # forces cancel when what is left of them is below a tenth of the penalty's pull


@dataclass(frozen=True)
class DestinyState:
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


@dataclass(frozen=True)
class Destiny:
    """DESTINY with the paper's settings or, by default, scale-free ones.

    Parameters
    ----------
    beta : "auto" or a number, taken literally
        Penalty. "auto" is the spectral norm of the network's mean gradient at the start.
    step_size : StepRule
        `BB` (safeguarded, default), `PlainBB` (Section 4.2 as printed) or `Constant` (Algorithm 1).
    point : "cubic" or "dissolve"
        Where grad f is evaluated: X X^T X (paper) or X (3 I - X^T X) / 2.
    watch : bool
        Double beta where agents agree and the tracker is at rest but X^T X != I: the penalty is then below
        its threshold 3/2 lambda_max(sym(X^T grad f)), and the run would settle at an infeasible point. With
        beta "auto" also where X moves away outside the region R.
    gossip : int
        Rounds at the start in which the agents learn what "auto" means; none if nothing is "auto".
    lambda_ : None or a number in [0, 1)
        How well the network mixes, if known; otherwise `BB` has it estimated in the same rounds.
    """

    beta: float | Literal["auto"] = "auto"
    step_size: StepRule = field(default_factory=BB)
    point: Literal["cubic", "dissolve"] = "cubic"
    watch: bool = True
    gossip: int = 20
    lambda_: float | None = None
    kind = "destiny"

    def __post_init__(self) -> None:
        if self.beta != "auto" and not (is_number(self.beta) and self.beta >= 0):
            raise SettingsError(f'beta must be "auto" or a number >= 0; found {self.beta!r}')
        if not hasattr(self.step_size, "update") or isinstance(self.step_size, type):
            raise SettingsError(f"step_size must be a rule such as Constant(0.1); found {self.step_size!r}")
        if self.point not in POINTS:
            raise SettingsError(f"point must be one of {sorted(POINTS)}; found {self.point!r}")
        if not is_whole(self.gossip) or self.gossip < 5:  # two windows to compare, one to average: see survey
            raise SettingsError(f"gossip must be a whole number of at least 5 rounds; found {self.gossip!r}")
        if self.lambda_ is not None and not (is_number(self.lambda_) and 0 <= self.lambda_ < 1):
            raise SettingsError(f"lambda must be in [0, 1); found {self.lambda_!r}")

    def init(self, X: Array, agents: Agents) -> DestinyState:
        """All agents start from one X; what is "auto" is learnt by gossip, and D starts as the mixed H."""
        E = deviation(X)
        slope = agents.gradient(self.at(X, E))
        H = D = assemble(X, E, slope, 0.0)
        one = np.ones((len(X), 1, 1))
        lambda_ = one * (self.lambda_ or 0.0)
        if self.opening:
            (slope, D), felt = survey(agents, slope, D, rounds=self.opening)
            lambda_ = felt if self.lambda_ is None else lambda_
        size = scalar(np.linalg.norm(slope, 2, axis=(1, 2)))
        beta = size if self.beta == "auto" else one * self.beta
        # The penalty's part of H is local: added to H and D alike it keeps mean(D) = mean(H).
        pull = X @ (beta * E)
        zero = np.zeros_like(one)
        violation = scalar(norm(E))
        return DestinyState(
            X=X, D=D + pull, H=H + pull, beta=beta, pace=self.pace(size, lambda_),
            violation=violation, worst=violation, stalled=zero, escaping=zero, doublings=zero,
            disagreement=zero, scale=scalar(norm(D)),
        )  # fmt: skip

    @property
    def opening(self) -> int:
        """Rounds before the first step, in which the agents learn what they were not told."""
        rule = self.step_size
        asks = self.beta == "auto" or rule.eta is None or (rule.network and self.lambda_ is None)
        return self.gossip if asks else 0

    def pace(self, size: Array, lambda_: Array) -> Pace:
        """First step 0.05 / ||gradient||, small against any curvature, and the bound on later ones."""
        rule = self.step_size
        # An agent that has seen no gradient at all waits for its neighbours to move it.
        auto = np.divide(0.05, size, out=np.zeros_like(size), where=size > 0)
        eta = auto if rule.eta is None else np.full_like(size, rule.eta)
        # Where one round averages at once (lambda = 0, or one agent alone) the network sets no bound.
        bound = np.divide(np.sqrt(1 - lambda_), lambda_, out=np.full_like(size, np.inf), where=lambda_ > 0)
        return Pace.start(eta, getattr(rule, "cap", 1.0) * bound)

    def step(self, s: DestinyState, agents: Agents) -> DestinyState:
        """X+ = W (X - eta D), D+ = W D + H(X+) - H(X): one round."""
        V = s.X - s.pace.eta * s.D
        X, WD = agents.mix(V, s.D)
        E = deviation(X)
        H = assemble(X, E, agents.gradient(self.at(X, E)), s.beta)
        dH = H - s.H
        D = WD
        D += dH
        V -= X
        disagreement = scalar(norm(V))
        violation = scalar(norm(E))
        length = scalar(norm(D))
        pace = self.step_size.update(s.pace, Move(X - s.X, D - s.D, dH, disagreement, length))
        after = DestinyState(
            X, D, H, s.beta, pace, violation, np.maximum(s.worst, violation),
            s.stalled, s.escaping, s.doublings, disagreement, s.scale,
        )  # fmt: skip
        return self.watched(after, s.violation, length) if self.watch else after

    def at(self, X: Array, E: Array) -> Array:
        """The evaluation point, X X^T X or X (3 I - X^T X) / 2, from E = X^T X - I."""
        I = identity(X.shape[-1])
        return X @ (I + E if self.point == "cubic" else I - E / 2)

    def watched(self, s: DestinyState, before: Array, length: Array) -> DestinyState:
        """Double beta where X rests off the manifold, its pull cancelled by everything else, or escapes."""
        stuck = s.disagreement < CANCELLED * s.violation
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

    def residual(self, s: DestinyState) -> Array:
        """How far an agent is from done as far as it can tell, relative to the start, ``(agents,)``."""
        tracker = norm(s.D) / np.where(s.scale > 0, s.scale, 1.0)[:, 0, 0]
        return np.maximum(tracker, np.maximum(s.disagreement, s.violation)[:, 0, 0])

    def remarks(self, s: DestinyState, ids: Array) -> list[str]:
        """Sentences about the run that its numbers alone do not tell."""
        told = []
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
