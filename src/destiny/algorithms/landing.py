"""The landing algorithm (Ablin & Peyre 2022; Gao, Vary, Ablin & Absil 2022): no retraction, a safe step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from destiny.algorithms.blocks.about import for_one_agent
from destiny.algorithms.blocks.single_agent import SingleAgentTracking
from destiny.algorithms.blocks.tracking import TrackingState
from destiny.errors import SettingsError
from destiny.geometry.stiefel import deviation, norm, scalar
from destiny.protocols import Agents, Array

EPSILON = 0.5  # the neighbourhood ||X^T X - I||_F <= 1/2 of the authors, which a safe step does not leave
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
