"""One table: rows of numbers with names, from an array or a data frame; errors are one sentence."""

from __future__ import annotations

import json
import re
import reprlib
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from destiny.errors import ProblemError
from destiny.problems.data.csv_layout import Csv, cut, shorten

WHOLE = re.compile(r"(?<=\d)\.0+$")  # of a number that pandas writes as 1.0 where another row has none
TIMES = ("date", "time", "duration", "period")  # how the names of such column types begin
SHOWN = 12  # names of columns in a message
ID = re.compile(r"(^|[\W_])(id|ID|Id|index|Index)$|[a-z](ID|Id)$|^Unnamed: 0$")  # names of row labels
FEWEST = 3  # rows: two whole numbers are in a row too easily


class Table(NamedTuple):
    """Rows of numbers with the names of their columns, their labels if asked for, and their row labels.

    ``names`` are empty for a file without a header, and None for what has no names at all.
    """

    rows: Any
    names: list[Any] | None = None
    labels: NDArray[Any] | None = None
    ids: Sequence[Any] | None = None


class NotNumbersError(ProblemError, TypeError):
    """An entry that is not a number; scikit-learn's conventions ask for a TypeError for some of them."""


def as_table(source: Any, how: Csv) -> Table:
    """Return an array, a sparse matrix or a data frame as a table; raise ProblemError for anything else.

    ``columns`` and ``labels`` of ``how`` choose columns of a data frame by their names.
    """
    require_numbers(source)
    names = column_names(source)
    if names is not None:
        return _of_frame(source, choose_columns(names, how), how.labels)
    refuse_names(how, f"a {type(source).__name__}")
    if issparse(source):
        matrix: Any = source
        return Table(csr_array(matrix))  # the format in which rows are taken quickly
    try:
        return Table(source if isinstance(source, np.memmap) else np.asarray(source))
    except ValueError as error:
        raise not_numbers(source) or ProblemError(f"a table must have numbers: {error}") from error


def _of_frame(frame: Any, names: list[Any], labels: str | None) -> Table:
    values = None if labels is None else _without_na(frame[labels])
    ids = frame.index if hasattr(frame, "iloc") else None
    frame = filled_as_dense(frame[names] if names != column_names(frame) else frame)
    if _is_sparse(frame):
        return Table(csr_array(frame.sparse.to_coo()), names, values, ids)
    rows = np.asarray(frame)
    if rows.dtype.kind == "O":  # numbers with pandas.NA, or no numbers
        wrong = not_numbers(frame)
        if wrong is not None:
            raise wrong
        rows = np.asarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))
    return Table(rows, names, values, ids)


def _without_na(column: Any) -> NDArray[Any]:
    """Return the entries of a column of a data frame, with None for pandas.NA, which no comparison takes."""
    values = np.array(column)
    if values.dtype.kind == "O" and hasattr(column, "isna"):
        values[np.asarray(column.isna())] = None
    return values


def choose_columns(names: list[Any], how: Csv) -> list[Any]:
    """Return the names of the columns to keep; raise ProblemError for one that is not there."""
    for name in how.columns or ():
        position("a table", names, name, "columns")
    if how.labels is not None:
        position("a table", names, how.labels, "labels")
    return [name for name in names if name != how.labels] if how.columns is None else list(how.columns)


def position(what: str, names: Sequence[Any], name: Any, key: str) -> int:
    """Return the place of the only column of this name; raise ProblemError that names ``key``."""
    count = names.count(name)
    if count == 1:
        return names.index(name)
    texts = list(map(str, names))
    near = get_close_matches(str(name), texts, 1)
    found = f"{count} of them" if count else f"'{near[0]}'" if near else shorten(texts) or "no header"
    raise ProblemError(f"{what} must have one column '{cut(str(name))}'; found {found}; correct {key}")


def refuse_names(how: Csv, found: str) -> None:
    """Raise ProblemError if columns are chosen by names that ``found`` does not have."""
    for key, value in (("columns", how.columns), ("labels", how.labels)):
        if value is not None:
            raise ProblemError(f"{key} needs a table with named columns; found {found}: leave {key} out")


def check_rows(rows: Any) -> None:
    """Raise ProblemError unless rows are a table of real numbers."""
    if len(rows.shape) != 2:
        raise ProblemError(f"a table must have rows and columns; found {len(rows.shape)} dimensions")
    if rows.dtype.kind not in "biuf":
        raise not_numbers(rows) or ProblemError(f"a table must have real numbers; found {rows.dtype}")
    if rows.shape[1] == 0:
        raise ProblemError("a table must have columns; found none")


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
    filled = _is_sparse(table) and any(dtype.fill_value != 0 for dtype in table.dtypes)
    return table.sparse.to_dense() if filled else table


def _is_sparse(table: Any) -> bool:
    dtypes = [] if column_names(table) is None else list(table.dtypes)
    return bool(dtypes) and all(str(dtype).startswith("Sparse[") for dtype in dtypes)


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
    for name, column in zip(column_names(table) or range(entries.shape[1]), entries.T, strict=True):
        for row, entry in enumerate(column):
            try:
                float(entry)
            except (TypeError, ValueError) as error:
                why = f" ({error})" if isinstance(error, TypeError) else ""
                return NotNumbersError(
                    f"a table must have numbers; found {reprlib.repr(entry)} in row {row} of column "
                    f"{name!r}: leave the column out, or make numbers of it{why}"
                )
    return None
