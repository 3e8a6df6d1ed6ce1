"""Readers of the official files: IDX, the binary version of CIFAR, MATLAB. Samples are rows."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny.errors import ProblemError

PIXELS = 3 * 32 * 32  # of a CIFAR image, one plane per color


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An IDX file of bytes, ``(m, ...)``, memory-mapped unless gzipped; raises `ProblemError`."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as stream:
            head = stream.read(4)
            if len(head) < 4 or head[:3] != b"\0\0\x08":  # two zeros, then 8 for unsigned bytes
                raise ProblemError(f"{path} must be an IDX file of bytes; found another beginning")
            shape = tuple(int(k) for k in np.frombuffer(stream.read(4 * head[3]), dtype=">u4"))
            rest = stream.read() if path.suffix == ".gz" else None
    except (OSError, EOFError) as error:
        raise ProblemError(f"{path} cannot be read: {error}") from error
    offset, size = 4 + 4 * head[3], int(np.prod(shape, dtype=np.int64))
    count = len(rest) if rest is not None else path.stat().st_size - offset
    if len(shape) != head[3] or count != size:
        raise ProblemError(f"{path} must hold {size} bytes of data as its header says; found {count}")
    if rest is not None:
        return np.frombuffer(rest, dtype=np.uint8).reshape(shape)
    return np.memmap(path, dtype=np.uint8, mode="r", offset=offset, shape=shape)


def read_cifar(path: Path, labels: int) -> NDArray[np.uint8]:
    """A file of CIFAR's binary version, ``(m, labels + 3072)``, memory-mapped: label bytes, then pixels."""
    row, size = labels + PIXELS, path.stat().st_size
    if size == 0 or size % row:
        raise ProblemError(f"{path} must hold rows of {row} bytes; found {size} bytes")
    return np.memmap(path, dtype=np.uint8, mode="r", shape=(size // row, row))


def read_cora(path: Path) -> tuple[Any, NDArray[Any]]:
    """The sparse matrix X ``(m, n)`` and the labels Y ``(m,)`` of a MATLAB file."""
    import scipy.io

    try:
        file = scipy.io.loadmat(path, spmatrix=False)
        return file["X"].tocsr(), np.asarray(file["Y"]).ravel()
    except Exception as error:  # a damaged file can make the parser fail in any way
        raise ProblemError(
            f"{path} must be a MATLAB file with X and Y; it cannot be read ({error})"
        ) from error
