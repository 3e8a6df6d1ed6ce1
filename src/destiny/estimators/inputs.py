"""Checks of the arguments of the estimators: errors are one sentence and name the silo."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from destiny.errors import DestinyError, ProblemError
from destiny.estimators.rows import is_silos, refuse_other_containers
from destiny.problems.data import Silos, SiloValues
from destiny.problems.data.per_party import of_all_rows
from destiny.problems.data.row_blocks import row_blocks
from destiny.problems.data.rows import MappedRows, check_values, is_out_of_core
from destiny.problems.data.table_checks import column_names, not_numbers, require_same_columns
from destiny.protocols import Array

C = TypeVar("C", bound=type)


def accept_silos(*names: str) -> Callable[[C], C]:
    """Class decorator: the named methods also take several tables and then return as many results.

    For a list of tables they return a list of results, for `Silos` they return Silos or SiloValues.
    """

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
        if isinstance(X, Silos):
            return map_silos(self, method, X)
        names = None if method.__name__ == "inverse_transform" else _names_in_fit(self)
        results = []
        for agent, table in enumerate(X):
            call_for_silo(agent, require_same_columns, column_names(table), names, "fit")
            results.append(call_for_silo(agent, method, self, table))
        return results

    return over_silos


def map_silos(estimator: Any, method: Callable[..., Any], silos: Silos) -> Silos | SiloValues:
    """Return what ``method`` gives for each table, as Silos if these are tables again."""
    back = method.__name__ == "inverse_transform"
    check_is_fitted(estimator)
    if not back:
        check_columns(estimator, silos)
    tables = method.__name__.endswith("transform")

    def call(rows: Any) -> Any:
        result = method(estimator, CheckedRows(rows))
        return result if issparse(result) else np.asarray(result)  # whatever `set_output` asks for

    def over(rows: Any) -> Any:
        if not is_out_of_core(rows):
            return call(rows)
        if tables:
            return MappedRows.of(rows, call)
        return np.concatenate([call(block) for _, block in row_blocks(rows)] or [call(rows[:0])])

    results = [
        call_for_silo(party, over, part) for party, part in zip(silos.parties, silos.parts, strict=True)
    ]
    if not tables:
        return SiloValues(results, silos.parties, silos.order)
    names = _names_in_fit(estimator) if back else estimator.get_feature_names_out()
    gaps = silos.gaps and any(check_values(part, "a table") for part in results)
    return Silos.from_parts(
        results,
        silos.parties,
        [] if names is None else names,
        silos.labels,
        gaps=gaps,
        row_labels=silos.row_labels,
        order=silos.order,
    )


@dataclass(frozen=True)
class CheckedRows:
    """Rows of silos, which need no further check."""

    rows: Any

    def as_floats(self) -> Any:
        """Return the rows in float64 or float32."""
        keep = self.rows.dtype in (np.float64, np.float32)
        return self.rows if keep else self.rows.astype(np.float64)


def check_columns(estimator: Any, silos: Silos) -> None:
    """Raise ProblemError unless silos have the columns of `fit`."""
    if silos.split != "rows":
        raise ProblemError(
            'silos must have the same columns; found split="columns": take VerticalPCA or VerticalRidge '
            "(destiny.extensions.vertical)"
        )
    names, n = _names_in_fit(estimator), estimator.n_features_in_
    if silos.columns and names:
        require_same_columns(list(silos.columns), names, "fit")
    if silos.shape[1] != n:
        raise ProblemError(f"silos must have the {n} columns of fit; found {silos.shape[1]}")


def _names_in_fit(estimator: Any) -> list[Any] | None:
    """Return the column names seen in `fit`; None if there were none."""
    return list(estimator.feature_names_in_) if hasattr(estimator, "feature_names_in_") else None


def column_name(estimator: Any, number: int) -> str:
    """Return the name of a column of `fit` in quotes, or its number if columns have no names."""
    names = _names_in_fit(estimator)
    return str(number) if names is None else repr(str(names[number]))


def call_for_silo(agent: int | str, check: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``check(*arguments)``; raise its ValueError or TypeError as a ProblemError naming the silo."""
    try:
        return check(*arguments)
    except NotFittedError:
        raise
    except (ValueError, TypeError) as error:
        text = str(error) if isinstance(error, DestinyError) else _sentence(error)
        silo = f"silo {agent}" if isinstance(agent, int) else agent
        raise ProblemError(f"{silo}: {text}") from error


