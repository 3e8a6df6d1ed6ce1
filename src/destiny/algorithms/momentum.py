"""Accelerated DESTINY: gradient tracking with momentum inside the mixed quantity and nothing to tune."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.gossip import Filter, centred, chebyshev, fitting, single, survey
from destiny.algorithms.blocks.mixing_estimate import Mixing
from destiny.algorithms.blocks.opening import check_gossip, eighth, eighth_root, require_finite
from destiny.algorithms.blocks.step_sizes import bend, scalar, secants
from destiny.algorithms.blocks.tracking import residual, slow_network
from destiny.errors import SettingsError, is_number, is_whole
from destiny.geometry.directions import ANY_F, DIRECTIONS
from destiny.geometry.stiefel import deviation, inner, norm
from destiny.protocols import Agents, Array, ChangingTopology, Topology

LOOK = 20  # steps between two looks at the curvature, one more gradient each: 5 % of all gradients
FIRST_LOOK = 8  # power iterations before the first step
GAP = 2.0  # with one round a step
GAPS = 1.5  # with several: then nearly all eigenvalues are as large as the largest; and where W changes
WINDOW = 50  # steps over which an agent compares its disagreement with that before
GROWTH = 2.0  # of the disagreement from one window to the next: a sign of trouble
GROWTH_CHANGING = 5.0  # where links come and go it swings by itself
RECOVER = 1.02  # how fast trust may exceed again what it was lost at, per window
LARGE = 0.01  # disagreement from which on not shrinking is a sign of trouble, on a manifold of size 1
CAUTIOUS = 0.3  # trust below this is worth a word where a run did not converge
STIFF = 0.25  # of the curvature: less beta would not hold X near the manifold
REACH = 0.5  # no step moves X further


@dataclass(frozen=True)
class MomentumState:
    """Every array has the hosted agents on axis 0; mean(D) = mean(H) at every step."""

    X: Array
    before: Array
    """X one step earlier."""
    D: Array
    H: Array
    beta: Array
    eta: Array
    mu: Array
    age: Array
    """Steps since momentum was last dropped."""
    steepest: Array
    """Direction in which H_i changes most, as far as found."""
    curvature: Array
    """L_i, the rate of that change."""
    shared: Array
    """Tracker of the network's mean of L^8."""
    uphill: Array
    """Cosine between the last move and the tracker."""
    mixing: Mixing
    """How well the network mixes, where that is estimated."""
    pace: Array
    """min(1, gap (1 - lambda)): what the network allows."""
    trust: Array
    """Share of the step taken: 1 unless neighbours drifted apart."""
    ceiling: Array
    """What trust may grow to again."""
    drift: Array
    """Disagreement summed over this window so far."""
    drifted: Array
    """The same over the window before."""
    count: Array
    violation: Array
    worst: Array
    disagreement: Array
    scale: Array


