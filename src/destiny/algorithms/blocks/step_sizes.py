"""Step sizes: constant, proportional to 1/L, diminishing, Barzilai-Borwein as printed and with safeguards.

A rule is a frozen dataclass of settings. Its memory is a `Pace`, arrays ``(agents, 1, 1)`` in the state of
the algorithm. Every agent computes its step from local quantities.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from destiny.algorithms.blocks.curvature import secants
from destiny.errors import SettingsError
from destiny.geometry.stiefel import inner, scalar
from destiny.protocols import Array
from destiny.validation import check_positive

FIRST = 0.05  # first Barzilai-Borwein step times ||gradient||_2: it moves X by about 0.05
SLANT = 1e-5  # smallest cosine between S and J that is not noise; a quadratic of condition 4e10 reaches it
GROW = (
    1.001  # growth of the bound on a step, per step, while agents approach each other: doubled in 700 steps
)
SHRINK_MOST = 10  # the bound on a step shrinks to a tenth at most: no drift may stop a run
Unit: TypeAlias = Literal["gradient", "curvature"]


@dataclass(frozen=True)
class Pace:
    """Memory of a step rule, one number per agent in each array ``(agents, 1, 1)``."""

    eta: Array
    """The next step size."""
    bound: Array
    """The step never exceeds bound / curvature."""
    limit: Array
    """Where ``bound`` starts and what it never exceeds: `StepRule.network_limit`."""
    curvature: Array
    """L_i, largest recent secant ||dH|| / ||dX||; decays slowly."""
    peak: Array
    """Largest secant so far."""
    floor: Array
    """Curvature at which an agent and its neighbors drifted apart: L_i does not decay below it."""
    fast: Array
    """Disagreement averaged over about 10 steps."""
    slow: Array
    """Disagreement averaged over about 50 steps."""
    count: Array
    """Steps taken."""

    @property
    def next(self) -> int:
        """Number of the step under way, from 1; the same for all agents."""
        return int(self.count.flat[0]) + 1

    @classmethod
    def start(cls, eta: Array, bound: Array) -> Pace:
        """The pace before the first step, with ``limit`` = ``bound`` and everything else 0."""
        zero = np.zeros_like(eta)
        return cls(eta, bound, bound, zero, zero, zero, zero, zero, zero)


@dataclass(frozen=True)
class Move:
    """What a step rule gets to see of a step; matrices ``(agents, n, p)``, numbers ``(agents, 1, 1)``."""

    S: Array
    """X_k - X_{k-1}."""
    J: Array
    """D_k - D_{k-1}."""
    dH: Array
    """H_k - H_{k-1} of the agent alone, hence free of other agents' curvature."""
    disagreement: Array
    """||V_i - (W V)_i|| of the message V_i just mixed."""
    length: Array
    """||D_k||."""


class StepRule(ABC):
    """How an agent sets its step size: a frozen dataclass of settings with `update`."""

    kind: ClassVar[str] = ""
    """Its name in files; by default that of its class."""
    eta: float | None
    """The first step; None chooses it from what the agents measure at their start, see `initial_pace`."""
    needs_lambda: ClassVar[bool] = False
    """Whether the rule uses lambda, how well the network mixes."""
    first_step_unit: ClassVar[Unit] = "gradient"
    """Where eta is None: the first step is a factor times 1 / ||gradient|| or 1 / curvature."""

    def __init_subclass__(cls) -> None:
        cls.kind = cls.kind or cls.__name__

    def network_limit(self, lambda_: Array, averaged: bool) -> Array:
        """Largest step times curvature on a network with this lambda, ``(agents, 1, 1)``."""
        return gradient_limit(1.0, lambda_, averaged)

    @abstractmethod
    def update(self, pace: Pace, move: Move) -> Pace:
        """Return the pace after a step."""

    def add_curvature(self, pace: Pace, by: Array) -> Pace:  # noqa: ARG002
        """Return the pace after the curvature of the direction grew by ``by``, ``(agents, 1, 1)``.

        Methods call it when they raise beta. By default the pace stays as it is.
        """
        return pace


