"""Silos: the tables of several parties, opened and checked once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.errors import DestinyError, MissingExtraError, ProblemError
from destiny.notebook import heading, page, table
from destiny.problems.data.csv_layout import Csv, layouts_of_parties, shorten
from destiny.problems.data.files import read_file
from destiny.problems.data.per_party import PerParty, SiloValues, as_labels, of_all_rows, row_numbers
from destiny.problems.data.rows import MappedRows, check_values
from destiny.problems.data.table_checks import (
    Table,
    as_table,
    check_rows,
    require_same_columns,
    require_same_rows,
    warn_of_ids,
)


class Silos(PerParty):
    """The tables of several parties, which all estimators, transformers and problems take.

    Every table is opened and checked when the object is made, and never again. Rows are samples; columns are
    the same, in the same order, at all parties.

    Parameters
    ----------
    tables : sequence, or mapping from names of parties
        One table per party: a 2-D array, memory map, sparse matrix, data frame, or the name of a ``.csv``,
        ``.tsv``, ``.txt``, ``.parquet``, ``.npy``, ``.npz`` or ``.mat`` file. A ``.npy`` file is mapped into
        memory and read some rows at a time.
    parties : sequence of str, optional
        Names of the parties; by default the keys of a mapping, the names of the files or "silo 0", ....
    columns : sequence of str, optional
        Names of the columns to take, in this order, for data frames and files with names that have others or
        another order.
    labels : str, optional
        Name of a column that is not a feature: numbers or text, kept in the attribute ``labels``.
    csv : Csv, or mapping from parties, optional
        Layout of all ``.csv`` files; or, for parties whose files look otherwise, a `Csv` or the settings that
        differ: ``{"west": {"encoding": "cp1252"}}``.
    split : {"rows", "columns"}
        What differs between parties. "columns": parties have different columns of the same rows, in the
        same order, for `destiny.extensions.vertical`. Row labels of data frames and
        files (``index``) must be the same.
    **layout
        Settings of `destiny.problems.data.Csv` for all ``.csv`` files: ``sep=";", decimal=",", gaps=True``.

    Attributes
    ----------
    parties : tuple of str
        Names of the parties.
    columns : tuple of str
        Names of the columns; empty if no table has names.
    sizes : tuple of int
        Number of rows of each party.
    shape : (int, int)
        Numbers of rows and columns, of all parties together.
    labels : SiloValues or None
        The labels of the rows.
    gaps : bool
        Whether entries are missing (NaN).
    row_labels : tuple
        Row labels (``index``) of each party's data frame; None for other tables.

    Examples
    --------
    >>> import numpy as np
    >>> silos = Silos({"north": np.ones((30, 4)), "south": np.zeros((20, 4))})
    >>> silos.shape, silos.sizes, silos["south"].shape
    ((50, 4), (30, 20), (20, 4))
    """

    def __init__(
        self,
        tables: Sequence[Any] | Mapping[str, Any],
        *,
        parties: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        labels: str | None = None,
        csv: Csv | Mapping[str, Csv | Mapping[str, Any]] | None = None,
        split: Literal["rows", "columns"] = "rows",
        **layout: Any,
    ) -> None:
        if split not in ("rows", "columns"):
            raise ProblemError(f'split must be "rows" or "columns"; found {split!r}')
        if split == "columns" and (columns is not None or labels is not None):
            raise ProblemError('columns and labels need split="rows": parties have different columns here')
        if labels is not None and labels in (columns or ()):
            raise ProblemError(
                f"labels must be a column that is no feature; found {labels!r} in columns: leave it out there"
            )
        self.split = split
        self.parties = _name_parties(tables, parties)
        sources = list(tables.values()) if isinstance(tables, Mapping) else list(tables)
        layouts = layouts_of_parties(csv, layout, self.parties, columns=columns, labels=labels)
        opened, gaps = list[Table](), list[bool]()
        for party, source, how in zip(self.parties, sources, layouts, strict=True):
            with _naming(party):
                opened.append(_open(source, how, ids=split == "columns"))
                gaps.append(check_values(opened[-1].rows, "a table", opened[-1].names))
        self.parts, self.gaps = tuple(one.rows for one in opened), any(gaps)
        self.columns = self._check_columns(opened)
        for party, one in zip(self.parties, opened, strict=True):
            if one.names is not None and isinstance(one.rows, np.ndarray):
                warn_of_ids(party, one.rows, one.names)
        self.row_labels = tuple(one.index if hasattr(one, "iloc") else None for one in sources)
        if split == "columns":
            self._check_row_labels(opened)
        self.labels = None if labels is None else as_labels([one.labels for one in opened], self.parties)

    @classmethod
    def from_parts(
        cls,
        parts: Sequence[Any],
        parties: Sequence[str],
        columns: Sequence[str] = (),
        labels: SiloValues | None = None,
        split: Literal["rows", "columns"] = "rows",
        gaps: bool = False,
        row_labels: Sequence[Any] = (),
        order: NDArray[np.intp] | None = None,
    ) -> Silos:
        """Return silos of tables that have been checked already."""
        made = cls.__new__(cls)
        made.row_labels, made.order = tuple(row_labels) or (None,) * len(parts), order
        made.parts, made.parties, made.columns = tuple(parts), tuple(parties), tuple(columns)
        made.labels, made.split, made.gaps = labels, split, gaps
        return made

    @property
    def shape(self) -> tuple[int, int]:
        if self.split == "columns":
            return self.sizes[0], sum(part.shape[1] for part in self.parts)
        return sum(self.sizes), int(self.parts[0].shape[1])

    @property
    def ndim(self) -> int:
        return 2

    def per_row(self, values: Any) -> SiloValues:
        """Return labels or weights, one array per party or one array of all, as values of these rows.

        Raises ProblemError unless there is one for each row.
        """
        if isinstance(values, SiloValues) and _same_order(values.order, self.order):
            values = values.parts
        flat = of_all_rows(values, sum(self.sizes))
        if flat is not None:
            values = np.split(flat if self.order is None else flat[self.order], np.cumsum(self.sizes)[:-1])
        if len(values) != len(self):
            raise ProblemError(
                f"values must be those of each of the {len(self)} parties, or of all {sum(self.sizes)} rows; "
                f"found {len(values)}"
            )
        made = SiloValues(values, self.parties, self.order)
        for party, found, size in zip(self.parties, made.sizes, self.sizes, strict=True):
            if found != size:
                raise ProblemError(
                    f"{party}: there must be a value for each of the {size} rows; found {found}"
                )
        return made

    def take_rows(self, rows: NDArray[Any]) -> Silos:
        """Return the chosen rows of every party; those of files are read into memory."""
        if self.split == "columns":
            chosen, order = [row_numbers(rows, self.sizes[0])] * len(self), None
        else:
            chosen, order = self._rows_by_party(rows)
        parts = [_as_plain(part[its]) for part, its in zip(self.parts, chosen, strict=True)]
        labels = None if self.labels is None else self.labels.take_rows(rows)
        names = [its if its is None else its[rows] for its, rows in zip(self.row_labels, chosen, strict=True)]
        return Silos.from_parts(
            parts, self.parties, self.columns, labels, self.split, self.gaps, names, order
        )

    def to_frames(self) -> dict[str, Any]:
        """Return the tables as pandas data frames by party, with the row labels of frames they came from.

        Rows of files are read into memory. Raises MissingExtraError without pandas.
        """
        try:
            import pandas
        except ImportError as error:
            raise MissingExtraError("data frames need pandas: pip install pandas") from error
        names = iter(self.columns)
        frames = {}
        for party, part, labels in zip(self.parties, self.parts, self.row_labels, strict=True):
            width = part.shape[1]
            columns = list(islice(names, width) if self.split == "columns" else self.columns) or None
            sparse = isinstance(part, csr_array)
            make = pandas.DataFrame.sparse.from_spmatrix if sparse else pandas.DataFrame
            frames[party] = make(_as_plain(part), index=labels, columns=columns)
        return frames

    def sources(self, gaps: bool = False) -> list[Any]:
        """Return the tables as problems take them; refuse missing entries if need be."""
        if self.gaps and not gaps:
            raise ProblemError("silos must be finite; found missing entries (NaN): fill or remove them first")
        if self.split != "rows":
            raise ProblemError('problems take silos with the same columns; found split="columns"')
        return [TableSource(part, self.columns) for part in self.parts]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise ProblemError(
            "silos are several tables and stay so: take estimators of destiny.estimators, or give each table "
            "by itself; numpy.concatenate(list(silos)) would pool the rows of all parties"
        )

    def __repr__(self) -> str:
        rows, columns = self.shape
        names = f" ({shorten(self.columns)})" if self.columns else ""
        return f"Silos({self.count_parties()}, {rows} rows, {columns} columns{names})"

    def _repr_html_(self) -> str:
        rows = [
            [party, f"{part.shape[0]:,}", f"{part.shape[1]:,}", _kind(part)]
            for party, part in zip(self.parties, self.parts, strict=True)
        ]
        header = ["party", "rows", "columns", "kept as"]
        names = f"columns: {shorten(self.columns, 12)}" if self.columns else "columns have no names"
        return page(heading(repr(self)), table(rows, header, numbers=True), f"<div>{escape(names)}</div>")

    def _check_columns(self, opened: Sequence[Table]) -> tuple[str, ...]:
        """Return the names of the columns; raise ProblemError unless they fit together."""
        if self.split == "columns":
            return self._check_split_columns(opened)
        named = next((k for k, one in enumerate(opened) if one.names is not None), 0)
        where = f"{self.parties[named]} (columns=[...] chooses them by name)"
        width = opened[0].rows.shape[1]
        for party, one in zip(self.parties, opened, strict=True):
            with _naming(party):
                _require_different(one.names or (), "columns must have different names", "rename or leave")
                require_same_columns(one.names, opened[named].names, where)
                if one.rows.shape[1] != width:
                    raise ProblemError(
                        f"a table must have the {width} columns of {self.parties[0]}; found "
                        f"{one.rows.shape[1]}"
                    )
        return _texts(opened[named].names)

    def _check_split_columns(self, opened: Sequence[Table]) -> tuple[str, ...]:
        rows = opened[0].rows.shape[0]
        for party, one in zip(self.parties, opened, strict=True):
            if one.rows.shape[0] != rows:
                raise ProblemError(
                    f"{party}: parties must have the same rows, in the same order; found "
                    f"{one.rows.shape[0]} rows and {rows} at {self.parties[0]}"
                )
        names = [_texts(one.names) for one in opened]
        if not all(names):
            return ()
        joined = tuple(name for some in names for name in some)
        _require_different(joined, "parties must have different columns", "leave")
        return joined

    def _check_row_labels(self, opened: Sequence[Table]) -> None:
        """Raise ProblemError for tables whose row labels say that rows are not in the same order."""
        labeled = [(k, one.ids) for k, one in zip(self.parties, opened, strict=True) if one.ids is not None]
        for party, ids in labeled[1:]:
            with _naming(party):
                require_same_rows(ids, labeled[0][1], labeled[0][0])


class TableSource:
    """The rows of one party as problems take them, with names of features."""

    def __init__(self, rows: Any, names: tuple[str, ...]) -> None:
        self.rows, self.names = rows, names
        self.shape = rows.shape

    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features; None without names."""
        return self.names or None

    def __call__(self) -> Any:
        """The rows ``(m_i, n)``."""
        return _as_plain(self.rows)


