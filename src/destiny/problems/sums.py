"""Sums of problems, agent by agent: f_i = sum_k w_k f_i^k."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from destiny.errors import ProblemError, is_number
from destiny.protocols import Array, Hosted, Problem


class Summable:
    """What lets problems be written as ``a + 0.1 * b``."""

    def __add__(self, other: Problem) -> Total:
        return Total([self, other], [1.0, 1.0]) if hasattr(other, "host") else NotImplemented  # type: ignore[list-item]

    def __mul__(self, weight: float) -> Total:
        return Total([self], [weight]) if is_number(weight) else NotImplemented  # type: ignore[list-item]

    __rmul__ = __mul__


class Total(Summable):
    """A weighted sum of problems with the same agents and the same shape; see `total`."""

    kind = "sum"
    problems: tuple[Problem, ...]
    weights: tuple[float, ...]

    def __init__(self, problems: Sequence[Problem], weights: Sequence[float]) -> None:
        if not problems:
            raise ProblemError("a sum needs at least one problem; found none; give a list of problems")
        if len(weights) != len(problems):
            raise ProblemError(
                f"a sum of {len(problems)} problems needs as many weights; found {len(weights)}"
            )
        for weight in weights:
            if not is_number(weight):
                raise ProblemError(f"a weight must be a finite number; found {weight!r}; correct it")
        for k, problem in enumerate(problems):
            _compare("agents", problems[0].agents, problem.agents, k)
            _compare("shape", problems[0].shape, problem.shape, k)
        flat = [
            part
            for weight, problem in zip(weights, problems, strict=True)
            for part in _parts(float(weight), problem)
        ]
        self.weights, self.problems = zip(*flat, strict=True)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p)."""
        return self.problems[0].shape

    @property
    def agents(self) -> int:
        """d."""
        return self.problems[0].agents

    @property
    def batches(self) -> list[tuple[int, int]]:
        """(batch, seed) of every part with mini-batches."""
        return [drawn for problem in self.problems for drawn in getattr(problem, "batches", [])]

    def host(self, ids: Sequence[int]) -> HostedTotal:
        """The parts of the agents ``ids``."""
        return HostedTotal([problem.host(ids) for problem in self.problems], self.weights)

    def describe(self) -> str:
        """The problem in one sentence."""
        n, p = self.shape
        kinds = " + ".join(
            f"{weight:g} {getattr(problem, 'kind', type(problem).__name__)}"
            for weight, problem in zip(self.weights, self.problems, strict=True)
        )
        return f"Sum {kinds} on {n} x {p} matrices, of {self.agents} agents."


@dataclass(frozen=True)
class HostedTotal:
    """Sums of what each part says of the hosted agents, in the order of the parts."""

    parts: Sequence[Hosted]
    weights: Sequence[float]

    def value(self, X: Array) -> Array:
        """f_i(X_i), ``(agents,)``."""
        return self._add(lambda part: part.value(X))

    def gradient(self, X: Array) -> Array:
        """Euclidean gradients, ``(agents, n, p)``."""
        return self._add(lambda part: part.gradient(X))

    def sample(self, X: Array, step: int) -> Array:
        """Gradients of a step's mini-batches; parts without any give full ones."""
        return self._add(lambda part: part.sample(X, step) if hasattr(part, "sample") else part.gradient(X))

    def _add(self, ask: Callable[[Any], Array]) -> Array:
        total: Array = sum(
            (weight * ask(part) for weight, part in zip(self.weights, self.parts, strict=True)), np.zeros(())
        )
        return total


def total(problems: Sequence[Problem], weights: Sequence[float] | None = None) -> Total:
    """The weighted sum of problems, agent by agent; ``a + 0.1 * b`` says the same.

    Parameters
    ----------
    problems : sequence of Problem
        Known ones such as PCA and your own, with the same number of agents and the same shape.
    weights : sequence of float, optional
        One per problem; 1 by default.

    Examples
    --------
    >>> from destiny.problems import pca
    >>> a = pca.synthetic(n=20, m=90, p=2, xi=0.8, agents=4)
    >>> print(total([a, a], weights=[1, 0.5]).describe())
    Sum 1 pca + 0.5 pca on 20 x 2 matrices, of 4 agents.
    """
    for k, problem in enumerate(problems):
        if not hasattr(problem, "host"):
            raise ProblemError(
                f"a sum is made of problems; found {type(problem).__name__} as number {k}; "
                "make one with destiny.problems.custom.problem"
            )
    return Total(problems, [1.0] * len(problems) if weights is None else weights)


def _parts(weight: float, problem: Problem) -> list[tuple[float, Problem]]:
    """The parts of a sum within a sum, or the problem itself."""
    if not isinstance(problem, Total):
        return [(weight, problem)]
    return [(weight * inner, part) for inner, part in zip(problem.weights, problem.problems, strict=True)]


def _compare(what: str, expected: object, found: object, k: int) -> None:
    """Refuse parts that differ."""
    if found != expected:
        raise ProblemError(
            f"the problems of a sum must have the same {what}; found {expected} in the first and {found} in "
            f"number {k}; make them equal"
        )
