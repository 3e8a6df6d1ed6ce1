"""Tables in .csv, .tsv and .txt files; an error names the line of everything that is not a number."""

from __future__ import annotations

import codecs
import csv
import gzip
import re
import warnings
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from destiny.errors import ProblemError
from destiny.problems.data import csv_looking as look
from destiny.problems.data.csv_layout import ENDINGS, PLAIN, Csv, Samples, shorten
from destiny.problems.data.csv_looking import Line, Record
from destiny.problems.data.table_checks import Table, position
from destiny.protocols import Array

WINDOWS = "cp1252"  # the encoding of many programs that do not write UTF-8
SEP_LINE = re.compile('"?sep=(.?)"?')  # a first line that tells Excel the separator
PEEK = 6  # lines read to recognize the layout


@dataclass(frozen=True)
class Head:
    """Header and columns of a file, from its first lines."""

    file: Path
    layout: Csv
    """With the separator of this file."""
    width: int
    """Fields in every line."""
    line: int
    """Number of the header's line, or of the line above the first without a header."""
    header: tuple[str, ...]
    """Names of all columns; empty without a header."""
    index: tuple[int, ...] = ()
    """Positions of the row labels."""
    label: int | None = None
    """Position of the labels."""
    columns: tuple[int, ...] = ()
    """Positions of the columns to read."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns to read; empty without a header."""
        return tuple(self.header[k] for k in self.columns) if self.header else ()

    def records(self, left_out: list[Record] | None = None) -> Iterator[Record]:
        """The lines below the header, in fields; raise `ProblemError` for a wrong number of fields."""
        for number, fields in _records(self.file, self.layout, left_out):
            if number <= self.line:
                continue
            if len(fields) != self.width:
                raise ProblemError(
                    f"{self.file} must have {self.width} fields in every line; found {len(fields)} in line "
                    f"{number}; correct it, or set skiprows if there are lines above the table"
                )
            yield number, fields


def is_csv(file: str | Path) -> bool:
    """Whether the name is that of a table in a text file, compressed or not."""
    return ending_of(file) in ENDINGS


def ending_of(file: str | Path) -> str:
    """The ending of a file's name, in small letters; of a table in a text file without ".gz"."""
    ending = Path(str(file).lower().removesuffix(".gz")).suffix
    return ending if ending in ENDINGS else Path(file).suffix.lower()


def read_head(file: Path, layout: Csv, samples: Samples | None) -> Head:
    """Read and check the first lines of a file; raise `ProblemError` if they do not fit ``layout``.

    ``samples`` must be given: nothing in a file says whether a line is a sample or a feature.
    """
    key, usual, lines = layout.prefix, *_first_lines(file, layout)
    given, layout = layout.sep, replace(layout, sep=layout.sep or usual)
    records = list(islice(_records(file, layout), PEEK))
    if not records:
        below = f"nothing below line {layout.skiprows}; correct skiprows"
        raise ProblemError(
            f"{file} must hold numbers; found {below if layout.skiprows else 'blank lines only'}"
        )
    look.check_layout(file, lines, records, layout)
    if given is None:
        look.check_separator(file, lines, usual, layout.decimal)
    width = max(len(fields) for _, fields in records[:2])
    number, fields = records[0]
    fields = [""] * (width - len(fields)) + [field.strip() for field in fields]  # as R writes row names
    for one in layout.indices:
        if isinstance(one, int) and one >= width:
            raise ProblemError(
                f"{file} must have a column {one}, counted from 0, to leave out; found {width} columns; "
                f"correct {key}index"
            )
    if len(layout.indices) >= width:
        raise ProblemError(f"{file} must have columns besides its index; found {width}; leave {key}index out")
    named = look.has_header(file, fields, layout)
    if named and len(records) == 1:
        raise ProblemError(f"{file} must hold numbers; found a header only; write it again")
    header = (fields[0].removeprefix("#").strip(), *fields[1:]) if named else ()
    head = _choose(Head(file, layout, width, number if named else number - 1, header))
    if header:
        look.check_names(file, header, head.columns, layout, different=samples == "rows")
    if samples is None:
        raise ProblemError(
            f"{file} must say what its lines are; found "
            f"{f'the header {shorten(header)}' if header else 'no header'}; "
            'set samples = "rows" if each line is a sample, samples = "columns" if each is a feature'
        )
    return head


