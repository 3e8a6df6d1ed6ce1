"""A run after one of its steps, as `iterate` yields it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from destiny.engines.team import Team
from destiny.engines.traffic import Traffic
from destiny.geometry.generalised import MassMatrix
from destiny.problems.low_rank import LowRank
from destiny.protocols import Array
from destiny.run import metrics
from destiny.run.centring import Centring


@dataclass(frozen=True)
class Moment:
    """A run after some step. The state of all agents is joined when it is first read."""

    step: int
    traffic: Traffic
    seconds: float
    parts: list[Any]
    team: Team
    centring: Centring | None = None
    """What was done to the data before the first step."""
    mass: MassMatrix | None = None
    """M of the constraint X^T M X = I; None for X^T X = I."""
    released: LowRank | None = None
    """What private products told before the first step, where there were any."""

    @property
    def round(self) -> int:
        """Rounds of communication so far."""
        return self.traffic.rounds

    @property
    def scalars(self) -> int:
        """Numbers sent over all links so far."""
        return self.traffic.scalars

    @cached_property
    def state(self) -> Any:
        """The algorithm's state, all agents on axis 0; a collective call if there are several processes."""
        return self.team.join(self.parts)

    @property
    def X(self) -> Array:
        """The agents' iterates ``(d, n, p)``."""
        X: Array = self.state.X
        return X

    @cached_property
    def spread(self) -> metrics.Spread:
        """What the measures ask of the iterates."""
        stacks = [part.X for part in self.parts]
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self.team.mean(stacks)
            table = self.team.each(lambda X, _: metrics.Spread.numbers(X, mean, self.mass), stacks)
        return metrics.Spread(mean, self.team.gather(table))
