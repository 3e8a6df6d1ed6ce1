"""Numbers from .csv, .tsv and .txt files; an error names the line of everything that is not one."""

from __future__ import annotations

import codecs
import csv
import gzip
import itertools
import re
import warnings
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any, Literal, NoReturn, TypeAlias

import numpy as np

from destiny.errors import ProblemError
from destiny.problems.data.csv_layout import (
    DECIMAL_COMMA,
    ENDINGS,
    THOUSANDS,
    UNNAMED,
    Csv,
    check_layout,
    cut,
    has_header,
    is_number,
    likely_layout,
    shorten,
    spell,
    split_line,
)
from destiny.protocols import Array

WINDOWS = "cp1252"  # the encoding of many programs that do not write UTF-8
SEP_LINE = re.compile('"?sep=(.?)"?')  # a first line that tells Excel the separator
PEEK = 6  # lines read to recognise the layout

Samples: TypeAlias = Literal["columns", "rows"]
Row: TypeAlias = tuple[int, list[str]]
"""Number of a line, and its fields."""


@dataclass(frozen=True)
class Head:
    """Header and columns of a file, from its first lines."""

    file: Path
    layout: Csv
    """With the separator of this file."""
    width: int
    """Fields in every line."""
    header: tuple[str, ...]
    """Names of all columns; empty without a header."""
    line: int
    """Number of the header's line, 0 without a header."""
    columns: tuple[int, ...]
    """Positions of the columns to read."""
    index: tuple[int, ...]
    """Positions of the row labels."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns to read; empty without a header."""
        return tuple(self.header[k] for k in self.columns) if self.header else ()

    def position(self, name: str, key: str) -> int:
        """Position of the only column of this name; raise `ProblemError` that names ``key``."""
        return _position(self.file, self.header, name, key)


def is_csv(file: str | Path) -> bool:
    """Whether the name is that of a table in a text file, compressed or not."""
    return ending_of(file) in ENDINGS


def ending_of(file: str | Path) -> str:
    """The ending of a file's name, in small letters and without ".gz"."""
    return Path(str(file).lower().removesuffix(".gz")).suffix


def read_head(file: Path, layout: Csv, samples: Samples | None, labels: str | None = None) -> Head:
    """Read and check the first lines of a file; raise `ProblemError` if they do not fit ``layout``.

    ``samples`` must be given: nothing in a file says whether a line is a sample or a feature. ``labels``
    names a column that is no feature.
    """
    usual, layout = layout.sep is None, replace(layout, sep=layout.sep or _separator(file, layout))
    lines = _first_lines(file, layout)
    records = list(itertools.islice(_records(file, layout), PEEK))
    if not records:
        found = (
            f"nothing below line {layout.skiprows}; correct skiprows"
            if layout.skiprows
            else "blank lines only"
        )
        raise ProblemError(f"{file} must hold numbers; found {found}")
    check_layout(file, lines, records, layout, usual)
    number, fields = records[0][0], [field.strip() for field in records[0][1]]
    width = max(len(record) for _, record in records[:2])
    fields = [""] * (width - len(fields)) + fields  # R writes no name for its row names
    for label in layout.labels:
        if isinstance(label, int) and label >= width:
            raise ProblemError(
                f"{file} must have a column {label}, counted from 0, to leave out; found {width} "
                f"columns; correct {layout.prefix}index"
            )
    if len(layout.labels) >= width:
        raise ProblemError(
            f"{file} must have columns besides its index; found {width}; leave {layout.prefix}index out"
        )
    header = (fields[0].removeprefix("#").strip(), *fields[1:]) if has_header(file, fields, layout) else ()
    head = Head(file, layout, width, header, number if header else 0, (), _labels(file, header, layout))
    head = replace(head, columns=_choose(head, labels))
    if header and header[0] in UNNAMED and 0 in head.columns and width > 1:
        raise ProblemError(
            f"{file} must name every column; found none for the first, as pandas writes for row labels; "
            f"set {layout.prefix}index = 0 to leave it out"
        )
    if samples is None:
        found = f"the header {shorten(header)}" if header else "no header"
        raise ProblemError(
            f"{file} must say what its lines are; found {found}; "
            'set samples = "rows" if each line is a sample, samples = "columns" if each is a feature'
        )
    if samples == "rows" and header:
        _check_names(head)
    return head


