"""Matrices from files: .npy, .npz, .mat and .csv, whole or one file per agent. Nothing is ever unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.io
import scipy.sparse
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from destiny.errors import ProblemError
from destiny.problems.checks import check_finite, check_matrix
from destiny.problems.silos import Source
from destiny.problems.text import load_csv

DENSE_LIMIT = 2**33
"""Bytes a sparse matrix may take when it is made dense: 8 GiB; split a larger one into a file per agent."""

Samples: TypeAlias = Literal["columns", "rows"]
Reader: TypeAlias = Callable[[Path, str | None], NDArray[Any]]


def load(path: str | Path, samples: Samples = "columns") -> NDArray[Any]:
    """The matrix in a file, features x samples.

    Parameters
    ----------
    path : str or Path
        ``.npy``: memory-mapped, so that an agent's columns are read, and checked for NaN and infinity, when
        it is hosted and not before. ``.npz`` and ``.mat``: the only 2-D array of numbers in the file, or
        the one named after a colon, ``"data.mat:X"``; a sparse matrix is made dense if it takes no more than
        8 GiB. ``.csv``: numbers separated by commas; a first line without any number is taken for a
        header.
    samples : {"columns", "rows"}
        How the file keeps its samples; rows are turned into columns by a view.

    Returns
    -------
    ndarray (n, m)
        In the dtype of the file; read-only if memory-mapped.
    """
    if samples not in ("columns", "rows"):
        raise ProblemError(f'samples must be "columns" or "rows"; found {samples!r}; choose one of the two')
    file, key = _split_key(path)
    suffix = file.suffix.lower()
    readers: dict[str, Reader] = {".npy": _load_npy, ".npz": _load_npz, ".mat": _load_mat, ".csv": load_csv}
    if suffix not in readers:
        raise ProblemError(f"{file} must be one of {', '.join(readers)}; found '{suffix}'; convert the file")
    if not file.is_file():
        raise ProblemError(f"{file} must be a file; found none; check the path")
    if file.stat().st_size == 0:
        raise ProblemError(f"{file} must hold a matrix; found an empty file; write it again")
    data = _read(file, key, readers[suffix])
    data = data if samples == "columns" else data.T
    check_matrix(data, str(file))
    if not isinstance(data, np.memmap):
        check_finite(data, str(file))
    return data


@dataclass(frozen=True)
class File:
    """A matrix in a file, read when it is called for: the silo of one agent."""

    path: str
    samples: Samples = "columns"

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, m_i), from the header of a ``.npy`` file; other formats are read for it."""
        return self().shape

    def __call__(self) -> NDArray[Any]:
        """The matrix, as `load` gives it."""
        return load(self.path, self.samples)


def silos(template: str | Path, agents: int, samples: Samples = "columns") -> list[Source]:
    """One file per agent, each read when its agent is hosted.

    Parameters
    ----------
    template : str or Path
        The name of a file with ``{agent}`` for the agent's number from 0, such as ``"silo-{agent}.npy"`` or
        ``"silo-{agent:02d}.mat:X"``.
    agents : int
        How many there are.
    samples : {"columns", "rows"}
        As for `load`.
    """
    template = str(template)
    try:
        paths = [template.format(agent=agent) for agent in range(agents)]
    except (LookupError, ValueError):
        paths = [template, template]
    if len(set(paths)) < len(paths):
        raise ProblemError(
            f"the template must hold {{agent}} where the agent's number goes, and no other braces; found "
            f"'{template}'; write for example silo-{{agent}}.npy"
        )
    return [File(path, samples) for path in paths]


def _split_key(path: str | Path) -> tuple[Path, str | None]:
    """'file.npz:key' in two parts; the colon of a Windows drive is left alone."""
    file, colon, key = str(path).rpartition(":")
    return (Path(file), key) if colon and file.lower().endswith((".npz", ".mat")) else (Path(path), None)


def _read(file: Path, key: str | None, reader: Reader) -> NDArray[Any]:
    try:
        return reader(file, key)
    except ProblemError:
        raise
    except Exception as error:  # a damaged file can make a parser fail in any way
        if file.suffix.startswith(".np") and "object" in str(error).lower():
            raise ProblemError(
                f"{file} must hold numbers; found Python objects, which are not loaded because they can "
                "run code; save it with a numeric dtype"
            ) from error
        raise ProblemError(
            f"{file} must be a {file.suffix} file; found one that cannot be read ({error}); write it again"
        ) from error


def _load_npy(file: Path, _: str | None) -> NDArray[Any]:
    return open_memmap(file, mode="r")


def _load_npz(file: Path, key: str | None) -> NDArray[Any]:
    # Without this check NumPy takes any other file for a pickle and says so.
    if not zipfile.is_zipfile(file):
        raise ValueError("it is not a zip archive")
    with np.load(file, allow_pickle=False) as archive:
        data: NDArray[Any] = archive[_choose(file, archive.files, key)]
        return data


def _load_mat(file: Path, key: str | None) -> NDArray[Any]:
    content = scipy.io.loadmat(file, spmatrix=False)
    variables = {name: value for name, value in content.items() if not name.startswith("__")}
    matrices = [name for name, value in variables.items() if value.ndim == 2 and value.dtype.kind in "biuf"]
    found = variables[_choose(file, matrices if key is None else list(variables), key)]
    return _dense(file, found) if scipy.sparse.issparse(found) else np.asarray(found)


def _dense(file: Path, found: Any) -> NDArray[Any]:
    size = found.shape[0] * found.shape[1] * found.dtype.itemsize
    if size > DENSE_LIMIT:
        raise ProblemError(
            f"{file} must fit into {DENSE_LIMIT / 2**30:g} GiB when made dense; found a sparse matrix of "
            f"shape {found.shape} that takes {size / 2**30:.3g} GiB; split it into one file per agent"
        )
    return np.asarray(found.toarray())


def _choose(file: Path, names: list[str], key: str | None) -> str:
    """The array asked for, or the only one there is."""
    if key is not None and key in names:
        return key
    if key is None and len(names) == 1:
        return names[0]
    found = ", ".join(sorted(names)) or "no matrix"
    expected = "a single matrix" if key is None else f"'{key}'"
    raise ProblemError(f"{file} must hold {expected}; found {found}; name one as in {file.name}:NAME")
