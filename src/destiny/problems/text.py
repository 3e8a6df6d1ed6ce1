"""Numbers from a .csv file, with the line of the first mistake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from destiny.errors import ProblemError
from destiny.types import Array

ENCODING = "utf-8-sig"  # some programs begin the file with a byte order mark


def load_csv(file: Path, _: str | None = None) -> Array:
    """The numbers of a file, ``(lines, fields)``; a first line without any number is taken for a header."""
    lines = _lines(file)
    number, fields = next(lines, (0, []))
    header = not any(_is_number(field) for field in fields)
    if header and next(lines, None) is None:
        found = "a header" if fields else "blank lines"
        raise ProblemError(f"{file} must hold numbers; found {found} only; write it again")
    try:
        # Lines before the header are blank, and skipping them as well does no harm.
        table = np.loadtxt(
            file, delimiter=",", comments=None, skiprows=number if header else 0, ndmin=2, encoding=ENCODING
        )
    except ValueError:
        _explain(file, header)
        raise
    if table.shape[1] != len(fields):
        _explain(file, header)
    return table


def _explain(file: Path, header: bool) -> None:
    """Raise a sentence with the first line that cannot be used."""
    lines = _lines(file)
    _, first = next(_lines(file))
    if header:
        next(lines)
    for number, fields in lines:
        if len(fields) != len(first):
            raise ProblemError(
                f"{file} must have {len(first)} fields in every line; found {len(fields)} in line {number}; "
                "correct it"
            )
        bad = next((field for field in fields if not _is_number(field)), None)
        if bad is not None:
            raise ProblemError(
                f"{file} must hold numbers separated by commas; found '{bad.strip()}' in line {number}; "
                "correct it"
            )


def _lines(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Number and fields of the lines that are not blank."""
    with file.open(encoding=ENCODING) as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield number, line.split(",")


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
