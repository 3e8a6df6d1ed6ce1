"""Save and load a run exactly: plain arrays in one .npz file or in one per agent, two checkpoints kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.errors import CheckpointError
from destiny.protocols import Array, Topology
from destiny.storage import checkpoint_sets as sets
from destiny.storage import npz

FACTS = ("step", "round", "turn", "scalars", "seconds", "asked", "agreed", "cost")
ARRAYS = ("array/history", "array/values")
KEPT = 2  # the newest may be damaged by a crash of the machine; the one before is then still there


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds: the state's arrays by name, further arrays, and facts.

    ``ids`` are the agents on axis 0 of the state's arrays; None stands for all.
    """

    state: dict[str, Array]
    arrays: dict[str, Array]
    facts: dict[str, Any]
    path: Path | None = None
    ids: NDArray[np.intp] | None = None

    def select(self, ids: NDArray[np.intp]) -> Saved:
        """Return the checkpoint with the rows of the agents ``ids`` only."""
        count = len(self.values) if self.ids is None else len(self.ids)
        rows = ids if self.ids is None else np.searchsorted(self.ids, ids)
        for name, array in self.state.items():
            if array.ndim == 0 or len(array) != count:
                raise self.refuse(f"is damaged: {name} has shape {array.shape}, expected {count} agents")
        return replace(self, state={name: array[rows] for name, array in self.state.items()}, ids=ids)

    @property
    def values(self) -> Array:
        """The agents' objectives at the start, ``(d,)``."""
        return self.arrays["values"]

    def refuse(self, why: str) -> CheckpointError:
        """The error to raise when this checkpoint cannot be used."""
        return CheckpointError(f"checkpoint {self.path}: {why}")


def flatten(state: object, prefix: str = "") -> dict[str, Array]:
    """The arrays of nested dataclasses and tuples, by dotted name."""
    arrays: dict[str, Array] = {}
    for key, value in _parts(state).items():
        name = prefix + key
        arrays |= {name: value} if isinstance(value, np.ndarray) else flatten(value, name + ".")
    return arrays


def _parts(state: Any) -> dict[str, Any]:
    """What a dataclass or a tuple consists of, by name or number."""
    if isinstance(state, tuple):
        return {str(k): part for k, part in enumerate(state)}
    return {field.name: getattr(state, field.name) for field in fields(state)}


def unflatten(template: Any, saved: Saved, prefix: str = "") -> Any:
    """A state like ``template`` with the saved arrays; refuses other names or shapes.

    Arrays with a slash in their names are not the method's: mixers and parts of the run have them there.
    """
    arrays = {name: array for name, array in saved.state.items() if "/" not in name}
    if not prefix and (expected := set(flatten(template))) != set(arrays):
        different = ", ".join(sorted(expected ^ set(arrays)))
        raise saved.refuse(f"belongs to another algorithm or version, its state differs in {different}")
    values: dict[str, Any] = {}
    for key, like in _parts(template).items():
        name = prefix + key
        if not isinstance(like, np.ndarray):
            values[key] = unflatten(like, saved, name + ".")
        elif arrays[name].shape != like.shape:
            raise saved.refuse(
                f"belongs to another run, {name} has shape {arrays[name].shape}, expected {like.shape}"
            )
        else:
            values[key] = arrays[name]
    return tuple(values.values()) if isinstance(template, tuple) else type(template)(**values)


def save(folder: Path, saved: Saved) -> Path:
    """Write ``checkpoint-STEP.npz`` so that a crash at any moment leaves the last good one."""
    path = checkpoint_path(folder, saved.facts["step"]).with_suffix(".npz")
    arrays = {f"state/{k}": v for k, v in saved.state.items()} | run_arrays(saved)
    npz.write({path: (arrays, saved.facts)})
    prune(folder, names_to_keep(folder, saved.facts["step"]))
    return path


def load(path: Path) -> Saved:
    """Read one checkpoint, a file or a set of files; anything but a whole, plain one is refused."""
    if path.is_dir():
        saved = load_run(path)
        state = sets.load_agents(path, saved.facts["step"], range(len(saved.values)))
        return replace(saved, state=state, ids=None)
    return _saved(*npz.read(path, FACTS, ARRAYS), path)


def load_run(path: Path) -> Saved:
    """What a set of files holds of the run as a whole, without any agent's state."""
    saved = _saved(*npz.read(path / sets.RUN, FACTS, ARRAYS), path)
    return replace(saved, ids=np.empty(0, dtype=np.intp))


def run_arrays(saved: Saved) -> dict[str, Array]:
    """What concerns the run as a whole, by its name in a file."""
    return {f"array/{k}": v for k, v in saved.arrays.items()}


def _saved(arrays: dict[str, Array], facts: dict[str, Any], path: Path) -> Saved:
    state, further = (
        {k.removeprefix(kind): v for k, v in arrays.items() if k.startswith(kind)}
        for kind in ("state/", "array/")
    )
    return Saved(state, further, facts, path)


def list_checkpoints(folder: Path) -> list[Path]:
    """Paths of the finished checkpoints in a folder, newest first."""
    files = [p for p in folder.glob("checkpoint-*.npz") if not p.is_dir()]
    finished = [p.parent for p in folder.glob(f"checkpoint-*/{sets.RUN}")]
    return sorted([*files, *finished], key=lambda p: p.stem, reverse=True)


def newest(folder: Path) -> tuple[Saved | None, list[str]]:
    """The newest whole checkpoint of a folder, and a sentence about each damaged one passed over."""
    notes: list[str] = []
    paths = list_checkpoints(folder)
    for path in paths:
        try:
            return load(path), notes
        except CheckpointError as error:
            notes.append(str(error))
    if paths:
        raise CheckpointError(f"no checkpoint in {folder} can be read: {notes[0]}")
    return None, notes


def checkpoint_path(folder: Path, step: int) -> Path:
    """Path of a step's checkpoint: a folder with one file per agent; with the suffix .npz, one file."""
    return folder / f"checkpoint-{step:09d}"


def names_to_keep(folder: Path, step: int) -> list[str]:
    """Names of the checkpoints to keep: that of this step and the one before; newer ones are left-overs."""
    return [p.stem for p in list_checkpoints(folder) if p.stem <= checkpoint_path(folder, step).name][:KEPT]


def prune(folder: Path, keep: Sequence[str], ids: Iterable[int] | None = None) -> None:
    """Delete all other checkpoints; of agents in several processes, each process its own agents' files."""
    for name in {p.stem for p in folder.glob("checkpoint-*") if p.suffix in ("", ".npz")} - set(keep):
        npz.remove([folder / f"{name}.npz"])
        if (folder / name).is_dir():
            sets.remove(folder / name, ids)


def network_digest(network: Topology) -> str:
    """A short digest of the weights of the first rounds; equal in every process."""
    digest = hashlib.sha256()
    before = None
    for k in range(64):  # longer than most periods, and enough to tell two rates of lost links apart
        matrix = network.at(k)
        if matrix is before:  # a fixed network is looked at once
            continue
        before, W = matrix, csr_array(matrix)
        for part in (W.indptr.astype(np.int64), W.indices.astype(np.int64), W.data):
            digest.update(part.tobytes())
    return digest.hexdigest()[:16]
