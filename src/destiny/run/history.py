"""The record of a run as columns, and its CSV file."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from destiny.errors import DestinyError
from destiny.protocols import Array

COLUMNS = (
    *("step", "round", "scalars", "seconds", "objective", "stationarity", "consensus", "feasibility"),
    *("gradients", "minibatches", "values", "bytes", "passes"),
)
UNCOUNTED = 8  # columns of a run that did not count gradients yet
WHOLE = ("step", "round", "scalars", "gradients", "minibatches", "values", "bytes")  # no decimal point


class History:
    """Columns of equal length, one row per measurement; ``history["stationarity"]`` is an array."""

    def __init__(self, columns: tuple[str, ...] = COLUMNS) -> None:
        self.columns = columns
        self.rows: list[tuple[float, ...]] = []

    def add(self, **values: float) -> None:
        """One more measurement; every column must be named."""
        self.rows.append(tuple(float(values[c]) for c in self.columns))

    def __getitem__(self, column: str) -> Array:
        if column not in self.columns:
            raise KeyError(f"the history has no column {column!r}; it has {', '.join(self.columns)}")
        return np.array([row[self.columns.index(column)] for row in self.rows])

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, float]]:
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def __repr__(self) -> str:
        return f"History({len(self)} rows: {', '.join(self.columns)})"

    @property
    def last(self) -> dict[str, float]:
        """The newest row."""
        return dict(zip(self.columns, self.rows[-1], strict=True))

    def as_array(self) -> Array:
        """All rows ``(rows, columns)``, for a checkpoint."""
        return np.array(self.rows, dtype=np.float64).reshape(len(self.rows), len(self.columns))

    @classmethod
    def from_array(cls, rows: Array, columns: tuple[str, ...] = COLUMNS) -> History:
        """Back from a checkpoint; columns it does not have yet are NaN."""
        history = cls(columns)
        missing = [math.nan] * (len(columns) - rows.shape[1])
        history.rows = [(*map(float, row), *missing) for row in rows]
        return history

    def to_csv(self, path: str | Path) -> None:
        """Write all digits, so that reading the file gives the same numbers."""
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            for row in self:
                writer.writerow([int(v) if c in WHOLE and v == v else repr(float(v)) for c, v in row.items()])

    @classmethod
    def from_csv(cls, path: str | Path) -> History:
        """Read what `to_csv` wrote."""
        try:
            with Path(path).open(newline="", encoding="utf-8") as file:
                header, *rows = list(csv.reader(file)) or [[]]
            history = cls(tuple(header))
            history.rows = [tuple(float(v) for v in row) for row in rows]
        except (OSError, ValueError, csv.Error) as error:
            raise DestinyError(f"{path} cannot be read as a history: {error}") from error
        if not header or any(len(row) != len(header) for row in rows):
            raise DestinyError(f"{path} is not a history: expected a header and rows of equal length")
        return history
