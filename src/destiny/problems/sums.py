"""Sums of problems, agent by agent: f_i = sum_k w_k f_i^k."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np

from destiny.errors import ProblemError
from destiny.problems.own_problem import as_problem, is_problem
from destiny.problems.regularizers import Regularized, is_regularizer, regularized
from destiny.protocols import (
    Array,
    CountedSamples,
    Hosted,
    Problem,
    ProblemBase,
    QuadraticHosted,
    Regularizer,
    Sampled,
)
from destiny.validation import is_number


class Summable(ProblemBase):
    """Base of problems that can be combined as ``a + 0.1 * b``."""

    @overload
    def __add__(self, other: Problem) -> Total: ...
    @overload
    def __add__(self, other: Regularizer) -> Regularized: ...

    def __add__(self, other: Any) -> Total | Regularized:
        if isinstance(other, Regularized):
            return other + self
        if is_problem(other):
            return Total([self, other], [1.0, 1.0])
        return regularized(self, other) if is_regularizer(other) else NotImplemented

    def __mul__(self, weight: float) -> Total:
        return Total([self], [weight]) if is_number(weight) else NotImplemented

    __rmul__ = __mul__


class Total(Summable):
    """A weighted sum of problems with the same agents and the same shape; see `total`."""

    kind = "sum"
    problems: tuple[ProblemBase, ...]
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
        terms = [as_problem(problem) for problem in problems]
        for k, problem in enumerate(terms):
            if problem.generalized:
                raise ProblemError(
                    f"a sum is made of problems with X^T X = I; number {k} has the constraint X^T M X = I; "
                    "make the sum first and give M to it at the end"
                )
            if problem.regularizer is not None:
                raise ProblemError(
                    f"a sum is made of smooth problems; found the regularizer {problem.regularizer!r} in "
                    f"number {k}; add it to the sum at the end"
                )
            _compare("agents", terms[0].agents, problem.agents, k)
            _compare("shape", terms[0].shape, problem.shape, k)
        flat = [
            part
            for weight, problem in zip(weights, terms, strict=True)
            for part in _parts(float(weight), problem)
        ]
        self.weights, self.problems = zip(*flat, strict=True)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p), the shape of X."""
        return self.problems[0].shape

    @property
    def agents(self) -> int:
        """Number of agents d."""
        return self.problems[0].agents

    @property
    def quadratic(self) -> bool:
        """Whether all parts are."""
        return all(problem.quadratic for problem in self.problems)

    @property
    def batches(self) -> list[tuple[int, int]]:
        """(batch, seed) of every part with mini-batches."""
        return [drawn for problem in self.problems for drawn in problem.batches]

    def host(self, ids: Sequence[int]) -> HostedTotal:
        """The objectives of the agents ``ids``; loads their data in every part."""
        hosted = SampledTotal if self.batches else HostedTotal
        return hosted([problem.host(ids) for problem in self.problems], self.weights)

    def describe(self) -> str:
        """A sentence on the problem and its data."""
        n, p = self.shape
        kinds = " + ".join(
            f"{weight:g} {problem.kind}" for weight, problem in zip(self.weights, self.problems, strict=True)
        )
        return f"Sum {kinds} on {n} x {p} matrices, of {self.agents} agents."


@dataclass(frozen=True)
class HostedTotal:
    """Weighted sums over the parts, in their order, for the hosted agents."""

    parts: Sequence[Hosted]
    weights: Sequence[float]

    def value(self, X: Array) -> Array:
        """f_i(X_i), ``(agents,)``."""
        return self._add(part.value(X) for part in self.parts)

    def gradient(self, X: Array) -> Array:
        """Euclidean gradients, ``(agents, n, p)``."""
        return self._add(part.gradient(X) for part in self.parts)

    def hessian(self) -> Array | None:
        """The weighted sum of the parts' constant Hessians; None if a part has none."""
        total: Array | None = None
        for weight, part in zip(self.weights, self.parts, strict=True):
            A = part.hessian() if isinstance(part, QuadraticHosted) else None
            if A is None:
                return None
            total = weight * A if total is None else total + weight * A
        return total

    def scales(self) -> Array | None:
        """Those of the sum: the weighted sums of the parts' scales; None if a part has none."""
        parts = [part.scales() if isinstance(part, QuadraticHosted) else None for part in self.parts]
        known = [scales for scales in parts if scales is not None]
        if len(known) < len(parts):
            return None
        total: Array = sum((abs(w) * u for w, u in zip(self.weights, known, strict=True)), np.zeros(()))
        return total

    def _add(self, terms: Iterable[Array]) -> Array:
        total: Array = sum(
            (weight * term for weight, term in zip(self.weights, terms, strict=True)), np.zeros(())
        )
        return total


@dataclass(frozen=True)
class SampledTotal(HostedTotal):
    """The same where a part has mini-batches."""

    def sample(self, X: Array, step: int) -> Array:
        """Gradients of the mini-batches of a step, ``(agents, n, p)``; full ones of other parts."""
        return self._add(sample(X, step) for sample in self._samples)

    def counts(self) -> Array:
        """Samples in a mini-batch, and in all, over the parts that have mini-batches, ``(agents, 2)``.

        NaN if one of these parts does not count them.
        """
        parts = [part for part in self.parts if isinstance(part, Sampled)]
        known = [part.counts() if isinstance(part, CountedSamples) else np.array(np.nan) for part in parts]
        return np.asarray(sum(known))

    @cached_property
    def _samples(self) -> list[Callable[[Array, int], Array]]:
        return [part.sample if isinstance(part, Sampled) else _whole(part) for part in self.parts]


def _whole(part: Hosted) -> Callable[[Array, int], Array]:
    return lambda X, _: part.gradient(X)


def total(problems: Sequence[Problem], weights: Sequence[float] | None = None) -> Total:
    """The weighted sum of problems, agent by agent; the same as ``a + 0.1 * b``.

    Parameters
    ----------
    problems : sequence of Problem
        With the same number of agents and the same shape.
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
        if not is_problem(problem):
            raise ProblemError(
                f"a sum is made of problems; found {type(problem).__name__} as number {k}; "
                "make one with destiny.problems.custom.problem"
            )
    return Total(problems, [1.0] * len(problems) if weights is None else weights)


def _parts(weight: float, problem: ProblemBase) -> list[tuple[float, ProblemBase]]:
    """Weights and parts of a sum, multiplied by ``weight``, or of a single problem."""
    if not isinstance(problem, Total):
        return [(weight, problem)]
    return [(weight * inner, part) for inner, part in zip(problem.weights, problem.problems, strict=True)]


def _compare(what: str, expected: object, found: object, k: int) -> None:
    """Raise `ProblemError` if part k differs from the first."""
    if found != expected:
        raise ProblemError(
            f"the problems of a sum must have the same {what}; found {expected} in the first and {found} in "
            f"number {k}; make them equal"
        )