def _choose(head: Head) -> Head:
    """The same with the positions of row labels, labels and columns."""
    layout, find = head.layout, partial(position, str(head.file))
    key = f"{layout.prefix}index"
    index = [one if isinstance(one, int) else find(head.header, one, key) for one in layout.indices]
    label = None if layout.labels is None else find(head.header, layout.labels, "labels")
    columns = [k for k in range(head.width) if k not in index]
    if layout.columns is None:
        columns = [k for k in columns if k != label]
    else:
        left, key = [head.header[k] for k in columns], f"{layout.prefix}columns"
        columns = [columns[find(left, name, key)] for name in layout.columns]
    return replace(head, index=tuple(index), label=label, columns=tuple(columns))


def guess_keys(file: Path, header: bool | None = None) -> dict[str, Any]:
    """The keys of [problem] with which a .csv file of samples in rows is probably read."""
    layout, keys = PLAIN, {"samples": "rows"}
    try:
        deque(_records(file, layout), 0)  # to its end
    except ProblemError:
        layout, keys = Csv(encoding=WINDOWS), keys | {"encoding": WINDOWS}
    usual, lines = _first_lines(file, layout)
    if not lines:
        raise ProblemError(f"{file} must hold numbers; found blank lines only; write it again")
    return keys | look.guess_settings([text for _, text in lines], usual, header)


def read_csv(head: Head, ids: bool = False) -> Table:
    """The numbers of the columns to read, ``(lines, columns)``, and labels; if asked for, the row labels.

    Rows without any entry are left out, with a warning. Raises `ProblemError`.
    """
    numbers, labels, keys, left_out = array("d"), list[str](), list[tuple[str, ...]](), list[Record]()
    rows = None if ids or head.label is not None else _read_plain(head)
    if rows is None:
        last = head.line
        for last, fields in head.records(left_out):
            numbers.extend(_as_numbers(head, last, fields))
            if head.label is not None:
                labels.append(_as_label(head, last, fields, head.label))
            if ids and head.index:
                keys.append(tuple(fields[k].strip() for k in head.index))
        rows = np.frombuffer(numbers).reshape(-1, len(head.columns))
        _tell_left_out(head, left_out, last if ids and not head.index else 0)
    texts = None if head.label is None else np.array(labels, dtype=np.str_)
    return Table(rows, list(head.names), texts, keys or None)


def _read_plain(head: Head) -> Array | None:
    """The numbers of a file with nothing else, by NumPy, which needs less time; None for other files."""
    if not head.layout.is_plain or head.columns != tuple(range(head.width)):
        return None
    with _open(head.file, head.layout) as text:
        deque(islice(text, head.line), 0)
        try:
            rows = np.loadtxt(text, delimiter=head.layout.sep, comments=None, quotechar='"', ndmin=2)
        except UnicodeError:
            raise
        except ValueError:  # reading line by line finds out what is wrong, and where
            return None
    right = rows.shape[1] == head.width and (head.layout.gaps or not np.isnan(rows).any())
    return rows if right else None


def _as_numbers(head: Head, number: int, fields: list[str]) -> Iterable[float]:
    """The numbers of the columns to read; raise `ProblemError` for one that is none."""
    entries = head.layout.entries([fields[k] for k in head.columns])
    if None in entries:
        bad = head.columns[entries.index(None)]
        look.refuse_field(
            head.file, number, fields[bad], head.layout, head.header[bad] if head.header else bad
        )
    return cast("list[float]", entries)


