"""The private problem within a problem that wraps it."""

from __future__ import annotations

from destiny.problems.centred_problem import Centred
from destiny.problems.own_problem import WrappedProblem
from destiny.problems.pca import PrivatePCA
from destiny.problems.pooling import Pooled
from destiny.problems.sums import Total
from destiny.protocols import Problem


def private_part(problem: Problem) -> PrivatePCA | None:
    """The differentially private PCA in a problem that is cached, centred, pooled or a sum; else None."""
    if isinstance(problem, PrivatePCA):
        return problem
    if isinstance(problem, WrappedProblem):
        return private_part(problem.inner)
    if isinstance(problem, Centred | Pooled):
        return private_part(problem.problem)
    parts = problem.problems if isinstance(problem, Total) else ()
    return next((part for p in parts if (part := private_part(p)) is not None), None)
