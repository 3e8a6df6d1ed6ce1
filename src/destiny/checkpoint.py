"""Save and load a run exactly: plain arrays in one .npz file, written aside and renamed, two kept."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny.errors import CheckpointError
from destiny.types import Array, Topology

FORMAT = 1  # raised when the layout of the file changes
# What NumPy and zipfile raise on a file with bits flipped anywhere: data, header or directory.
DAMAGE = (
    OSError, ValueError, KeyError, EOFError, TypeError, RuntimeError, NotImplementedError, zipfile.BadZipFile,
)  # fmt: skip
FACTS = ("format", "step", "round", "scalars", "seconds", "asked", "agreed", "cost")
KEPT = 2  # the newest may be damaged by a crash of the machine; the one before is then still there


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds: the state's arrays by name, further arrays, and facts."""

    state: dict[str, Array]
    arrays: dict[str, Array]
    facts: dict[str, Any]
    path: Path | None = None

    def refuse(self, why: str) -> CheckpointError:
        """The error to raise when this checkpoint cannot be used."""
        return CheckpointError(f"checkpoint {self.path}: {why}")


def flatten(state: object, prefix: str = "") -> dict[str, Array]:
    """The arrays of nested dataclasses, by dotted name."""
    found: dict[str, Array] = {}
    for field in fields(state):  # type: ignore[arg-type]
        value = getattr(state, field.name)
        name = prefix + field.name
        found |= flatten(value, name + ".") if is_dataclass(value) else {name: value}
    return found


def unflatten(template: Any, saved: Saved, prefix: str = "") -> Any:
    """A state like ``template`` with the saved arrays; refuses other names or shapes."""
    arrays = saved.state
    if not prefix and (expected := set(flatten(template))) != set(arrays):
        different = ", ".join(sorted(expected ^ set(arrays)))
        raise saved.refuse(f"belongs to another algorithm or version, its state differs in {different}")
    values: dict[str, Any] = {}
    for field in fields(template):
        like, name = getattr(template, field.name), prefix + field.name
        if is_dataclass(like):
            values[field.name] = unflatten(like, saved, name + ".")
        elif arrays[name].shape != like.shape:
            raise saved.refuse(
                f"belongs to another run, {name} has shape {arrays[name].shape}, expected {like.shape}"
            )
        else:
            values[field.name] = arrays[name]
    return type(template)(**values)


def save(folder: Path, saved: Saved) -> Path:
    """Write ``checkpoint-STEP.npz`` so that a crash at any moment leaves the last good one."""
    path = folder / f"checkpoint-{saved.facts['step']:09d}.npz"
    aside = path.with_suffix(".tmp")
    facts = json.dumps(saved.facts | {"format": FORMAT})
    arrays: dict[str, NDArray[Any]] = {
        "facts": np.frombuffer(facts.encode(), dtype=np.uint8),
        **{f"state/{k}": v for k, v in saved.state.items()},
        **{f"array/{k}": v for k, v in saved.arrays.items()},
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with aside.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        if folder.is_dir():
            aside.unlink(missing_ok=True)
        raise CheckpointError(
            f"could not write {path}: {error.strerror or error}; the one before is kept"
        ) from error
    for old in sorted(folder.glob("checkpoint-*.npz"))[:-KEPT]:
        old.unlink(missing_ok=True)
    return path


def load(path: Path) -> Saved:
    """Read one checkpoint; anything but a whole, plain file is refused in a sentence."""
    try:
        # Opened here, so that it is closed even where NumPy gives up in the middle.
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}  # reading checks every member's CRC
        facts = json.loads(arrays.pop("facts").tobytes().decode())
        if not set(FACTS) <= set(facts) or not {"array/history", "array/values"} <= set(arrays):
            raise ValueError("parts are missing")
        if any(array.dtype != np.float64 for array in arrays.values()):
            raise ValueError("arrays of another type")
    except DAMAGE as error:
        raise CheckpointError(f"{path} is damaged or not a checkpoint ({type(error).__name__})") from error
    if facts.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has format {facts.get('format')}, expected {FORMAT}: made by another version"
        )
    pick = {
        kind: {k.removeprefix(kind): v for k, v in arrays.items() if k.startswith(kind)}
        for kind in ("state/", "array/")
    }
    return Saved(pick["state/"], pick["array/"], facts, path)


def newest(folder: Path) -> tuple[Saved | None, list[str]]:
    """The newest whole checkpoint of a folder, and a sentence about each damaged one passed over."""
    told: list[str] = []
    paths = sorted(folder.glob("checkpoint-*.npz"), reverse=True)
    for path in paths:
        try:
            return load(path), told
        except CheckpointError as error:
            told.append(str(error))
    if paths:
        raise CheckpointError(f"no checkpoint in {folder} can be read: {told[0]}")
    return None, told


def network_digest(network: Topology) -> str:
    """A short digest of the weights of the first rounds; equal in every process."""
    digest = hashlib.sha256()
    before = None
    for k in range(64):  # longer than most periods, and enough to tell two rates of lost links apart
        W = network.at(k)
        if W is before:  # a fixed network is looked at once
            continue
        before = W
        for part in (W.indptr.astype(np.int64), W.indices.astype(np.int64), W.data):
            digest.update(part.tobytes())
    return digest.hexdigest()[:16]
