"""Gradients of some samples of one agent, for mini-batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from destiny.problems.data.rows import Rows
from destiny.problems.fourth_power import Stream
from destiny.protocols import Array

Numbers = NDArray[np.intp]


class SampleGradient(Protocol):
    """The samples of one agent."""

    @property
    def count(self) -> int:
        """m_i."""

    def gradient(self, rows: Numbers, X: Array) -> Array:
        """The sum of the gradients of some samples at X, ``(n, p) -> (n, p)``."""


@dataclass(frozen=True)
class QuadraticSamples:
    """Samples of c ||A X - D||_F^2, `destiny.problems.quadratic`."""

    data: Rows
    targets: Rows | None
    factor: float

    @property
    def count(self) -> int:
        """m_i."""
        return self.data.shape[0]

    def gradient(self, rows: Numbers, X: Array) -> Array:
        """2c A^T (A X - D) of some rows of A and D."""
        targets = None if self.targets is None else self.targets[rows]
        return 2 * self.factor * self.data.take(rows).gradient(X, targets)


@dataclass(frozen=True)
class FourthPowerSamples:
    """Samples of -1/4 ||B X||_4^4, `destiny.problems.fourth_power`."""

    stream: Stream

    @property
    def count(self) -> int:
        """m_i."""
        return len(self.stream.samples)

    def gradient(self, rows: Numbers, X: Array) -> Array:
        """-B^T (B X)^3 of some rows of B."""
        few = replace(self.stream, samples=self.stream.samples[rows])
        return few.gradient(X, np.empty(few.room, dtype=np.uint8))
