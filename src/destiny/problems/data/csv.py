"""Numbers from .csv and .csv.gz files: their layout, header and columns, and what is wrong with them."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Literal, TypeAlias

import numpy as np

from destiny.errors import ProblemError
from destiny.protocols import Array

ENCODING = "utf-8-sig"  # some programs begin the file with a byte order mark
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?\d{1,3}([.,' \xa0\u202f]\d{3})+([.,]\d+)?")
SEP_LINE = re.compile('"?sep=.?"?')  # a first line that tells Excel the separator
WITHOUT_THOUSANDS = "write numbers without separators of thousands"
PEEK = 6  # lines looked at to recognise the layout
SHOWN = 40  # characters of a field, and names of columns, in a message
UNNAMED = ("", "Unnamed: 0")  # how pandas names the column of its row labels

Samples: TypeAlias = Literal["columns", "rows"]


@dataclass(frozen=True)
class Csv:
    """Layout of a .csv file.

    Parameters
    ----------
    header : bool, optional
        Whether the first line names the columns; by default it does if none of its fields is a number.
    sep : str
        The character between two fields.
    decimal : {".", ","}
        The decimal point.
    columns : sequence of str, optional
        Names of the columns to read, in this order; by default all.
    index : str or int, optional
        A column to leave out, by its name or its number from 0.
    prefix : str
        What the keys ``columns`` and ``index`` begin with in messages.
    """

    header: bool | None = None
    sep: str = ","
    decimal: Literal[".", ","] = "."
    columns: Sequence[str] | None = None
    index: str | int | None = None
    prefix: str = ""

    def __post_init__(self) -> None:
        if len(self.sep) != 1 or self.sep.isalnum() or self.sep in '"\r\n+-.':
            raise ProblemError(
                f'sep must be one character that no number contains, such as ";" or "\\t"; found {self.sep!r}'
            )
        if self.decimal not in (".", ","):
            raise ProblemError(f'decimal must be "." or ","; found {self.decimal!r}')
        if self.sep == self.decimal:
            raise ProblemError(f'sep must differ from decimal; found {self.sep!r} for both; set sep = ";"')
        if self.columns is not None and (
            isinstance(self.columns, str)
            or not self.columns
            or not all(isinstance(name, str) for name in self.columns)
            or len(set(self.columns)) < len(self.columns)
        ):
            raise ProblemError(
                f"{self.prefix}columns must be a list of different names; found {self.columns!r}"
            )
        if isinstance(self.index, int) and self.index < 0:
            raise ProblemError(f"{self.prefix}index must be a name or a number from 0; found {self.index}")
        if self.header is False and self.by_name:
            raise ProblemError(
                f"{self.prefix}columns and a name for {self.prefix}index need a header; found "
                "header = false; set header = true, or give the index as a number"
            )

    @property
    def given(self) -> bool:
        """Whether anything was set."""
        return replace(self, prefix="") != Csv()

    @property
    def by_name(self) -> bool:
        """Whether columns are chosen by their names."""
        return self.columns is not None or isinstance(self.index, str)


@dataclass(frozen=True)
class Head:
    """What the first lines of a file say about it."""

    width: int
    """Fields in every line."""
    header: tuple[str, ...]
    """Names of all columns; empty without a header."""
    line: int
    """Number of the header's line, 0 without a header."""
    chosen: tuple[int, ...]
    """Positions of the columns to read."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns to read; empty without a header."""
        return tuple(self.header[k] for k in self.chosen) if self.header else ()


def read_head(file: Path, layout: Csv, samples: Samples | None = None) -> Head:
    """Check the first lines of a file; the rest is not read.

    Without ``samples`` a header is refused: nothing else says whether it names features or samples.
    """
    lines = list(itertools.islice(_lines(file), PEEK))
    if not lines:
        raise ProblemError(f"{file} must hold numbers; found blank lines only; write it again")
    _check_layout(file, [line for _, line in lines], layout)
    number, first = lines[0]
    fields = [field.strip() for field in _split(first, layout.sep)]
    if isinstance(layout.index, int) and layout.index >= len(fields):
        raise ProblemError(
            f"{file} must have a column {layout.index}, counted from 0, to leave out; found {len(fields)} "
            f"columns; correct {layout.prefix}index"
        )
    if len(fields) == 1 and layout.index is not None:
        raise ProblemError(
            f"{file} must have columns besides its index; found one; leave {layout.prefix}index out"
        )
    if not _has_header(file, fields, [line for _, line in lines], layout):
        chosen = tuple(k for k in range(len(fields)) if k != layout.index)
        return Head(len(fields), (), 0, chosen)
    header = (fields[0].removeprefix("#").strip(), *fields[1:])
    chosen = _choose(file, header, layout)
    if header[0] in UNNAMED and 0 in chosen and len(header) > 1:
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
        _check_names(file, header, chosen, layout)
    return Head(len(fields), header, number, chosen)


