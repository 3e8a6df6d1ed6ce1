"""Tables from files: .npy, .npz, .mat, .csv and .parquet, whole or one file per agent; never by pickle."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, load_npz

from destiny.errors import DestinyError, ProblemError
from destiny.problems.checks import check_finite, check_matrix
from destiny.problems.data import parquet
from destiny.problems.data.csv import ending_of, read_csv, read_head
from destiny.problems.data.csv import is_csv as is_csv
from destiny.problems.data.csv_layout import ENDINGS, PLAIN, Samples, shorten
from destiny.problems.data.csv_layout import Csv as Csv
from destiny.problems.data.table_checks import Table, refuse_names, warn_of_ids

if TYPE_CHECKING:
    from destiny.problems.data.partition import Source

FORMATS = (".npy", ".npz", ".mat", *ENDINGS, ".parquet")
DENSE_LIMIT = 2**33
"""Largest size in bytes of a sparse matrix that is made dense: 8 GiB."""

WRONG_FIELD = re.compile(r"\{[^{}]*\}|\*|%\d*[di]|#+")
"""Placeholders that may be meant as ``{agent}``."""


def read_file(
    path: str | Path, how: Csv = PLAIN, samples: Samples | None = "rows", ids: bool = False
) -> Table:
    """The table in a file as it stands there: rows are lines of a text file; ``ids`` asks for row labels.

    Raises `ProblemError`.
    """
    file, key = split_key(path)
    ending = ending_of(file)
    if ending not in FORMATS:
        raise ProblemError(f"{file} must be one of {', '.join(FORMATS)}; found '{ending}'; convert the file")
    if not file.is_file():
        raise ProblemError(f"{file} must be a file; found none; check the path")
    if file.stat().st_size == 0:
        raise ProblemError(f"{file} must hold a matrix; found an empty file; write it again")
    with _damaged(file):
        if ending in ENDINGS:
            return read_csv(read_head(file, how, samples), ids)
        if ending == ".parquet" and samples == "columns":
            raise ProblemError(
                f'{file} has a column for each feature; found samples in columns; set samples = "rows"'
            )
        if ending == ".parquet":
            return parquet.read_parquet(file, how, ids)
        refuse_names(how, f"{file.name} without names")
        if ending == ".npy":
            return Table(open_memmap(file, mode="r"))
        return Table(_load_npz(file, key) if ending == ".npz" else _load_mat(file, key))


def load(path: str | Path, samples: Samples | None = None, csv: Csv | None = None) -> NDArray[Any]:
    """The matrix in a file, samples x features.

    Parameters
    ----------
    path : str or Path
        ``.npy``: memory-mapped, so that an agent's rows are read, and checked for NaN and infinity, when
        it is hosted and not before. ``.npz`` and ``.mat``: the only 2-D array of numbers in the file, or
        the one named after a colon, ``"data.mat:X"``; a sparse matrix is made dense if it takes no more than
        8 GiB. ``.csv``, ``.tsv`` and ``.txt``, also with ``.gz``: numbers separated by commas or, in ``.tsv``
        files, by tabs; a first line without any number is taken for a header. ``.parquet``: columns of
        numbers, which are features (extra ``parquet``).
    samples : {"rows", "columns"}, optional
        How the file keeps its samples; columns are turned into rows by a view. By default "rows"; a
        ``.csv`` file needs it, because nothing in the file says what a line is, and a ``.parquet`` file has
        its samples in rows.
    csv : Csv, optional
        The layout of a ``.csv`` file.

    Returns
    -------
    ndarray (m, n)
        In the dtype of the file; read-only if memory-mapped.
    """
    if samples not in ("columns", "rows", None):
        raise ProblemError(f'samples must be "columns" or "rows"; found {samples!r}; choose one of the two')
    file, how = split_key(path)[0], csv or PLAIN
    data = read_file(path, how, samples).rows
    if not is_csv(file) and replace(how, prefix="") != PLAIN:
        raise ProblemError(
            f"{file} must be a .csv, .tsv or .txt file for settings of its layout to apply; found "
            f"'{file.suffix}'; leave these out"
        )
    data = _dense(file, data) if issparse(data) else data
    data = data.T if samples == "columns" else data
    check_matrix(data, str(file))
    if not isinstance(data, np.memmap):
        check_finite(data, str(file), gaps=how.gaps)
    return data


@dataclass(frozen=True)
class File:
    """The data of one agent in a file, which is read when the object is called."""

    path: str
    samples: Samples | None = None
    csv: Csv = PLAIN

    @property
    def shape(self) -> tuple[int, ...]:
        """(m_i, n); does not read the numbers of ``.npy`` and ``.csv`` files."""
        file = Path(self.path)
        if not is_csv(file) or not file.is_file():
            return self().shape
        with _damaged(file):
            head = read_head(file, self.csv, self.samples)
            shape = (sum(1 for _ in head.records()), len(head.columns))
        return shape[::-1] if self.samples == "columns" else shape

    def feature_names(self) -> tuple[str, ...] | None:
        """Names of columns that are features in ``.csv`` and ``.parquet`` files, as in `NamedSource`."""
        file = Path(self.path)
        if not self._is_named:
            return None
        with _damaged(file):
            if not is_csv(file):
                return tuple(parquet.column_names_of(file))
            head = read_head(file, self.csv, self.samples)
            return None if head.header and self.samples == "columns" else head.names

    def row_ids(self) -> Sequence[Any] | None:
        """Row labels of the samples, as in `LabeledSource`."""
        named = self._is_named and self.samples != "columns"
        return read_file(self.path, self.csv, ids=True).ids if named else None

    def __call__(self) -> NDArray[Any]:
        """The matrix ``(m_i, n)``; see `load`."""
        data = load(self.path, self.samples, self.csv)
        if self.samples != "columns" and (names := self.feature_names()) is not None:
            warn_of_ids(self.path, data, names)
        return data

    @property
    def _is_named(self) -> bool:
        """Whether columns may have names, in a file that this process may read."""
        named = is_csv(self.path) or ending_of(self.path) == ".parquet"
        return named and os.access(self.path, os.R_OK)


def silos(
    template: str | Path | Sequence[str | Path],
    agents: int,
    samples: Samples | None = None,
    csv: Csv | None = None,
) -> list[Source]:
    """One file per agent, each read when its agent is hosted.

    Parameters
    ----------
    template : str, Path or list of them
        The name of a file with ``{agent}`` for the agent's number from 0, such as ``"silo-{agent}.npy"`` or
        ``"silo-{agent:02d}.mat:X"``; or the names of all files, in the agents' order. Files that match a
        template but belong to no agent are refused.
    agents : int
        How many there are.
    samples : {"rows", "columns"}, optional
        As for `load`.
    csv : Csv, optional
        The layout of ``.csv`` files.
    """
    if isinstance(template, str | Path):
        paths = _fill_in(str(template), agents)
        _check_all_taken(str(template), paths)
    else:
        paths = [str(path) for path in template]
        if len(paths) != agents or len(set(paths)) < agents:
            raise ProblemError(
                f"a list of files must name a different one for each of the {agents} agents; found "
                f"{len(paths)} ({shorten([Path(path).name for path in paths])}); correct it, or set agents"
            )
    return [File(path, samples, csv or PLAIN) for path in paths]


def _fill_in(template: str, agents: int) -> list[str]:
    """The files of all agents; raises `ProblemError` for a template without one ``{agent}``."""
    try:
        paths = [template.format(agent=agent) for agent in range(agents)]
    except (LookupError, ValueError):
        paths = [template, template]
    if len(set(paths)) < len(paths):
        name = Path(template).name
        better = WRONG_FIELD.sub("{agent}", name)
        example = better if better != name and better.count("{agent}") == 1 else "silo-{agent}.npy"
        raise ProblemError(
            f"the template must hold {{agent}} where the agent's number goes, and no other braces; found "
            f"'{template}'; write for example {example}"
        )
    return paths


def _check_all_taken(template: str, paths: Sequence[str]) -> None:
    """Raise `ProblemError` for files that match the template but belong to no agent."""
    folders = split_key(template)[0].parts
    fixed = next((k for k, part in enumerate(folders) if "{" in part or "}" in part), None)
    if fixed is None:  # one agent, one name
        return
    base, pattern = Path(*folders[:fixed]), str(Path(*folders[fixed:]))
    parts = [(text, name is not None) for text, name, *_ in Formatter().parse(pattern)]
    numbered = re.compile("".join(re.escape(text) + r"\d+" * is_field for text, is_field in parts))
    wild = "".join(escape(text) + "*" * is_field for text, is_field in parts)
    expected = {split_key(path)[0] for path in paths}
    left = sorted(
        path.name
        for path in base.glob(wild)
        if path not in expected and numbered.fullmatch(str(path.relative_to(base)))
    )
    if left:
        raise ProblemError(
            f"'{template}' must match one file per agent; found {shorten(left)}, which none of the "
            f"{len(paths)} agents takes (they are numbered from 0); set agents, or give a list of files"
        )


def split_key(path: str | Path) -> tuple[Path, str | None]:
    """File and key of 'file.npz:key'; the colon of a Windows drive is not a separator."""
    file, colon, key = str(path).rpartition(":")
    return (Path(file), key) if colon and file.lower().endswith((".npz", ".mat")) else (Path(path), None)


@contextmanager
def _damaged(file: Path) -> Iterator[None]:
    """Raise `ProblemError` for whatever goes wrong: a damaged file can make a parser fail in any way."""
    try:
        yield
    except (DestinyError, Warning):
        raise
    except Exception as error:
        if file.suffix.startswith(".np") and "object" in str(error).lower():
            raise ProblemError(
                f"{file} must hold numbers; found Python objects, which are not loaded because they can "
                "run code; save it with a numeric dtype"
            ) from error
        raise ProblemError(
            f"{file} must be a {file.suffix} file; found one that cannot be read ({error}); write it again"
        ) from error


def _load_npz(file: Path, key: str | None) -> Any:
    # Without this check NumPy takes any other file for a pickle and says so.
    if not zipfile.is_zipfile(file):
        raise ValueError("it is not a zip archive")
    with np.load(file, allow_pickle=False) as archive:
        if key is None and {"format", "shape", "data"} <= set(archive.files):
            return csr_array(load_npz(file))
        return archive[_choose(file, archive.files, key)]


def _load_mat(file: Path, key: str | None) -> NDArray[Any]:
    import scipy.io

    content = scipy.io.loadmat(file, spmatrix=False)
    variables = {name: value for name, value in content.items() if not name.startswith("__")}
    matrices = [name for name, value in variables.items() if value.ndim == 2 and value.dtype.kind in "biuf"]
    variable = variables[_choose(file, matrices if key is None else list(variables), key)]
    return _dense(file, variable) if issparse(variable) else np.asarray(variable)


def _dense(file: Path, variable: Any) -> NDArray[Any]:
    size = variable.shape[0] * variable.shape[1] * variable.dtype.itemsize
    if size > DENSE_LIMIT:
        raise ProblemError(
            f"{file} must fit into {DENSE_LIMIT / 2**30:g} GiB when made dense; found a sparse matrix of "
            f"shape {variable.shape} that takes {size / 2**30:.3g} GiB; split it into one file per agent"
        )
    return np.asarray(variable.toarray())


def _choose(file: Path, names: list[str], key: str | None) -> str:
    """``key`` if it is among the names, or the only name if it is None; otherwise raise `ProblemError`."""
    if key is not None and key in names:
        return key
    if key is None and len(names) == 1:
        return names[0]
    found = ", ".join(sorted(names)) or "no matrix"
    expected = "a single matrix" if key is None else f"'{key}'"
    raise ProblemError(f"{file} must hold {expected}; found {found}; name one as in {file.name}:NAME")
