"""Columns of Parquet files; needs pyarrow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny.errors import INSTALL, MissingExtraError, ProblemError


def column_names_of(file: Path) -> list[str]:
    """Return the names of the columns, but for those of pandas' row labels."""
    schema = _open(file).schema_arrow
    labels = _index_columns(schema)
    return [name for name in schema.names if name not in labels]


def index_names_of(file: Path) -> list[str]:
    """Return the names of the columns with pandas' row labels."""
    return _index_columns(_open(file).schema_arrow)


def read_index(file: Path) -> list[tuple[Any, ...]] | None:
    """Return the row labels that pandas has kept in columns; None if there are none."""
    source = _open(file)
    labels = _index_columns(source.schema_arrow)
    if not labels:
        return None
    return list(zip(*(column.to_pylist() for column in source.read(columns=labels).columns), strict=True))


def _index_columns(schema: Any) -> list[str]:
    """Return the names of the columns that pandas reads as row labels."""
    about = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    return [name for name in about.get("index_columns", ()) if name in schema.names]


def read_parquet(file: Path, columns: Sequence[str] | None = None) -> NDArray[Any]:
    """Return the numbers of some columns ``(rows, columns)``, by default of all; gaps are NaN.

    They are float32 if all columns are, otherwise float64. Raises ProblemError for columns of anything else.
    """
    source = _open(file)
    names = column_names_of(file) if columns is None else list(columns)
    types = [str(source.schema_arrow.field(name).type) for name in names]
    for name, kind in zip(names, types, strict=True):
        if not kind.startswith(("int", "uint", "float", "double", "halffloat", "bool")):
            raise ProblemError(
                f"{file} must hold numbers; found {kind} in column {name!r}; leave it out with columns"
            )
    single = all(kind == "float" for kind in types)
    table = np.empty((source.metadata.num_rows, len(names)), np.float32 if single else np.float64)
    start = 0
    for batch in source.iter_batches(columns=names):
        part = slice(start, start := start + batch.num_rows)
        for k, name in enumerate(names):
            table[part, k] = _numbers(batch.column(name))
    return table


def read_values(file: Path, column: str) -> NDArray[Any]:
    """Return the entries of one column, numbers or text."""
    values = _open(file).read(columns=[column]).column(0).combine_chunks()
    if str(values.type).startswith("dictionary"):
        values = values.dictionary_decode()  # a category that is missing has the code of none
    found: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return found


def _numbers(column: Any) -> NDArray[Any]:
    if str(column.type) == "bool":
        column = column.cast("int8")
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def _open(file: Path) -> Any:
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtraError(
            f"{file} is a Parquet file, which needs pyarrow: {INSTALL.format(extra='parquet')}"
        ) from error
    try:
        return parquet.ParquetFile(file)
    except (ValueError, OSError) as error:  # pyarrow's errors are of these kinds
        raise ProblemError(
            f"{file} must be a .parquet file; found one that cannot be read ({error}); write it again"
        ) from error
