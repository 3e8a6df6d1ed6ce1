"""DESTINY (Wang & Liu 2022, Algorithm 1): gradient tracking on H_i, one round of communication per step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.tracking import Tracking
from destiny.protocols import Topology


@dataclass(frozen=True)
class Destiny(Tracking):
    """DESTINY with the paper's settings or, by default, scale-free ones.

    Its recursion is `Tracking.step`; `DIGing` and `ATC` mix the same quantities in another order.

    Parameters
    ----------
    beta : "auto" or a number, taken literally
        Penalty. "auto" is the spectral norm of the network's mean gradient at the start.
    step_size : StepRule
        `BB` (safeguarded, default), `PlainBB` (Section 4.2 as printed) or `Constant` (Algorithm 1).
    direction : "h", "expen", "plam" or "landing"
        What is tracked; "h" is the paper's.
    watch : bool
        Double beta where the run would settle off the manifold; see `Tracking`.
    gossip, lambda_
        Opening rounds, and how well the network mixes if that is known; see `Scheme`.
    """

    kind = "destiny"
    about = About("DESTINY", "Wang & Liu, IEEE TSP 2022, Algorithm 1", sends=2)

    def on(self, network: Topology) -> Self:
        """Told the network's lambda, if it has one: 20 opening rounds see too little of long networks."""
        if self.lambda_ is not None or not self.step_size.network or not hasattr(network, "lambda_"):
            return self
        return replace(self, lambda_=network.lambda_)
