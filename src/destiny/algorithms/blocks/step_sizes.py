"""Step sizes: constant, a share of 1/L, diminishing, Barzilai-Borwein as printed and with safeguards.

A rule is a frozen dataclass of settings. What it remembers is a `Pace`, arrays ``(agents, 1, 1)`` that
live in the algorithm's state; every agent sets its step from what it sees itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol, TypeAlias

import numpy as np

from destiny.errors import SettingsError, is_number
from destiny.geometry.stiefel import inner, norm
from destiny.protocols import Array

FIRST = 0.05  # Barzilai-Borwein's first step times ||gradient||: small against any curvature
SLANT = 1e-5  # cosine of the angle between S and J below which it is taken for noise: condition 4e10
Unit: TypeAlias = Literal["gradient", "curvature"]


@dataclass(frozen=True)
class Pace:
    """What a step rule remembers, one number per agent in each array ``(agents, 1, 1)``."""

    eta: Array
    """The next step size."""
    bound: Array
    """The step never exceeds bound / curvature."""
    limit: Array
    """Where bound starts and what it never exceeds: c sqrt(1 - lambda) / lambda for DESTINY; see `first`."""
    curvature: Array
    """L_i, recent largest secant ||dH|| / ||dX||, forgotten slowly."""
    peak: Array
    """Largest secant ever seen."""
    floor: Array
    """Curvature at which neighbours drifted apart: forgetting stops there."""
    fast: Array
    """Disagreement averaged over about 10 steps."""
    slow: Array
    """Disagreement averaged over about 50 steps."""
    count: Array
    """Steps taken."""

    @property
    def next(self) -> int:
        """The number of the step being taken, from 1; agents count alike."""
        return int(self.count.flat[0]) + 1

    @classmethod
    def start(cls, eta: Array, bound: Array) -> Pace:
        """The pace before the first step."""
        zero = np.zeros_like(eta)
        return cls(eta, bound, bound, zero, zero, zero, zero, zero, zero)


@dataclass(frozen=True)
class Move:
    """What one step showed: differences of iterates, trackers and directions, and the disagreement."""

    S: Array
    """X_k - X_{k-1}."""
    J: Array
    """D_k - D_{k-1}."""
    dH: Array
    """H_k - H_{k-1}: local, hence free of other agents' curvature."""
    disagreement: Array
    """||V_i - (W V)_i|| of the message V_i just mixed, ``(agents, 1, 1)``."""
    length: Array
    """||D_k||, ``(agents, 1, 1)``."""


class StepRule(Protocol):
    """How an agent sets its step size."""

    @property
    def eta(self) -> float | None:
        """First step; None means a share of one over what the agents find at their start."""

    @property
    def share(self) -> float:
        """First step in units of 1 / ||gradient|| or 1 / curvature, where eta is None."""

    @property
    def unit(self) -> Unit:
        """Which of the two."""

    @property
    def network(self) -> bool:
        """Whether the rule wants to know how well the network mixes."""

    def update(self, pace: Pace, move: Move) -> Pace:
        """The pace after a step."""

    def steeper(self, pace: Pace, by: Array) -> Pace:
        """The pace when the direction became steeper by a known curvature, ``(agents, 1, 1)``."""


def scalar(values: Array) -> Array:
    """``(agents,) -> (agents, 1, 1)``, to multiply stacks."""
    return values[:, None, None]


def positive(name: str, value: float | None, optional: bool = False) -> None:
    """Refuse a setting that is not a positive finite number."""
    if value is None and optional:
        return
    if not is_number(value) or value <= 0:
        raise SettingsError(f"{name} must be a positive number; found {value!r}")


def unmoved(rule: StepRule, pace: Pace, by: Array) -> Pace:  # noqa: ARG001
    """A rule that does not look at curvature has nothing to change."""
    return pace


