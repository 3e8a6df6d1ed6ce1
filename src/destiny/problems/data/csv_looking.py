"""What the first lines of a text file say: which setting is missing, or wrong, for the table in it."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from destiny.errors import ProblemError
from destiny.problems.data.csv_layout import PLAIN, Csv, cut, shorten

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
DECIMAL = {".": PLAIN, ",": Csv(decimal=",")}
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?\d{1,3}([.,' \xa0\u202f]\d{3})+([.,]\d+)?")
UNNAMED = ("", "Unnamed: 0")  # how pandas names the column of its row labels

Line: TypeAlias = tuple[int, str]
Record: TypeAlias = tuple[int, list[str]]
"""Number of a line, and its fields."""


def check_layout(file: Path, lines: Sequence[Line], records: Sequence[Record], layout: Csv) -> None:
    """Raise `ProblemError` with the right settings if the first lines are a table in another layout.

    ``records`` are the ``lines`` in fields. The separator of ``layout`` is set.
    """
    texts, sep = [line for _, line in lines], layout.sep or ","
    if any("\0" in line for line in texts):
        raise ProblemError(
            f'{file} must be text in {layout.encoding}; found zero bytes; set encoding = "utf-16-le", or '
            'save it as UTF-8 (in Excel: "CSV UTF-8")'
        )
    widths = [len(fields) for _, fields in records]
    share = _share_of_numbers([fields for _, fields in records], layout)
    if share == 1:
        return
    _refuse_row_names(file, texts, layout)
    other, decimal, best = likely_layout(texts)
    if best > max(share, 0.5) and (other in texts[0] or other == sep):
        _refuse_layout(file, texts[0], layout, other, decimal)
    if len(widths) > 1 and widths[0] < widths[1]:
        _check_first_line(file, records, layout)
    elif len(set(widths)) > 1 and widths[0] == 1:
        _refuse_title(file, lines)


def check_separator(file: Path, lines: Sequence[Line], sep: str, decimal: str) -> None:
    """Raise `ProblemError` if the usual separator is the decimal sign as well, and nothing is quoted."""
    if sep == decimal and not any('"' in line for _, line in lines):
        raise ProblemError(
            f"{file} must have a separator other than the decimal sign; found {sep!r} for both; set "
            f'sep = ";", or sep = "{sep}" if numbers with decimals are in quotation marks'
        )


def _refuse_layout(file: Path, first: str, layout: Csv, sep: str, decimal: str) -> None:
    """Raise `ProblemError` if the layout has another separator or decimal sign."""
    found, keys = [], []
    if sep != layout.sep:
        found += [f"{SEPARATORS[sep]} between them"] * (sep in first)
        keys.append(f"sep = {json.dumps(sep)}")
    if decimal != layout.decimal:
        found.append("decimal commas" if decimal == "," else "points")
        thousands = ' if they are decimal points, or thousands = "."' if decimal == "." else ""
        keys.append(f'decimal = "{decimal}"{thousands}')
    if keys:
        raise ProblemError(
            f"{file} must hold numbers separated by {spell(layout.sep)}; found {' and '.join(found)}; "
            f"set {' and '.join(keys)}"
        )


def _refuse_row_names(file: Path, lines: Sequence[str], layout: Csv) -> None:
    """Raise `ProblemError` for a table of R's write.table, unless the layout is that of one.

    Its header has a name for every column but the first, which are the row names.
    """
    for sep in filter(lines[0].__contains__, SEPARATORS):
        header, *rows = [split_line(line, sep) for line in lines]
        below = [field for row in rows for field in row[1:]]
        count, decimal = max(
            (sum(DECIMAL[sign].number(field) is not None for field in below), sign) for sign in ",."
        )
        if (
            {len(row) - len(header) for row in rows} != {1}
            or all(row[-1].strip() == "" for row in rows)
            or any(DECIMAL[decimal].number(field) is not None for field in header)
            or count <= len(below) / 2
        ):
            continue
        keys = [f"sep = {json.dumps(sep)}"] if sep != layout.sep else []
        keys += [f"{layout.prefix}index = 0"] if 0 not in layout.indices else []
        keys += [f'decimal = "{decimal}"'] if decimal != layout.decimal else []
        if keys:
            raise ProblemError(
                f"{file} must have a name for each of its {len(rows[0])} columns; found {len(header)}, as "
                f"R's write.table leaves out that of the row names; set {' and '.join(keys)}, or write the "
                "file with row.names = FALSE"
            )
        return


def _check_first_line(file: Path, records: Sequence[Record], layout: Csv) -> None:
    """Raise `ProblemError` for a first line with fewer fields than the next, unless ``index`` explains it."""
    (first, short), (second, long) = records[:2]
    one_more = len(long) == len(short) + 1
    trailing = all(fields[-1].strip() == "" for _, fields in records[1:])
    if one_more and not trailing and 0 in layout.indices and layout.header is not False:
        return
    cures = [f"set skiprows = {second - 1} if the table begins in line {second}"]
    if one_more and trailing:
        cures = [f"remove the {spell(layout.sep)} at the end of the lines below"]
    elif one_more:
        cures.append(f"{layout.prefix}index = 0 if lines begin with row names, as R writes them")
    if len(short) == 1 and layout.sep == "," and DECIMAL_COMMA.fullmatch(",".join(long)):
        cures.append('sep = ";" and decimal = "," if they are decimal commas')
    raise ProblemError(
        f"{file} must have equally many fields in every line; found {len(short)} in line {first} and "
        f"{len(long)} in line {second}; {', or '.join(cures)}"
    )


def _refuse_title(file: Path, lines: Sequence[Line]) -> None:
    """Raise `ProblemError` if a table begins below the first line."""
    for k, (number, line) in enumerate(lines[1:-1], 1):
        sep, _, share = likely_layout([text for _, text in lines[k:]])
        if share > 0.5 and sep in line:
            raise ProblemError(
                f"{file} must have equally many fields in every line; found fewer above line {number}; set "
                f"skiprows = {number - 1} if the table begins in line {number}"
            )


def likely_layout(lines: Sequence[str]) -> tuple[str, str, float]:
    """Separator and decimal sign with which most fields of these lines are numbers, and their share."""
    options = [
        (_share_of_numbers([split_line(line, sep) for line in lines], layout), sep, decimal)
        for sep in SEPARATORS
        for decimal, layout in DECIMAL.items()
        if sep in lines[0] or (sep + decimal == ";," and "," not in lines[0])
        if sep != decimal or any('"' in line for line in lines)
    ]
    share, sep, decimal = max(options, key=lambda option: option[0], default=(0.0, ",", "."))
    return sep, decimal, share


def _share_of_numbers(rows: Sequence[Sequence[str]], layout: Csv) -> float:
    """Share of numbers among the fields below the first line; 0 if the lines differ in length."""
    if len({len(row) for row in rows}) > 1:
        return 0
    numbers = [layout.number(field) is not None for row in rows[1:] or rows for field in row]
    return sum(numbers) / len(numbers)


def has_header(file: Path, fields: Sequence[str], layout: Csv) -> bool:
    """Whether the first line, with these fields, is a header; raise `ProblemError` if that is unclear."""
    if layout.header is not None or layout.by_name:
        return layout.header is not False
    labels = layout.indices or ((0,) if fields[0] in UNNAMED else ())
    rest = [field for k, field in enumerate(fields) if k not in labels]
    numbers = [field for field in rest if layout.number(field) is not None]
    counted = len(rest) > 1 and rest == [str(k) for k in range(len(rest))]
    # pandas counts columns without names, beside its row labels
    if not numbers or (counted and 0 in labels and fields[0] in UNNAMED):
        return True
    raise ProblemError(
        f"{file} must say whether its first line is a header; found {shorten(numbers)} there; set "
        "header = true, or header = false if it is data"
    )


def check_names(
    file: Path, header: Sequence[str], columns: Sequence[int], layout: Csv, different: bool
) -> None:
    """Raise `ProblemError` for row labels taken for a column, and for columns that are not ``different``."""
    if header[0] in UNNAMED and 0 in columns and len(header) > 1:
        raise ProblemError(
            f"{file} must name every column; found none for the first, as pandas writes for row labels; "
            f"set {layout.prefix}index = 0 to leave it out"
        )
    names = [header[k] for k in columns]
    name, count = Counter(names).most_common(1)[0]
    if different and ("" in names or count > 1):
        missing = f"none for column {[*header, ''].index('')}"
        twice = f"the name '{cut(name)}' {count} times"
        raise ProblemError(
            f"{file} must give every column its own name; found {missing if '' in names else twice}; rename "
            f"them, choose others with {layout.prefix}columns, or set skiprows if there are lines above the "
            "table"
        )


def refuse_field(file: Path, number: int, field: str, layout: Csv, column: str | int) -> NoReturn:
    """Raise `ProblemError` for a field that is no number; ``column`` is its name, or its number from 0."""
    text = field.strip()
    comma, thousands = DECIMAL_COMMA.fullmatch(text), THOUSANDS.fullmatch(text)
    mark = next((sign for sign in text if not sign.isdigit() and sign not in "+-"), "")
    group = f'thousands = "{" " if mark.isspace() else mark}"'
    out = f"correct it, or leave the column out with {layout.prefix}index = {json.dumps(column)}"
    if comma:
        cure = 'set decimal = ","' + f" if it is a decimal comma, or {group}" * bool(thousands)
    elif thousands:
        other = "." if mark == "," else ","
        cure = f"set {group}" + f' and decimal = "{other}"' * (mark == layout.decimal)
    elif layout.is_missing(text):
        cure = "fill it or leave the row out, or give estimators destiny.Silos(files, gaps=True)"
    elif isinstance(column, str):
        cure = f"{out} or {layout.prefix}columns, or set na_values if it stands for a missing entry"
    else:
        cure = out
    raise ProblemError(
        f"{file} must hold numbers separated by {spell(layout.sep)}; found '{cut(text)}' in line {number}; "
        f"{cure}"
    )


def guess_settings(texts: Sequence[str], usual: str, header: bool | None) -> dict[str, Any]:
    """The keys of [problem] with which these first lines, samples in rows, are probably read.

    With a header they name the columns that hold numbers, so that files may have them in any order, and as
    ``index`` a first column of row labels. ``usual`` is the separator that needs no key.
    """
    sep, decimal, share = likely_layout(texts)
    sep = sep if share else usual
    keys: dict[str, Any] = {"header": header} if header is not None else {}
    keys |= {"sep": sep} if sep != usual else {}
    keys |= {"decimal": ","} if decimal == "," else {}
    layout = DECIMAL[decimal]
    names, *rows = ([field.strip() for field in split_line(line, sep)] for line in texts)
    if rows and len(names) == len(rows[0]) - 1:  # as R writes row names
        return keys | {"index": 0}
    named = header if header is not None else all(layout.number(name) is None for name in names)
    if not rows or not named:
        return keys
    below = [[row[k] for row in rows if k < len(row)] for k in range(len(names))]
    filled = [[field for field in fields if not layout.is_missing(field)] for fields in below]
    numeric = [
        bool(fields) and all(layout.number(field) is not None for field in fields) for fields in filled
    ]
    columns = [name for name, its in zip(names, numeric, strict=True) if its and name not in UNNAMED]
    index = 0 if names[0] in UNNAMED else None if numeric[0] else names[0]
    return keys | ({"columns": columns} if columns else {}) | ({} if index is None else {"index": index})


def split_line(line: str, sep: str) -> list[str]:
    return next(csv.reader([line], delimiter=sep)) if '"' in line else line.split(sep)


def spell(sep: str | None) -> str:
    return SEPARATORS.get(sep or ",", f"'{sep}'")
