"""Checks of what users pass to the estimators: every refusal is one sentence, and names the silo."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import NotFittedError

from destiny.errors import DestinyError, ProblemError
from destiny.estimators.rows import is_silos, refuse_other_containers

TIMES = ("date", "time", "duration", "period")  # how the names of such column types begin
C = TypeVar("C", bound=type)
SHOWN = 12  # names of columns in a message


class NotNumbersError(ProblemError, TypeError):
    """An entry that is not a number; scikit-learn expects a TypeError for some of them."""


def silos_in_silos_out(*names: str) -> Callable[[C], C]:
    """Class decorator: the methods of these names map a list of tables to the list of their results."""

    def decorate(cls: C) -> C:
        for name in names:
            setattr(cls, name, _per_silo(getattr(cls, name)))
        return cls

    return decorate


def _per_silo(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def over_silos(self: Any, X: Any) -> Any:
        refuse_other_containers(X)
        if not is_silos(X):
            return method(self, X)
        names = None if method.__name__ == "inverse_transform" else _names_in_fit(self)
        results = []
        for agent, table in enumerate(X):
            in_silo(agent, require_same_columns, column_names(table), names, "fit")
            results.append(in_silo(agent, method, self, table))
        return results

    return over_silos


def _names_in_fit(estimator: Any) -> list[Any] | None:
    """The names of the columns that a fitted estimator knows, if it knows them."""
    return list(estimator.feature_names_in_) if hasattr(estimator, "feature_names_in_") else None


def in_silo(agent: int, check: Callable[..., Any], *arguments: Any) -> Any:
    """Call ``check``; an error names the silo."""
    try:
        return check(*arguments)
    except NotFittedError:
        raise
    except (ValueError, TypeError) as error:
        text = str(error) if isinstance(error, DestinyError) else _sentence(error)
        raise ProblemError(f"silo {agent}: {text}") from error


def labels_of_silos(y: Any, agents: int) -> list[Any]:
    """The labels of every silo, as a list."""
    expected = f"y must have the labels of each of the {agents} silos"
    if not isinstance(y, list | tuple | np.ndarray):
        raise ProblemError(f"{expected}, in a list; found {'None' if y is None else type(y).__name__}")
    if len(y) != agents:
        raise ProblemError(f"{expected}; found {len(y)}")
    return list(y)


def require_numbers(table: Any) -> None:
    """Refuse what NumPy would turn into numbers without a word: dates, durations, entries behind a mask."""
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
    """The names of a data frame's columns, whatever their type; None for an array."""
    if not (hasattr(table, "columns") and hasattr(table, "dtypes")):  # pandas and polars have both
        return None
    return list(table.columns)


def require_same_columns(names: list[Any] | None, expected: list[Any] | None, where: str) -> None:
    """Refuse columns that are not those expected, in that order; ``where`` says whose those are."""
    if names is None or expected is None or names == expected:
        return
    shown = f"found {_listed(names)} instead of {_listed(expected)}"
    if len(names) != len(expected):
        raise ProblemError(f"columns must be the {len(expected)} of {where}; {shown}")
    k = next(k for k, (a, b) in enumerate(zip(names, expected, strict=True)) if a != b)
    same = "in the order of" if set(map(str, names)) == set(map(str, expected)) else "those of"
    raise ProblemError(f"columns must be {same} {where}, with {expected[k]!r} as column {k}; {shown}")


def _listed(names: list[Any]) -> str:
    return ", ".join(map(str, names[:SHOWN])) + (", ..." if len(names) > SHOWN else "")


def explained(error: Exception, table: Any) -> Exception:
    """The error of a check as one sentence; scikit-learn's own about the names of columns stays."""
    if isinstance(error, DestinyError | NotFittedError) or "feature names should match" in str(error):
        return error
    return _not_numbers(table) or ProblemError(_sentence(error))


def _sentence(error: Exception) -> str:
    """The first sentence of scikit-learn's, without the array it prints, with what to do."""
    text = re.sub(r"\narray=.*?\n(?=Reshape)", " ", str(error), flags=re.DOTALL)
    line = text.split("\n")[0]
    if line.endswith(":"):  # a list follows
        line = " ".join(text.split())
    if line.startswith("Input") and "NaN" in line:
        line = line.rstrip(".") + ": leave those rows out, or fill the gaps first"
    return line


def _not_numbers(table: Any) -> NotNumbersError | None:
    """What is wrong with a table that has rows of unequal lengths or an entry that is not a number."""
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
