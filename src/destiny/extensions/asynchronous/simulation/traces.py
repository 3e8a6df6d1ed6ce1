"""Measured computing times of agents, from a file."""

from __future__ import annotations

import csv
from pathlib import Path

from destiny.errors import SettingsError


def read_traces(path: str | Path) -> list[list[float]]:
    """Read measured seconds from a ``.csv`` file with a column for each agent; `World` takes them as traces.

    A first row that is not numbers is a header. Rows are successive gradients; a column may end earlier than
    the others. Raise `SettingsError` if the file cannot be read or has something else than numbers.
    """
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SettingsError(f"cannot read traces from {path}: {error}") from error
    if rows and not any(_is_number(cell) for cell in rows[0]):
        rows = rows[1:]
    if not rows:
        raise SettingsError(f"{path} must have a row of seconds for each gradient; found none")
    traces: list[list[float]] = [[] for _ in rows[0]]
    for k, row in enumerate(rows, 1):
        if len(row) != len(traces):
            raise SettingsError(f"{path} must have {len(traces)} columns; found {len(row)} in row {k}")
        for trace, cell in zip(traces, row, strict=True):
            if not cell.strip():
                continue
            if not _is_number(cell):
                raise SettingsError(f"{path} must have numbers; found {cell!r} in row {k}")
            trace.append(float(cell))
    return traces


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
