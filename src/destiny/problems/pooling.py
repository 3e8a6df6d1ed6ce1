"""The objectives of all agents as one, for reference answers and for methods with one agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from destiny.errors import ProblemError
from destiny.problems.centered_problem import Centered
from destiny.problems.checks import check_ids, check_stack
from destiny.problems.generalized import HostedGeneralized
from destiny.problems.own_problem import as_problem, is_problem, unwrap
from destiny.problems.quadratic import Quadratic
from destiny.problems.regularizers import HostedRegularized
from destiny.problems.sums import HostedTotal
from destiny.protocols import Array, Hosted, Problem, ProblemBase, Regularizer


class Pooled(ProblemBase):
    """A problem with one agent, whose objective is (1/d) sum f_i of another problem; see `pooled`."""

    def __init__(self, problem: Problem) -> None:
        if not is_problem(problem):
            raise ProblemError(f"problem must be one of destiny.problems; found {problem!r}; pass a problem")
        centered = unwrap(problem, Centered)
        self.inner = as_problem(problem) if centered is None else centered.pooled()

    @property
    def kind(self) -> str:
        return self.inner.kind

    @property
    def principal_axes(self) -> bool:
        return self.inner.principal_axes

    @property
    def regularizer(self) -> Regularizer | None:
        return self.inner.regularizer

    @property
    def generalized(self) -> bool:
        return self.inner.generalized

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p), the shape of X."""
        return self.inner.shape

    @property
    def agents(self) -> int:
        return 1

    def host(self, ids: Sequence[int]) -> Hosted:
        """The objective of agent 0; reads the data of all agents. Raises `ProblemError` for other ids."""
        if check_ids(ids, self.agents) != [0]:
            raise ProblemError(f"a pooled problem has the one agent 0; found {list(ids)}; host [0]")
        return self._mean

    @cached_property
    def _mean(self) -> Hosted:
        d = self.inner.agents
        return mean_of(self.inner.host(range(d)), d, self.shape)

    def describe(self) -> str:
        """A sentence on the problem and its data."""
        n, p = self.shape
        return (
            f"Pooled {self.kind.upper()} on {n} x {p} matrices: the data of {self.inner.agents} agents "
            "in one process."
        )


@dataclass(frozen=True)
class Mean:
    """(1/d) sum f_i on stacks ``(1, n, p)``, summed in the order of the agents."""

    hosted: Hosted
    count: int
    shape: tuple[int, int]

    def value(self, X: Array) -> Array:
        """(1/d) sum f_i(X), ``(1, n, p) -> (1,)``."""
        return np.asarray(np.mean(self.hosted.value(self.everywhere(X)), keepdims=True))

    def gradient(self, X: Array) -> Array:
        """Its Euclidean gradient, ``(1, n, p)``."""
        return np.asarray(np.mean(self.hosted.gradient(self.everywhere(X)), axis=0, keepdims=True))

    def everywhere(self, X: Array) -> Array:
        """X ``(1, n, p)`` repeated for all agents, as a view."""
        return np.broadcast_to(check_stack(X, 1, self.shape), (self.count, *self.shape))


def mean_of(hosted: Hosted, count: int, shape: tuple[int, int]) -> Hosted:
    """(1/count) sum f_i over the hosted agents, from one Gram matrix if the problem allows it."""
    if isinstance(hosted, HostedRegularized):
        return HostedRegularized(mean_of(hosted.hosted, count, shape), hosted.regularizer)
    if isinstance(hosted, HostedGeneralized):
        mean = np.mean(hosted.matrices, axis=0, keepdims=True)
        return HostedGeneralized(mean_of(hosted.hosted, count, shape), mean)
    if isinstance(hosted, HostedTotal):
        return HostedTotal([mean_of(part, count, shape) for part in hosted.parts], hosted.weights)
    whole = hosted.mean() if isinstance(hosted, Quadratic) else None
    return Mean(hosted, count, shape) if whole is None else Mean(whole, 1, shape)


def pooled(problem: Problem) -> Pooled:
    """The same problem with one agent that has all data, for reference answers and methods with one agent.

    This reads the data of all agents in one process. If PCA or OLSR has at least n samples, one Gram matrix
    replaces the data. Raises `ProblemError` for an object that is not a problem.

    Examples
    --------
    >>> from destiny.problems import pca
    >>> problem = pca.synthetic(n=20, m=90, p=2, xi=0.8, agents=4)
    >>> pooled(problem).agents, pooled(problem).shape
    (1, (20, 2))
    """
    return Pooled(problem)
