"""DRFGT: decentralised retraction-free gradient tracking, that is DIGing on the landing field."""

from __future__ import annotations

from dataclasses import dataclass, field

from destiny.algorithms.blocks.about import About
from destiny.algorithms.diging import DIGing


@dataclass(frozen=True)
class DRFGT(DIGing):
    """X+ = W X - eta D, D+ = W D + L(X+) - L(X), with L the landing field.

    Reconstructed from the abstract: the whole field is tracked, its penalty included. For larger steps take
    `Destiny` with direction "landing", the same field in DESTINY's form.
    """

    direction: str = field(default="landing", init=False)
    kind = "drfgt"
    about = About(
        "DRFGT",
        "Sun, Chen, Garcia & Shahrampour, arXiv 2405.11590",
        sends=2,
        traits=frozenset({"reconstruction"}),
    )