def guess_keys(file: Path, header: bool | None = None) -> dict[str, Any]:
    """The keys of [problem] with which a .csv file of samples in rows is probably read, from its first lines.

    With a header they name the columns that hold numbers, so that files may have them in any order, and as
    ``index`` a first column of row labels.
    """
    layout = Csv() if _is_unicode(file) else Csv(encoding=WINDOWS)
    usual = _separator(file, layout)
    texts = [line for _, line in _first_lines(file, replace(layout, sep=usual))]
    if not texts:
        raise ProblemError(f"{file} must hold numbers; found blank lines only; write it again")
    sep, decimal, share = likely_layout(texts)
    sep = sep if share else usual
    keys = (
        {"samples": "rows"}
        | ({"header": header} if header is not None else {})
        | ({"encoding": WINDOWS} if layout.encoding == WINDOWS else {})
        | ({"sep": sep} if sep != usual else {})
        | ({"decimal": ","} if decimal == "," else {})
    )
    names, *rows = ([field.strip() for field in split_line(line, sep)] for line in texts)
    if rows and len(names) == len(rows[0]) - 1:  # as R writes row names
        return keys | {"index": 0}
    named = header if header is not None else not any(is_number(name, decimal) for name in names)
    if not rows or not named:
        return keys

    def numeric(k: int) -> bool:
        fields = [row[k] for row in rows if k < len(row) and not layout.is_missing(row[k])]
        return bool(fields) and all(is_number(field, decimal) for field in fields)

    columns = [name for k, name in enumerate(names) if name not in UNNAMED and numeric(k)]
    index = 0 if names[0] in UNNAMED else None if numeric(0) else names[0]
    return keys | ({"columns": columns} if columns else {}) | ({} if index is None else {"index": index})


def count_rows(head: Head) -> int:
    """Number of lines below the header; raises `ProblemError` for a line with too many or too few fields."""
    return sum(1 for _ in _rows(head))


def load_csv(file: Path, layout: Csv | None = None, samples: Samples | None = None) -> Array:
    """The numbers of the columns to read, ``(lines, columns)``; raises `ProblemError`."""
    return read_rows(read_head(file, layout or Csv(), samples))


def read_rows(head: Head) -> Array:
    """The numbers of the columns to read, ``(lines, columns)``; raises `ProblemError`.

    Rows without any entry are left out, with a warning.
    """
    numbers, left_out = array("d"), list[Row]()
    for number, fields in _rows(head, left_out):
        numbers.extend(_as_numbers(head, number, [fields[k] for k in head.columns], fields))
    if not numbers:
        raise ProblemError(f"{head.file} must hold numbers; found a header only; write it again")
    empty = [number for number, fields in left_out if len(fields) > 1]
    if empty:
        warnings.warn(
            f"{head.file}: rows without any entry are left out: {len(empty)}, the first in line {empty[0]}",
            stacklevel=2,
        )
    table = np.frombuffer(numbers).reshape(-1, len(head.columns))
    if not head.layout.gaps and np.isnan(table).any():
        for number, fields in _rows(head):
            if any(head.layout.entry(fields[k]) is None for k in head.columns):
                _refuse_entry(head, number, fields)
    return table


def _as_numbers(head: Head, number: int, chosen: list[str], fields: list[str]) -> list[float]:
    """The numbers of the chosen fields; raises `ProblemError` for one that is none."""
    if head.layout.is_plain and "_" not in "".join(chosen):  # which Python's own numbers may have
        try:
            return list(map(float, chosen))
        except ValueError:
            pass
    entries = [entry for entry in map(head.layout.entry, chosen) if entry is not None]
    if len(entries) < len(chosen):
        _refuse_entry(head, number, fields)
    return entries


