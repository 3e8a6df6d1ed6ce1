"""How a table in a text file is written: the settings, and what a field means under them."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cached_property
from math import isnan
from typing import Any, Literal, TypeAlias

from destiny.errors import ProblemError

NAN = ("nan", "-nan", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan")
GAPS = frozenset(
    {"", "na", "n/a", "#na", "#n/a", "#n/a n/a", "<na>", "null", "none", *NAN}
)  # what pandas takes for a gap, in small letters
ENDINGS = {".csv": ",", ".tsv": "\t", ".txt": ","}  # of tables in text files, with their separators
SHOWN = 40  # characters of a field in a message

Samples: TypeAlias = Literal["rows", "columns"]


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
    labels : str, optional
        Name of a column that is no feature, with the class or target of each row.
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
    labels: str | None = None
    prefix: str = ""

    def __post_init__(self) -> None:
        sep, mark, key, names = self.sep, self.thousands, self.prefix, self.columns
        _require(
            sep is None
            or (isinstance(sep, str) and len(sep) == 1 and not sep.isalnum() and sep not in '"\r\n+-.'),
            f'sep must be one character that no number contains, such as ";" or "\\t"; found {sep!r}',
        )
        _require(
            _is_encoding(self.encoding),
            f'encoding must be a name such as "utf-8" or "cp1252"; found {self.encoding!r}',
        )
        _require(self.decimal in (".", ","), f'decimal must be "." or ","; found {self.decimal!r}')
        _require(
            mark is None or (mark in (",", ".", "'", " ") and mark != self.decimal),
            'thousands must be ",", ".", "\'" or " ", and not the decimal sign; found '
            f"{mark!r} and decimal {self.decimal!r}",
        )
        _require(
            _are(self.na_values, str, int, float),
            f'na_values must be a list such as ["-", "-999"]; found {self.na_values!r}',
        )
        _require(
            _is_count(self.skiprows), f"skiprows must be a number of lines from 0; found {self.skiprows!r}"
        )
        _require(
            names is None or (_are(names, str, int) and 0 < len(set(names)) == len(names)),
            f"{key}columns must be a list of different names; found {names!r}",
        )
        _require(
            all(isinstance(one, str) or _is_count(one) for one in self.indices),
            f"{key}index must be a name, a number from 0, or a list of them; found {self.index!r}",
        )
        _require(
            self.header is not False or not self.by_name,
            f"{key}columns and a name for {key}index need a header; found header = false; set "
            "header = true, or give the index as a number",
        )

    @property
    def indices(self) -> tuple[Any, ...]:
        """Names and numbers of the columns with row labels."""
        if self.index is None or isinstance(self.index, str) or not isinstance(self.index, Sequence):
            return () if self.index is None else (self.index,)
        return tuple(self.index)

    @property
    def by_name(self) -> bool:
        """Whether columns are chosen by their names."""
        return self.columns is not None or any(isinstance(one, str) for one in self.indices)

    @cached_property
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
        text = field.strip()
        if self.thousands is not None:
            mark = r"[ \xa0\u202f]" if self.thousands == " " else re.escape(self.thousands)
            groups = rf"[+-]?\d{{1,3}}({mark}\d{{3}})+({re.escape(self.decimal)}\d*)?"
            if re.fullmatch(groups, text):
                text = re.sub(mark, "", text)
            elif re.search(mark, text):
                return None
        if self.decimal == ",":
            text = "" if "." in text else text.replace(",", ".")
        try:
            return None if "_" in text else float(text)  # underscores are Python's alone
        except ValueError:
            return None

    def entries(self, fields: Sequence[str]) -> list[float | None]:
        """The numbers of fields, NaN for those that may be missing; None for what is neither."""
        if self.is_plain and "_" not in "".join(fields):
            try:
                numbers: list[float | None] = list(map(float, fields))
            except ValueError:
                pass
            else:
                if not isnan(sum(numbers)):  # type: ignore[arg-type]
                    return numbers
        gap = float("nan") if self.gaps else None
        return [gap if self.is_missing(field) else self.number(field) for field in fields]


def layouts_of_parties(
    csv: object, common: Mapping[str, Any], parties: Sequence[str], **chosen: Any
) -> list[Csv]:
    """The layout of the files of each party: of all, or ``csv[party]`` where that differs.

    ``chosen`` are settings of all parties. Raises ProblemError for settings that there are not.
    """
    if isinstance(csv, Csv) and common:
        raise ProblemError(f"a layout is given as csv or by its settings; found csv and {', '.join(common)}")
    if not isinstance(csv, Csv | Mapping | None):
        raise ProblemError(
            "csv must be destiny.problems.data.Csv(...), or a dict of them by party; found "
            f"{type(csv).__name__}"
        )
    own = csv if isinstance(csv, Mapping) else {}
    for party in own:
        if party not in parties:
            raise ProblemError(f"csv must be by party: {shorten(list(parties))}; found {party!r}")
    base = csv if isinstance(csv, Csv) else common
    return [_layout_of(own.get(party, {}), base, chosen) for party in parties]


def _layout_of(own: Csv | Mapping[str, Any], base: Csv | Mapping[str, Any], chosen: Mapping[str, Any]) -> Csv:
    if isinstance(own, Csv):
        base, own = own, {}
    if isinstance(base, Csv):
        base = {field.name: getattr(base, field.name) for field in fields(Csv)}
    else:
        known = [field.name for field in fields(Csv) if field.name not in ("prefix", "columns", "labels")]
        for name in {**base, **own}:
            if name not in known:
                near = get_close_matches(name, known, 1)
                raise ProblemError(
                    f"settings of .csv files are {', '.join(known)}; found {name!r}"
                    + (f": did you mean {near[0]!r}?" if near else "")
                )
    return Csv(**{**base, **own, **{name: value for name, value in chosen.items() if value is not None}})


def _require(right: bool, sentence: str) -> None:
    if not right:
        raise ProblemError(sentence)


def _is_encoding(name: object) -> bool:
    try:
        return bool(codecs.lookup(name))  # type: ignore[arg-type]
    except (LookupError, TypeError):
        return False


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _are(values: object, *kinds: type) -> bool:
    """Whether values are a list of these kinds."""
    return (
        isinstance(values, Sequence)
        and not isinstance(values, str)
        and all(isinstance(one, kinds) for one in values)
    )


def cut(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def shorten(names: Sequence[str], most: int = 4) -> str:
    """The first names, with an ellipsis if there are more than ``most``."""
    return ", ".join(map(cut, names[:most])) + (", ..." if len(names) > most else "")


PLAIN = Csv()
"""Numbers as Python writes them, separated by commas."""