@dataclass(frozen=True)
class DestinyMomentum:
    """X+ = M(X - eta D + mu (X - X_before)),  D+ = M D + H(X+) - H(X).

    M is W itself on good networks, and a few rounds of it on poor ones. The step is
    eta = min(1, 2 (1 - lambda)) / L with L measured by the agents; momentum grows as t / (t + 3) and starts
    anew when it points uphill. Three numbers ride along in each message. docs/acceleration.md has it all.

    Parameters
    ----------
    beta : "auto" or a number, taken literally
        Penalty. "auto" starts as the spectral norm of the network's mean gradient and follows the curvature.
    direction : "landing", "h", "expen" or "plam"
        What is tracked. "h" is the paper's; "landing" is better conditioned.
    rounds : "auto" or int
        Rounds per step; "auto" is one up to lambda = 0.8, then as few as make the network a good one.
    spectrum : (low, high), optional
        Where the eigenvalues of W lie, the 1 aside. A network that stays tells it by itself; on others, and
        where nobody knows it, agents use one round a step and estimate lambda all the time.
    lowest : float, optional
        Smallest eigenvalue of W in any round, where there is no ``spectrum``; a changing network tells it.
    gossip : int
        Rounds at the start in which the agents learn beta and the scale of everything.
    """

    beta: float | Literal["auto"] = "auto"
    direction: str = "landing"
    rounds: int | Literal["auto"] = "auto"
    spectrum: tuple[float, float] | None = None
    lowest: float | None = None
    gossip: int = 20
    kind = "destiny-momentum"
    about = About(
        "Accelerated DESTINY", "this package; docs/acceleration.md", sends=2, numbers=3, rounds="rounds"
    )

    def __post_init__(self) -> None:
        if self.beta != "auto" and not (is_number(self.beta) and self.beta >= 0):
            raise SettingsError(f'beta must be "auto" or a number >= 0; found {self.beta!r}')
        if self.direction not in ANY_F:
            raise SettingsError(f"direction must be one of {', '.join(ANY_F)}; found {self.direction!r}")
        if self.rounds != "auto" and not (is_whole(self.rounds) and self.rounds >= 1):
            raise SettingsError(f'rounds must be "auto" or a whole number >= 1; found {self.rounds!r}')
        check_gossip(self.gossip)
        if self.lowest is not None and not (is_number(self.lowest) and -1 <= self.lowest <= 1):
            raise SettingsError(f"lowest must be an eigenvalue of W, in [-1, 1]; found {self.lowest!r}")
        if self.spectrum is None:
            return
        ends = tuple(self.spectrum) if isinstance(self.spectrum, (tuple, list)) else ()
        if len(ends) != 2 or not all(map(is_number, ends)) or not -1 < ends[0] <= ends[1] < 1:
            raise SettingsError(f"spectrum must be two numbers -1 < low <= high < 1; found {self.spectrum!r}")
        object.__setattr__(self, "spectrum", (float(ends[0]), float(ends[1])))

    def on(self, network: Topology) -> DestinyMomentum:
        """The same for this network: what it tells of itself, and the rounds a step takes on it."""
        if isinstance(network, ChangingTopology):
            return self._on_changing(network)
        spectrum = self.spectrum or getattr(network, "spectrum", None)
        if spectrum is None and self.rounds not in ("auto", 1):
            raise SettingsError(
                "several rounds a step need the spectrum of W, which this network does not tell: "
                'give spectrum, or rounds = "auto"'
            )
        known = replace(self, spectrum=spectrum)
        return replace(known, rounds=known.filter.rounds)

    def _on_changing(self, network: ChangingTopology) -> DestinyMomentum:
        for name, value in (
            ("spectrum", self.spectrum),
            ("rounds", None if self.rounds in ("auto", 1) else self.rounds),
        ):
            if value is not None:
                raise SettingsError(
                    f"{name} must be left out on a network that changes from round to round, as no one "
                    f"spectrum describes it; found {value!r}: agents estimate how well it mixes by themselves"
                )
        return replace(self, lowest=network.lowest if self.lowest is None else self.lowest, rounds=1)

    @property
    def opening(self) -> int:
        """Rounds before the first step."""
        return 0 if self.beta != "auto" and self.spectrum is not None else self.gossip

    @property
    def filter(self) -> Filter:
        """How the agents average in a step."""
        if self.spectrum is None:
            return single() if self.lowest is None else single(self.lowest)
        return fitting(*self.spectrum, rounds=None if self.rounds == "auto" else self.rounds)

    @property
    def gap(self) -> float:
        """Steps stay below this times (1 - lambda) / L, which heterogeneous agents can follow."""
        return GAP if self.spectrum and self.filter.rounds == 1 else GAPS

    def field(self, X: Array, beta: float | Array, agents: Agents) -> Array:
        """The direction at X."""
        return DIRECTIONS[self.direction](agents.gradient, X, beta)

    def init(self, X: Array, agents: Agents) -> MomentumState:
        """All agents start from one X; what is "auto" is learnt by gossip, and D starts as the mixed H."""
        direction = DIRECTIONS[self.direction]
        E = deviation(X)
        slope = agents.gradient(direction.point(X, E))
        require_finite(agents, slope)
        H = direction.assemble(X, E, slope, 0.0)
        V = H
        for _ in range(FIRST_LOOK):
            V = bend(lambda Y: self.field(Y, 0.0, agents), X, H, V)
        L = scalar(norm(V))
        mean, D, shared, lambda_ = self.learn(agents, slope, H, eighth(L))
        size = scalar(np.linalg.norm(mean, 2, axis=(1, 2)))
        beta = size if self.beta == "auto" else np.full_like(L, self.beta)
        pull = X @ (beta * E)  # local: added to H and D alike it keeps mean(D) = mean(H)
        violation, zero, one = scalar(norm(E)), np.zeros_like(L), np.ones_like(L)
        s = MomentumState(
            X=X, before=X, D=D + pull, H=H + pull, beta=beta, eta=zero, mu=zero, age=zero, steepest=V,
            curvature=L, shared=shared, uphill=zero, mixing=Mixing.start(agents.ids, lambda_),
            pace=np.minimum(1.0, self.gap * (1 - lambda_)),
            trust=one, ceiling=one, drift=zero, drifted=one * np.finfo(np.float64).max, count=zero,
            violation=violation, worst=violation, disagreement=zero,
            scale=reference(norm(D + pull), norm(mean)),
        )  # fmt: skip
        return self.paced(self.curved(s, L), eighth(L))

    def learn(self, agents: Agents, *arrays: Array) -> tuple[Array, ...]:
        """The arrays averaged in the opening rounds, and what a step will leave of a deviation."""
        if self.opening == 0:
            return *arrays, np.full((len(arrays[0]), 1, 1), self.filter.contraction)
        if self.spectrum is None:
            (*mixed,), felt = survey(agents, *arrays, rounds=self.gossip)
            shift = self.filter.shift
            return *mixed, (felt - shift) / (1 - shift)
        shift, lambda_ = centred(*self.spectrum)
        averaged = chebyshev(agents, *arrays, rounds=self.gossip, lambda_=lambda_, shift=shift)
        return *averaged, np.full((len(arrays[0]), 1, 1), self.filter.contraction)

    def step(self, s: MomentumState, agents: Agents) -> MomentumState:
        """One step, `rounds` rounds."""
        move = s.mu * (s.X - s.before)
        move -= s.eta * s.D
        length = scalar(norm(move))
        if (length > REACH).any():
            move *= np.where(length > REACH, REACH / np.where(length > 0, length, 1.0), 1.0)
        move += s.X
        mixing = s.mixing
        riders = () if self.spectrum else mixing.riders
        X, D, shared, uphill, age, *mixed = self.filter(agents, move, s.D, s.shared, s.uphill, s.age, *riders)
        if riders:
            mixing = mixing.update(agents.ids, *mixed)
        move -= X
        E = deviation(X)
        direction = DIRECTIONS[self.direction]
        H = direction.assemble(X, E, agents.gradient(direction.point(X, E)), s.beta)
        dH = H - s.H
        D += dH
        S = X - s.X
        violation = scalar(norm(E))
        before = self.stiffness(s)
        s = replace(
            s, X=X, before=s.X, D=D, H=H, shared=shared, mixing=mixing,
            pace=np.minimum(1.0, self.gap * (1 - mixing.lambda_)), count=s.count + 1, violation=violation,
            worst=np.maximum(s.worst, violation), disagreement=scalar(norm(move)),
        )  # fmt: skip
        s = self.looked(s, secants(S, dH)[0], agents)
        return self.guarded(self.paced(self.driven(s, S, uphill, age), before))

    def looked(self, s: MomentumState, secant: Array, agents: Agents) -> MomentumState:
        """How curved it is here: the largest secant since the last look, or a fresh look."""
        if s.count.flat[0] % LOOK:
            return self.curved(s, np.maximum(s.curvature, secant))
        V = bend(lambda Y: self.field(Y, s.beta, agents), s.X, s.H, s.steepest)
        return self.curved(replace(s, steepest=V), scalar(norm(V)))

    def curved(self, s: MomentumState, L: Array) -> MomentumState:
        """The curvature found, that of the penalty at least; and a penalty that can hold X against it."""
        beta = np.maximum(s.beta, STIFF * L) if self.beta == "auto" else s.beta
        L = np.maximum(L, 2 * beta)
        if (beta == s.beta).all():
            return replace(s, curvature=L)
        pull = s.X @ ((beta - s.beta) * deviation(s.X))
        return replace(s, curvature=L, beta=beta, H=s.H + pull, D=s.D + pull)

    def driven(self, s: MomentumState, S: Array, neighbours: Array, age: Array) -> MomentumState:
        """More momentum with every step, none where it points uphill here and about level around."""
        product = scalar(norm(s.D) * norm(S))
        uphill = np.divide(scalar(inner(s.D, S)), product, out=np.zeros_like(product), where=product > 0)
        # One agent dropping its momentum takes 1/d off the network's; the larger that is, the more it costs.
        drop = (uphill > 0) & (neighbours > -0.4 * (1 - s.mu))
        age = np.where(drop, 0.0, np.maximum(age, 0.0) + 1)
        return replace(s, uphill=uphill, age=age, mu=np.minimum(age / (age + 3), 0.999))

    def paced(self, s: MomentumState, before: Array) -> MomentumState:
        """The step for the largest curvature anyone around has; the mean of L^8 is ruled by it."""
        now = self.stiffness(s)
        shared = s.shared + (now - before)
        L = eighth_root(np.maximum(shared, now))
        # Where nobody has seen any curvature there is nothing to step by.
        eta = np.divide(s.trust * s.pace if self.spectrum else s.pace, L, out=np.zeros_like(L), where=L > 0)
        return replace(s, shared=shared, eta=eta)

    def stiffness(self, s: MomentumState) -> Array:
        """What limits everybody's step: L^8, where W changes that of L / trust."""
        return eighth(s.curvature if self.spectrum else s.curvature / s.trust)

    def guarded(self, s: MomentumState) -> MomentumState:
        """Shorter steps where an agent and its neighbours drift apart; longer again when they do not."""
        drift = s.drift + s.disagreement
        if s.count.flat[0] % WINDOW:
            return replace(s, drift=drift)
        growth = GROWTH if self.spectrum else GROWTH_CHANGING
        apart = drift > np.where(drift > WINDOW * LARGE, 1.0, growth) * s.drifted
        # Where it went wrong is remembered for a while: trust would only grow to where it was lost.
        ceiling = np.where(apart, 0.8 * s.trust, np.minimum(1.0, RECOVER * s.ceiling))
        trust = np.maximum(0.05, np.where(apart, 0.6 * s.trust, np.minimum(1.3 * s.trust, ceiling)))
        age = np.where(apart, 0.0, s.age)
        return replace(
            s, trust=trust, ceiling=ceiling, drift=np.zeros_like(drift), drifted=drift,
            age=age, mu=np.where(apart, 0.0, s.mu),
        )  # fmt: skip

    def remarks(self, s: MomentumState, ids: Array, converged: bool) -> list[str]:  # noqa: ARG002
        """What the numbers of a run do not tell; and what stood in the way if it did not converge."""
        largest = float(s.curvature.max())
        # Not s.shared > 0: after long without a link it is what rounding left of far larger numbers.
        if largest > 0 and not (np.isfinite(s.shared).all() and (eighth(s.curvature) > 0).any()):
            return [f"curvatures of {largest:.0e} have no eighth power that is a number: scale the data"]
        if converged:
            return []
        notes = slow_network(self.spectrum[1] if self.spectrum else float(s.mixing.lambda_.max()))
        if (trust := float(s.trust.min())) < CAUTIOUS:
            notes.append(
                f"agents drifted apart and cut their steps to {100 * trust:.0f} %: they see very different "
                "things, or the network mixes worse than it seemed; more links help"
            )
        return notes

    def residual(self, s: MomentumState) -> Array:
        """How far an agent is from done as far as it can tell, relative to the start, ``(agents,)``."""
        return residual(s)


def reference(start: Array, slope: Array) -> Array:
    """What a tracker is relative to: its size at the start, or the slope's where that is stationary."""
    return scalar(np.where(start > 1e-6 * slope, start, slope))
