"""Mini-batches: some samples of every agent, drawn anew for each step from (seed, agent, step)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from destiny.errors import ProblemError
from destiny.geometry.stiefel import random_point
from destiny.problems.objective_data import Held
from destiny.problems.separable import Loop
from destiny.protocols import Array

ROUNDING = 1e-6  # of the values compared: far above their rounding, far below a missing sample


def draw(seed: int, agent: int, step: int, samples: int, batch: int) -> NDArray[np.intp]:
    """Which of an agent's samples a step uses: distinct ones, in rising order."""
    rows = np.random.default_rng([seed, agent, step]).choice(samples, min(batch, samples), replace=False)
    return np.sort(rows)


@dataclass(frozen=True)
class Drawn:
    """One agent's objective, and how its mini-batches are drawn."""

    held: Held
    agent: int
    seed: int
    batch: int
    samples: int
    factor: float
    """What makes a batch's gradient a fair guess of the full one."""

    @classmethod
    def of(cls, held: Held, agent: int, seed: int, batch: int, shape: tuple[int, int]) -> Drawn:
        """Find out how many samples there are and how the objective adds them up."""
        samples = _samples(held, agent)
        scaled = samples > batch and adds(held, agent, samples, random_point(*shape))
        return cls(held, agent, seed, batch, samples, samples / batch if scaled else 1.0)

    def value(self, X: Array) -> object:
        """f_i(X), of all samples."""
        return self.held.value(X)

    def gradient(self, X: Array) -> object:
        """Gradient of all samples."""
        return self.held.gradient(X)

    def sample(self, X: Array, step: int) -> object:
        """Gradient of the step's samples alone."""
        rows = draw(self.seed, self.agent, step, self.samples, self.batch)
        return self.factor * np.asarray(self.held.take(rows).gradient(X))


class DrawnLoop(Loop):
    """Hosted agents with mini-batches."""

    def __init__(self, objectives: Sequence[tuple[int, Drawn]], shape: tuple[int, int]) -> None:
        super().__init__(objectives, shape)

    def sample(self, X: Array, step: int) -> Array:
        """Gradients of the step's mini-batches, ``(agents, n, p)``."""
        return self._each("gradient", self._shape, X, lambda objective, Xi: objective.sample(Xi, step))


def adds(held: Held, agent: int, samples: int, X: Array) -> bool:
    """Whether an objective adds up its samples or averages them; anything else has no mini-batches.

    Tried on the two halves of the data. Twice the samples give twice the sum, and the same average.
    """
    half = samples // 2
    parts = [held, held.take(np.arange(half)), held.take(np.arange(half, samples))]
    whole, first, second = Loop([(agent, part) for part in parts], X.shape).value(np.stack([X] * 3))
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


def _samples(held: Held, agent: int) -> int:
    """The number of samples of an agent: the rows of its arrays."""
    found = sorted({int(leaf.shape[0]) for leaf in held.leaves() if getattr(leaf, "ndim", 0)})
    if len(found) != 1 or found[0] == 0:
        counts = ", ".join(map(str, found)) or "no"
        raise ProblemError(
            f"agent {agent}'s arrays must have one row for each sample, as many in all of them; found "
            f"{counts} rows; keep what is no sample out of the data (the function may refer to it)"
        )
    return found[0]