def read_labels(head: Head, column: str) -> list[str]:
    """The fields of one column as text, numbers with a decimal point and missing ones empty.

    Raises `ProblemError` if there is no such column, and for a point where the layout has decimal commas.
    """
    k, layout, labels = head.position(column, "labels"), head.layout, []
    for number, fields in _rows(head):
        text, value = fields[k].strip(), layout.number(fields[k])
        if value is None and is_number(text):
            _refuse_entry(head, number, fields, k)
        written = text if value is None or is_number(text) else repr(value)
        labels.append("" if layout.is_missing(text) else written)
    return labels


def read_ids(head: Head) -> list[tuple[str, ...]] | None:
    """The row labels, by which rows of several files are compared; None without ``index``.

    Without it rows belong together by their order: `ProblemError` is raised for one without any entry.
    """
    if head.index:
        return [tuple(fields[k].strip() for k in head.index) for _, fields in _rows(head)]
    left_out = list[Row]()
    last = max((number for number, _ in _rows(head, left_out)), default=0)
    holes = [number for number, fields in left_out if number < last and max(1, len(fields)) == head.width]
    if holes:
        raise ProblemError(
            f"{head.file} must have an entry in every row, because its rows are joined with those of another "
            f"file by their order; found none in line {holes[0]}; remove the line from all files, or set "
            f"{head.layout.prefix}index to a column with row labels"
        )
    return None


def _rows(head: Head, left_out: list[Row] | None = None) -> Iterator[Row]:
    """The lines below the header, in fields; raises `ProblemError` for a wrong number of fields."""
    for number, fields in _records(head.file, head.layout, left_out):
        if number <= head.line:
            if left_out:
                left_out.clear()  # above the table
            continue
        if len(fields) != head.width:
            raise ProblemError(
                f"{head.file} must have {head.width} fields in every line; found {len(fields)} in line "
                f"{number}; correct it, or set skiprows if there are lines above the table"
            )
        yield number, fields


def _refuse_entry(head: Head, number: int, fields: Sequence[str], only: int | None = None) -> NoReturn:
    """Raise `ProblemError` for the first field of a line that is not a number."""
    layout, prefix = head.layout, head.layout.prefix
    bad = next(k for k in head.columns if layout.entry(fields[k]) is None) if only is None else only
    text = fields[bad].strip()
    comma, thousands = DECIMAL_COMMA.fullmatch(text), THOUSANDS.fullmatch(text)
    mark = next((sign for sign in text if not sign.isdigit() and sign not in "+-"), "")
    group = f'thousands = "{" " if mark.isspace() else mark}"'
    if comma and thousands:
        cure = f'set decimal = "," if it is a decimal comma, or {group}'
    elif comma:
        cure = 'set decimal = ","'
    elif thousands and mark == layout.decimal:
        cure = f'set {group} and decimal = "{"." if mark == "," else ","}"'
    elif thousands:
        cure = f"set {group}"
    elif layout.is_missing(text):
        cure = "fill it or leave the row out, or give estimators destiny.Silos(files, gaps=True)"
    elif head.header:
        cure = f'correct it, or leave the column out with {prefix}index = "{head.header[bad]}" or '
        cure += f"{prefix}columns, or set na_values if it stands for a missing entry"
    else:
        cure = f"correct it, or leave the column out with {prefix}index = {bad}"
    raise ProblemError(
        f"{head.file} must hold numbers separated by {spell(layout.sep or ',')}; "
        f"found '{cut(text)}' in line {number}; {cure}"
    )


def _labels(file: Path, header: Sequence[str], layout: Csv) -> tuple[int, ...]:
    """Positions of the row labels."""
    key = f"{layout.prefix}index"
    return tuple(one if isinstance(one, int) else _position(file, header, one, key) for one in layout.labels)


def _choose(head: Head, labels: str | None) -> tuple[int, ...]:
    """Positions of the columns to read."""
    columns = tuple(k for k in range(head.width) if k not in head.index)
    if head.layout.columns is None:
        taken = None if labels is None else head.position(labels, "labels")
        return tuple(k for k in columns if k != taken)
    left, key = [head.header[k] for k in columns], f"{head.layout.prefix}columns"
    return tuple(columns[_position(head.file, left, name, key)] for name in head.layout.columns)


