"""ADMM for PCA by low-rank factorization (after Schizas & Aduroja 2015), PCA only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.opening import check_gossip, opening_rounds
from destiny.algorithms.blocks.step_sizes import Lipschitz
from destiny.errors import SettingsError
from destiny.geometry.stiefel import identity, polar, transpose
from destiny.protocols import Agents, AlgorithmBase, Array
from destiny.validation import is_number

RULE = Lipschitz()  # a rule for which the opening rounds estimate L and lambda
FACTOR = 0.15  # on Figure 3 a quarter of it loses consensus at lambda 0.63 and 0.90, half of it at 0.47


@dataclass(frozen=True)
class ADMMState:
    """Every array has the hosted agents on axis 0; mean(M) = 0 at every step."""

    X: Array
    """Polar factor of U."""
    U: Array
    M: Array
    """Sum of U - W U over the steps: rho M are the multipliers."""
    rho: Array


@dataclass(frozen=True)
class ADMMPCA(AlgorithmBase):
    """ADMM on min sum_i 1/2 ||A_i - U_i Z_i^T||^2 subject to U_i = U_j, the Z_i eliminated.

    M+ = M + U - W U,   U+ = (C U Q + rho (U + W U - M+)) (Q U^T C U Q + 2 rho I)^-1,   Q = (U^T U)^-1.

    Reconstructed for samples split over agents; the published method splits features. Edges are weighted by
    W, and an agent's own weight acts as a proximal term. The problem is not convex, and no theory covers it.

    Parameters
    ----------
    rho : "auto" or a number
        Weight of the constraint; "auto" is max(1, 0.15 / (1 - lambda)^2) L, estimated in the opening rounds.
        As all agents need the same rho, an estimated one is mixed in every round.
    gossip : int
        Opening rounds; none if ``rho`` is a number.
    """

    rho: float | Literal["auto"] = "auto"
    gossip: int = 20
    kind = "admm-pca"
    about = About(
        "ADMM-PCA",
        "Schizas & Aduroja, IEEE TSP 2015",
        sends=1,
        needs="symmetric W, fixed network",
        numbers_auto=1,
        problem="pca",
        traits=frozenset({"fixed", "reconstruction", "semidefinite"}),
    )

    def __post_init__(self) -> None:
        if self.rho != "auto" and not (is_number(self.rho) and self.rho > 0):
            raise SettingsError(f'rho must be "auto" or a positive number; found {self.rho!r}')
        check_gossip(self.gossip)

    @property
    def opening(self) -> int:
        """Number of rounds before the first step."""
        return self.gossip if self.rho == "auto" else 0

    def init(self, X: Array, agents: Agents) -> ADMMState:
        """U = X, M = 0, and rho as given or estimated."""
        if self.rho == "auto":
            slope = agents.gradient(X)
            estimates = opening_rounds(agents, X, slope, slope, RULE, self.opening, None, agents.gradient)
            rho = np.maximum(1.0, FACTOR / (1 - estimates.lambda_) ** 2) * estimates.curvature
        else:
            rho = np.full((len(X), 1, 1), self.rho)
        return ADMMState(X, X, np.zeros_like(X), rho)

    def step(self, s: ADMMState, agents: Agents) -> ADMMState:
        """The recursion of the class docstring, in one round."""
        WU, rho = agents.mix(s.U, s.rho) if self.rho == "auto" else (*agents.mix(s.U), s.rho)
        M = s.M + s.U - WU
        Q = np.linalg.inv(transpose(s.U) @ s.U)
        CUQ = -agents.gradient(s.U) @ Q
        left = CUQ + rho * (s.U + WU - M)
        right = Q @ (transpose(s.U) @ CUQ) + 2 * rho * identity(Q.shape[-1])
        U = left @ np.linalg.inv(right)
        return ADMMState(polar(U), U, M, rho)
