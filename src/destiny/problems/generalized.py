"""Problems with the constraint X^T M X = I, where M is a sum of matrices that the agents hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from destiny.errors import ProblemError
from destiny.problems.checks import check_ids
from destiny.problems.data.partition import Matrices, Source
from destiny.problems.own_problem import WrappedProblem, as_problem, is_problem
from destiny.protocols import Array, Hosted, Problem, ProblemBase

SYMMETRIC = 1e-10  # of the largest entry: differences of M_i and its transpose that are rounding


@dataclass(frozen=True)
class HostedGeneralized:
    """Hosted objectives with the agents' parts of M."""

    hosted: Hosted
    matrices: Array
    """d M_i, ``(agents, n, n)``."""

    def value(self, X: Array) -> Array:
        """f_i(X_i), ``(agents,)``."""
        return self.hosted.value(X)

    def gradient(self, X: Array) -> Array:
        """Euclidean gradients of f_i, ``(agents, n, p)``."""
        return self.hosted.gradient(X)

    def mass(self, X: Array) -> Array:
        """d M_i X_i, ``(agents, n, q) -> (agents, n, q)``."""
        return np.asarray(np.matmul(self.matrices, np.ascontiguousarray(X)))


class Generalized(WrappedProblem):
    """A problem with the constraint X^T M X = I instead of X^T X = I, M = sum_i M_i.

    With PCA the answer spans the leading generalized eigenvectors, C X = M X Lambda; `result.axes` has them
    one by one. Linear discriminant analysis and canonical correlations are of this kind. `solve` takes
    `destiny.algorithms.CDADT` by default. M must be positive definite, its parts M_i need not be: a singular
    M is refused.

    Parameters
    ----------
    problem : Problem
        f_i, without mini-batches and without a regularizer.
    M : sequence of ndarray (n, n), or of callables that return one
        M_i of each agent, symmetric; a callable is called when its agent is hosted.

    Examples
    --------
    >>> import numpy as np, destiny
    >>> from destiny.problems import Generalized, pca
    >>> problem = pca.synthetic(n=6, m=60, p=2, xi=0.8, agents=4)
    >>> noise = [np.diag([4.0, 1, 1, 1, 1, 1]) / 4] * 4
    >>> result = destiny.solve(Generalized(problem, noise), destiny.networks.ring(4))
    >>> result.converged, np.round(result.X.T @ sum(noise) @ result.X, 9).tolist()
    (True, [[1.0, 0.0], [0.0, 1.0]])
    """

    inner: ProblemBase

    def __init__(self, problem: Problem, M: Sequence[Source]) -> None:
        given = as_problem(problem)
        for what, found in (
            (f"the regularizer {given.regularizer!r}", given.regularizer is not None),
            (f"mini-batches of {given.batches[0][0] if given.batches else 0}", bool(given.batches)),
            ("a matrix M already", given.generalized),
            ("data to be centered", given.centering),
        ):
            if found:
                raise ProblemError(
                    f"the constraint X^T M X = I goes with a plain problem; this one has {what}"
                )
        if len(M) != given.agents:
            raise ProblemError(
                f"M must have one matrix M_i for each of the {given.agents} agents; found {len(M)}"
            )
        super().__init__(given)
        self._matrices = Matrices(M, "M", width=given.shape[0])
        for agent, source in enumerate(M):
            if not callable(source):
                self.part(agent)  # refused where the mistake was made

    @property
    def generalized(self) -> bool:
        return True

    def part(self, agent: int) -> Array:
        """M_i of an agent ``(n, n)``; raise `ProblemError` unless it is square and symmetric."""
        M = self._matrices.load(agent).array()
        n = self.shape[0]
        if M.shape != (n, n):
            raise ProblemError(
                f"agent {agent}'s M must be {n} x {n}, as X has {n} rows; found shape {M.shape}"
            )
        if not (gap := float(np.abs(M - M.T).max())) <= SYMMETRIC * float(np.abs(M).max()):
            raise ProblemError(
                f"agent {agent}'s M must be symmetric; found entries that differ by {gap:.1e} from those of "
                "the transpose: give (M + M.T) / 2"
            )
        return (M + M.T) / 2

    def host(self, ids: Sequence[int]) -> HostedGeneralized:
        """The objectives and the M_i of the agents ``ids``."""
        matrices = np.stack([self.agents * self.part(i) for i in check_ids(ids, self.agents)])
        return HostedGeneralized(self.inner.host(ids), matrices)

    def variance(self, agent: int) -> None:
        """None: X has no orthonormal columns, so that -2 f is not a part of a variance."""

    def describe(self) -> str:
        """The sentence of the problem with the constraint."""
        sentence = self.inner.describe().removesuffix(".") or self.inner.kind
        return f"{sentence}, with the constraint X^T M X = I."

    def __add__(self, other: Any) -> Generalized:
        if not is_problem(other):
            return NotImplemented
        total: Any = self.inner
        return Generalized(total + other, self._matrices.sources)

    __radd__ = __add__