def _position(file: Path, header: Sequence[str], name: str, key: str) -> int:
    """Position of the only column of this name; raises `ProblemError`."""
    count = header.count(name)
    if count != 1:
        near = get_close_matches(name, header, 1)
        found = f"{count} of them" if count else f"'{near[0]}'" if near else shorten(header) or "no header"
        raise ProblemError(f"{file} must have one column '{cut(name)}'; found {found}; correct {key}")
    return header.index(name)


def _check_names(head: Head) -> None:
    """Raise `ProblemError` for features without a name or with the same one."""
    names = head.names
    name, count = Counter(names).most_common(1)[0]
    found = f"the name '{cut(name)}' {count} times"
    if "" in names:
        found = f"none for column {head.header.index('')}"
    elif count == 1:
        return
    raise ProblemError(
        f"{head.file} must give every column its own name; found {found}; rename them, choose others with "
        f"{head.layout.prefix}columns, or set skiprows if there are lines above the table"
    )


def _separator(file: Path, layout: Csv) -> str:
    """The separator that the first line states, as Excel reads it, or that of the file's ending."""
    with _decoding(file, layout), _open(file, layout.encoding) as lines:
        stated = SEP_LINE.fullmatch(next(lines, "").strip("\r\n"))
    return (stated and stated[1]) or ENDINGS.get(ending_of(file), ",")


def _first_lines(file: Path, layout: Csv) -> list[tuple[int, str]]:
    """Numbers and texts of the first lines that are not blank."""
    filled = ((number, line.rstrip("\n")) for number, line in _lines(file, layout) if line.strip(" \n"))
    return list(itertools.islice(filled, PEEK))


def _records(file: Path, layout: Csv, left_out: list[Row] | None = None) -> Iterator[Row]:
    """The lines in fields; those without any entry go to ``left_out``, if it is given."""
    last = 0

    def feed() -> Iterator[str]:
        nonlocal last
        for number, line in _lines(file, layout):
            last = number
            yield line

    try:
        for fields in csv.reader(feed(), delimiter=layout.sep or ","):
            if "".join(fields).strip():
                yield last, fields
            elif left_out is not None:
                left_out.append((last, fields))
    except csv.Error as error:
        raise ProblemError(
            f"{file} must be a table in text; found line {last}, which cannot be read ({error}); correct it"
        ) from error


def _lines(file: Path, layout: Csv) -> Iterator[tuple[int, str]]:
    """Number and text of the lines; raises `ProblemError` for another encoding."""
    with _decoding(file, layout), _open(file, layout.encoding) as lines:
        for number, line in enumerate(lines, 1):
            if number > layout.skiprows and not (number == 1 and SEP_LINE.fullmatch(line.strip("\r\n"))):
                yield number, line


@contextmanager
def _decoding(file: Path, layout: Csv) -> Iterator[None]:
    """Raise `ProblemError` for a file in another encoding."""
    try:
        yield
    except UnicodeError as error:
        byte = f"byte {error.object[error.start]:#x}" if isinstance(error, UnicodeDecodeError) else str(error)
        expected, source, other = "UTF-8", ", as in files of older Windows programs", WINDOWS
        if not is_unicode_name(layout.encoding):
            expected, source, other = layout.encoding, "", "utf-8"
        raise ProblemError(
            f"{file} must be text in {expected}; found {byte}{source}; set "
            f'encoding = "{other}", or save it as UTF-8 (in Excel: "CSV UTF-8")'
        ) from error


def is_unicode_name(encoding: str) -> bool:
    """Whether this is a name of UTF-8."""
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")


def _is_unicode(file: Path) -> bool:
    """Whether the whole file is UTF-8."""
    try:
        with _open(file, "utf-8") as lines:
            return all(True for _ in lines)
    except UnicodeDecodeError:
        return False


def _open(file: Path, encoding: str) -> IO[str]:
    compressed = file.suffix.lower() == ".gz"
    with gzip.open(file) if compressed else file.open("rb") as start:
        mark = start.read(2)
    if mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):  # Excel's "Unicode text"
        encoding = "utf-16"
    elif is_unicode_name(encoding):
        encoding = "utf-8-sig"  # some programs begin the file with a byte order mark
    return gzip.open(file, "rt", encoding=encoding) if compressed else file.open(encoding=encoding)