@contextmanager
def _naming(party: str) -> Iterator[None]:
    """Name the party in errors."""
    try:
        yield
    except DestinyError as error:
        if f"{party} must" not in str(error):  # of files the name is there already
            error.args = (f"{party}: {error}",)
        raise


def _open(source: Any, how: Csv, ids: bool) -> Table:
    """Return the table of one party, checked."""
    opened = read_file(source, how, ids=ids) if isinstance(source, str | Path) else as_table(source, how)
    check_rows(opened.rows)
    return opened


def _as_plain(rows: Any) -> Any:
    """Return rows without a class of their own, those computed on the way as an array."""
    if isinstance(rows, MappedRows):
        return rows[:]
    return rows if not isinstance(rows, np.ndarray) or isinstance(rows, np.memmap) else np.asarray(rows)


def _name_parties(tables: Any, parties: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the parties; raise ProblemError if they or the tables cannot be used."""
    if isinstance(tables, str | Path):
        cure = f"sorted(glob.glob({str(tables)!r}))" if "*" in str(tables) else f"[{str(tables)!r}, ...]"
        raise ProblemError(
            f"silos are a list of tables, or a dict of them by party; found one name, {str(tables)!r}: give "
            f"{cure}"
        )
    if not isinstance(tables, Sequence | Mapping):
        raise ProblemError(
            f"silos are a list of tables, or a dict of them by party; found {type(tables).__name__}"
        )
    if not len(tables):
        raise ProblemError("silos need at least one table; found none")
    if parties is not None:
        names = tuple(map(str, parties))
        if len(names) != len(tables):
            raise ProblemError(
                f"parties must name each of the {len(tables)} tables; found {len(names)} names"
            )
    elif isinstance(tables, Mapping):
        names = tuple(map(str, tables))
    else:
        names = tuple(
            Path(one).name if isinstance(one, str | Path) else f"silo {k}" for k, one in enumerate(tables)
        )
        if len(set(names)) < len(names):  # files of the same name in different folders
            names = tuple(map(str, tables))
    if len(set(names)) < len(names):
        raise ProblemError(f"parties must have different names; found {shorten(names)}; give parties")
    return names


def _require_different(names: Sequence[Any], whose: str, cure: str) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise ProblemError(f"{whose}; found {name!r} twice: {cure} one out")


def _same_order(first: NDArray[np.intp] | None, second: NDArray[np.intp] | None) -> bool:
    return first is second or (first is not None and second is not None and np.array_equal(first, second))


def _texts(names: Sequence[Any] | None) -> tuple[str, ...]:
    """Return names that are all texts, as scikit-learn keeps them; otherwise none."""
    return tuple(names) if names and all(isinstance(name, str) for name in names) else ()


def _kind(part: Any) -> str:
    if isinstance(part, np.memmap | MappedRows):
        return f"file, {part.dtype}"
    return f"{'sparse' if isinstance(part, csr_array) else 'array'}, {part.dtype}"
