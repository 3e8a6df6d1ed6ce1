"""Benchmarks that take long: a row of a CSV file in docs/ for every run, and a table of them on a page.

The file is written after every run, and what it has already is not run again, so that an interrupted
benchmark goes on where it was.
"""

import argparse
import csv
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import Progress

DOCS = Path(__file__).parents[1] / "docs"
Row = dict[str, str]


@dataclass(frozen=True)
class Benchmark:
    """Runs, their file ``docs/NAME.csv`` and the place of their table on a page.

    Parameters
    ----------
    name, doc : str
        Of the module ``benchmarks.NAME``.
    page : Path
        Has the table between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``.
    columns : sequence of str
    key : sequence of str
        The columns that name a run.
    seeds : sequence of int
        By default; ``--seeds`` takes others.
    jobs : callable
        From the seeds, and whether DESTINY_DATA names a folder with the real data, to the runs.
    run : callable
        From a job to the other columns, in their order.
    table : callable
        From all rows to text.
    """

    name: str
    doc: str
    page: Path
    columns: Sequence[str]
    key: Sequence[str]
    seeds: Sequence[int]
    jobs: Callable[[list[int], bool], list[tuple[Any, ...]]]
    run: Callable[..., Sequence[Any]]
    table: Callable[[list[Row]], str]

    @property
    def file(self) -> Path:
        return DOCS / f"{self.name}.csv"

    def main(self) -> None:
        """The command."""
        parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{self.name}", description=self.doc)
        parser.add_argument("--seeds", type=int, nargs="+", default=list(self.seeds))
        parser.add_argument("--out", type=Path, default=self.file, help="another file, not put on the page")
        options = parser.parse_args()
        real = "DESTINY_DATA" in os.environ
        if not real:
            print("DESTINY_DATA is not set: instances of data sets that are files are left out")
        rows = self.complete(options.out, self.jobs(options.seeds, real))
        if options.out == self.file:
            self.publish(rows)
        print(self.table(rows))

    def complete(self, file: Path, jobs: list[tuple[Any, ...]]) -> list[Row]:
        """Run what the file lacks; all its rows."""
        rows = read(file)
        done = {tuple(row[name] for name in self.key) for row in rows}
        todo = [job for job in jobs if tuple(map(str, job)) not in done]
        with Progress() as progress:
            bar = progress.add_task(self.name, total=len(todo))
            for job in todo:
                progress.update(bar, description=", ".join(map(str, job)))
                named = dict(zip(self.key, job, strict=True))
                others = [name for name in self.columns if name not in named]
                found = named | dict(zip(others, self.run(*job), strict=True))
                rows.append({name: str(found[name]) for name in self.columns})  # as they are read back
                write(file, self.columns, rows)
                progress.advance(bar)
        return rows

    def publish(self, rows: list[Row]) -> None:
        """Put the table on its page."""
        begin, end = f"<!-- begin {self.name} -->\n", f"<!-- end {self.name} -->"
        head, _, rest = self.page.read_text(encoding="utf-8").partition(begin)
        _, _, tail = rest.partition(end)
        self.page.write_text(f"{head}{begin}{self.table(rows)}{end}{tail}", encoding="utf-8")


def require_done(interrupted: str | None) -> None:
    """End the benchmark if a signal has ended its run, which is not measured."""
    if interrupted is not None:
        raise SystemExit(f"interrupted by {interrupted}: start again to go on")


def read(file: Path) -> list[Row]:
    """What is there already."""
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def write(file: Path, columns: Sequence[str], rows: list[Row]) -> None:
    """All rows; the file is whole at every moment."""
    aside = file.with_suffix(".tmp")
    with aside.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    aside.replace(file)
