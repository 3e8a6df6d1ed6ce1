"""Base of the methods whose steps average over the whole network, exactly (`destiny.engines.totals`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from destiny.errors import SettingsError
from destiny.geometry.stiefel import violation
from destiny.protocols import AlgorithmBase, Array, TopologyBase
from destiny.validation import is_whole

PHASES = 3  # an average takes at most so many diameters of rounds


@dataclass(frozen=True)
class TotalsMethod(AlgorithmBase):
    """A method by totals: few steps of many rounds, on networks that stay.

    Parameters
    ----------
    diameter : int, optional
        Diameter of the network; `on` sets it.
    """

    diameter: int | None = field(default=None, kw_only=True)
    few_steps = True

    def __post_init__(self) -> None:
        if self.diameter is not None and not (is_whole(self.diameter) and self.diameter >= 0):
            raise SettingsError(f"diameter must be a whole number >= 0; found {self.diameter!r}")

    @property
    def rounds(self) -> int:
        """The most rounds of a step."""
        return PHASES * (self.diameter or 0)

    def on(self, network: TopologyBase) -> Self:
        """The same settings with the network's diameter; `SettingsError` if it changes."""
        if network.changes or network.diameter is None:
            raise SettingsError(
                f"{self.kind} needs a network that stays; this one changes from round to round: "
                "use destiny-momentum"
            )
        return replace(self, diameter=network.diameter)


@dataclass(frozen=True)
class TreeState:
    """What the state of every `TreeMethod` has; all agents have the same numbers but for ``disagreement``."""

    X: Array
    tree: Array
    """Parents and depth of the tree for averages (`Agents.spanning_tree`), ``(agents, 2)``."""
    slope: Array
    """Norm of the Riemannian gradient at X relative to ``scale``; 1 until it is known."""
    scale: Array
    """That of the start, to which residuals are relative; 0 until it is known."""
    disagreement: Array
    """How far the agent was from the mean in the last step, by a random product."""


@dataclass(frozen=True)
class TreeMethod(TotalsMethod):
    """A method that finds a tree of few levels first; a step takes twice its depth in rounds.

    With private sums a step takes a diameter of rounds more.
    """

    @property
    def opening(self) -> int:
        """Rounds before the first step, in which agents find the tree."""
        return 2 * (self.diameter or 0)

    def residual(self, s: Any) -> Array:
        """Residual that an agent can compute by itself, relative to the start, ``(agents,)``."""
        worst: Array = np.maximum(s.slope, s.disagreement)[:, 0, 0]
        return np.maximum(worst, violation(s.X))


def shared(array: Array, agents: int) -> Array:
    """The same numbers for all agents hosted here, which are stored once."""
    return np.broadcast_to(array, (agents, *array.shape))
