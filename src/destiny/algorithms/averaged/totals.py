"""Base of the methods whose steps average over the whole network, exactly (`Agents.all_reduce`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from destiny.errors import SettingsError
from destiny.geometry.stiefel import violation
from destiny.protocols import Agents, AlgorithmBase, Array, Bounds, TopologyBase
from destiny.validation import is_whole

X_BOUND = 2.0  # above every entry of a point near the manifold


@dataclass(frozen=True)
class TotalsMethod(AlgorithmBase):
    """A method by sums over all agents: few steps of many rounds, on static networks.

    Parameters
    ----------
    depth : int, optional
        Levels of the spanning tree that sums travel along; `on` sets it. A sum takes twice as many rounds.
    """

    depth: int | None = field(default=None, kw_only=True)
    few_steps = True

    def __post_init__(self) -> None:
        if self.depth is not None and not (is_whole(self.depth) and self.depth >= 0):
            raise SettingsError(f"depth must be a whole number >= 0; found {self.depth!r}")

    @property
    def rounds(self) -> int:
        """The most rounds of a step."""
        return 2 * (self.depth or 0)

    def on(self, network: TopologyBase) -> Self:
        """The same settings with the depth of the network's tree; `SettingsError` if the network changes."""
        if network.changes or network.depth is None:
            raise SettingsError(
                f"{self.kind} needs a static network; this one changes from round to round: "
                "use destiny-accelerated"
            )
        return replace(self, depth=network.depth)

    def residual(self, s: Any) -> Array:
        """Residual that an agent can compute by itself, relative to the start, ``(agents,)``."""
        worst: Array = np.maximum(s.slope, s.disagreement)[:, 0, 0]
        return np.maximum(worst, violation(s.X))


@dataclass(frozen=True)
class TotalsState:
    """What the state of every `TotalsMethod` has, the same at all agents but for ``disagreement``."""

    X: Array
    slope: Array
    """Norm of the Riemannian gradient at X relative to ``scale``; 1 until it is known."""
    scale: Array
    """That of the start, to which residuals are relative; 0 until it is known."""
    disagreement: Array
    """How far the agent was from the mean in the last step, by a random product."""


def averages(agents: Agents, *arrays: Array, bounds: Bounds | None = None) -> tuple[Array, ...]:
    """Averages over all agents, stored once for those hosted here; ``bounds`` are those of the sums."""
    totals = agents.all_reduce(*arrays, bounds=bounds)
    return tuple(shared(total[0] / agents.count, len(total)) for total in totals)


def shared(array: Array, agents: int) -> Array:
    """The same numbers for all agents hosted here, which are stored once."""
    return np.broadcast_to(array, (agents, *array.shape))