def count_lines(file: Path, layout: Csv, head: Head) -> int:
    """Lines of numbers, counted without converting them."""
    return sum(1 for _ in _body(file, layout, head))


def load_csv(file: Path, layout: Csv | None = None, samples: Samples | None = None) -> Array:
    """The numbers of the chosen columns, ``(lines, columns)``."""
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
            usecols=head.chosen,
            ndmin=2,
        )
    except ProblemError:  # from `_body`, and a ValueError too
        raise
    except ValueError as error:
        _explain(file, layout, head)
        raise ProblemError(f"{file} must hold numbers; found a line that cannot be read ({error})") from error


def _body(file: Path, layout: Csv, head: Head) -> Iterator[str]:
    """The lines of numbers, with a decimal point, each with the right number of fields."""
    for number, line in _lines(file):
        if number <= head.line:
            continue
        found = line.count(layout.sep) + 1 if '"' not in line else len(_split(line, layout.sep))
        if found != head.width:
            raise ProblemError(
                f"{file} must have {head.width} fields in every line; found {found} in line {number}; "
                "correct it, or remove lines above the table"
            )
        if layout.decimal == ",":
            if "." in line and any("." in field for field in _chosen_fields(line, layout, head)):
                _explain(file, layout, head)
            line = line.replace(",", ".")
        yield line


def _chosen_fields(line: str, layout: Csv, head: Head) -> list[str]:
    fields = _split(line, layout.sep)
    return [fields[k] for k in head.chosen]


def _explain(file: Path, layout: Csv, head: Head) -> None:
    """Raise a sentence with the first field that is not a number."""
    for number, line in _lines(file):
        if number <= head.line:
            continue
        fields = _split(line, layout.sep)
        bad = next((k for k in head.chosen if not _is_number(fields[k], layout.decimal)), None)
        if bad is not None:
            text, prefix = fields[bad].strip(), layout.prefix
            comma, thousands = DECIMAL_COMMA.fullmatch(text), THOUSANDS.fullmatch(text)
            if comma and thousands:
                cure = f'set decimal = "," if it is a decimal comma, or {WITHOUT_THOUSANDS}'
            elif comma or thousands:
                cure = 'set decimal = ","' if comma else WITHOUT_THOUSANDS
            elif head.header:
                cure = f'correct it, or leave the column out with {prefix}index = "{head.header[bad]}" or '
                cure += f"{prefix}columns"
            elif number == 1 and layout.header is None:
                cure = "correct it, or set header = true if the line names columns"
            else:
                cure = f"correct it, or leave the column out with {prefix}index = {bad}"
            raise ProblemError(
                f"{file} must hold numbers separated by {_spell(layout.sep)}; "
                f"found '{_cut(text)}' in line {number}; {cure}"
            )


def _check_layout(file: Path, lines: Sequence[str], layout: Csv) -> None:
    """Refuse a file whose first lines are numbers in another layout."""
    share = _share_of_numbers(lines, layout.sep, layout.decimal)
    if share == 1:
        return
    options = {
        (sep, decimal): _share_of_numbers(lines, sep, decimal)
        for sep in SEPARATORS
        for decimal in (".", ",")
        if sep != decimal and (sep in lines[0] or (sep + decimal == ";," and "," not in lines[0]))
    }
    if not options:
        return
    sep, decimal = max(options, key=lambda option: options[option])
    if options[sep, decimal] <= max(share, 0.5):
        return
    found, keys = [], []
    if sep != layout.sep:
        found += [f"{_spell(sep)} between them"] * (sep in lines[0])
        keys.append(f"sep = {json.dumps(sep)}")
    if decimal != layout.decimal:
        found.append("decimal commas" if decimal == "," else "points")
        keys.append(f'decimal = "{decimal}"')
    if decimal == "." != layout.decimal:
        keys[-1] += f" if they are decimal points, or {WITHOUT_THOUSANDS}"
    raise ProblemError(
        f"{file} must hold numbers separated by {_spell(layout.sep)}; found {' and '.join(found)}; "
        f"set {' and '.join(keys)}"
    )


def _share_of_numbers(lines: Sequence[str], sep: str, decimal: str) -> float:
    """The share of numbers below the first line; 0 for a layout these lines cannot have."""
    rows = [_split(line, sep) for line in lines]
    if len({len(row) for row in rows}) > 1:
        return 0
    numbers = [_is_number(field, decimal) for row in rows[1:] or rows for field in row]
    return sum(numbers) / len(numbers)


