"""Checks of one table: numbers, column names; errors are one sentence."""

from __future__ import annotations

import json
import re
import reprlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from destiny.errors import ProblemError

WHOLE = re.compile(r"(?<=\d)\.0+$")  # of a number that pandas writes as 1.0 where another row has none
TIMES = ("date", "time", "duration", "period")  # how the names of such column types begin
SHOWN = 12  # names of columns in a message
ID = re.compile(r"(^|[\W_])(id|ID|Id|index|Index)$|[a-z](ID|Id)$|^Unnamed: 0$")  # names of row labels
FEWEST = 3  # rows: two whole numbers are in a row too easily


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
    """Raise ProblemError unless ``names`` are ``expected``, in that order; ``where`` says whose those are.

    Arrays have None, and a file without a header an empty list.
    """
    if names is None or expected is None or names == expected:
        return
    if not names or not expected:
        found = "no header here and one there" if expected else "a header here and none there"
        raise ProblemError(
            f"columns must be those of {where}; found {found}: write the same header everywhere"
        )
    difference = f"found {_join_names(names)} instead of {_join_names(expected)}"
    if len(names) != len(expected):
        raise ProblemError(f"columns must be the {len(expected)} of {where}; {difference}")
    k = next(k for k, (a, b) in enumerate(zip(names, expected, strict=True)) if a != b)
    same = "in the order of" if set(map(str, names)) == set(map(str, expected)) else "those of"
    raise ProblemError(f"columns must be {same} {where}, with {expected[k]!r} as column {k}; {difference}")


def _join_names(names: list[Any]) -> str:
    return ", ".join(map(str, names[:SHOWN])) + (", ..." if len(names) > SHOWN else "")


def require_same_rows(ids: Sequence[Any], expected: Sequence[Any], where: str) -> None:
    """Raise ProblemError unless row labels are ``expected``, in that order; ``where`` says whose those are.

    1, 1.0 and "1" are one label.
    """
    here, there = ([_as_id(one) for one in some] for some in (ids, expected))
    if here == there:
        return
    found = f"{len(here)} rows instead of {len(there)}"
    if len(here) == len(there):
        k = next(k for k, pair in enumerate(zip(here, there, strict=True)) if pair[0] != pair[1])
        found = f"{', '.join(here[k])!r} instead of {', '.join(there[k])!r} in row {k}"
    raise ProblemError(
        f"rows must be the same, in the same order, as those of {where}; found other row labels, {found}: "
        "sort the rows, or leave the labels out (index; of data frames by reset_index(drop=True)) if rows "
        "belong together by their order"
    )


def _as_id(label: Any) -> tuple[str, ...]:
    parts = label if isinstance(label, tuple) else (label,)
    return tuple(WHOLE.sub("", str(part).strip()) for part in parts)


def warn_of_ids(where: str, rows: NDArray[Any], names: Sequence[Any] | None) -> None:
    """Warn of a feature that looks like row labels: whole numbers, another one in every row ``(m, n)``.

    Its name must say so, or it is the first column and counts the rows. It stays a feature: one may be.
    """
    if rows.shape[0] < FEWEST or rows.shape[1] < 2:
        return
    for k in range(rows.shape[1]):
        name, column = (names[k] if names else k), rows[:, k]
        said = isinstance(name, str) and ID.search(name) is not None
        if not (said or k == 0) or (column != np.floor(column)).any():  # NaN is no whole number either
            continue
        if len(np.unique(column)) == len(column) if said else (np.diff(column) == 1).all():
            what = "has another whole number in every row" if said else "counts the rows"
            warnings.warn(
                f"{where}: column {name!r} {what}, as row labels do, and is a feature all the same; index = "
                f"{json.dumps(name)} leaves it out of a text file, columns = [...] of others",
                stacklevel=2,
            )


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
