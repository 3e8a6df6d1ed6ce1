"""Infeasible methods of one agent: PenCF, PLAM, PCAL, ExPen, landing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from destiny.algorithms.blocks.about import for_one_agent
from destiny.algorithms.blocks.single_agent import SingleAgentTracking
from destiny.algorithms.blocks.step_sizes import Alternating, StepRule
from destiny.algorithms.blocks.tracking import TrackingState
from destiny.errors import SettingsError
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


@dataclass(frozen=True)
class PLAM(SingleAgentTracking):
    """X+ = X - eta (G - X sym(X^T G) + beta X (X^T X - I)),  G = grad f(X).

    Gradient descent on the augmented Lagrangian with its multiplier in closed form. The manifold attracts
    where beta > lambda_max(sym(X^T G)): no condition for PCA and SDL, but one for OLSR, where ||G||_2 is just
    the threshold if the start is next to the answer. ``watch`` doubles a beta "auto" that does not hold X;
    given as a number below the threshold, it lets X grow without end.
    """

    kind = "plam"
    about = for_one_agent("PLAM", "Gao, Liu & Yuan, SIAM J. Sci. Comput. 2019")


@dataclass(frozen=True)
class PCAL(SingleAgentTracking):
    """X+ = normalized(X - eta (P - X diag(X^T P))), P = G - X sym(X^T G) + beta X (X^T X - I), G = grad f(X).

    ``normalized`` divides every column by its norm; X diag(X^T P) is the part of P along the columns. As the
    iterates are bounded, it is less sensitive to a small beta than `PLAM`. The authors' first step, clipping
    and beta depend on the scale of f; those of this package do not.
    """

    step_size: StepRule = field(default_factory=Alternating)
    kind = "pcal"
    about = for_one_agent("PCAL", "Gao, Liu & Yuan, SIAM J. Sci. Comput. 2019")

    def init(self, X: Array, agents: Agents) -> TrackingState:
        """As in `PLAM`, from X with normalized columns."""
        s = super().init(normalize_columns(X), agents)
        H = remove_along_columns(s.X, s.H)
        return replace(s, D=H, H=H)

    def direction_at(self, X: Array, E: Array, beta: Array, agents: Agents, step: int | None = None) -> Array:
        """The direction of `PLAM` without its part along the columns."""
        return remove_along_columns(X, super().direction_at(X, E, beta, agents, step))

    def project(self, X: Array) -> Array:
        """Divide every column by its norm."""
        return normalize_columns(X)


def normalize_columns(X: Array) -> Array:
    """Every column divided by its norm."""
    return np.asarray(X / np.linalg.norm(X, axis=-2, keepdims=True))


def remove_along_columns(X: Array, P: Array) -> Array:
    """P - X diag(X^T P), for columns of unit norm."""
    return np.asarray(P - X * np.sum(X * P, axis=-2, keepdims=True))


@dataclass(frozen=True)
class ExPen(SingleAgentTracking):
    """X+ = X - eta grad h(X),  h(X) = f(A(X)) + beta/4 ||X^T X - I||_F^2,  A(X) = X (3 I - X^T X)/2.

    h is smooth and, near the manifold, has the stationary points of the problem if beta is large enough;
    its gradient takes one gradient of f, at A(X). CDOpt writes beta/2 where this has beta/4. Its authors run
    any unconstrained solver on h; here it is gradient descent with the steps of this package.
    """

    direction: str = field(default="expen", init=False)
    kind = "expen"
    about = for_one_agent("ExPen", "Xiao & Liu, J. Comput. Math. 2024; Xiao, Liu & Toh 2024 (CDOpt)")


EPSILON = 0.5  # the neighborhood ||X^T X - I||_F <= 1/2 of the authors, which a safe step does not leave
SHARE = 0.1  # beta relative to ||grad f||_2: any beta > 0 converges, and a small one allows long steps


@dataclass(frozen=True)
class Landing(SingleAgentTracking):
    """X+ = X - eta L(X),  L(X) = skew(G X^T) X + beta X (X^T X - I),  G = grad f(X).

    The two parts of L are orthogonal: the first decreases f, the second leads to the manifold. The first is
    half the Riemannian gradient, so steps are about twice as long as in other methods. The authors call beta
    lambda and set it to 1.

    Parameters
    ----------
    beta : "auto" or a number, taken literally
        "auto" is a tenth of the spectral norm of the gradient at the start. Unlike in `PLAM`, every beta > 0
        leads to the manifold, and a small one allows long steps.
    safe : "wide", "authors" or "off"
        Shorten the steps of the rule such that ||X^T X - I||_F <= 1/2 holds at every step. The authors' bound
        includes 1/(2 beta); the same proof holds without it ("wide"), and then Barzilai-Borwein steps are
        rarely shortened. With "authors", an ill-conditioned OLSR took 6 times the steps.
    step_size, watch
        As in `Tracking`.
    """

    safe: Literal["wide", "authors", "off"] = "wide"
    watch: bool = False  # every beta > 0 lands
    direction: str = field(default="landing", init=False)
    kind = "landing"
    about = for_one_agent("Landing", "Ablin & Peyre, AISTATS 2022")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.safe not in ("wide", "authors", "off"):
            raise SettingsError(f"safe must be wide, authors or off; found {self.safe!r}")

    def init(self, X: Array, agents: Agents) -> TrackingState:
        """As in `PLAM`, with a tenth of its beta if that is "auto"."""
        s = super().init(X, agents)
        if self.beta != "auto":
            return s
        beta = SHARE * s.beta
        H = s.H + X @ ((beta - s.beta) * deviation(X))
        return replace(s, beta=beta, D=H, H=H, scale=scalar(norm(H)))

    def step_length(self, s: TrackingState) -> Array:
        """The smaller of eta and `safe_step`; eta alone if ``safe`` is "off"."""
        if self.safe == "off":
            return s.pace.eta
        return np.minimum(s.pace.eta, safe_step(s.violation, scalar(norm(s.D)), s.beta, self.safe == "wide"))


def safe_step(violation: Array, length: Array, beta: Array, wide: bool) -> Array:
    """The longest step after which ||X^T X - I|| <= epsilon if this holds before it, ``(agents, 1, 1)``.

    X+^T X+ - I = E - 2 eta beta (E + E^2) + eta^2 L^T L. With e = ||E|| and N = ||L|| its norm is at most

        e - 2 eta beta e (1 - e) + eta^2 N^2   where eta <= 1/(2 beta),
        2 eta beta e (1 + e) - e + eta^2 N^2   beyond.
    """
    e, square = violation, length**2
    with np.errstate(divide="ignore", invalid="ignore"):
        pull = beta * e * (1 - e)
        near = (pull + np.sqrt(pull**2 + square * np.maximum(EPSILON - e, 0.0))) / square
        pull = beta * e * (1 + e)
        far = (np.sqrt(pull**2 + square * (EPSILON + e)) - pull) / square
        corner = np.where(beta > 0, 1 / (2 * beta), np.inf)
    longest = np.where(near < corner, near, far if wide else corner)
    return np.where(square > 0, longest, 0.0)
