"""Who holds which rows: telling one table from one table per agent, and dealing rows out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeGuard


def is_silos(X: Any) -> TypeGuard[Sequence[Any]]:
    """Whether ``X`` is one table per agent: a list of 2-D arrays, sparse matrices or data frames.

    A list of lists of numbers is one table, as everywhere in scikit-learn.
    """
    return isinstance(X, list | tuple) and len(X) > 0 and all(len(getattr(x, "shape", ())) == 2 for x in X)


def deal(table: Any, agents: int) -> list[Any]:
    """Rows in order, equal parts, the first ones longer by one; agents beyond the last row hold none."""
    m = table.shape[0]
    ends = [k * (m // agents) + min(k, m % agents) for k in range(agents + 1)]
    return [table[start:end] for start, end in pairwise(ends)]


def elsewhere() -> Any:
    """The rows of an agent that lives in another process: they are never asked for here."""
    raise AssertionError("another process holds these rows")
