"""Methods on Sanger's rule, for PCA only: DSA, ADSA and FAST-PCA."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.opening import (
    as_step_rule,
    check_gossip,
    check_lambda,
    needs_opening,
    opening_rounds,
)
from destiny.algorithms.blocks.step_sizes import Lipschitz, Move, Pace, StepRule, initial_pace
from destiny.algorithms.dgd import DGD
from destiny.algorithms.extra import Extra
from destiny.geometry.directions import DIRECTIONS
from destiny.geometry.stiefel import norm, scalar
from destiny.protocols import Agents, AlgorithmBase, Array


@dataclass(frozen=True)
class DSA(DGD):
    """X+ = W X - eta S(X),  S(X) = -C X + X triu(X^T C X): combine-then-adapt descent on Sanger's rule.

    Inexact with a constant step: linear down to a neighborhood of the eigenvectors in proportion to eta.
    """

    step_size: StepRule = field(default_factory=lambda: Lipschitz(0.1))
    beta: float = field(default=0.0, init=False)
    direction: str = field(default="sanger", init=False)
    order: Literal["adapt", "combine"] = field(default="combine", init=False)
    directions = ("sanger",)
    kind = "dsa"
    about = About(
        "DSA",
        "Gang, Raja & Bajwa, ICASSP 2019; Gang & Bajwa 2022",
        sends=1,
        problem="pca",
        traits=frozenset({"axes", "inexact"}),
    )


@dataclass(frozen=True)
class ADSA(Extra):
    """EXTRA with S(X) = -C X + X triu(X^T C X): exact, and the columns tend to the eigenvectors.

    Reconstructed from the description in Section 4 of Wang & Liu 2022. Barzilai-Borwein steps fail on it.
    """

    step_size: StepRule = field(default_factory=Lipschitz)
    beta: float = field(default=0.0, init=False)
    direction: str = field(default="sanger", init=False)
    directions = ("sanger",)
    kind = "adsa"
    about = About(
        "ADSA",
        "Gang, Raja & Bajwa, ICASSP 2019, as described by Wang & Liu 2022",
        sends=1,
        numbers_auto=1,
        needs=Extra.about.needs,
        problem="pca",
        traits=frozenset({"axes", "fixed", "reconstruction"}),
    )


OJA = DIRECTIONS["oja"]


@dataclass(frozen=True)
class FastPCAState:
    """Every array has the hosted agents on axis 0; mean(D) = mean(H) at every step."""

    X: Array
    """The iterates with columns of length one: the answer so far."""
    Z: Array
    """The iterates themselves; the lengths of their columns drift."""
    D: Array
    H: Array
    pace: Pace


@dataclass(frozen=True)
class FastPCA(AlgorithmBase):
    """Z+ = (Z + W Z)/2 - eta D,  D+ = (D + W D)/2 + H(Z+) - H(Z), with H(Z) = -C Z + Z N^-1 triu(Z^T C Z).

    N holds the squared lengths of Z's columns, which tend to the eigenvectors up to length: X has them at
    length one. The lazy weights (I + W)/2 allow larger steps. Needs distinct leading eigenvalues.

    Parameters
    ----------
    step_size : StepRule
        By default `Lipschitz`, a constant.
    gossip, lambda_
        Opening rounds for what is not given; see `Scheme`.
    """

    step_size: StepRule = field(default_factory=lambda: Lipschitz(0.6))
    gossip: int = 20
    lambda_: float | None = None
    kind = "fast-pca"
    about = About(
        "FAST-PCA", "Gang & Bajwa, arXiv 2108.12373", sends=2, problem="pca", traits=frozenset({"axes"})
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_size", as_step_rule(self.step_size))
        check_gossip(self.gossip)
        check_lambda(self.lambda_)

    @property
    def step_rule(self) -> StepRule:
        return self.step_size

    @property
    def opening(self) -> int:
        """Number of rounds before the first step."""
        return self.gossip if needs_opening(self.step_size, self.lambda_) else 0

    def tracked(self, s: FastPCAState) -> tuple[Array, Array]:
        """The trackers D and the directions H."""
        return s.D, s.H

    def init(self, X: Array, agents: Agents) -> FastPCAState:
        """Run the opening rounds; D starts as the mixed H."""
        H = OJA(agents.gradient, X, 0.0)
        estimates = opening_rounds(
            agents,
            X,
            H,
            H,
            self.step_size,
            self.opening,
            self.lambda_,
            lambda Y: OJA(agents.gradient, Y, 0.0),
        )
        pace = initial_pace(self.step_size, estimates.size, estimates.lambda_, estimates.curvature)
        return FastPCAState(X, X, estimates.D, H, pace)

    def step(self, s: FastPCAState, agents: Agents) -> FastPCAState:
        """The recursion of the class docstring, in one round."""
        WZ, WD = agents.mix(s.Z, s.D)
        Z = (s.Z + WZ) / 2 - s.pace.eta * s.D
        H = OJA(agents.gradient, Z, 0.0)
        dH = H - s.H
        D = (s.D + WD) / 2 + dH
        move = Move(Z - s.Z, D - s.D, dH, scalar(norm(WZ - s.Z)), scalar(norm(D)))
        X = Z / np.linalg.norm(Z, axis=1, keepdims=True)
        return FastPCAState(X, Z, D, H, self.step_size.update(s.pace, move))