def steepest(field: Callable[[Array], Array], X: Array, towards: Array) -> Array:
    """Largest curvature of a field at X, ``(agents, 1, 1)``: ten power iterations on its differences."""
    here = field(X)
    V = towards
    for _ in range(10):
        V = bend(field, X, here, V)
    return scalar(norm(V))


def bend(field: Callable[[Array], Array], X: Array, here: Array, V: Array) -> Array:
    """One power iteration: how a field, ``here`` at X, changes along V of any length. One gradient."""
    tiny = 1e-6  # of ||V|| = 1: the difference is good to about 1e-6 either way, of which 10 % would do
    length = scalar(norm(V))
    V = np.divide(V, length, out=np.zeros_like(V), where=length > 0)
    return (field(X + tiny * V) - here) / tiny


def first(rule: StepRule, size: Array, lambda_: Array, curvature: Array, averaged: bool = False) -> Pace:
    """The pace before the first step, from what the agents found at their start.

    ``averaged``: the steps themselves are mixed, as in DESTINY's form, and not only what came before them.
    """
    share, unit = np.full_like(size, rule.share), size
    if rule.unit == "curvature":
        unit = curvature
        share = np.minimum(share, getattr(rule, "gap", np.inf) * (1 - lambda_))
    # An agent that has seen no gradient at all waits for its neighbours to move it.
    auto = np.divide(share, unit, out=np.zeros_like(unit), where=unit > 0)
    eta = auto if rule.eta is None else np.full_like(size, rule.eta)
    if rule.unit == "curvature":
        return replace(Pace.start(eta, share), curvature=curvature, peak=curvature)
    return Pace.start(eta, network_limit(rule, lambda_, averaged))


def network_limit(rule: StepRule, lambda_: Array, averaged: bool) -> Array:
    """What a step times the curvature may be on a network with this lambda: c sqrt(1 - lambda) (/ lambda)."""
    bound = np.sqrt(1 - lambda_)
    if averaged:  # where one round averages at once (lambda = 0, or one agent alone) nothing limits the step
        bound = np.divide(bound, lambda_, out=np.full_like(lambda_, np.inf), where=lambda_ > 0)
    return np.asarray(getattr(rule, "cap", 1.0) * bound)


@dataclass(frozen=True)
class Constant:
    """The same step for ever, as in Algorithm 1 of the paper."""

    eta: float
    kind = "constant"
    network = False
    share = 0.0
    unit: ClassVar[Unit] = "gradient"

    def __post_init__(self) -> None:
        positive("eta", self.eta)

    def update(self, pace: Pace, move: Move) -> Pace:  # noqa: ARG002
        """Nothing changes but the count."""
        return replace(pace, count=pace.count + 1)

    steeper = unmoved


@dataclass(frozen=True)
class Lipschitz:
    """A constant step that needs no tuning: min(share, gap (1 - lambda)) / L, L the largest curvature seen.

    L starts from the agents' own start (`steepest`) and grows where a secant ||dH|| / ||dX|| exceeds it. The
    second bound is the network's: without it EXTRA and its kin lose consensus on heterogeneous agents. On
    the paper's Figure 3 ADSA kept it with 0.13 / L and lost it with 0.2 / L at lambda 0.90; at lambda 0.79 it
    kept it with 0.3 / L and lost it with 0.5 / L.
    """

    share: float = 0.4
    gap: float = 1.0
    kind = "lipschitz"
    network = True
    eta = None
    unit: ClassVar[Unit] = "curvature"

    def __post_init__(self) -> None:
        positive("share", self.share)
        positive("gap", self.gap)

    def update(self, pace: Pace, move: Move) -> Pace:
        """Never longer than before, nor than the bound / L."""
        curvature = np.maximum(pace.curvature, secants(move.S, move.dH)[0])
        eta = within(pace.eta, pace.bound, curvature)
        return replace(pace, eta=eta, curvature=curvature, count=pace.count + 1)

    steeper = unmoved


