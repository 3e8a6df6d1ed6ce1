"""The files of an asynchronous agent: life and members, its state now and then, the state it ends with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from destiny.agents.checkpoints import PRIVATE, AgentCheckpoints
from destiny.errors import CheckpointError
from destiny.extensions.asynchronous.members import Record
from destiny.protocols import Array
from destiny.storage import checkpoint as checkpoints
from destiny.storage import npz
from destiny.storage.checkpoint import Saved, run_arrays

LIFE_FILE, AGREED = "life.json", "agreed.npz"
MEMBERS, REQUESTS, DEPARTED = "members.json", "requests.json", "departed.json"
NO_ROUNDS = {
    "round": 0,
    "turn": 0,
    "asked": 0,
    "agreed": 0,
    "cost": 1,
}  # facts of checkpoints that have none here


class AsyncCheckpoints(AgentCheckpoints):
    """As of a synchronous agent, but any state is a legal start: one that cannot be read is passed over.

    Attributes
    ----------
    agreed : Saved or None
        The state with which this agent has ended. It never changes, as averages are made of it.
    """

    agreed: Saved | None = None

    def newest(self) -> tuple[Saved | None, list[str]]:
        """The state agreed on, else the newest checkpoint that can be read; None for the start."""
        path = self.folder / AGREED
        if path.exists():
            try:
                self.agreed = checkpoints.load(path)
            except CheckpointError as error:
                raise CheckpointError(
                    f"{error}: averages were made of it; take the answer of another agent, or start a new run"
                ) from error
            return self.agreed, []
        try:
            return checkpoints.newest(self.folder)
        except CheckpointError as error:
            return None, [f"{error}; the agent begins again at the start"]

    def next_life(self, heard: int = 0) -> int:
        """A life larger than all before and than those heard of; on disk when this returns."""
        path = self.folder / LIFE_FILE
        life = max(_read_life(path), heard) + 1
        _write(path, {"life": life})
        return life

    def write_record(self, record: Record) -> None:
        """Write what the agent must not forget; on disk when this returns."""
        bound = None if np.isinf(record.bound) else record.bound
        known = {"standing": record.standing.tolist(), "bound": bound, "met": record.met}
        _write(self.folder / MEMBERS, known)

    def read_record(self, first: Array) -> Record:
        """The record of an earlier process; without one, that of an agent that may have lost its files.

        ``first`` is the standing of all agents at the start. A record that cannot be read is a lost one, with
        a note.
        """
        record, damage = _read_record(self.folder, first)
        if damage:
            self.notes.append(f"{damage}; the agent asks its neighbors who takes part")
        return record

    def depart(self, why: str) -> None:
        """Write down that this agent takes part no more."""
        _write(self.folder / DEPARTED, {"why": why})

    def departure(self) -> str | None:
        """Why this agent takes part no more; None if it does."""
        path = self.folder / DEPARTED
        if not path.exists():
            return None
        try:
            return str(json.loads(path.read_text(encoding="utf-8"))["why"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{path} cannot be read ({type(error).__name__}): this agent had left the run; if it should "
                "hear that again from its neighbors, remove the file and start it"
            ) from error

    def requests(self) -> list[int]:
        """Agents that the operator wants to leave for good."""
        return read_requests(self.folder)

    def save(self, saved: Saved) -> None:
        """Write a checkpoint."""
        step = saved.facts["step"]
        self._write(checkpoints.checkpoint_path(self.folder, step).with_suffix(".npz"), saved)
        checkpoints.prune(self.folder, checkpoints.names_to_keep(self.folder, step))

    def agree(self, saved: Saved) -> None:
        """Write the state with which the iteration has ended, before anything is made of it."""
        self._write(self.folder / AGREED, saved)

    def _write(self, path: Path, saved: Saved) -> None:
        arrays = {f"state/{k}": v for k, v in saved.state.items()} | run_arrays(saved)
        npz.write({path: (arrays, {**NO_ROUNDS, **saved.facts, **self.identity})}, PRIVATE)


def read_record(folder: Path, first: Array) -> Record:
    """The record in a folder (`AsyncCheckpoints.read_record`)."""
    return _read_record(folder, first)[0]


def _read_record(folder: Path, first: Array) -> tuple[Record, str]:
    """The record, and what is wrong with its file."""
    damage = f"{folder / MEMBERS} is of another run"
    try:
        known = json.loads((folder / MEMBERS).read_text(encoding="utf-8"))
        standing, bound = np.array(known["standing"], dtype=np.float64), known["bound"]
        if standing.shape == first.shape:
            return Record(standing, np.inf if bound is None else float(bound), bool(known["met"])), ""
    except FileNotFoundError:
        return Record(first, met=False), ""
    except (OSError, ValueError, KeyError, TypeError) as error:
        damage = f"{folder / MEMBERS} cannot be read ({type(error).__name__})"
    return Record(first, bound=np.inf, met=False), damage


def read_requests(folder: Path) -> list[int]:
    """The agents that an operator wants to leave for good."""
    path = folder / REQUESTS
    if not path.exists():
        return []
    try:
        return [int(agent) for agent in json.loads(path.read_text(encoding="utf-8"))["leave"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} cannot be read ({type(error).__name__}): remove it and ask again"
        ) from error


def write_requests(folder: Path, agents: list[int]) -> None:
    """Ask the agent of a folder, running or not, to see to it that agents leave."""
    _write(folder / REQUESTS, {"leave": agents})


def _write(path: Path, content: dict[str, Any]) -> None:
    """Write a file that is on disk when this returns, whole or as it was."""
    aside = path.with_suffix(".tmp")
    aside.unlink(missing_ok=True)  # a crash may have left one of another mode
    with os.fdopen(
        os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "w", encoding="utf-8"
    ) as file:
        file.write(json.dumps(content))
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)  # the new name too
    os.close(folder)


def _read_life(path: Path) -> int:
    """The life in a file; 0 if there is none that can be read: neighbors then tell what they have heard."""
    try:
        life = json.loads(path.read_text(encoding="utf-8"))["life"]
        return int(life)
    except (OSError, ValueError, KeyError, TypeError):
        return 0
