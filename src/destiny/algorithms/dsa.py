"""DSA (Gang, Raja & Bajwa 2019): the distributed Sanger algorithm, PCA only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.step_sizes import Lipschitz, StepRule
from destiny.algorithms.dgd import DGD


@dataclass(frozen=True)
class DSA(DGD):
    """X+ = W X - eta S(X),  S(X) = -C X + X triu(X^T C X): combine-then-adapt descent on Sanger's rule.

    Inexact with a constant step: linear down to a neighbourhood of the eigenvectors in proportion to eta.
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
