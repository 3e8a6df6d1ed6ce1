"""One entry per party, with rows that can be chosen over all parties; values that belong to rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Number
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from destiny.errors import ProblemError
from destiny.notebook import heading, page, table
from destiny.problems.data.csv_layout import GAPS, PLAIN, shorten
from destiny.problems.data.table_checks import WHOLE

BOOLS = (bool, np.bool_)
DIGITS = 15  # of a whole number that is certainly the same in double precision

CLASSES = 12  # different values up to which each is counted


class PerParty(Sequence[Any]):
    """A sequence with one entry per party, and a number of rows in each.

    ``x[0]`` and ``x["name"]`` are the entry of a party. An array of numbers chooses rows, counted over all
    parties in their order, as scikit-learn's splitters do; the result has the chosen rows of every party.
    """

    parts: tuple[Any, ...]
    parties: tuple[str, ...]
    order: NDArray[np.intp] | None = None
    """Where each row, party after party, stands among all rows; None if they stand in this order."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of rows of each party."""
        return tuple(int(part.shape[0]) for part in self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.parts)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self.parties:
                raise ProblemError(f"a party must be one of {shorten(self.parties)}; found {key!r}")
            return self.parts[self.parties.index(key)]
        if isinstance(key, int | np.integer):
            return self.parts[int(key)]
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:  # as scikit-learn asks for rows
            key = key[0]
        if isinstance(key, slice | tuple):
            raise ProblemError("silos are chosen by number or name, rows by an array of numbers")
        return self.take_rows(np.asarray(key))

    def count_parties(self) -> str:
        """Return the number of parties, in words."""
        return "1 party" if len(self) == 1 else f"{len(self)} parties"

    def take_rows(self, rows: NDArray[Any]) -> Self:
        """Return the chosen rows of every party, in the order given."""
        raise NotImplementedError

    def _rows_by_party(self, rows: NDArray[Any]) -> tuple[list[NDArray[np.intp]], NDArray[np.intp] | None]:
        """Return the numbers, within each party, of rows counted over all parties, and their order."""
        rows = row_numbers(rows, sum(self.sizes))
        if self.order is not None:
            rows = np.argsort(self.order)[rows]
        ends = np.cumsum(self.sizes)
        owner = np.searchsorted(ends, rows, side="right")
        chosen = [rows[owner == k] - (ends[k] - size) for k, size in enumerate(self.sizes)]
        return chosen, np.argsort(owner, kind="stable") if (np.diff(owner) < 0).any() else None