@dataclass(frozen=True)
class Diminishing:
    """eta / (k + 1)^power: for methods that are exact only with vanishing steps.

    Without an eta it is share / L at the start, as in `Lipschitz`.
    """

    eta: float | None = None
    power: float = 0.5
    share: float = 0.5
    kind = "diminishing"
    network = False
    unit: ClassVar[Unit] = "curvature"

    def __post_init__(self) -> None:
        positive("eta", self.eta, optional=True)
        positive("power", self.power)
        positive("share", self.share)

    def update(self, pace: Pace, move: Move) -> Pace:  # noqa: ARG002
        """One step further down."""
        count = pace.count + 1
        return replace(pace, eta=pace.eta * (count / (count + 1)) ** self.power, count=count)

    steeper = unmoved


def barzilai_borwein(move: Move) -> Array:
    """``|<S, J> / <J, J>|`` of Section 4.2; not finite where the tracker did not move."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return scalar(np.abs(inner(move.S, move.J)) / inner(move.J, move.J))


@dataclass(frozen=True)
class PlainBB:
    """The Barzilai-Borwein step exactly as printed in Section 4.2; 0/0 keeps the last step."""

    eta: float | None = None
    kind = "bb-plain"
    network = False
    share = FIRST
    unit: ClassVar[Unit] = "gradient"

    def __post_init__(self) -> None:
        positive("eta", self.eta, optional=True)

    def update(self, pace: Pace, move: Move) -> Pace:
        """The formula, wherever it is a number."""
        eta = barzilai_borwein(move)
        return replace(pace, eta=np.where(np.isfinite(eta), eta, pace.eta), count=pace.count + 1)

    steeper = unmoved


def secants(S: Array, dH: Array) -> tuple[Array, Array]:
    """||dH|| / ||S||, and where it is more than rounding errors (elsewhere it is 0)."""
    moved = inner(S, S)
    # 1e-13 of ||X|| = sqrt(p): below it the differences are noise, and so would be the step.
    sound = moved > 1e-26 * S.shape[-1]
    secant = np.sqrt(np.divide(inner(dH, dH), moved, out=np.zeros_like(moved), where=sound))
    return scalar(secant), scalar(sound)


def within(eta: Array, limit: Array | float, size: Array) -> Array:
    """The step, cut where eta * size exceeds the limit; a size of zero is no limit."""
    return np.where(eta * size > limit, limit / np.where(size > 0, size, 1.0), eta)


@dataclass(frozen=True)
class BB:
    """Barzilai-Borwein steps that never outrun the network.

    eta_i = ``min(|<S, J>| / <J, J>, c sqrt(1 - lambda) / (lambda L_i))``, L_i the largest recent secant
    ||dH_i|| / ||dX_i||, without the division by lambda where steps are not averaged. L_i is forgotten
    (factor ``forget``) only while the agent and its neighbours draw closer. When they drift apart, L_i
    returns to the largest secant ever seen, and the value at which the drift set in becomes a floor that
    itself fades slowly (factor ``fade``); if that does not help, the bound itself shrinks, down to a tenth,
    and grows again later. No step moves X by more than ``reach``: a quarter keeps it near the region R of
    Lemma 2.1. Nothing to tune, and scale-free throughout. Long paths with very different agents remain out
    of its reach: see docs/method.md.
    """

    eta: float | None = None
    cap: float = 1.0
    forget: float = 0.98
    fade: float = 0.997
    reach: float = 0.25
    kind = "bb"
    network = True
    share = FIRST
    unit: ClassVar[Unit] = "gradient"

    def __post_init__(self) -> None:
        positive("eta", self.eta, optional=True)
        positive("cap", self.cap)
        positive("reach", self.reach)
        for name in ("forget", "fade"):
            value = getattr(self, name)
            positive(name, value)
            if value > 1:
                raise SettingsError(f"{name} must be at most 1; found {value!r}")

    def update(self, pace: Pace, move: Move) -> Pace:
        """One step: do we draw closer, how curved is it here, how far may we go."""
        fast, slow = self.averages(pace, move.disagreement)
        closer = fast <= slow
        secant, sound = secants(move.S, move.dH)
        eta = barzilai_borwein(move)
        peak = np.maximum(pace.peak, secant)
        floor = np.where(closer, self.fade * pace.floor, np.maximum(pace.floor, pace.curvature))
        trusted = np.where(closer, np.maximum(floor, self.forget * pace.curvature), peak)
        curvature = np.where(sound, np.maximum(trusted, secant), pace.curvature)
        # Still apart at the largest curvature: the network mixes worse than it seemed at the start.
        helpless = ~closer & (pace.curvature >= pace.peak)
        bound = pace.bound * np.where(helpless, self.forget, np.where(closer, 1.001, 1.0))
        bound = np.clip(bound, pace.limit / 10, pace.limit)
        eta = np.where(sound & np.isfinite(eta), eta, pace.eta)
        eta = within(eta, bound, curvature)
        eta = within(eta, self.reach, move.length)
        return Pace(eta, bound, pace.limit, curvature, peak, floor, fast, slow, pace.count + 1)

    def steeper(self, pace: Pace, by: Array) -> Pace:
        """What was seen of the curvature lacks the part just added."""
        curvature, peak = pace.curvature + by, pace.peak + by
        return replace(pace, curvature=curvature, peak=peak, eta=within(pace.eta, pace.bound, curvature))

    def averages(self, pace: Pace, disagreement: Array) -> tuple[Array, Array]:
        """Disagreement over 10 and 50 steps: soon enough to see a drift, not misled by BB's own swings."""
        first = pace.count == 0
        fast = np.where(first, disagreement, 0.9 * pace.fast + 0.1 * disagreement)
        slow = np.where(first, disagreement, 0.98 * pace.slow + 0.02 * disagreement)
        return fast, slow


