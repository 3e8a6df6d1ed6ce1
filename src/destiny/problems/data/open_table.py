"""One table of a party: from an array, sparse matrix, data frame or file to rows of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, load_npz

from destiny.errors import ProblemError
from destiny.problems.data import parquet
from destiny.problems.data.csv import is_csv, read_head, read_ids, read_labels, read_rows
from destiny.problems.data.csv_layout import Csv, shorten
from destiny.problems.data.files import load, split_key
from destiny.problems.data.table_checks import column_names, filled_as_dense, not_numbers, require_numbers


class Opened(NamedTuple):
    """Rows of numbers with the names of their columns, their labels if asked for, and their row labels.

    ``names`` are empty for a file without a header, and None for what has no names at all.
    """

    rows: Any
    names: list[Any] | None = None
    labels: NDArray[Any] | None = None
    ids: Sequence[Any] | None = None


def open_table(
    source: Any,
    columns: Sequence[str] | None = None,
    labels: str | None = None,
    csv: Csv | None = None,
    ids: bool = False,
) -> Opened:
    """Return a table as rows of real numbers: an array, a memory map or a CSR matrix.

    ``columns`` chooses columns by their names, ``labels`` names one that is taken out; ``ids`` asks for the
    row labels. Raises ProblemError.
    """
    if isinstance(source, str | Path):
        return _open_file(source, columns, labels, csv, ids)
    require_numbers(source)
    names = column_names(source)
    if names is not None:
        opened = _open_frame(source, names, columns, labels)
        return opened._replace(ids=list(source.index)) if ids and hasattr(source, "iloc") else opened
    _refuse_names(columns, labels, f"a {type(source).__name__}")
    return Opened(check_rows(_as_rows(source)))


def check_rows(rows: Any) -> Any:
    """Return rows that are a table of real numbers; raise ProblemError for anything else."""
    if len(rows.shape) != 2:
        raise ProblemError(f"a table must have rows and columns; found {len(rows.shape)} dimensions")
    if rows.dtype.kind not in "biuf":
        raise not_numbers(rows) or ProblemError(f"a table must have real numbers; found {rows.dtype}")
    if rows.shape[1] == 0:
        raise ProblemError("a table must have columns; found none")
    return rows


def _as_rows(source: Any) -> Any:
    if issparse(source):
        return _as_csr(source)
    if isinstance(source, np.ndarray):
        return source if isinstance(source, np.memmap) else np.asarray(source)
    try:
        return np.asarray(source)
    except ValueError as error:
        raise not_numbers(source) or ProblemError(f"a table must have numbers: {error}") from error


def _as_csr(matrix: Any) -> Any:
    """Return a sparse matrix in the format in which rows are taken quickly, without a copy if it has it."""
    return csr_array(matrix)


def _refuse_names(columns: Sequence[str] | None, labels: str | None, found: str) -> None:
    for key, value in (("columns", columns), ("labels", labels)):
        if value is not None:
            raise ProblemError(f"{key} needs a table with named columns; found {found}: leave {key} out")


def _open_frame(frame: Any, names: list[Any], columns: Sequence[str] | None, labels: str | None) -> Opened:
    kept = _choose(names, columns, labels)
    values = None if labels is None else _without_na(frame[labels])
    if kept != names:
        frame = frame[kept]
    frame = filled_as_dense(frame)
    dtypes = list(frame.dtypes)
    if dtypes and all(str(dtype).startswith("Sparse[") for dtype in dtypes):
        return Opened(check_rows(_as_csr(frame.sparse.to_coo())), kept, values)
    rows = np.asarray(frame)
    if rows.dtype.kind == "O":  # numbers with pandas.NA, or no numbers
        wrong = not_numbers(frame)
        if wrong is not None:
            raise wrong
        rows = np.asarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))
    return Opened(check_rows(rows), kept, values)


def _without_na(column: Any) -> NDArray[Any]:
    """Return the entries of a column of a data frame, with None for pandas.NA, which no comparison takes."""
    values = np.asarray(column)
    if values.dtype.kind != "O" or not hasattr(column, "isna"):
        return values
    values = values.copy()
    values[np.asarray(column.isna())] = None
    return values


def _choose(names: list[Any], columns: Sequence[str] | None, labels: str | None) -> list[Any]:
    """Return the names of the columns to keep; raise ProblemError for one that is not there."""
    for name in [*(columns or []), *([] if labels is None else [labels])]:
        if names.count(name) != 1:
            near = get_close_matches(str(name), list(map(str, names)), 1)
            found = f"{names.count(name)} of them" if name in names else near[0] if near else shorten(names)
            raise ProblemError(f"a table must have one column {name!r}; found {found}")
    return [name for name in names if name != labels] if columns is None else list(columns)


def _open_file(
    source: str | Path, columns: Sequence[str] | None, labels: str | None, csv: Csv | None, ids: bool
) -> Opened:
    file, key = split_key(source)
    if not file.is_file():
        raise ProblemError(f"{file} must be a file; found none; check the path")
    if is_csv(file):
        return _open_csv(file, columns, labels, csv or Csv(), ids)
    if file.suffix.lower() == ".parquet":
        index = parquet.index_names_of(file)
        kept = _choose([*parquet.column_names_of(file), *index], columns, labels)
        kept = [name for name in kept if columns is not None or name not in index]
        values = None if labels is None else parquet.read_values(file, labels)
        rows = check_rows(parquet.read_parquet(file, kept))
        return Opened(rows, kept, values, parquet.read_index(file) if ids else None)
    _refuse_names(columns, labels, f"{file.name} without names")
    if key is None and file.suffix.lower() == ".npz" and _is_sparse(file):
        return Opened(check_rows(_as_csr(load_npz(file))))
    return Opened(check_rows(load(source, "rows")))


def _is_sparse(file: Path) -> bool:
    """Return whether an archive has been written by `scipy.sparse.save_npz`."""
    try:
        with np.load(file, allow_pickle=False) as archive:
            return {"format", "shape", "data"} <= set(archive.files)
    except Exception:  # a damaged file: `load` says so
        return False


def _open_csv(
    file: Path, columns: Sequence[str] | None, labels: str | None, layout: Csv, ids: bool
) -> Opened:
    head = read_head(
        file, layout if columns is None else replace(layout, columns=tuple(columns)), "rows", labels
    )
    row_ids = read_ids(head) if ids else None
    values = None if labels is None else np.array(read_labels(head, labels), dtype=np.str_)
    return Opened(check_rows(read_rows(head)), list(head.names), values, row_ids)
