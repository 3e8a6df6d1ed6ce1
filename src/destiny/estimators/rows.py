"""One table, or one table per agent: telling them apart, and splitting one table over agents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MappingView, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from scipy.sparse import issparse

from destiny.errors import ProblemError
from destiny.problems.data import Silos
from destiny.problems.data.partition import equal_parts
from destiny.protocols import Array


class Table(NamedTuple):
    """What one agent brings to a fit, as arrays of equally many rows."""

    rows: Any
    labels: Any
    weights: Array | None = None
    """Weights of the rows, none of them zero; None where every row counts once."""

    def split(self, agents: int) -> list[Table]:
        """Return the tables of ``agents`` agents, the rows in order."""
        parts = [equal_parts(part, agents) for part in (self.rows, self.labels)]
        weights = [None] * agents if self.weights is None else equal_parts(self.weights, agents)
        return [Table(*part) for part in zip(*parts, weights, strict=True)]


def is_silos(X: Any) -> TypeGuard[Sequence[Any]]:
    """Return whether ``X`` is one table per agent: Silos, a list of 2-D arrays, data frames or nested lists.

    A list of lists of numbers is one table, as everywhere in scikit-learn.
    """
    return isinstance(X, Silos) or (isinstance(X, list | tuple) and any(map(_is_table, X)))


def _is_table(item: Any) -> bool:
    if isinstance(item, list | tuple):  # rows of numbers in a list
        return len(item) > 0 and isinstance(item[0], list | tuple)
    return len(getattr(item, "shape", ())) == 2


def refuse_other_containers(X: Any) -> None:
    """Raise ProblemError for dicts, iterators, 3-D arrays, groups and file names; it says what to pass."""
    if isinstance(X, Mapping) and not issparse(X):  # one of SciPy's formats is a dict
        raise ProblemError(
            "tables of several agents come in a list; found a dict: give list(X.values()), or "
            "destiny.Silos(X), which keeps the names"
        )
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
        raise ProblemError("tables must be arrays; found the names of files: give destiny.Silos(files)")
