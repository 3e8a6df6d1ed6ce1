"""Mini-batches of PCA, OLSR and SDL: the same problem, whose agents also give gradients of some samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from destiny.errors import ProblemError
from destiny.problems.batches import draw
from destiny.problems.checks import check_ids, check_stack
from destiny.problems.olsr import OLSR
from destiny.problems.own_problem import WrappedProblem
from destiny.problems.pca import PCA, PrivatePCA
from destiny.problems.sample_gradients import SampleGradient
from destiny.problems.sdl import SDL
from destiny.protocols import Array, Hosted
from destiny.validation import check_seed, check_size


class Batched(WrappedProblem):
    """A problem with mini-batches; see `batched`."""

    quadratic = False  # its agents tell gradients alone
    inner: PCA | OLSR | SDL
    batch: int
    seed: int

    def __init__(self, inner: PCA | OLSR | SDL, batch: int, seed: int) -> None:
        super().__init__(inner)
        self.batch, self.seed = check_size("batch", batch), seed

    @property
    def batches(self) -> list[tuple[int, int]]:
        """(batch, seed) of its mini-batches."""
        return [(self.batch, self.seed)]

    def host(self, ids: Sequence[int]) -> HostedBatches:
        """The objectives of the agents ``ids``, with their samples; reads the data of these agents only."""
        known = check_ids(ids, self.agents)
        samples = [self.inner.sample_gradient(i) for i in known]
        return HostedBatches(self.inner.host(known), known, samples, self.shape, self.batch, self.seed)

    def describe(self) -> str:
        """A sentence on the problem, and the size of its mini-batches."""
        return f"{self.inner.describe().removesuffix('.')}, mini-batches of {self.batch} samples."


@dataclass(frozen=True)
class HostedBatches:
    """Hosted objectives with mini-batches (`destiny.protocols.CountedSamples`)."""

    hosted: Hosted
    ids: Sequence[int]
    samples: Sequence[SampleGradient]
    shape: tuple[int, int]
    batch: int
    seed: int

    def value(self, X: Array) -> Array:
        """f_i(X_i) on all samples, ``(agents,)``."""
        return self.hosted.value(X)

    def gradient(self, X: Array) -> Array:
        """Euclidean gradients on all samples, ``(agents, n, p)``."""
        return self.hosted.gradient(X)

    def sample(self, X: Array, step: int) -> Array:
        """Unbiased estimates of the gradients from the samples of a step, ``(agents, n, p)``."""
        X = check_stack(X, len(self.ids), self.shape)
        out = np.zeros(X.shape)
        for place, (agent, samples) in enumerate(zip(self.ids, self.samples, strict=True)):
            if (count := min(self.batch, samples.count)) > 0:
                rows = draw(self.seed, agent, step, samples.count, count)
                out[place] = samples.count / count * samples.gradient(rows, X[place])
        return out

    def counts(self) -> Array:
        """Samples in a mini-batch, and in all, of each agent, ``(agents, 2)``."""
        return np.array([[min(self.batch, s.count), s.count] for s in self.samples], dtype=np.float64)


def batched(problem: PCA | OLSR | SDL, batch: int, seed: int = 0) -> Batched:
    """The same problem with mini-batches, for methods that take them.

    Parameters
    ----------
    problem : PCA, OLSR or SDL
        With data as they are: neither private, nor to be centered by the agents.
    batch : int
        Samples in a mini-batch; an agent with fewer takes all it has.
    seed : int
        Seed of the mini-batches, together with the agent and the step.

    Examples
    --------
    >>> from destiny.problems import pca
    >>> problem = batched(pca.synthetic(n=20, m=90, p=2, xi=0.8, agents=4), batch=5)
    >>> problem.batches, problem.kind
    ([(5, 0)], 'pca')
    """
    if isinstance(problem, PrivatePCA) or not isinstance(problem, PCA | OLSR | SDL):
        raise ProblemError(
            f"mini-batches are drawn from the samples of PCA, OLSR or SDL; found {type(problem).__name__}; "
            "give one of the three as it is (a problem of your own takes batch itself, center data before)"
        )
    check_seed(seed)
    return Batched(problem, batch, seed)