def _as_label(head: Head, number: int, fields: list[str], k: int) -> str:
    """A label as text, a number with a decimal point, a missing one empty."""
    text, value = fields[k].strip(), head.layout.number(fields[k])
    if value is None and PLAIN.number(text) is not None and not head.layout.is_missing(text):
        look.refuse_field(
            head.file, number, text, head.layout, head.header[k]
        )  # a point beside decimal commas
    written = text if value is None or PLAIN.number(text) is not None else repr(value)
    return "" if head.layout.is_missing(text) else written


def _tell_left_out(head: Head, left_out: Sequence[Record], last: int) -> None:
    """Warn of rows without any entry; raise `ProblemError` for one above ``last`` if order joins rows."""
    below = [(number, fields) for number, fields in left_out if number > head.line]
    holes = [number for number, fields in below if number < last and max(1, len(fields)) == head.width]
    if holes:
        raise ProblemError(
            f"{head.file} must have an entry in every row, because its rows are joined with those of another "
            f"file by their order; found none in line {holes[0]}; remove the line from all files, or set "
            f"{head.layout.prefix}index to a column with row labels"
        )
    empty = [number for number, fields in below if len(fields) > 1]
    if empty:
        warnings.warn(
            f"{head.file}: rows without any entry are left out: {len(empty)}, the first in line {empty[0]}",
            stacklevel=3,
        )


def _first_lines(file: Path, layout: Csv) -> tuple[str, list[Line]]:
    """The separator that the first line states, as Excel reads it, or that of the file's ending.

    Also numbers and texts of the first lines that are not blank.
    """
    with _open(file, layout) as text:
        numbered = ((number, line.rstrip("\n")) for number, line in enumerate(text, 1))
        filled = ((n, line) for n, line in numbered if line.strip(" ") and (n == 1 or n > layout.skiprows))
        lines = list(islice(filled, PEEK + 1))
    stated = SEP_LINE.fullmatch(lines[0][1]) if lines and lines[0][0] == 1 else None
    below = [(n, line) for n, line in lines if n > max(layout.skiprows, stated is not None)]
    return (stated and stated[1]) or ENDINGS.get(ending_of(file), ","), below[:PEEK]


def _records(file: Path, layout: Csv, left_out: list[Record] | None = None) -> Iterator[Record]:
    """The lines in fields; those without any entry go to ``left_out``, if it is given."""
    with _open(file, layout) as text:
        above, sep = len(list(islice(text, layout.skiprows))), layout.sep or ","
        reader = csv.reader(text, delimiter=sep)
        try:
            for fields in reader:
                number = above + reader.line_num
                if number == 1 and SEP_LINE.fullmatch(sep.join(fields)):
                    continue
                if "".join(fields).strip():
                    yield number, fields
                elif left_out is not None:
                    left_out.append((number, fields))
        except csv.Error as error:
            raise ProblemError(
                f"{file} must be a table in text; found line {above + reader.line_num}, which cannot be read "
                f"({error}); correct it"
            ) from error


@contextmanager
def _open(file: Path, layout: Csv) -> Iterator[IO[str]]:
    """The text of a file; raise `ProblemError` for another encoding."""
    opener: Any = gzip.open if file.suffix.lower() == ".gz" else open
    encoding = codecs.lookup(layout.encoding).name.removesuffix("-sig")
    expected, source, other = layout.encoding, "", "utf-8"
    with opener(file, "rb") as start:
        mark = start.read(2)
    if encoding == "utf-8":
        expected, source, other = "UTF-8", ", as in files of older Windows programs", WINDOWS
        encoding = "utf-8-sig"  # some programs begin the file with a byte order mark
    if mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):  # Excel's "Unicode text"
        encoding = "utf-16"
    try:
        with opener(file, "rt", encoding=encoding) as text:
            yield text
    except UnicodeError as error:
        byte = f"byte {error.object[error.start]:#x}" if isinstance(error, UnicodeDecodeError) else str(error)
        raise ProblemError(
            f"{file} must be text in {expected}; found {byte}{source}; set "
            f'encoding = "{other}", or save it as UTF-8 (in Excel: "CSV UTF-8")'
        ) from error
