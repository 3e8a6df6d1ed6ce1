"""All agents' objectives as one: for the answer to compare with, not a way to find it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from destiny.errors import ProblemError
from destiny.problems.centred_problem import Centred
from destiny.problems.checks import check_ids, check_stack
from destiny.problems.quadratic import Quadratic
from destiny.problems.sums import HostedTotal
from destiny.protocols import Array, Hosted, Problem


class Pooled:
    """One agent whose objective is the mean (1/d) sum f_i of another problem's agents; see `pooled`."""

    def __init__(self, problem: Problem) -> None:
        if not hasattr(problem, "host"):
            raise ProblemError(f"problem must be one of destiny.problems; found {problem!r}; pass a problem")
        self.problem = problem
        self.kind: str = getattr(problem, "kind", type(problem).__name__)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p)."""
        return self.problem.shape

    @property
    def agents(self) -> int:
        """1."""
        return 1

    def host(self, ids: Sequence[int]) -> Hosted:
        """The one agent, and with it the data of all."""
        if check_ids(ids, self.agents) != [0]:
            raise ProblemError(f"a pooled problem has the one agent 0; found {list(ids)}; host [0]")
        return self._mean

    @cached_property
    def _mean(self) -> Hosted:
        d = self.problem.agents
        return mean_of(self.problem.host(range(d)), d, self.shape)

    def describe(self) -> str:
        """The problem in one sentence."""
        n, p = self.shape
        return (
            f"Pooled {self.kind.upper()} on {n} x {p} matrices: the data of {self.problem.agents} agents "
            "in one process."
        )


@dataclass(frozen=True)
class Mean:
    """(1/d) sum f_i on stacks ``(1, n, p)``, summed in the order of the agents."""

    hosted: Hosted
    count: int
    shape: tuple[int, int]

    def value(self, X: Array) -> Array:
        """``(1,)``."""
        return np.asarray(np.mean(self.hosted.value(self.everywhere(X)), keepdims=True))

    def gradient(self, X: Array) -> Array:
        """``(1, n, p)``."""
        return np.asarray(np.mean(self.hosted.gradient(self.everywhere(X)), axis=0, keepdims=True))

    def everywhere(self, X: Array) -> Array:
        """The one X at every agent."""
        return np.broadcast_to(check_stack(X, 1, self.shape), (self.count, *self.shape))


def mean_of(hosted: Hosted, count: int, shape: tuple[int, int]) -> Hosted:
    """(1/count) sum f_i of all hosted agents, from one Gram matrix where the data allow it."""
    if isinstance(hosted, HostedTotal):
        return HostedTotal([mean_of(part, count, shape) for part in hosted.parts], hosted.weights)
    whole = hosted.mean() if isinstance(hosted, Quadratic) else None
    return Mean(hosted, count, shape) if whole is None else Mean(whole, 1, shape)


def pooled(problem: Problem) -> Pooled:
    """The same problem with one agent that holds everything.

    This pools all data in one process, which is what a decentralised method exists to avoid: it is for ground
    truth, and for methods that know one agent only. Where PCA or OLSR has at least n samples in all, one Gram
    matrix takes the place of the agents' data.

    Examples
    --------
    >>> from destiny.problems import pca
    >>> problem = pca.synthetic(n=20, m=90, p=2, xi=0.8, agents=4)
    >>> pooled(problem).agents, pooled(problem).shape
    (1, (20, 2))
    """
    return Pooled(problem.pooled() if isinstance(problem, Centred) else problem)
