"""Mini-batches: some samples of every agent, drawn anew for each step from (seed, agent, step)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from destiny.errors import ProblemError
from destiny.geometry.stiefel import random_point
from destiny.problems.objective_data import BoundObjective
from destiny.problems.separable import PerAgentLoop
from destiny.protocols import Array

ROUNDING = 1e-6  # relative to the values: far above rounding, far below the effect of a sample


def draw(seed: int, agent: int, step: int, samples: int, batch: int) -> NDArray[np.intp]:
    """Indices of an agent's samples in the mini-batch of a step, distinct and sorted."""
    rows = np.random.default_rng([seed, agent, step]).choice(samples, min(batch, samples), replace=False)
    return np.sort(rows)


@dataclass(frozen=True)
class BatchedObjective:
    """One agent's objective with mini-batches."""

    objective: BoundObjective
    agent: int
    seed: int
    batch: int
    samples: int
    factor: float
    """Makes the gradient of a mini-batch an unbiased estimate: samples / batch for sums, else 1."""

    @classmethod
    def of(
        cls, objective: BoundObjective, agent: int, seed: int, batch: int, shape: tuple[int, int]
    ) -> BatchedObjective:
        """Count the samples and determine ``factor``; raise `ProblemError` if `is_sum` does."""
        samples = _samples(objective, agent)
        scaled = samples > batch and is_sum(objective, agent, samples, random_point(*shape))
        return cls(objective, agent, seed, batch, samples, samples / batch if scaled else 1.0)

    def value(self, X: Array) -> object:
        """f_i(X) on all samples."""
        return self.objective.value(X)

    def gradient(self, X: Array) -> object:
        """Gradient of f_i on all samples, ``(n, p)``."""
        return self.objective.gradient(X)

    def sample(self, X: Array, step: int) -> object:
        """Estimate of the gradient from the samples of a step, ``(n, p)``."""
        rows = draw(self.seed, self.agent, step, self.samples, self.batch)
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
        return np.array([[min(o.batch, o.samples), o.samples] for _, o in self._objectives], np.float64)


def is_sum(objective: BoundObjective, agent: int, samples: int, X: Array) -> bool:
    """Whether an objective is the sum over its samples rather than the mean; raise `ProblemError` if neither.

    It compares the value on all samples with those on the two halves of the samples.
    """
    half = samples // 2
    parts = [objective, objective.take(np.arange(half)), objective.take(np.arange(half, samples))]
    whole, first, second = PerAgentLoop([(agent, part) for part in parts], X.shape).value(np.stack([X] * 3))
    close = ROUNDING * (abs(whole) + abs(first) + abs(second))
    if abs(first + second - whole) <= close:
        return True
    if abs((half * first + (samples - half) * second) / samples - whole) <= close:
        return False
    raise ProblemError(
        f"agent {agent}'s value must be a sum or a mean over its samples to be used in mini-batches; found "
        f"{whole:.6g} for all {samples} and {first:.6g}, {second:.6g} for the halves; leave batch out, or "
        "add terms without samples as a problem of their own (a + b)"
    )


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
