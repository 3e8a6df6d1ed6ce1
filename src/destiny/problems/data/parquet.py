"""Tables in Parquet files; needs pyarrow."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny.errors import INSTALL, MissingExtraError, ProblemError
from destiny.problems.data.csv_layout import PLAIN, Csv
from destiny.problems.data.table_checks import Table, choose_columns

NUMBERS = ("int", "uint", "float", "double", "halffloat", "bool")  # how the names of their types begin


def read_parquet(file: Path, how: Csv = PLAIN, ids: bool = False) -> Table:
    """Return the columns of numbers, the labels and, if asked for, pandas' row labels; gaps are NaN.

    Numbers are float32 if all columns are, otherwise float64. Raises ProblemError for columns of anything
    else.
    """
    source = _open(file)
    schema, index = source.schema_arrow, _index_columns(source)
    names = choose_columns([*column_names_of(file), *index], how)
    names = [name for name in names if how.columns is not None or name not in index]
    types = [str(schema.field(name).type) for name in names]
    for name, kind in zip(names, types, strict=True):
        if not kind.startswith(NUMBERS):
            raise ProblemError(
                f"{file} must hold numbers; found {kind} in column {name!r}; leave it out with columns"
            )
    single = all(kind == "float" for kind in types)
    rows = np.empty((source.metadata.num_rows, len(names)), np.float32 if single else np.float64)
    start = 0
    for batch in source.iter_batches(columns=names):
        part = slice(start, start := start + batch.num_rows)
        for k, column in enumerate(batch.columns):
            rows[part, k] = _values(column.cast("int8") if types[k] == "bool" else column)
    labels = None if how.labels is None else _values(source.read(columns=[how.labels]).column(0))
    keys = [column.to_pylist() for column in source.read(columns=index).columns] if ids and index else None
    return Table(rows, names, labels, None if keys is None else list(zip(*keys, strict=True)))


def column_names_of(file: Path) -> list[str]:
    """Return the names of the columns, but for those of pandas' row labels."""
    source = _open(file)
    return [name for name in source.schema_arrow.names if name not in _index_columns(source)]


def _index_columns(source: Any) -> list[str]:
    """Return the names of the columns that pandas reads as row labels."""
    schema = source.schema_arrow
    about = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    return [name for name in about.get("index_columns", ()) if name in schema.names]


def _values(column: Any) -> NDArray[Any]:
    """Return numbers or text; a gap is NaN or None."""
    if str(column.type).startswith("dictionary"):  # a category that is missing has the code of none
        column = column.combine_chunks().dictionary_decode()
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def _open(file: Path) -> Any:
    try:
        return import_module("pyarrow.parquet").ParquetFile(file)
    except ImportError as error:
        raise MissingExtraError(
            f"{file} is a Parquet file, which needs pyarrow: {INSTALL.format(extra='parquet')}"
        ) from error
