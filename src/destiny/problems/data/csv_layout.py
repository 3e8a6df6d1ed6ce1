"""Layout of .csv files: the settings, and checks of the first lines of a file against them."""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from destiny.errors import ProblemError

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?\d{1,3}([.,' \xa0\u202f]\d{3})+([.,]\d+)?")
SHOWN = 40  # characters of a field, and names of columns, in a message
NAN = ("nan", "-nan", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan")
GAPS = frozenset(
    {"", "na", "n/a", "#na", "#n/a", "#n/a n/a", "<na>", "null", "none", *NAN}
)  # what pandas takes for a gap, in small letters
UNNAMED = ("", "Unnamed: 0")  # how pandas names the column of its row labels
ENDINGS = {".csv": ",", ".tsv": "\t", ".txt": ","}  # of tables in text files, with their separators


@dataclass(frozen=True)
class Csv:
    """Layout of a .csv, .tsv or .txt file.

    Parameters
    ----------
    header : bool, optional
        Whether the first line names the columns. By default it does if none of its fields is a number, and
        a first line with numbers is refused.
    sep : str, optional
        The character between two fields; by default a comma, in .tsv files a tab.
    decimal : {".", ","}
        The decimal point.
    columns : sequence of str, optional
        Names of the columns to read, in this order; by default all.
    index : str or int, or sequence of them, optional
        Columns with row labels, by name or by number from 0. They are no features; where rows of several
        files belong together, the labels are compared.
    gaps : bool
        Whether fields may be missing: empty, NA, NaN, null and whatever else pandas takes for a gap. They are
        then NaN.
    encoding : str
        Of letters: "utf-8", or "cp1252" of many Windows programs. A byte order mark overrules it.
    na_values : sequence of str, optional
        Further texts and numbers that stand for a missing field, such as "-" or "-999".
    thousands : str, optional
        The character between groups of three digits.
    skiprows : int
        Number of lines above the table.
    prefix : str
        What the keys ``columns`` and ``index`` begin with in messages.
    """

    header: bool | None = None
    sep: str | None = None
    decimal: Literal[".", ","] = "."
    columns: Sequence[str] | None = None
    index: str | int | Sequence[str | int] | None = None
    gaps: bool = False
    encoding: str = "utf-8"
    na_values: Sequence[str] = ()
    thousands: str | None = None
    skiprows: int = 0
    prefix: str = ""

    def __post_init__(self) -> None:
        sep = self.sep
        if sep is not None and (
            not isinstance(sep, str) or len(sep) != 1 or sep.isalnum() or sep in '"\r\n+-.'
        ):
            raise ProblemError(
                f'sep must be one character that no number contains, such as ";" or "\\t"; found {sep!r}'
            )
        try:
            codecs.lookup(self.encoding)
        except (LookupError, TypeError) as error:
            raise ProblemError(
                f'encoding must be a name such as "utf-8" or "cp1252"; found {self.encoding!r}'
            ) from error
        if self.decimal not in (".", ","):
            raise ProblemError(f'decimal must be "." or ","; found {self.decimal!r}')
        if self.thousands is not None and (
            self.thousands not in (",", ".", "'", " ") or self.thousands == self.decimal
        ):
            raise ProblemError(
                'thousands must be ",", ".", "\'" or " ", and not the decimal sign; found '
                f"{self.thousands!r} and decimal {self.decimal!r}"
            )
        if not _is_list_of(self.na_values, (str, int, float)):
            raise ProblemError(f'na_values must be a list such as ["-", "-999"]; found {self.na_values!r}')
        if isinstance(self.skiprows, bool) or not isinstance(self.skiprows, int) or self.skiprows < 0:
            raise ProblemError(f"skiprows must be a number of lines from 0; found {self.skiprows!r}")
        if self.columns is not None and (
            not self.columns
            or not _is_list_of(self.columns, (str,))
            or len(set(self.columns)) < len(self.columns)
        ):
            raise ProblemError(
                f"{self.prefix}columns must be a list of different names; found {self.columns!r}"
            )
        if not _is_list_of(self.labels, (str, int)) or any(
            isinstance(one, bool) or (isinstance(one, int) and one < 0) for one in self.labels
        ):
            raise ProblemError(
                f"{self.prefix}index must be a name, a number from 0, or a list of them; found {self.index!r}"
            )
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
    def labels(self) -> tuple[Any, ...]:
        """Names and numbers of the columns in ``index``."""
        if self.index is None or isinstance(self.index, str | int):
            return () if self.index is None else (self.index,)
        return tuple(self.index) if isinstance(self.index, Sequence) else (self.index,)

    @property
    def by_name(self) -> bool:
        """Whether columns are chosen by their names."""
        return self.columns is not None or any(isinstance(one, str) for one in self.labels)

    @property
    def is_plain(self) -> bool:
        """Whether fields are numbers as Python writes them, but for gaps."""
        return self.decimal == "." and self.thousands is None and not self.na_values

    @cached_property
    def _missing(self) -> tuple[frozenset[str], frozenset[float | None]]:
        """Texts in small letters and numbers that stand for a missing field."""
        own = [str(one).strip() for one in self.na_values]
        return GAPS.union(one.lower() for one in own), frozenset(map(self.number, own)) - {None}

    def is_missing(self, field: str) -> bool:
        """Whether a field stands for a missing entry."""
        texts, numbers = self._missing
        return field.strip().lower() in texts or (bool(numbers) and self.number(field) in numbers)

    def number(self, field: str) -> float | None:
        """The number that a field is in this layout; None if it is none."""
        text, mark = field.strip(), self.thousands
        if mark is not None:
            text = text.replace("\xa0", " ").replace("\u202f", " ") if mark == " " else text
            if mark in text:
                groups = rf"[+-]?\d{{1,3}}({re.escape(mark)}\d{{3}})+({re.escape(self.decimal)}\d*)?"
                if not re.fullmatch(groups, text):
                    return None
                text = text.replace(mark, "")
        return as_number(text, self.decimal)

    def entry(self, field: str) -> float | None:
        """The number of a field, NaN for one that may be missing; None if it is neither."""
        if self.is_missing(field):
            return float("nan") if self.gaps else None
        return self.number(field)


def _is_list_of(values: object, kinds: tuple[type, ...]) -> bool:
    return (
        isinstance(values, Sequence)
        and not isinstance(values, str)
        and all(isinstance(one, kinds) for one in values)
    )


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


def check_layout(
    file: Path,
    lines: Sequence[tuple[int, str]],
    records: Sequence[tuple[int, list[str]]],
    layout: Csv,
    usual: bool,
) -> None:
    """Raise `ProblemError` with the right settings if the first lines are a table in another layout.

    ``lines`` are numbers and texts, ``records`` the same in fields. The separator of ``layout`` is set, to
    the ``usual`` one if none was given.
    """
    texts, sep = [line for _, line in lines], layout.sep or ","
    if any("\0" in line for line in texts):
        raise ProblemError(
            f'{file} must be text in {layout.encoding}; found zero bytes; set encoding = "utf-16-le", or '
            'save it as UTF-8 (in Excel: "CSV UTF-8")'
        )
    widths = [len(fields) for _, fields in records]
    entries = [layout.number(field) is not None for _, fields in records[1:] or records for field in fields]
    share = sum(entries) / len(entries) if len(set(widths)) == 1 else 0
    if share < 1:
        _refuse_row_names(file, texts, layout)
        other, decimal, best = likely_layout(texts)
        if best > max(share, 0.5) and (other in texts[0] or other == sep):
            _refuse_layout(file, texts[0], layout, other, decimal)
        if len(widths) > 1 and widths[0] < widths[1]:
            _check_first_line(file, records, layout)
        elif len(set(widths)) > 1 and widths[0] == 1:
            _refuse_title(file, lines)
    if usual and sep == layout.decimal and not any('"' in line for line in texts):
        raise ProblemError(
            f"{file} must have a separator other than the decimal sign; found {sep!r} for both; set "
            f'sep = ";", or sep = "{sep}" if numbers with decimals are in quotation marks'
        )


def _refuse_layout(file: Path, first: str, layout: Csv, sep: str, decimal: str) -> None:
    """Raise `ProblemError` if the layout has another separator or decimal sign."""
    found, keys = [], []
    if sep != layout.sep:
        found += [f"{spell(sep)} between them"] * (sep in first)
        keys.append(f"sep = {json.dumps(sep)}")
    if decimal != layout.decimal:
        found.append("decimal commas" if decimal == "," else "points")
        keys.append(f'decimal = "{decimal}"')
    if decimal == "." != layout.decimal:
        keys[-1] += ' if they are decimal points, or thousands = "."'
    if keys:
        raise ProblemError(
            f"{file} must hold numbers separated by {spell(layout.sep or ',')}; found {' and '.join(found)}; "
            f"set {' and '.join(keys)}"
        )


def _refuse_row_names(file: Path, lines: Sequence[str], layout: Csv) -> None:
    """Raise `ProblemError` for a table of R's write.table, unless the layout is that of one.

    Its header has a name for every column but the first, which are the row names.
    """
    for sep in filter(lines[0].__contains__, SEPARATORS):
        header, *rows = [split_line(line, sep) for line in lines]
        below = [field for row in rows for field in row[1:]]
        count, decimal = max((sum(is_number(field, sign) for field in below), sign) for sign in ",.")
        if (
            {len(row) - len(header) for row in rows} != {1}
            or all(row[-1].strip() == "" for row in rows)
            or any(is_number(field, decimal) for field in header)
            or count <= len(below) / 2
        ):
            continue
        keys = [f"sep = {json.dumps(sep)}"] if sep != layout.sep else []
        keys += [f"{layout.prefix}index = 0"] if 0 not in layout.labels else []
        keys += [f'decimal = "{decimal}"'] if decimal != layout.decimal else []
        if keys:
            raise ProblemError(
                f"{file} must have a name for each of its {len(rows[0])} columns; found {len(header)}, as "
                f"R's write.table leaves out that of the row names; set {' and '.join(keys)}, or write the "
                "file with row.names = FALSE"
            )
        return


def _check_first_line(file: Path, records: Sequence[tuple[int, list[str]]], layout: Csv) -> None:
    """Raise `ProblemError` for a first line with fewer fields than the next, unless ``index`` explains it."""
    (first, short), (second, long) = records[:2]
    more = len(long) - len(short)
    trailing = all(fields[-1].strip() == "" for _, fields in records[1:])
    if more == 1 and not trailing and 0 in layout.labels and layout.header is not False:
        return
    cures = [f"set skiprows = {second - 1} if the table begins in line {second}"]
    if more == 1 and trailing:
        cures = [f"remove the {spell(layout.sep or ',')} at the end of the lines below"]
    elif more == 1:
        cures.append(f"{layout.prefix}index = 0 if lines begin with row names, as R writes them")
    if len(short) == 1 and layout.sep == "," and is_number(",".join(long), ","):
        cures.append('sep = ";" and decimal = "," if they are decimal commas')
    raise ProblemError(
        f"{file} must have equally many fields in every line; found {len(short)} in line {first} and "
        f"{len(long)} in line {second}; {', or '.join(cures)}"
    )


def _refuse_title(file: Path, lines: Sequence[tuple[int, str]]) -> None:
    """Raise `ProblemError` if a table begins below the first line."""
    for number, line in lines[1:-1]:
        rest = [text for k, text in lines if k >= number]
        sep, _, share = likely_layout(rest)
        if share > 0.5 and sep in line:
            raise ProblemError(
                f"{file} must have equally many fields in every line; found fewer above line {number}; set "
                f"skiprows = {number - 1} if the table begins in line {number}"
            )


def likely_layout(lines: Sequence[str]) -> tuple[str, str, float]:
    """Separator and decimal sign with which most fields of these lines are numbers, and their share."""
    options = {
        (sep, decimal): _share_of_numbers(lines, sep, decimal)
        for sep in SEPARATORS
        for decimal in (".", ",")
        if sep in lines[0] or (sep + decimal == ";," and "," not in lines[0])
        if sep != decimal or any('"' in line for line in lines)
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


def has_header(file: Path, fields: Sequence[str], layout: Csv) -> bool:
    """Whether the first line, with these fields, is a header; raise `ProblemError` if that is unclear."""
    if layout.header is not None or layout.by_name:
        return layout.header is not False
    labels = layout.labels or ((0,) if fields[0] in UNNAMED else ())
    rest = [field for k, field in enumerate(fields) if k not in labels]
    numbers = [field for field in rest if layout.number(field) is not None]
    if not numbers:
        return True
    counted = len(rest) > 1 and rest == [str(k) for k in range(len(rest))]
    if counted and 0 in labels and fields[0] in UNNAMED:  # pandas writes this for columns without names
        return True
    raise ProblemError(
        f"{file} must say whether its first line is a header; found {shorten(numbers)} there; set "
        "header = true, or header = false if it is data"
    )


def split_line(line: str, sep: str) -> list[str]:
    return next(csv.reader([line], delimiter=sep)) if '"' in line else line.split(sep)


def is_number(field: str, decimal: str = ".") -> bool:
    return as_number(field, decimal) is not None


def as_number(field: str, decimal: str = ".") -> float | None:
    """The number that a field is, None if it is none."""
    if decimal == ",":
        if "." in field:
            return None
        field = field.replace(",", ".") if DECIMAL_COMMA.fullmatch(field.strip()) else field
    try:
        return None if "_" in field else float(field)
    except ValueError:
        return None


def spell(sep: str) -> str:
    return SEPARATORS.get(sep, f"'{sep}'")


def cut(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def shorten(names: Sequence[str], most: int = 4) -> str:
    """The first names, with an ellipsis if there are more than ``most``."""
    return ", ".join(map(cut, names[:most])) + (", ..." if len(names) > most else "")
