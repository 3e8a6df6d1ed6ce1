"""Accelerated DESTINY: gradient tracking with momentum inside the mixed quantity and nothing to tune."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.changing_filter import AnyFilter, ExtrapolatingFilter, filter_for_changing
from destiny.algorithms.blocks.curvature import curvature_along, eighth_power, eighth_root, secants
from destiny.algorithms.blocks.gossip import (
    Filter,
    average_and_estimate_lambda,
    center_spectrum,
    chebyshev,
    filter_for,
    single_round_filter,
)
from destiny.algorithms.blocks.mixing_estimate import Mixing
from destiny.algorithms.blocks.opening import check_gossip, require_finite
from destiny.algorithms.blocks.tracking import residual, slow_network_notes
from destiny.errors import ProblemError, SettingsError
from destiny.geometry.directions import ANY_F, DIRECTIONS
from destiny.geometry.stiefel import SAFE_REGION, deviation, inner, norm, residual_scale, scalar
from destiny.protocols import Agents, AlgorithmBase, Array, TopologyBase
from destiny.validation import did_you_mean, is_number, is_whole

# Numbers without another reason were chosen on seeds 0 to 3 of the instances in docs/acceleration.md.
LOOK = 20  # steps between two power iterations on the curvature, one gradient each: 5 % of all gradients
FIRST_LOOK = 8  # power iterations before the first step
GAP = 2.0  # c of eta <= c (1 - lambda) / L with one round a step; twice as much was unstable at lambda 0.79
GAPS = 1.5  # c with several rounds, where most eigenvalues of M are near the largest, and where W changes
RESTART = 0.4  # momentum restarts if the neighbors' mean cosine exceeds -RESTART (1 - mu)
MOMENTUM = 3  # mu = t / (t + MOMENTUM): Nesterov's sequence
MU_MOST = 0.999  # largest mu
WINDOW = 50  # steps over which an agent sums its disagreement to compare it with the window before
GROWTH = 2.0  # growth of that sum from one window to the next at which an agent backs off
GROWTH_CHANGING = 5.0  # the same on changing networks, where it oscillates by itself
LARGE = 0.01  # mean disagreement above which a sum that does not shrink is reason enough to back off
CUT, CUT_LEAST = 0.6, 0.05  # trust is multiplied by the first when an agent backs off, down to the second
REGROW = 1.3  # growth of trust per window without trouble, up to the ceiling
CEILING = 0.8  # the ceiling when an agent backs off, relative to the trust before
RECOVER = 1.02  # growth of the ceiling per window without trouble
CAUTIOUS = 0.3  # trust below which a run that did not converge has a note
WHOLE = 1e-3  # lambda below which one round averages over all agents: no link could be added
STIFFNESS = 0.25  # beta >= STIFFNESS L: gradients of SDL grow a thousandfold (docs/acceleration.md, 7)
RATES = (1e-40, 1e38)  # of a gradient: their eighth powers are numbers
REACH = 0.5  # largest move of X in one step, Frobenius norm


@dataclass(frozen=True)
class MomentumState:
    """Every array has the hosted agents on axis 0; mean(D) = mean(H) at every step."""

    X: Array
    before: Array
    """X of the step before."""
    D: Array
    H: Array
    beta: Array
    eta: Array
    mu: Array
    age: Array
    """t, the steps since momentum was last reset, averaged with the neighbors'."""
    steepest: Array
    """Estimate of the direction in which H_i changes most."""
    curvature: Array
    """L_i, the rate of that change."""
    shared: Array
    """Tracker of the network's mean of L^8."""
    uphill: Array
    """Cosine between the last move and the tracker."""
    mixing: Mixing
    """Estimate of lambda, where the spectrum is not given."""
    pace: Array
    """min(1, gap (1 - lambda)): eta L on this network."""
    trust: Array
    """Factor of the step: 1 unless neighbors drifted apart."""
    ceiling: Array
    """What trust may grow to."""
    drift: Array
    """Disagreement summed over this window so far."""
    drifted: Array
    """The same sum over the window before."""
    count: Array
    violation: Array
    worst: Array
    disagreement: Array
    scale: Array


