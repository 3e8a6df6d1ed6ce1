"""The private problem within a problem that wraps it."""

from __future__ import annotations

from destiny.problems.own_problem import unwrap
from destiny.problems.pca import PrivatePCA
from destiny.problems.sums import Total
from destiny.protocols import Problem


def private_part(problem: Problem) -> PrivatePCA | None:
    """The differentially private PCA within a problem, or within a term of a sum; else None."""
    total = unwrap(problem, Total)
    terms = () if total is None else total.problems
    return unwrap(problem, PrivatePCA) or next(filter(None, map(private_part, terms)), None)
