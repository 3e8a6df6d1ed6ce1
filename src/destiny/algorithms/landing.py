"""The landing algorithm (Ablin & Peyre 2022; Gao, Vary, Ablin & Absil 2022): no retraction, a safe step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from destiny.algorithms.blocks.about import for_one_agent
from destiny.algorithms.blocks.single_agent import Alone
from destiny.algorithms.blocks.step_sizes import scalar
from destiny.algorithms.blocks.tracking import TrackingState
from destiny.errors import SettingsError
from destiny.geometry.stiefel import deviation, norm
from destiny.protocols import Agents, Array

EPSILON = 0.5  # the neighbourhood ||X^T X - I||_F <= 1/2 of the authors, which a safe step never leaves
SHARE = 0.1  # of ||grad f||_2: landing needs no more than beta > 0


@dataclass(frozen=True)
class Landing(Alone):
    """X+ = X - eta L(X),  L(X) = skew(G X^T) X + beta X (X^T X - I),  G = grad f(X).

    The two parts of L are orthogonal: one goes down, the other lands. The first is half the Riemannian
    gradient, so steps are about twice as long as elsewhere. The authors' lambda is ``beta``, 1 with them.

    Parameters
    ----------
    beta : "auto" or a number, taken literally
        "auto" is a tenth of the spectral norm of the gradient at the start. Unlike in `PLAM`, every beta > 0
        leads to the manifold, and a small one allows long steps.
    safe : "wide", "authors" or "off"
        Shorten steps such that ||X^T X - I||_F <= 1/2 for ever, whatever the step rule asks for. The authors'
        bound includes 1/(2 beta), which the same proof does without ("wide"); Barzilai-Borwein steps are
        then hardly ever cut. With "authors" an ill-conditioned OLSR took 6 times the steps.
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
        """With a penalty of its own."""
        s = super().init(X, agents)
        if self.beta != "auto":
            return s
        beta = SHARE * s.beta
        H = s.H + X @ ((beta - s.beta) * deviation(X))
        return replace(s, beta=beta, D=H, H=H, scale=scalar(norm(H)))

    def stride(self, s: TrackingState) -> Array:
        """The rule's step, or the safe one where that is shorter."""
        if self.safe == "off":
            return s.pace.eta
        return np.minimum(s.pace.eta, safe_step(s.violation, scalar(norm(s.D)), s.beta, self.safe == "wide"))


def safe_step(violation: Array, length: Array, beta: Array, wide: bool) -> Array:
    """The longest step after which ||X^T X - I|| <= epsilon, given that this holds before it.

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
    return np.where(square > 0, longest, 0.0)  # nowhere to go
