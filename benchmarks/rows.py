"""Rows of a CSV file that grows while a benchmark runs, so that an interrupted one can go on."""

import csv
from collections.abc import Sequence
from pathlib import Path


def read(file: Path) -> list[dict[str, str]]:
    """What is there already."""
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def write(file: Path, columns: Sequence[str], rows: list[dict[str, str]]) -> None:
    """All rows; the file is whole at every moment."""
    aside = file.with_suffix(".tmp")
    with aside.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    aside.replace(file)
