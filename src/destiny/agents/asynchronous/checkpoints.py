"""The files of an asynchronous agent: its life, its state now and then, and the state it ends with."""

from __future__ import annotations

import json
import os
from pathlib import Path

from destiny.agents.checkpoints import PRIVATE, AgentCheckpoints
from destiny.errors import CheckpointError
from destiny.storage import checkpoint as checkpoints
from destiny.storage import npz
from destiny.storage.checkpoint import Saved, run_arrays

LIFE_FILE, AGREED = "life.json", "agreed.npz"
NO_ROUNDS = {"round": 0, "asked": 0, "agreed": 0, "cost": 1}  # facts of checkpoints that have none here


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
            self.agreed = checkpoints.load(path)
            return self.agreed, []
        try:
            return checkpoints.newest(self.folder)
        except CheckpointError as error:
            return None, [f"{error}; the agent begins again at the start"]

    def next_life(self, heard: int = 0) -> int:
        """A life larger than all before and than those heard of; on disk when this returns."""
        path = self.folder / LIFE_FILE
        life = max(_read_life(path), heard) + 1
        aside = path.with_suffix(".tmp")
        aside.write_text(json.dumps({"life": life}), encoding="utf-8")
        with aside.open("rb") as file:
            os.fsync(file.fileno())
        aside.replace(path)
        folder = os.open(self.folder, os.O_RDONLY)
        os.fsync(folder)  # the new name too
        os.close(folder)
        return life

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


def _read_life(path: Path) -> int:
    """The life in a file; 0 if there is none that can be read: neighbours then tell what they have heard."""
    try:
        life = json.loads(path.read_text(encoding="utf-8"))["life"]
        return int(life)
    except (OSError, ValueError, KeyError, TypeError):
        return 0
