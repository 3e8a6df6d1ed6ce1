"""RF-EXTRA: EXTRA on DESTINY's direction H, retraction-free."""

from __future__ import annotations

from dataclasses import dataclass, field

from destiny.algorithms.blocks.about import About
from destiny.algorithms.extra import Extra


@dataclass(frozen=True)
class RFExtra(Extra):
    """EXTRA with H for its direction: one matrix a round, no retraction.

    Reconstructed from the abstract (an approximate gradient mapping for orthogonality in EXTRA's recursion).
    """

    direction: str = field(default="h", init=False)
    kind = "rf-extra"
    about = About(
        "RF-EXTRA",
        "Li & Hu, arXiv 2604.23754",
        sends=1,
        numbers_auto=1,
        needs=Extra.about.needs,
        reconstruction=True,
    )