def alternating(move: Move, count: Array, before: Array) -> Array:
    """``|<S, J>| / <J, J>`` in odd steps, ``<S, S> / |<S, J>|`` in even ones; ``before`` if X did not move.

    The authors clip the step to fixed numbers; here, scale-free, it is the cosine between S and J.
    """
    secant, sound = secants(move.S, move.dH)  # ||J|| / ||S||, as J = dH for one agent
    with np.errstate(divide="ignore", invalid="ignore"):
        slant = scalar(np.abs(inner(move.S, move.J)) / np.sqrt(inner(move.S, move.S) * inner(move.J, move.J)))
        slant = np.clip(slant, SLANT, 1.0)
        eta = np.where(count % 2 == 1, slant, 1 / slant) / secant
    return np.where(sound & np.isfinite(eta), eta, before)


@dataclass(frozen=True)
class Alternating:
    """Alternating Barzilai-Borwein steps, for one agent.

    No step moves X by more than ``reach``, as in `BB`: the long step alone would leave the manifold's
    neighbourhood where the curvature along it is small or negative.
    """

    eta: float | None = None
    reach: float = 0.25
    kind = "bb-alternating"
    network = False
    share = FIRST
    unit: ClassVar[Unit] = "gradient"

    def __post_init__(self) -> None:
        positive("eta", self.eta, optional=True)
        positive("reach", self.reach)

    def update(self, pace: Pace, move: Move) -> Pace:
        """The other formula's turn."""
        count = pace.count + 1
        eta = within(alternating(move, count, pace.eta), self.reach, move.length)
        return replace(pace, eta=eta, count=count)

    def steeper(self, pace: Pace, by: Array) -> Pace:
        """Not beyond what the part just added allows by itself."""
        return replace(pace, eta=within(pace.eta, 1.0, by))


STEADY = (Constant, Diminishing)
"""Rules that do not look at how gradients change: mini-batches change them more than X does."""

RULES: dict[str, type[BB | PlainBB | Alternating | Constant | Lipschitz | Diminishing]] = {
    rule.kind: rule for rule in (BB, PlainBB, Alternating, Constant, Lipschitz, Diminishing)
}
