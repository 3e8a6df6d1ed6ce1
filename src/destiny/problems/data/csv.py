"""Numbers from .csv and .csv.gz files, with an error that names the line for everything that is not one."""

from __future__ import annotations

import codecs
import gzip
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import numpy as np

from destiny.errors import ProblemError
from destiny.problems.data.csv_layout import (
    DECIMAL_COMMA,
    GAPS,
    THOUSANDS,
    UNNAMED,
    WITHOUT_THOUSANDS,
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
SEP_LINE = re.compile('"?sep=.?"?')  # a first line that tells Excel the separator
PEEK = 6  # lines read to recognise the layout

Samples: TypeAlias = Literal["columns", "rows"]


@dataclass(frozen=True)
class Head:
    """Header and columns of a file, from its first lines."""

    width: int
    """Fields in every line."""
    header: tuple[str, ...]
    """Names of all columns; empty without a header."""
    line: int
    """Number of the header's line, 0 without a header."""
    columns: tuple[int, ...]
    """Positions of the columns to read."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns to read; empty without a header."""
        return tuple(self.header[k] for k in self.columns) if self.header else ()


def read_head(file: Path, layout: Csv, samples: Samples | None = None) -> Head:
    """Read and check the first lines of a file; raise `ProblemError` if they do not fit ``layout``.

    Without ``samples`` a header is refused: nothing else says whether it names features or samples.
    """
    lines = list(itertools.islice(_lines(file, layout), PEEK))
    if not lines:
        raise ProblemError(f"{file} must hold numbers; found blank lines only; write it again")
    check_layout(file, [line for _, line in lines], layout)
    number, first = lines[0]
    fields = [field.strip() for field in split_line(first, layout.sep)]
    if isinstance(layout.index, int) and layout.index >= len(fields):
        raise ProblemError(
            f"{file} must have a column {layout.index}, counted from 0, to leave out; found {len(fields)} "
            f"columns; correct {layout.prefix}index"
        )
    if len(fields) == 1 and layout.index is not None:
        raise ProblemError(
            f"{file} must have columns besides its index; found one; leave {layout.prefix}index out"
        )
    if not has_header(file, fields, [line for _, line in lines], layout):
        columns = tuple(k for k in range(len(fields)) if k != layout.index)
        return Head(len(fields), (), 0, columns)
    header = (fields[0].removeprefix("#").strip(), *fields[1:])
    columns = _choose(file, header, layout)
    if header[0] in UNNAMED and 0 in columns and len(header) > 1:
        raise ProblemError(
            f"{file} must name every column; found none for the first, as pandas writes for row labels; "
            f"set {layout.prefix}index = 0 to leave it out"
        )
    if samples is None:
        raise ProblemError(
            f"{file} must say what its header names; found {shorten(header)}; "
            'set samples = "rows" if they are features, samples = "columns" if they are samples'
        )
    if samples == "rows":
        _check_names(file, header, columns, layout)
    return Head(len(fields), header, number, columns)


def guess_keys(file: Path) -> dict[str, Any]:
    """The keys of [problem] with which a .csv file of samples in rows is probably read, from its first lines.

    With a header they name the columns that hold numbers, so that files may have them in any order.
    """
    layout = Csv() if _is_unicode(file) else Csv(encoding=WINDOWS)
    lines = [line for _, line in itertools.islice(_lines(file, layout), PEEK)]
    if not lines:
        raise ProblemError(f"{file} must hold numbers; found blank lines only; write it again")
    sep, decimal, _ = likely_layout(lines)
    keys = (
        {"samples": "rows"}
        | ({"encoding": WINDOWS} if layout.encoding == WINDOWS else {})
        | ({"sep": sep} if sep != "," else {})
        | ({"decimal": ","} if decimal == "," else {})
    )
    names, *rows = ([field.strip() for field in split_line(line, sep)] for line in lines)
    if not rows or any(is_number(name, decimal) for name in names):
        return keys

    def numeric(k: int) -> bool:
        fields = [row[k] for row in rows if k < len(row) and row[k].strip().lower() not in GAPS]
        return bool(fields) and all(is_number(field, decimal) for field in fields)

    columns = [name for k, name in enumerate(names) if name and numeric(k)]
    return keys | ({"columns": columns} if columns else {})


def count_lines(file: Path, layout: Csv, head: Head) -> int:
    """Number of lines below the header; raises `ProblemError` for a line with too many or too few fields."""
    return sum(1 for _ in _body(file, layout, head))


def load_csv(file: Path, layout: Csv | None = None, samples: Samples | None = None) -> Array:
    """The numbers of the columns to read, ``(lines, columns)``; raises `ProblemError`."""
    layout = layout or Csv()
    head = read_head(file, layout, samples)
    lines = _body(file, layout, head)
    first = next(lines, None)
    if first is None:
        raise ProblemError(f"{file} must hold numbers; found a header only; write it again")
    try:
        return np.loadtxt(
            itertools.chain([first], lines),
            delimiter=layout.sep,
            quotechar='"',
            comments=None,
            usecols=head.columns,
            ndmin=2,
        )
    except ProblemError:  # from `_body`, and a ValueError too
        raise
    except ValueError as error:
        _explain(file, layout, head)
        raise ProblemError(f"{file} must hold numbers; found a line that cannot be read ({error})") from error


def read_fields(file: Path, layout: Csv, column: str) -> list[str]:
    """The fields of one column as text; raises `ProblemError` if there is no such column."""
    everything = replace(layout, columns=None, index=None)
    head = read_head(file, everything, "rows")
    k = _position(file, head.header, column, "labels")
    return [
        split_line(line, layout.sep)[k].strip() for number, line in _lines(file, layout) if number > head.line
    ]


def _body(file: Path, layout: Csv, head: Head) -> Iterator[str]:
    """The lines below the header, with decimal points; raises `ProblemError` for a wrong number of fields."""
    for number, line in _lines(file, layout):
        if number <= head.line:
            continue
        found = line.count(layout.sep) + 1 if '"' not in line else len(split_line(line, layout.sep))
        if found != head.width:
            raise ProblemError(
                f"{file} must have {head.width} fields in every line; found {found} in line {number}; "
                "correct it, or remove lines above the table"
            )
        if layout.decimal == ",":
            if "." in line and any("." in field for field in _fields_to_read(line, layout, head)):
                _explain(file, layout, head)
            line = line.replace(",", ".")
        yield _with_nan(line, layout) if layout.gaps else line


def _with_nan(line: str, layout: Csv) -> str:
    """The line with "nan" in place of missing fields."""
    fields = split_line(line, layout.sep)
    fields = ["nan" if field.strip().lower() in GAPS else field for field in fields]
    if '"' in line:  # a field may contain the separator
        fields = ['"' + field.replace('"', '""') + '"' for field in fields]
    return layout.sep.join(fields)


def _fields_to_read(line: str, layout: Csv, head: Head) -> list[str]:
    fields = split_line(line, layout.sep)
    return [fields[k] for k in head.columns]


def _explain(file: Path, layout: Csv, head: Head) -> None:
    """Raise `ProblemError` with the first field that is not a number."""
    for number, line in _lines(file, layout):
        if number <= head.line:
            continue
        fields = split_line(line, layout.sep)
        bad = next((k for k in head.columns if not _is_entry(fields[k], layout)), None)
        if bad is not None:
            text, prefix = fields[bad].strip(), layout.prefix
            comma, thousands = DECIMAL_COMMA.fullmatch(text), THOUSANDS.fullmatch(text)
            if comma and thousands:
                cure = f'set decimal = "," if it is a decimal comma, or {WITHOUT_THOUSANDS}'
            elif comma or thousands:
                cure = 'set decimal = ","' if comma else WITHOUT_THOUSANDS
            elif head.header:
                cure = f'correct it, or leave the column out with {prefix}index = "{head.header[bad]}" or '
                cure += f"{prefix}columns" + (
                    ", or give estimators destiny.Silos(files, gaps=True)" if not text else ""
                )
            elif number == 1 and layout.header is None:
                cure = "correct it, or set header = true if the line names columns"
            else:
                cure = f"correct it, or leave the column out with {prefix}index = {bad}"
            raise ProblemError(
                f"{file} must hold numbers separated by {spell(layout.sep)}; "
                f"found '{cut(text)}' in line {number}; {cure}"
            )


def _is_entry(field: str, layout: Csv) -> bool:
    return is_number(field, layout.decimal) or (layout.gaps and field.strip().lower() in GAPS)


def _choose(file: Path, header: Sequence[str], layout: Csv) -> tuple[int, ...]:
    """Positions of the columns to read."""
    if isinstance(layout.index, str):
        _position(file, header, layout.index, f"{layout.prefix}index")
    columns = [k for k, name in enumerate(header) if layout.index not in (k, name)]
    if layout.columns is not None:
        left = [header[k] for k in columns]
        columns = [columns[_position(file, left, name, f"{layout.prefix}columns")] for name in layout.columns]
    return tuple(columns)


def _position(file: Path, header: Sequence[str], name: str, key: str) -> int:
    """Position of the only column of this name; raises `ProblemError`."""
    count = header.count(name)
    if count != 1:
        near = get_close_matches(name, header, 1)
        found = f"{count} of them" if count else f"'{near[0]}'" if near else shorten(header)
        raise ProblemError(f"{file} must have one column '{cut(name)}'; found {found}; correct {key}")
    return header.index(name)


def _check_names(file: Path, header: Sequence[str], columns: Sequence[int], layout: Csv) -> None:
    """Raise `ProblemError` for features without a name or with the same one."""
    name, count = Counter(header[k] for k in columns).most_common(1)[0]
    found = f"the name '{cut(name)}' {count} times"
    if count == 1 and "" in header and header.index("") in columns:
        found = f"none for column {header.index('')}"
    elif count == 1:
        return
    raise ProblemError(
        f"{file} must give every column its own name; found {found}; rename them, or choose others with "
        f"{layout.prefix}columns"
    )


def _lines(file: Path, layout: Csv) -> Iterator[tuple[int, str]]:
    """Number and text of the lines that are not blank; raises `ProblemError` for another encoding."""
    try:
        with _open(file, layout.encoding) as lines:
            for number, line in enumerate(lines, 1):
                if number == 1 and SEP_LINE.fullmatch(line.strip()):
                    continue
                if line.strip(" \r\n"):  # tabs may separate gaps
                    yield number, line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        expected, source, other = "UTF-8", ", as in files of older Windows programs", WINDOWS
        if not is_unicode_name(layout.encoding):
            expected, source, other = layout.encoding, "", "utf-8"
        raise ProblemError(
            f"{file} must be text in {expected}; found byte {error.object[error.start]:#x}{source}; set "
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
    if is_unicode_name(encoding):
        encoding = "utf-8-sig"  # some programs begin the file with a byte order mark
    if file.suffix.lower() == ".gz":
        return gzip.open(file, "rt", encoding=encoding)
    return file.open(encoding=encoding)