@dataclass(frozen=True)
class DestinyAccelerated(AlgorithmBase):
    """X+ = M(X - eta D + mu (X - X_before)),  D+ = M D + H(X+) - H(X).

    M is W itself on networks that mix well, and a polynomial of W on others. The step is
    eta = min(1, 2 (1 - lambda)) / L, where the agents measure L. Momentum grows as mu = t / (t + 3), and t
    restarts at 0 when the last move points uphill. Each message has three numbers beside the two matrices.
    docs/acceleration.md has the details and measurements.

    Parameters
    ----------
    beta : "auto" or a number, taken literally
        Penalty. "auto" starts as the spectral norm of the network's mean gradient and follows the curvature.
    direction : "landing", "h", "expen" or "plam"
        The direction to track. "h" is the paper's; "landing" is better conditioned.
    rounds : "auto" or int
        Rounds per step; "auto" is one up to lambda = 0.8, and beyond the fewest that contract by 0.7. On a
        network that changes they are found by trial before the run; a number other than 1 is refused there.
    spectrum : (low, high), optional
        Interval of the eigenvalues of W other than 1. By default it is that of the network if it is fixed.
        Without it agents estimate lambda all the time.
    lowest : float, optional
        Smallest eigenvalue of W in any round, used without a ``spectrum``; by default that of the network.
    gossip : int
        Opening rounds, which estimate beta, L and lambda.
    """

    beta: float | Literal["auto"] = "auto"
    direction: str = "landing"
    rounds: int | Literal["auto"] = "auto"
    spectrum: tuple[float, float] | None = None
    lowest: float | None = None
    gossip: int = 20
    several: ExtrapolatingFilter | None = field(default=None, init=False)
    """M of several rounds on a network that changes, from `on`."""
    square: ClassVar[str] = "X^T X"
    kind = "destiny-accelerated"
    about = About(
        "Accelerated DESTINY", "this package; docs/acceleration.md", sends=2, numbers=3, rounds="rounds"
    )

    def __post_init__(self) -> None:
        if self.beta != "auto" and not (is_number(self.beta) and self.beta >= 0):
            raise SettingsError(f'beta must be "auto" or a number >= 0; found {self.beta!r}')
        if self.direction not in ANY_F:
            near = did_you_mean(self.direction, ANY_F)
            raise SettingsError(
                f"direction must be one of {', '.join(ANY_F)}; found {self.direction!r}{near}"
            )
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

    def on(self, network: TopologyBase) -> DestinyAccelerated:
        """The same settings with the spectrum and the rounds per step of this network.

        Raises `SettingsError` if ``rounds`` needs a spectrum that the network does not have.
        """
        if network.lowest is not None:
            return self._on_changing(network)
        spectrum = self.spectrum or network.spectrum
        if spectrum is None and self.rounds not in ("auto", 1):
            raise SettingsError(
                "several rounds a step need the spectrum of W, which this network does not tell: "
                'give spectrum, or rounds = "auto"'
            )
        settings = replace(self, spectrum=spectrum)
        return replace(settings, rounds=settings.filter.rounds)

    def _on_changing(self, network: TopologyBase) -> DestinyAccelerated:
        rounds = "auto" if self.several else self.rounds
        for name, value in (
            ("spectrum", self.spectrum),
            ("rounds", None if rounds in ("auto", 1) else rounds),
        ):
            if value is not None:
                raise SettingsError(
                    f"{name} must be left out on a network that changes from round to round, as no one "
                    f"spectrum describes it; found {value!r}: agents estimate how well it mixes by themselves"
                )
        lowest = network.lowest if self.lowest is None else self.lowest
        assert lowest is not None
        several = None if rounds == 1 else filter_for_changing(network, lowest, GAPS)
        fitted = replace(self, lowest=lowest, rounds=several.rounds if several else 1)
        object.__setattr__(fitted, "several", several)
        return fitted

    @property
    def opening(self) -> int:
        """Number of rounds before the first step."""
        return 0 if self.beta != "auto" and self.spectrum is not None else self.gossip

    @property
    def filter(self) -> Filter:
        """M of the recursion."""
        if self.spectrum is None:
            return single_round_filter() if self.lowest is None else single_round_filter(self.lowest)
        return filter_for(*self.spectrum, rounds=None if self.rounds == "auto" else self.rounds)

    @property
    def gap(self) -> float:
        """c of eta <= c (1 - lambda) / L, below which heterogeneous agents keep consensus."""
        return GAP if self.spectrum and self.filter.rounds == 1 else GAPS

    def field(self, X: Array, beta: float | Array, agents: Agents) -> Array:
        """The direction H_i(X_i) with this penalty, ``(agents, n, p)``."""
        return DIRECTIONS[self.direction](agents.gradient, X, beta)

    def init(self, X: Array, agents: Agents) -> MomentumState:
        """Run the opening rounds; D starts as the mixed H. Raise `ProblemError` for infinite gradients."""
        direction = DIRECTIONS[self.direction]
        E = deviation(X)
        slope = agents.gradient(direction.point(X, E))
        require_finite(agents, slope)
        H = direction.assemble(X, E, slope, 0.0)
        V = self.first_look(X, H, agents)
        L = scalar(norm(V))
        mean, D, shared, lambda_ = self.average_start(agents, slope, H, eighth_power(L))
        size = scalar(np.linalg.norm(mean, 2, axis=(1, 2)))
        beta = size if self.beta == "auto" else np.full_like(L, self.beta)
        pull = X @ (beta * E)  # local: added to H and D alike it keeps mean(D) = mean(H)
        violation, zero, one = scalar(norm(E)), np.zeros_like(L), np.ones_like(L)
        s = MomentumState(
            X=X,
            before=X,
            D=D + pull,
            H=H + pull,
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
            scale=residual_scale(norm(D + pull), norm(mean)),
        )
        return self.set_step_size(self.set_curvature(s, L), eighth_power(L))

    def first_look(self, X: Array, H: Array, agents: Agents) -> Array:
        """The steepest direction at the start by `FIRST_LOOK` power iterations; its norm is L_i."""
        V = H
        for _ in range(FIRST_LOOK):
            V = curvature_along(lambda Y: self.field(Y, 0.0, agents), X, H, V)
        return V

    def average_start(self, agents: Agents, *arrays: Array) -> tuple[Array, ...]:
        """Average the arrays in the opening rounds; return them and lambda of M, ``(agents, 1, 1)``."""
        if self.opening == 0:
            return *arrays, np.full((len(arrays[0]), 1, 1), self.filter.contraction)
        if self.spectrum is None:
            mixed, estimate = average_and_estimate_lambda(agents, *arrays, rounds=self.gossip)
            if self.several and self.several.since <= self.opening:
                return *mixed, np.full_like(estimate, self.several.contraction)
            shift = self.filter.shift
            return *mixed, (estimate - shift) / (1 - shift)
        shift, lambda_ = center_spectrum(*self.spectrum)
        means = chebyshev(agents, *arrays, rounds=self.gossip, lambda_=lambda_, shift=shift)
        return *means, np.full((len(arrays[0]), 1, 1), self.filter.contraction)

    def step(self, s: MomentumState, agents: Agents) -> MomentumState:
        """The recursion of the class docstring, in ``rounds`` rounds, and the settings of the next step."""
        if s.count.flat[0] % LOOK == LOOK - 1:  # not at once: agents must have heard of others' curvatures
            self.require_curvatures(s, agents)
        move = self.move(s, agents)
        length = scalar(norm(move))
        if (length > REACH).any():
            move *= np.where(length > REACH, REACH / np.where(length > 0, length, 1.0), 1.0)
        move += s.X
        filter, mixing = self.filter_of_step(s, agents)
        probes = () if self.spectrum else mixing.probes
        X, D, shared, uphill, age, *mixed = filter(agents, move, s.D, s.shared, s.uphill, s.age, *probes)
        if probes:
            mixing = mixing.update(agents.ids, *mixed)
        move -= X
        E = deviation(X)
        H, change = self.next_direction(s, X, E, agents)
        D += H - s.H
        S = X - s.X
        violation = scalar(norm(E))
        before = self.stiffness(s)
        s = replace(
            s,
            X=X,
            before=s.X,
            D=D,
            H=H,
            shared=shared,
            mixing=mixing,
            pace=np.minimum(1.0, self.gap * (1 - mixing.lambda_)),
            count=s.count + 1,
            violation=violation,
            worst=np.maximum(s.worst, violation),
            disagreement=scalar(norm(move)),
        )
        s = self.update_curvature(s, secants(S, change)[0], agents)
        s, slope = self.slope(s, agents)
        s = self.update_momentum(s, S, slope, uphill, age)
        return self.backoff(self.set_step_size(s, before))

    def require_curvatures(self, s: MomentumState, agents: Agents) -> None:
        """Raise `ProblemError` if an agent's curvature is out of range and no other makes up for it.

        The step would be zero, and X would not move.
        """
        power = eighth_power(s.curvature)
        none = (s.curvature > 0) & (power == 0) & (s.shared == 0)
        lost = none | ~np.isfinite(power) | ~np.isfinite(s.shared)
        if (lost & (s.worst <= SAFE_REGION)).any():
            agent = int(np.flatnonzero(lost)[0])
            raise ProblemError(
                f"gradients must change at rates from {RATES[0]:.0e} to {RATES[1]:.0e} for {self.kind}; "
                f"found {s.curvature.flat[agent]:.0e} at agent {agents.ids[agent]}: scale the data"
            )

    def next_direction(self, s: MomentumState, X: Array, E: Array, agents: Agents) -> tuple[Array, Array]:
        """H(X) with E = X^T X - I, and the change of H from s.X to X, both ``(agents, n, p)``."""
        direction = DIRECTIONS[self.direction]
        H = direction.assemble(X, E, agents.gradient(direction.point(X, E)), s.beta)
        return H, H - s.H

    def filter_of_step(self, s: MomentumState, agents: Agents) -> tuple[AnyFilter, Mixing]:
        """M of the next step, and the estimate of its lambda."""
        rounds = self.opening + int(s.count.flat[0])  # as long as a step has one
        if self.several is None or rounds < self.several.since:
            return self.filter, s.mixing
        if rounds > self.several.since or s.count.flat[0] == 0:
            return self.several, s.mixing
        return self.several, Mixing.start(agents.ids, np.full_like(s.pace, self.several.contraction))

    def slope(self, s: Any, agents: Agents) -> tuple[Any, Array]:  # noqa: ARG002
        """The state and the direction ``(agents, n, p)`` along which the objective rises: D."""
        return s, s.D

    def move(self, s: Any, agents: Agents) -> Array:  # noqa: ARG002
        """mu (X - X_before) - eta D, ``(agents, n, p)``."""
        move: Array = s.X - s.before
        move *= s.mu
        move -= s.eta * s.D
        return move

    def update_curvature(self, s: MomentumState, secant: Array, agents: Agents) -> MomentumState:
        """Raise L_i to the latest secant; every `LOOK` steps re-estimate it with one power iteration."""
        if s.count.flat[0] % LOOK:
            return self.set_curvature(s, np.maximum(s.curvature, secant))
        V = self.steepest_after(s, agents)
        return self.set_curvature(replace(s, steepest=V), scalar(norm(V)))

    def steepest_after(self, s: MomentumState, agents: Agents) -> Array:
        """The steepest direction after one more power iteration; its norm is L_i."""
        return curvature_along(lambda Y: self.field(Y, s.beta, agents), s.X, s.H, s.steepest)

    def set_curvature(self, s: MomentumState, L: Array) -> MomentumState:
        """Set L_i = max(L, 2 beta) after raising a beta "auto" to `STIFFNESS` L; H and D change with beta."""
        beta = np.maximum(s.beta, STIFFNESS * L) if self.beta == "auto" else s.beta
        L = np.maximum(L, 2 * beta)
        if (beta == s.beta).all():
            return replace(s, curvature=L)
        pull = s.X @ ((beta - s.beta) * deviation(s.X))
        return replace(s, curvature=L, beta=beta, H=s.H + pull, D=s.D + pull)

    def update_momentum(
        self, s: MomentumState, S: Array, slope: Array, neighbors: Array, age: Array
    ) -> MomentumState:
        """Set mu = t / (t + 3), t one more than the neighbors' mean ``age``.

        Reset t to 0 if ``<slope_i, S_i> > 0`` and the mean cosine ``neighbors`` is above -0.4 (1 - mu).
        """
        product = scalar(norm(slope) * norm(S))
        uphill = np.divide(scalar(inner(slope, S)), product, out=np.zeros_like(product), where=product > 0)
        # A reset of one agent takes 1/d of the network's momentum: the larger mu, the more it costs.
        drop = (uphill > 0) & (neighbors > -RESTART * (1 - s.mu))
        age = np.where(drop, 0.0, np.maximum(age, 0.0) + 1)
        return replace(s, uphill=uphill, age=age, mu=np.minimum(age / (age + MOMENTUM), MU_MOST))

    def set_step_size(self, s: MomentumState, before: Array) -> MomentumState:
        """Set eta = trust pace / L with L = max(L_i, eighth root of the tracked network mean of L^8).

        ``before`` is the `stiffness` at the last step, which the tracker holds. eta is 0 where L is.
        """
        now = self.stiffness(s)
        shared = s.shared + (now - before)
        L = eighth_root(np.maximum(shared, now))
        eta = np.divide(s.trust * s.pace if self.spectrum else s.pace, L, out=np.zeros_like(L), where=L > 0)
        return replace(s, shared=shared, eta=eta)

    def stiffness(self, s: MomentumState) -> Array:
        """L_i^8, or (L_i / trust)^8 where W changes: its network mean limits the step of all agents."""
        return eighth_power(s.curvature if self.spectrum else s.curvature / s.trust)

    def backoff(self, s: MomentumState) -> MomentumState:
        """Every `WINDOW` steps, cut trust where an agent drifts from its neighbors; else let it grow."""
        drift = s.drift + s.disagreement
        if s.count.flat[0] % WINDOW:
            return replace(s, drift=drift)
        growth = GROWTH if self.spectrum else GROWTH_CHANGING
        apart = drift > np.where(drift > WINDOW * LARGE, 1.0, growth) * s.drifted
        # The ceiling keeps trust from growing at once to where agents drifted apart.
        ceiling = np.where(apart, CEILING * s.trust, np.minimum(1.0, RECOVER * s.ceiling))
        trust = np.where(apart, CUT * s.trust, np.minimum(REGROW * s.trust, ceiling))
        return replace(
            s,
            trust=np.maximum(CUT_LEAST, trust),
            ceiling=ceiling,
            drift=np.zeros_like(drift),
            drifted=drift,
            age=np.where(apart, 0.0, s.age),
            mu=np.where(apart, 0.0, s.mu),
        )

    def remarks(self, s: MomentumState, ids: NDArray[np.intp], converged: bool) -> list[str]:  # noqa: ARG002
        """Sentences on curvatures out of range and, if the run did not converge, on network and trust."""
        largest, worst = float(s.curvature.max()), float(s.worst.max())
        lambda_ = self.spectrum[1] if self.spectrum else self.lambda_of_round(s)
        slow = slow_network_notes(lambda_)
        # Not s.shared > 0: after many rounds without a link it may be a rounding error of either sign.
        if largest > 0 and not (np.isfinite(s.shared).all() and (eighth_power(s.curvature) > 0).any()):
            # Data out of range make eta = 0, and X stays on the manifold.
            if worst <= SAFE_REGION:
                return [f"curvatures of {largest:.0e} have no eighth power that is a number: scale the data"]
            return [
                f"X left the manifold, ||{self.square} - I|| up to {worst:.1e}, and beta grew with the "
                f"curvature there, to {s.beta.max():.0e}: agents drifted apart between the rounds that "
                "connect them",
                *slow,
            ]
        if converged:
            return []
        notes = slow
        if (trust := float(s.trust.min())) < CAUTIOUS:
            network = ", or the network mixes worse than it seemed; more links help"
            notes.append(
                f"agents drifted apart and cut their steps to {100 * trust:.0f} %: they see very different "
                f"things{network if lambda_ > WHOLE else ''}"
            )
        return notes

    def lambda_of_round(self, s: MomentumState) -> float:
        """What a round leaves of a disagreement, by the largest of the agents' estimates."""
        several = self.several
        rounds = several.rounds if several and self.opening + s.count.flat[0] > several.since else 1
        return float(s.mixing.lambda_.max() ** (1 / rounds))

    def tracked(self, s: MomentumState) -> tuple[Array, Array]:
        """The trackers D and the directions H."""
        return s.D, s.H

    def residual(self, s: MomentumState) -> Array:
        """Residual that an agent can compute by itself, ``(agents,)``; as in gradient tracking."""
        return residual(s)
