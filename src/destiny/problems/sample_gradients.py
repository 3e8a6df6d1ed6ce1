"""Gradients of some samples of one agent, for mini-batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from destiny.problems.data.centred_rows import CentredRows
from destiny.problems.fourth_power import Stream
from destiny.protocols import Array

Rows = NDArray[np.intp]


class SampleGradient(Protocol):
    """The samples of one agent."""

    @property
    def count(self) -> int:
        """m_i."""

    def gradient(self, rows: Rows, X: Array) -> Array:
        """The sum of the gradients of some samples at X, ``(n, p) -> (n, p)``."""


@dataclass(frozen=True)
class QuadraticSamples:
    """Samples of c ||A^T X - D^T||_F^2, `destiny.problems.quadratic`."""

    data: Any
    """A^T ``(m, n)``, samples contiguous, or `CentredRows`."""
    targets: Any
    """D^T ``(m, p)``, or None."""
    factor: float
    scale: float

    @classmethod
    def of(cls, data: Any, targets: Any, factor: float, scale: float) -> QuadraticSamples:
        """From data ``(n, m)`` and targets ``(p, m)``, without a copy if samples are contiguous."""
        if isinstance(data, CentredRows):
            return cls(data, targets, factor, scale)
        return cls(np.ascontiguousarray(data.T), None if targets is None else targets.T, factor, scale)

    @property
    def count(self) -> int:
        """m_i."""
        return int(self.data.shape[1] if isinstance(self.data, CentredRows) else len(self.data))

    def gradient(self, rows: Rows, X: Array) -> Array:
        """2c A (A^T X - D^T) of some columns of A and D."""
        targets = None if self.targets is None else np.asarray(self.targets[rows], dtype=np.float64)
        if isinstance(self.data, CentredRows):
            weights = None if self.data.weights is None else self.data.weights[rows]
            few = replace(self.data, rows=self.data.rows[rows], weights=weights)
            return 2 * self.factor * self.scale * few.gradient(self.scale * X, targets)
        block = self.scale * self.data[rows].astype(np.float64, copy=False)
        residual = block @ X
        if targets is not None:
            residual -= targets
        return np.asarray(2 * self.factor * (block.T @ residual))


@dataclass(frozen=True)
class FourthPowerSamples:
    """Samples of -1/4 ||X^T B||_4^4, `destiny.problems.fourth_power`."""

    stream: Stream

    @property
    def count(self) -> int:
        """m_i."""
        return len(self.stream.samples)

    def gradient(self, rows: Rows, X: Array) -> Array:
        """-B (B^T X)^3 of some columns of B."""
        few = replace(self.stream, samples=self.stream.samples[rows])
        return few.gradient(X, np.empty(few.room, dtype=np.uint8))