class SiloValues(PerParty):
    """Values that belong to the rows of silos: labels, weights, predictions; one array per party.

    ``numpy.asarray`` gives those of all parties, in their order, or of chosen rows in the order chosen.

    Attributes
    ----------
    parties : tuple of str
    sizes : tuple of int
        Number of values of each party.
    shape : tuple of int
        Of the values of all parties together.
    """

    def __init__(
        self, parts: Sequence[Any], parties: Sequence[str], order: NDArray[np.intp] | None = None
    ) -> None:
        self.parts = tuple(np.asarray(part) for part in parts)
        self.parties, self.order = tuple(parties), order

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(self.sizes), *self.parts[0].shape[1:])

    @property
    def ndim(self) -> int:
        """1, or 2 if every row has several values."""
        return len(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        values = np.concatenate([part for part in self.parts if len(part)] or [self.parts[0]])
        if self.order is not None:
            values = values[np.argsort(self.order)]
        return values if dtype is None else values.astype(dtype, copy=False)

    def take_rows(self, rows: NDArray[Any]) -> SiloValues:
        """Return the values of the chosen rows."""
        chosen, order = self._rows_by_party(rows)
        parts = [part[its] for part, its in zip(self.parts, chosen, strict=True)]
        return SiloValues(parts, self.parties, order)

    def __repr__(self) -> str:
        counts = [f"{sum(its)} of {value}" for value, its in self._counts()]
        told = f": {', '.join(counts)}" if counts else ""
        return f"SiloValues({sum(self.sizes)} values of {self.count_parties()}{told})"

    def _repr_html_(self) -> str:
        counts = self._counts()
        header = ["party", "values", *(value for value, _ in counts)]
        rows = [
            [party, f"{size:,}", *(f"{its[k]:,}" for _, its in counts)]
            for k, (party, size) in enumerate(zip(self.parties, self.sizes, strict=True))
        ]
        return page(heading(repr(self)), table(rows, header, numbers=True))

    def _counts(self) -> list[tuple[str, list[int]]]:
        """Return the different values with their number at each party; none if there are many."""
        if self.ndim != 1 or any(part.dtype.kind == "O" for part in self.parts):
            return []
        values = np.unique(np.asarray(self))
        if len(values) > CLASSES:
            return []
        return [(str(value), [int(np.sum(part == value)) for part in self.parts]) for value in values]


def of_all_rows(values: Any, count: int) -> NDArray[Any] | None:
    """Return the values of all ``count`` rows in one array; None if these are not such values."""
    if isinstance(values, list | tuple) and any(np.ndim(value) for value in values):  # a table per party
        return None
    array = np.asarray(values)
    nested = array.dtype.kind == "O" and any(np.ndim(value) for value in array.flat)
    return array if array.ndim and len(array) == count and not nested else None


def row_numbers(rows: NDArray[Any], count: int) -> NDArray[np.intp]:
    """Return the numbers of chosen rows; raise ProblemError unless there are such rows."""
    if rows.dtype.kind == "b" and rows.shape == (count,):
        return np.flatnonzero(rows)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise ProblemError(
            f"rows are chosen by a list of their numbers; found {rows.dtype} of shape {rows.shape}"
        )
    if rows.size and not 0 <= rows.min() <= rows.max() < count:
        raise ProblemError(f"rows are numbered 0 to {count - 1}; found {rows.min()} to {rows.max()}")
    return rows.astype(np.intp)


def as_labels(parts: Sequence[Any], parties: Sequence[str]) -> SiloValues:
    """Return the labels of all parties, of one kind: numbers, true and false, or text.

    Texts of files become numbers, or true and false, if they are at all parties; otherwise numbers become
    text, 1.0 like 1. Raises ProblemError for a missing label, and for labels that parties spell differently.
    """
    parts = [np.asarray(part) for part in parts]
    for party, part in zip(parties, parts, strict=True):
        for row, label in enumerate(part):
            if _is_missing(label):
                found = f"{label!r}, which stands for none," if isinstance(label, str) and label else "none"
                raise ProblemError(
                    f"{party}: every row must have a label; found {found} in row {row}: leave the row out"
                )
    if any(part.dtype.kind not in "biufUO" for part in parts):
        return SiloValues(parts, parties)
    if all(map(_is_numeric, parts)):
        return SiloValues(_as_numbers(parts), parties)
    logical = [_is_logical(part) for part in parts]
    if any(its and len(part) for its, part in zip(logical, parts, strict=True)):
        if not all(logical):
            one = next(k for k, its in enumerate(logical) if its and len(parts[k]))
            other = logical.index(False)
            raise ProblemError(
                f"labels must be true and false at all parties or at none; found {str(parts[one][0])!r} at "
                f"{parties[one]} and {str(parts[other][0])!r} at {parties[other]}: write them alike"
            )
        return SiloValues([np.char.lower(part.astype(np.str_)) == "true" for part in parts], parties)
    texts = [np.array([_as_text(label) for label in part], dtype=np.str_) for part in parts]
    _check_spelling(texts, parties)
    return SiloValues(texts, parties)


def _is_missing(label: Any) -> bool:
    if label is None or isinstance(label, str):
        return label is None or label.strip().lower() in GAPS
    try:
        return bool(label != label)
    except TypeError:  # pandas.NA
        return True


def _is_numeric(part: NDArray[Any]) -> bool:
    """Whether labels are numbers, or texts of a file that are."""
    if part.dtype.kind == "O":
        return all(isinstance(label, Number) and not isinstance(label, BOOLS) for label in part)
    if part.dtype.kind == "U":
        return all(
            PLAIN.number(label) is not None and not (label.isdecimal() and len(label) > DIGITS)
            for label in part
        )
    return part.dtype.kind in "iuf"


def _as_numbers(parts: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    if all(part.dtype.kind in "iuf" for part in parts):
        return list(parts)
    numbers = [part.astype(np.float64) for part in parts]
    whole = all((np.abs(part) < 10**DIGITS).all() and (part == np.round(part)).all() for part in numbers)
    return [part.astype(np.int64) for part in numbers] if whole else numbers


def _is_logical(part: NDArray[Any]) -> bool:
    """Whether labels are true and false, as Python or R writes them; none at all may be anything."""
    if part.dtype.kind == "U":
        return bool(np.isin(np.char.lower(part), ("true", "false")).all())
    return part.dtype.kind == "b" or all(isinstance(label, BOOLS) for label in part)


def _as_text(label: Any) -> str:
    """A label as text; a whole number without decimals, because programs write 1 as 1.0 beside a gap."""
    text = str(label)
    return WHOLE.sub("", text) if PLAIN.number(text) is not None else text


def _check_spelling(texts: Sequence[NDArray[Any]], parties: Sequence[str]) -> None:
    """Raise ProblemError for labels of different parties that differ in case or spaces alone."""
    classes = [set(part.tolist()) for part in texts]
    seen: dict[str, tuple[str, int]] = {}
    for k, labels in enumerate(classes):
        for label in sorted(labels):
            other, first = seen.setdefault(label.strip().casefold(), (label, k))
            if other != label and other not in labels and label not in classes[first]:
                raise ProblemError(
                    f"labels must be spelled alike at all parties; found {other!r} at {parties[first]} and "
                    f"{label!r} at {parties[k]}: write the same, or rename one of them"
                )