def initial_pace(
    rule: StepRule, size: Array, lambda_: Array, curvature: Array, averaged: bool = False
) -> Pace:
    """The pace before the first step, every argument and result ``(agents, 1, 1)``.

    Parameters
    ----------
    rule : StepRule
        Its ``eta`` is the first step. If that is None, the first step is ``FIRST / size`` or, for a rule with
        ``first_step_unit = "curvature"``, ``rule.network_limit / curvature``; 0 for an agent that measured 0,
        which waits for its neighbors to move it.
    size : ndarray
        Spectral norm of the mean gradient.
    lambda_ : ndarray
        How well the network mixes.
    curvature : ndarray
        Largest curvature of any agent's direction; read only if ``first_step_unit`` is "curvature".
    averaged : bool
        Whether the steps themselves are mixed, as in DESTINY's W (X - eta D).
    """
    limit = rule.network_limit(lambda_, averaged)
    by_curvature = rule.first_step_unit == "curvature"
    factor, unit = (limit, curvature) if by_curvature else (np.full_like(size, FIRST), size)
    auto = np.divide(factor, unit, out=np.zeros_like(unit), where=unit > 0)
    pace = Pace.start(auto if rule.eta is None else np.full_like(size, rule.eta), limit)
    return replace(pace, curvature=curvature, peak=curvature) if by_curvature else pace


def gradient_limit(cap: float, lambda_: Array, averaged: bool) -> Array:
    """cap sqrt(1 - lambda) / lambda where steps are averaged, cap sqrt(1 - lambda) elsewhere."""
    bound = np.sqrt(1 - lambda_)
    if averaged:  # where one round averages at once (lambda = 0, or one agent alone) nothing limits the step
        bound = np.divide(bound, lambda_, out=np.full_like(lambda_, np.inf), where=lambda_ > 0)
    return np.asarray(cap * bound)


@dataclass(frozen=True)
class Constant(StepRule):
    """The same step for ever, as in Algorithm 1 of the paper."""

    eta: float
    kind = "constant"

    def __post_init__(self) -> None:
        check_positive("eta", self.eta)

    def update(self, pace: Pace, move: Move) -> Pace:  # noqa: ARG002
        return replace(pace, count=pace.count + 1)


@dataclass(frozen=True)
class Lipschitz(StepRule):
    """A constant step that needs no tuning: min(share, gap (1 - lambda)) / L, L the largest curvature seen.

    L is measured at the start by power iterations and grows where a secant ||dH|| / ||dX|| exceeds it. The
    bound gap (1 - lambda) keeps consensus in EXTRA and methods like it on heterogeneous agents: on the
    paper's Figure 3, ADSA kept it with 0.13 / L and lost it with 0.2 / L at lambda 0.90; at lambda 0.79 it
    kept it with 0.3 / L and lost it with 0.5 / L.
    """

    share: float = 0.4
    gap: float = 1.0
    kind = "lipschitz"
    needs_lambda = True
    eta = None
    first_step_unit = "curvature"

    def __post_init__(self) -> None:
        check_positive("share", self.share)
        check_positive("gap", self.gap)

    def __init_subclass__(cls) -> None:
        cls.kind = cls.kind or cls.__name__

    def network_limit(self, lambda_: Array, averaged: bool) -> Array:  # noqa: ARG002
        """min(share, gap (1 - lambda))."""
        return np.minimum(self.share, self.gap * (1 - lambda_))

    def update(self, pace: Pace, move: Move) -> Pace:
        """L = max(L, secant), eta = min(eta, bound / L)."""
        curvature = np.maximum(pace.curvature, secants(move.S, move.dH)[0])
        eta = limit_step(pace.eta, pace.bound, curvature)
        return replace(pace, eta=eta, curvature=curvature, count=pace.count + 1)


