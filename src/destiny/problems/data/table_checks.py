"""Checks of one table: numbers, column names; errors are one sentence."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import issparse

from destiny.errors import ProblemError

TIMES = ("date", "time", "duration", "period")  # how the names of such column types begin
SHOWN = 12  # names of columns in a message


class NotNumbersError(ProblemError, TypeError):
    """An entry that is not a number; scikit-learn's conventions ask for a TypeError for some of them."""


def require_numbers(table: Any) -> None:
    """Raise ProblemError for what NumPy silently turns into numbers: dates, durations, masked entries."""
    if np.ma.is_masked(table):
        raise ProblemError("a table must not have masked entries: fill them, or leave those rows out")
    names = column_names(table)
    if names is not None:
        for name, dtype in zip(names, table.dtypes, strict=True):
            if str(dtype).lower().startswith(TIMES):
                raise ProblemError(
                    f"columns must be numbers; column {name!r} is {dtype}: leave it out, or make numbers of "
                    "it (days since some date)"
                )
    elif isinstance(table, np.ndarray) and table.dtype.kind in "mM":
        raise ProblemError(f"a table must have numbers; found {table.dtype}: make numbers of them first")
    elif isinstance(table, np.ndarray) and table.dtype.kind == "V":
        raise ProblemError(
            "a table must have rows and columns of numbers; found a structured array: give "
            "numpy.lib.recfunctions.structured_to_unstructured(X)"
        )


def column_names(table: Any) -> list[Any] | None:
    """Return the column names of a data frame; None for an array."""
    if not (hasattr(table, "columns") and hasattr(table, "dtypes")):  # pandas and polars have both
        return None
    return list(table.columns)


def filled_as_dense(table: Any) -> Any:
    """Return a data frame of sparse columns as a dense one if entries that are not stored are not all 0."""
    dtypes = [] if column_names(table) is None else list(table.dtypes)
    sparse = bool(dtypes) and all(str(dtype).startswith("Sparse[") for dtype in dtypes)
    return table.sparse.to_dense() if sparse and any(dtype.fill_value != 0 for dtype in dtypes) else table


def require_same_columns(names: list[Any] | None, expected: list[Any] | None, where: str) -> None:
    """Raise ProblemError unless ``names`` are ``expected``, in that order; ``where`` says whose those are."""
    if names is None or expected is None or names == expected:
        return
    difference = f"found {_join_names(names)} instead of {_join_names(expected)}"
    if len(names) != len(expected):
        raise ProblemError(f"columns must be the {len(expected)} of {where}; {difference}")
    k = next(k for k, (a, b) in enumerate(zip(names, expected, strict=True)) if a != b)
    same = "in the order of" if set(map(str, names)) == set(map(str, expected)) else "those of"
    raise ProblemError(f"columns must be {same} {where}, with {expected[k]!r} as column {k}; {difference}")


def _join_names(names: list[Any]) -> str:
    return ", ".join(map(str, names[:SHOWN])) + (", ..." if len(names) > SHOWN else "")


def not_numbers(table: Any) -> NotNumbersError | None:
    """Return the error of a table with rows of unequal lengths or an entry that is not a number, if any."""
    if issparse(table):
        return None
    try:
        entries = np.asarray(table)
    except ValueError:  # rows of unequal lengths
        lengths = [np.size(row) for row in table]
        k = next((k for k, length in enumerate(lengths) if length != lengths[0]), None)
        if k is None:
            return None
        return NotNumbersError(
            f"rows must have equally many entries; found {lengths[0]} in row 0 and {lengths[k]} in row {k}"
        )
    except TypeError:
        return None
    if entries.ndim != 2 or entries.dtype.kind not in "OUS":
        return None
    if hasattr(table, "isna"):  # of a data frame: gaps are another matter
        entries = np.where(table.isna(), np.nan, entries)
    names = column_names(table) or range(entries.shape[1])
    return next(
        (
            wrong
            for name, column in zip(names, entries.T, strict=True)
            for wrong in _wrong_entries(name, column)
        ),
        None,
    )


def _wrong_entries(name: Any, column: Any) -> Iterator[NotNumbersError]:
    for row, entry in enumerate(column):
        try:
            float(entry)
        except (TypeError, ValueError) as error:
            why = f" ({error})" if isinstance(error, TypeError) else ""
            yield NotNumbersError(
                f"a table must have numbers; found {reprlib.repr(entry)} in row {row} of column {name!r}: "
                f"leave the column out, or make numbers of it{why}"
            )
