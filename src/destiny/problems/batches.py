"""Mini-batches: some samples of every agent, drawn anew for each step from (seed, agent, step)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from destiny.errors import ProblemError
from destiny.problems.objective_data import BoundObjective
from destiny.problems.separable import PerAgentLoop
from destiny.protocols import Array
from destiny.validation import check_size

Reduction: TypeAlias = Literal["sum", "mean"] | None


def draw(seed: int, agent: int, step: int, samples: int, batch: int) -> NDArray[np.intp]:
    """Indices of an agent's samples in the mini-batch of a step, distinct and sorted."""
    rows = np.random.default_rng([seed, agent, step]).choice(samples, min(batch, samples), replace=False)
    return np.sort(rows)


@dataclass(frozen=True)
class Draws:
    """The mini-batches of a problem of one's own.

    Attributes
    ----------
    batch, seed : int
    reduction : {"sum", "mean"}
        What every objective is over its samples.
    """

    batch: int
    seed: int
    reduction: Reduction

    def __post_init__(self) -> None:
        check_size("batch", self.batch)
        if self.reduction not in ("sum", "mean"):
            raise ProblemError(
                "mini-batches need to know what each value is over its samples: set reduction to "
                f'"sum" or "mean"; found {self.reduction!r}'
            )


@dataclass(frozen=True)
class BatchedObjective:
    """One agent's objective with mini-batches."""

    objective: BoundObjective
    agent: int
    draws: Draws
    samples: int
    factor: float
    """Makes the gradient of a mini-batch an unbiased estimate: samples / batch for sums, else 1."""

    @classmethod
    def of(cls, objective: BoundObjective, agent: int, draws: Draws) -> BatchedObjective:
        """Count the samples; raise `ProblemError` unless all arrays have as many."""
        samples = _samples(objective, agent)
        scaled = samples > draws.batch and draws.reduction == "sum"
        return cls(objective, agent, draws, samples, samples / draws.batch if scaled else 1.0)

    def value(self, X: Array) -> object:
        """f_i(X) on all samples."""
        return self.objective.value(X)

    def gradient(self, X: Array) -> object:
        """Gradient of f_i on all samples, ``(n, p)``."""
        return self.objective.gradient(X)

    def sample(self, X: Array, step: int) -> object:
        """Estimate of the gradient from the samples of a step, ``(n, p)``."""
        rows = draw(self.draws.seed, self.agent, step, self.samples, self.draws.batch)
        return self.factor * np.asarray(self.objective.take(rows).gradient(X))


class BatchLoop(PerAgentLoop):
    """`PerAgentLoop` with mini-batches."""

    def __init__(self, objectives: Sequence[tuple[int, BatchedObjective]], shape: tuple[int, int]) -> None:
        super().__init__(objectives, shape)

    def sample(self, X: Array, step: int) -> Array:
        """Gradients of the mini-batches of a step, ``(agents, n, p)``."""
        return self._each("gradient", self._shape, X, lambda objective, Xi: objective.sample(Xi, step))

    def counts(self) -> Array:
        """Samples in a mini-batch, and in all, of each agent, ``(agents, 2)``."""
        return np.array([[min(o.draws.batch, o.samples), o.samples] for _, o in self._objectives], np.float64)


def _samples(objective: BoundObjective, agent: int) -> int:
    """The number of rows of an agent's arrays; raises `ProblemError` unless all have the same."""
    sizes = sorted({int(leaf.shape[0]) for leaf in objective.leaves() if getattr(leaf, "ndim", 0)})
    if len(sizes) != 1 or sizes[0] == 0:
        counts = ", ".join(map(str, sizes)) or "no"
        raise ProblemError(
            f"agent {agent}'s arrays must have one row for each sample, as many in all of them; found "
            f"{counts} rows; keep what is no sample out of the data (the function may refer to it)"
        )
    return sizes[0]