@dataclass(frozen=True)
class Diminishing(StepRule):
    """eta / (k + 1)^power, for methods that are exact only with vanishing steps.

    Parameters
    ----------
    eta : float, optional
        First step; by default share / L, with L measured at the start as in `Lipschitz`.
    power : float
    share : float
        Read only if ``eta`` is None.
    """

    eta: float | None = None
    power: float = 0.5
    share: float = 0.5
    kind = "diminishing"
    first_step_unit = "curvature"

    def __post_init__(self) -> None:
        check_positive("eta", self.eta, optional=True)
        check_positive("power", self.power)
        check_positive("share", self.share)

    def __init_subclass__(cls) -> None:
        cls.kind = cls.kind or cls.__name__

    def network_limit(self, lambda_: Array, averaged: bool) -> Array:  # noqa: ARG002
        """share: the network is not considered."""
        return np.full_like(lambda_, self.share)

    def update(self, pace: Pace, move: Move) -> Pace:  # noqa: ARG002
        """eta (k / (k + 1))^power in step k."""
        count = pace.count + 1
        return replace(pace, eta=pace.eta * (count / (count + 1)) ** self.power, count=count)


def barzilai_borwein(move: Move) -> Array:
    """``|<S, J> / <J, J>|``, ``(agents, 1, 1)``; not finite where J = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return scalar(np.abs(inner(move.S, move.J)) / inner(move.J, move.J))


@dataclass(frozen=True)
class PlainBB(StepRule):
    """The Barzilai-Borwein step ``|<S, J> / <J, J>|`` exactly as printed in Section 4.2 of the paper.

    Parameters
    ----------
    eta : float, optional
        First step; by default 0.05 / ||mean gradient||_2.
    """

    eta: float | None = None
    kind = "bb-plain"

    def __post_init__(self) -> None:
        check_positive("eta", self.eta, optional=True)

    def update(self, pace: Pace, move: Move) -> Pace:
        """The formula; the last step where it is 0/0."""
        eta = barzilai_borwein(move)
        return replace(pace, eta=np.where(np.isfinite(eta), eta, pace.eta), count=pace.count + 1)


def limit_step(eta: Array, limit: Array | float, size: Array) -> Array:
    """min(eta, limit / size), and eta where size is 0."""
    return np.where(eta * size > limit, limit / np.where(size > 0, size, 1.0), eta)


@dataclass(frozen=True)
class BB(StepRule):
    """Barzilai-Borwein steps with an upper bound from the network: scale-free, nothing to tune.

    eta_i = ``min(|<S, J>| / <J, J>, cap sqrt(1 - lambda) / (lambda L_i), reach / ||D_i||)``, where L_i is the
    largest recent secant ||dH_i|| / ||dX_i||. Methods that do not average their steps leave out the division
    by lambda.

    L_i decays by the factor ``forget`` a step while an agent and its neighbors approach each other. When
    they drift apart, L_i returns to the largest secant so far, and the value at which the drift began becomes
    a lower bound that decays by ``fade`` a step. If they drift apart all the same, the bound on the step
    shrinks by ``forget`` a step, to a tenth at most, and grows again by 0.1 % a step afterwards.
    docs/method.md has the reasons, and where this is not enough.

    Parameters
    ----------
    eta : float, optional
        First step; by default 0.05 / ||mean gradient||_2.
    cap : float
    forget, fade : float in (0, 1]
    reach : float
        Largest move of X in one step (Frobenius norm): 1/4 keeps X near the region R of Lemma 2.1.
    """

    eta: float | None = None
    cap: float = 1.0
    forget: float = 0.98
    fade: float = 0.997
    reach: float = 0.25
    kind = "bb"
    needs_lambda = True

    def __post_init__(self) -> None:
        check_positive("eta", self.eta, optional=True)
        check_positive("cap", self.cap)
        check_positive("reach", self.reach)
        for name, value in (("forget", self.forget), ("fade", self.fade)):
            check_positive(name, value)
            if value > 1:
                raise SettingsError(f"{name} must be at most 1; found {value!r}")

    def __init_subclass__(cls) -> None:
        cls.kind = cls.kind or cls.__name__

    def network_limit(self, lambda_: Array, averaged: bool) -> Array:
        """cap sqrt(1 - lambda), over lambda where steps are averaged."""
        return gradient_limit(self.cap, lambda_, averaged)

    def update(self, pace: Pace, move: Move) -> Pace:
        """The formulas of the class docstring."""
        fast, slow = self.averages(pace, move.disagreement)
        closer = fast <= slow
        secant, sound = secants(move.S, move.dH)
        eta = barzilai_borwein(move)
        peak = np.maximum(pace.peak, secant)
        floor = np.where(closer, self.fade * pace.floor, np.maximum(pace.floor, pace.curvature))
        recent = np.where(closer, np.maximum(floor, self.forget * pace.curvature), peak)
        curvature = np.where(sound, np.maximum(recent, secant), pace.curvature)
        # They drift apart even at the largest curvature: the network mixes worse than estimated at the start.
        shrink = ~closer & (pace.curvature >= pace.peak)
        bound = pace.bound * np.where(shrink, self.forget, np.where(closer, GROW, 1.0))
        bound = np.clip(bound, pace.limit / SHRINK_MOST, pace.limit)
        eta = np.where(sound & np.isfinite(eta), eta, pace.eta)
        eta = limit_step(eta, bound, curvature)
        eta = limit_step(eta, self.reach, move.length)
        return Pace(eta, bound, pace.limit, curvature, peak, floor, fast, slow, pace.count + 1)

    def add_curvature(self, pace: Pace, by: Array) -> Pace:
        """Add ``by`` to L_i and to the largest secant, and shorten the step accordingly."""
        curvature, peak = pace.curvature + by, pace.peak + by
        return replace(pace, curvature=curvature, peak=peak, eta=limit_step(pace.eta, pace.bound, curvature))

    def averages(self, pace: Pace, disagreement: Array) -> tuple[Array, Array]:
        """Exponential averages of the disagreement over about 10 and 50 steps.

        Ten are few enough to notice a drift early, and more than Barzilai-Borwein's own oscillations take.
        """
        first = pace.count == 0
        fast = np.where(first, disagreement, 0.9 * pace.fast + 0.1 * disagreement)
        slow = np.where(first, disagreement, 0.98 * pace.slow + 0.02 * disagreement)
        return fast, slow


def alternating(move: Move, count: Array, before: Array) -> Array:
    """``|<S, J>| / <J, J>`` in odd steps, ``<S, S> / |<S, J>|`` in even ones; ``before`` where S = 0.

    The authors clip the step to fixed numbers. This clips the cosine between S and J, which is scale-free.
    """
    secant, sound = secants(move.S, move.dH)  # ||J|| / ||S||, as J = dH for one agent
    with np.errstate(divide="ignore", invalid="ignore"):
        slant = scalar(np.abs(inner(move.S, move.J)) / np.sqrt(inner(move.S, move.S) * inner(move.J, move.J)))
        slant = np.clip(slant, SLANT, 1.0)
        eta = np.where(count % 2 == 1, slant, 1 / slant) / secant
    return np.where(sound & np.isfinite(eta), eta, before)


@dataclass(frozen=True)
class Alternating(StepRule):
    """Alternating Barzilai-Borwein steps, for one agent; the formulas are those of `alternating`.

    Parameters
    ----------
    eta : float, optional
        First step; by default 0.05 / ||gradient||_2.
    reach : float
        Largest move of X in one step, as in `BB`: the longer of the two steps would otherwise leave the
        neighborhood of the manifold where the curvature along S is small or negative.
    """

    eta: float | None = None
    reach: float = 0.25
    kind = "bb-alternating"

    def __post_init__(self) -> None:
        check_positive("eta", self.eta, optional=True)
        check_positive("reach", self.reach)

    def update(self, pace: Pace, move: Move) -> Pace:
        """eta = min(alternating step, reach / ||D||)."""
        count = pace.count + 1
        eta = limit_step(alternating(move, count, pace.eta), self.reach, move.length)
        return replace(pace, eta=eta, count=count)

    def add_curvature(self, pace: Pace, by: Array) -> Pace:
        """eta = min(eta, 1 / by)."""
        return replace(pace, eta=limit_step(pace.eta, 1.0, by))


STEADY = (Constant, Diminishing)
"""Rules for mini-batches: they use no differences of gradients, to which sampling adds more than X does."""

RULES: dict[str, type[StepRule]] = {
    rule.kind: rule for rule in (BB, PlainBB, Alternating, Constant, Lipschitz, Diminishing)
}
