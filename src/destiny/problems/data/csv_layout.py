"""Layout of .csv files: the settings, and checks of the first lines of a file against them."""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import numpy as np

from destiny.errors import ProblemError

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?\d{1,3}([.,' \xa0\u202f]\d{3})+([.,]\d+)?")
WITHOUT_THOUSANDS = "write numbers without separators of thousands"
SHOWN = 40  # characters of a field, and names of columns, in a message
GAPS = ("", "na", "n/a", "nan", "null")  # in small letters
UNNAMED = ("", "Unnamed: 0")  # how pandas names the column of its row labels


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
    gaps : bool
        Whether fields may be missing: empty, NA, N/A or null. They are then NaN.
    encoding : str
        Of letters: "utf-8", or "cp1252" of many Windows programs.
    prefix : str
        What the keys ``columns`` and ``index`` begin with in messages.
    """

    header: bool | None = None
    sep: str = ","
    decimal: Literal[".", ","] = "."
    columns: Sequence[str] | None = None
    index: str | int | None = None
    gaps: bool = False
    encoding: str = "utf-8"
    prefix: str = ""

    def __post_init__(self) -> None:
        if len(self.sep) != 1 or self.sep.isalnum() or self.sep in '"\r\n+-.':
            raise ProblemError(
                f'sep must be one character that no number contains, such as ";" or "\\t"; found {self.sep!r}'
            )
        try:
            codecs.lookup(self.encoding)
        except (LookupError, TypeError) as error:
            raise ProblemError(
                f'encoding must be a name such as "utf-8" or "cp1252"; found {self.encoding!r}'
            ) from error
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
    def is_default(self) -> bool:
        """Whether no parameter but ``prefix`` is set."""
        return replace(self, prefix="") == Csv()

    @property
    def by_name(self) -> bool:
        """Whether columns are chosen by their names."""
        return self.columns is not None or isinstance(self.index, str)


def layouts_of_parties(csv: object, common: Mapping[str, Any], parties: Sequence[str]) -> dict[str, Csv]:
    """The layout of the files of each party: of all, or ``csv[party]`` where that differs.

    Raises ProblemError for settings that there are not.
    """
    if isinstance(csv, Csv):
        if common:
            raise ProblemError(
                f"a layout is given as csv or by its settings; found csv and {', '.join(common)}"
            )
        return dict.fromkeys(parties, csv)
    base = _layout_of(common)
    if csv is None:
        return dict.fromkeys(parties, base)
    if not isinstance(csv, Mapping):
        raise ProblemError(
            "csv must be destiny.problems.data.Csv(...), or a dict of them by party; found "
            f"{type(csv).__name__}"
        )
    for party in csv:
        if party not in parties:
            raise ProblemError(f"csv must be by party: {shorten(list(parties))}; found {party!r}")
    own = {
        party: one if isinstance(one, Csv) else _layout_of({**common, **one}) for party, one in csv.items()
    }
    return {party: own.get(party, base) for party in parties}


def _layout_of(settings: Mapping[str, Any]) -> Csv:
    known = [field.name for field in fields(Csv) if field.name not in ("prefix", "columns")]
    for name in settings:
        if name not in known:
            near = get_close_matches(name, known, 1)
            raise ProblemError(
                f"settings of .csv files are {', '.join(known)}; found {name!r}"
                + (f": did you mean {near[0]!r}?" if near else "")
            )
    return Csv(**settings)


def check_layout(file: Path, lines: Sequence[str], layout: Csv) -> None:
    """Raise `ProblemError` with the right settings if the first lines are numbers in another layout."""
    share = _share_of_numbers(lines, layout.sep, layout.decimal)
    if share == 1:
        return
    sep, decimal, best = likely_layout(lines)
    if best <= max(share, 0.5):
        return
    found, keys = [], []
    if sep != layout.sep:
        found += [f"{spell(sep)} between them"] * (sep in lines[0])
        keys.append(f"sep = {json.dumps(sep)}")
    if decimal != layout.decimal:
        found.append("decimal commas" if decimal == "," else "points")
        keys.append(f'decimal = "{decimal}"')
    if decimal == "." != layout.decimal:
        keys[-1] += f" if they are decimal points, or {WITHOUT_THOUSANDS}"
    raise ProblemError(
        f"{file} must hold numbers separated by {spell(layout.sep)}; found {' and '.join(found)}; "
        f"set {' and '.join(keys)}"
    )


def likely_layout(lines: Sequence[str]) -> tuple[str, str, float]:
    """Separator and decimal sign with which most fields of these lines are numbers, and their share."""
    options = {
        (sep, decimal): _share_of_numbers(lines, sep, decimal)
        for sep in SEPARATORS
        for decimal in (".", ",")
        if sep != decimal and (sep in lines[0] or (sep + decimal == ";," and "," not in lines[0]))
    }
    if not options:
        return ",", ".", 0.0
    sep, decimal = max(options, key=lambda option: options[option])
    return sep, decimal, options[sep, decimal]


def _share_of_numbers(lines: Sequence[str], sep: str, decimal: str) -> float:
    """Share of numbers among the fields below the first line; 0 if the lines differ in length."""
    rows = [split_line(line, sep) for line in lines]
    if len({len(row) for row in rows}) > 1:
        return 0
    numbers = [is_number(field, decimal) for row in rows[1:] or rows for field in row]
    return sum(numbers) / len(numbers)


def has_header(file: Path, fields: Sequence[str], lines: Sequence[str], layout: Csv) -> bool:
    """Whether the first line, with these fields, is a header; raise `ProblemError` if that is unclear."""
    if layout.header is not None or layout.by_name:
        return layout.header is not False
    index = layout.index if layout.index is not None else 0 if fields[0] in UNNAMED else None
    label = None if index is None else fields[int(index)]
    rest = [field for k, field in enumerate(fields) if k != index]
    numbers = [is_number(field, layout.decimal) for field in rest]
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
    elif all(numbers) and label is not None and not is_number(label, layout.decimal):
        found = f"numbers and '{cut(label)}'"
    else:
        return False
    raise ProblemError(
        f"{file} must say whether its first line is a header; found {found} there; set header = true, or "
        "header = false if it is data"
    )


def _rows(lines: Sequence[str], layout: Csv, index: str | int | None) -> Iterator[list[str]]:
    """The fields of each line without the one at ``index``."""
    for line in lines:
        yield [field for k, field in enumerate(split_line(line, layout.sep)) if k != index]


def _counts_alone(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row, and no other, has consecutive whole numbers, such as years."""
    counts = [
        all(field.strip().isdecimal() for field in row) and set(np.diff([int(field) for field in row])) == {1}
        for row in rows
    ]
    return counts[0] and len(counts) > 1 and not any(counts[1:])


def split_line(line: str, sep: str) -> list[str]:
    return next(csv.reader([line], delimiter=sep)) if '"' in line else line.split(sep)


def is_number(field: str, decimal: str = ".") -> bool:
    if decimal == ",":
        if "." in field:
            return False
        field = field.replace(",", ".") if DECIMAL_COMMA.fullmatch(field.strip()) else field
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field


def spell(sep: str) -> str:
    return SEPARATORS.get(sep, f"'{sep}'")


def cut(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def shorten(names: Sequence[str], most: int = 4) -> str:
    """The first names, with an ellipsis if there are more than ``most``."""
    return ", ".join(map(cut, names[:most])) + (", ..." if len(names) > most else "")
