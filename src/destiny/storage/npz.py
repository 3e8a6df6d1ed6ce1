"""Plain arrays and facts in .npz files: written aside and renamed, read whole or refused."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny.errors import CheckpointError
from destiny.protocols import Array

FORMAT = 1  # raised when the layout of the files changes
# What NumPy and zipfile raise on a file with bits flipped anywhere: data, header or directory.
DAMAGE = (
    OSError,
    ValueError,
    KeyError,
    EOFError,
    TypeError,
    RuntimeError,
    NotImplementedError,
    zipfile.BadZipFile,
)


def write(
    files: Mapping[Path, tuple[Mapping[str, NDArray[Any]], Mapping[str, Any]]], mode: int = 0o666
) -> None:
    """Write arrays and facts into files of one folder; a crash leaves old files or new ones, never halves.

    ``mode`` is that of new files, before the umask.
    """
    path = next(iter(files))
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, (arrays, facts) in files.items():
            text = json.dumps(dict(facts) | {"format": FORMAT}).encode()
            _aside(path).unlink(missing_ok=True)  # of a crash, maybe with another mode
            with open(_aside(path), "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
                np.savez(file, allow_pickle=False, facts=np.frombuffer(text, dtype=np.uint8), **arrays)
        # All files first, then all waits for the disk: the first wait takes most of the others along.
        for path in files:
            with _aside(path).open("rb") as file:
                os.fsync(file.fileno())
        for path in files:
            _aside(path).replace(path)
    except OSError as error:
        if folder.is_dir():
            remove(_aside(path) for path in files)
        raise CheckpointError(
            f"could not write {path}: {error.strerror or error}; the one before is kept"
        ) from error


def read(path: Path, facts: Iterable[str], arrays: Iterable[str]) -> tuple[dict[str, Array], dict[str, Any]]:
    """Arrays and facts of a file, among them those named; anything but a whole, plain file is refused."""
    try:
        # Opened here, so that it is closed even where NumPy gives up in the middle.
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            content = {name: file[name] for name in file.files}  # reading checks every member's CRC
        header = json.loads(content.pop("facts").tobytes().decode())
        if not {"format", *facts} <= set(header) or not set(arrays) <= set(content):
            raise ValueError("parts are missing")
        if any(array.dtype != np.float64 for array in content.values()):
            raise ValueError("arrays of another type")
    except DAMAGE as error:
        raise CheckpointError(f"{path} is damaged or not a checkpoint ({type(error).__name__})") from error
    if header.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has format {header.get('format')}, expected {FORMAT}: made by another version"
        )
    return content, header


def remove(paths: Iterable[Path]) -> None:
    """Delete files that may be gone already."""
    for path in paths:
        path.unlink(missing_ok=True)


def _aside(path: Path) -> Path:
    return path.with_suffix(".tmp")
