"""DESTINY (Wang & Liu 2022, Algorithm 1): gradient tracking on H_i, one round of communication per step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.tracking import Tracking
from destiny.protocols import TopologyBase


@dataclass(frozen=True)
class Destiny(Tracking):
    """DESTINY with the paper's settings or, by default, scale-free ones.

    Its recursion is `Tracking.step`; `DIGing` and `ATC` mix the same quantities in another order.

    Parameters
    ----------
    beta : "auto" or float
        Penalty; "auto" is the spectral norm of the network's mean gradient at the start.
    step_size : StepRule
        `BB` (safeguarded, default), `PlainBB` (Section 4.2 as printed), or a number (Algorithm 1).
    direction : "h", "expen", "plam" or "landing"
        The direction to track; "h" is the paper's.
    watch : bool
        Raise beta where the run would end off the manifold: where agents agree and the tracker vanishes but
        X^T X != I or, with beta "auto", where X moves away outside the region ||X^T X - I|| <= 1/6.
    gossip : int
        Number of opening rounds, which estimate beta, the first step size and lambda; none are run if all
        that is needed is given.
    lambda_ : float in [0, 1), optional
        ||W - 11^T/d||_2; by default the network's own, or estimated if the network changes.
    """

    kind = "destiny"
    about = About("DESTINY", "Wang & Liu, IEEE TSP 2022, Algorithm 1", sends=2)

    def on(self, network: TopologyBase) -> Self:
        """The same settings with the network's lambda, if the step rule needs it and the network has one.

        The estimate of the opening rounds is too small on networks of large diameter.
        """
        if self.lambda_ is not None or not self.step_size.needs_lambda or network.lambda_ is None:
            return self
        return replace(self, lambda_=network.lambda_)