def _has_header(file: Path, fields: Sequence[str], lines: Sequence[str], layout: Csv) -> bool:
    """Whether the first of these lines, which has these fields, names the columns."""
    if layout.header is not None or layout.by_name:
        return layout.header is not False
    index = layout.index if layout.index is not None else 0 if fields[0] in UNNAMED else None
    label = None if index is None else fields[int(index)]
    rest = [field for k, field in enumerate(fields) if k != index]
    numbers = [_is_number(field, layout.decimal) for field in rest]
    if not any(numbers):
        return True
    counted = len(rest) > 1 and rest == [str(k) for k in range(len(rest))]
    if counted and label in UNNAMED:
        return True
    if counted:
        found = f"0 to {len(rest) - 1}, which pandas writes for columns without names,"
    elif len(rest) > 2 and _counts_alone([rest, *_rows(lines[1:], layout, index)]):
        found = f"the consecutive numbers {rest[0]} to {rest[-1]}"
    elif all(numbers) and '"' in lines[0]:
        found = "numbers in quotation marks"
    elif all(numbers) and label is not None and not _is_number(label, layout.decimal):
        found = f"numbers and '{_cut(label)}'"
    else:
        return False
    raise ProblemError(
        f"{file} must say whether its first line is a header; found {found} there; set header = true, or "
        "header = false if it is data"
    )


def _rows(lines: Sequence[str], layout: Csv, index: str | int | None) -> Iterator[list[str]]:
    """The fields of each line without the one at ``index``."""
    for line in lines:
        yield [field for k, field in enumerate(_split(line, layout.sep)) if k != index]


def _counts_alone(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first of several rows, and no other, is of whole numbers that rise by 1, such as years."""
    counts = [
        all(field.strip().isdecimal() for field in row) and set(np.diff([int(field) for field in row])) == {1}
        for row in rows
    ]
    return counts[0] and len(counts) > 1 and not any(counts[1:])


def _choose(file: Path, header: Sequence[str], layout: Csv) -> tuple[int, ...]:
    """Positions of the columns to read."""
    if isinstance(layout.index, str):
        _position(file, header, layout.index, f"{layout.prefix}index")
    chosen = [k for k, name in enumerate(header) if layout.index not in (k, name)]
    if layout.columns is not None:
        left = [header[k] for k in chosen]
        chosen = [chosen[_position(file, left, name, f"{layout.prefix}columns")] for name in layout.columns]
    return tuple(chosen)


def _position(file: Path, header: Sequence[str], name: str, key: str) -> int:
    """The place of the only column of this name."""
    count = header.count(name)
    if count != 1:
        near = get_close_matches(name, header, 1)
        found = f"{count} of them" if count else f"'{near[0]}'" if near else shorten(header)
        raise ProblemError(f"{file} must have one column '{_cut(name)}'; found {found}; correct {key}")
    return header.index(name)


def _check_names(file: Path, header: Sequence[str], chosen: Sequence[int], layout: Csv) -> None:
    """Refuse features without a name or with the same one."""
    name, count = Counter(header[k] for k in chosen).most_common(1)[0]
    found = f"the name '{_cut(name)}' {count} times"
    if count == 1 and "" in header and header.index("") in chosen:
        found = f"none for column {header.index('')}"
    elif count == 1:
        return
    raise ProblemError(
        f"{file} must give every column its own name; found {found}; rename them, or choose others with "
        f"{layout.prefix}columns"
    )


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Number and text of the lines that are not blank."""
    with _open(file) as lines:
        for number, line in enumerate(lines, 1):
            if number == 1 and SEP_LINE.fullmatch(line.strip()):
                continue
            if line.strip(" \r\n"):  # tabs may separate gaps
                yield number, line.rstrip("\r\n")


def _open(file: Path) -> IO[str]:
    if file.suffix.lower() == ".gz":
        return gzip.open(file, "rt", encoding=ENCODING)
    return file.open(encoding=ENCODING)


def _split(line: str, sep: str) -> list[str]:
    return next(csv.reader([line], delimiter=sep)) if '"' in line else line.split(sep)


def _is_number(field: str, decimal: str = ".") -> bool:
    if decimal == ",":
        if "." in field:
            return False
        field = field.replace(",", ".") if DECIMAL_COMMA.fullmatch(field.strip()) else field
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field


def _spell(sep: str) -> str:
    return SEPARATORS.get(sep, f"'{sep}'")


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def shorten(names: Sequence[str], most: int = 4) -> str:
    """The first names, and that there are more."""
    return ", ".join(map(_cut, names[:most])) + (", ..." if len(names) > most else "")