def labels_of_silos(y: Any, X: Sequence[Any], what: str = "labels") -> list[Any]:
    """Return ``y`` as a list with one entry per silo of ``X``, or raise ProblemError."""
    parts = list(y.parts) if isinstance(y, Silos) else y
    return _one_per_silo(parts, X, f"y must have the {what}")


def weights_of_silos(weights: Any, X: Sequence[Any]) -> list[Any]:
    """Return ``sample_weight`` as a list with one entry per silo of ``X``, or raise ProblemError."""
    return (
        [None] * len(X)
        if weights is None
        else _one_per_silo(weights, X, "sample_weight must have the weights")
    )


def _one_per_silo(y: Any, X: Sequence[Any], what: str) -> list[Any]:
    expected = f"{what} of each of the {len(X)} silos, in a list"
    if isinstance(X, Silos):
        rows = X.shape[0]
        if isinstance(y, SiloValues) or of_all_rows(y, rows) is not None:
            return list(X.per_row(y))
        expected += f", or of all {rows} rows, in an array"
    if not isinstance(y, list | tuple | np.ndarray | SiloValues):
        raise ProblemError(f"{expected}; found {'None' if y is None else type(y).__name__}")
    if len(y) != len(X):
        raise ProblemError(f"{expected}; found {len(y)}")
    return list(y)


def check_weights(weights: Any, rows: int) -> Array:
    """Return ``sample_weight`` as an array ``(rows,)``, or raise ProblemError."""
    try:
        checked = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ProblemError(f"sample_weight must have one number per row: {_sentence(error)}") from error
    if checked.ndim != 1:
        raise ProblemError(
            f"sample_weight must have one number per row; found an array of shape {checked.shape}"
        )
    if len(checked) != rows:
        raise ProblemError(f"sample_weight must have one number per row, {rows}; found {len(checked)}")
    wrong = np.flatnonzero(~(np.isfinite(checked) & (checked >= 0)))
    if wrong.size:
        raise ProblemError(
            f"sample_weight must have finite numbers of at least 0; found {checked[wrong[0]]:g} in row "
            f"{wrong[0]}"
        )
    return checked


def as_problem_error(error: Exception, table: Any) -> Exception:
    """Return the error of a scikit-learn check as a one-sentence ProblemError.

    Errors of this package, NotFittedError and scikit-learn's message about feature names are returned as is.
    """
    if isinstance(error, DestinyError | NotFittedError) or "feature names should match" in str(error):
        return error
    return not_numbers(table) or ProblemError(_sentence(error, table))


def _sentence(error: Exception, table: Any = None) -> str:
    """Return the first sentence of a scikit-learn error, without the array it prints, plus a remedy.

    Of NaN and infinity in ``table`` it says where the first one is.
    """
    text = re.sub(r"\narray=.*?\n(?=Reshape)", " ", str(error), flags=re.DOTALL)
    line = text.split("\n")[0]
    if line.endswith(":"):  # a list follows
        line = " ".join(text.split())
    if line.startswith("Input X contains"):
        line = line.rstrip(".") + _first(table, np.isinf if "infinity" in line else np.isnan)
    if line.startswith("Input") and "NaN" in line:
        line = line.rstrip(".") + ": leave those rows out, or fill the gaps first"
    return line


def _first(table: Any, found: Callable[[Any], Any]) -> str:
    """Return where the first such number of a table is, in words; nothing if it has no rows and columns."""
    if np.ndim(table) != 2 or issparse(table):
        return ""
    names = column_names(table)
    gaps = {"na_value": np.nan} if hasattr(table, "iloc") else {}  # pandas.NA of data frames
    entries = table.to_numpy(dtype=np.float64, **gaps) if gaps else np.asarray(table, dtype=np.float64)
    row, column = np.argwhere(found(entries))[0]
    return f" in row {row} of column {column if names is None else repr(names[column])}"
