"""Who holds which rows: telling one table from one table per agent, and dealing rows out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MappingView, Sequence, Set
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from scipy.sparse import issparse

from destiny.errors import ProblemError


def is_silos(X: Any) -> TypeGuard[Sequence[Any]]:
    """Whether ``X`` is one table per agent: a list of 2-D arrays (sparse, data frames, nested lists).

    A list of lists of numbers is one table, as everywhere in scikit-learn.
    """
    return isinstance(X, list | tuple) and any(map(_is_table, X))


def _is_table(item: Any) -> bool:
    """Whether a part of a list has rows and columns of its own."""
    if isinstance(item, list | tuple):  # rows of numbers in a list
        return len(item) > 0 and isinstance(item[0], list | tuple)
    return len(getattr(item, "shape", ())) == 2


def refuse_other_containers(X: Any) -> None:
    """Say how tables of several agents are given, for what is often tried instead."""
    if isinstance(X, Mapping) and not issparse(X):  # one of SciPy's formats is a dict
        raise ProblemError("tables of several agents come in a list; found a dict: give list(X.values())")
    if isinstance(X, Iterator | Set | MappingView):
        raise ProblemError(
            f"tables of several agents come in a list; found a {type(X).__name__}: give list(X)"
        )
    if isinstance(X, np.ndarray) and (X.ndim == 3 or (X.dtype == object and any(map(_is_table, X)))):
        raise ProblemError("tables of several agents come in a list; found an array of tables: give list(X)")
    if isinstance(X, list | tuple) and not X:
        raise ProblemError("a table must have rows; found an empty list: give one table, or a list of tables")
    if type(X).__name__.endswith("GroupBy"):
        raise ProblemError(
            "tables of several agents come in a list; found groups: give [table for _, table in X], without "
            "the column that tells the groups"
        )
    names = X if isinstance(X, list | tuple) else [X]
    if all(isinstance(item, str | Path) for item in names):
        raise ProblemError("tables must be arrays; found the names of files: read them first (pandas, NumPy)")


def deal(table: Any, agents: int) -> list[Any]:
    """Rows in order, equal parts, the first ones longer by one; agents beyond the last row hold none."""
    m = table.shape[0]
    ends = [k * (m // agents) + min(k, m % agents) for k in range(agents + 1)]
    return [table[start:end] for start, end in pairwise(ends)]


def elsewhere() -> Any:
    """The rows of an agent that lives in another process: they are never asked for here."""
    raise AssertionError("another process holds these rows")
