"""ADSA: the accelerated distributed Sanger algorithm, that is EXTRA on Sanger's rule; PCA only."""

from __future__ import annotations

from dataclasses import dataclass, field

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.step_sizes import Lipschitz, StepRule
from destiny.algorithms.extra import Extra


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
