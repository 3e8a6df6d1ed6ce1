"""What an agent keeps on disk: two checkpoints, and the messages that somebody may still ask for."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from destiny.agents.outbox import Sent
from destiny.engines.same_settings import difference
from destiny.errors import CheckpointError, SettingsError
from destiny.protocols import Array
from destiny.storage import checkpoint as checkpoints
from destiny.storage import npz

PRIVATE = 0o600  # iterates and messages in clear are the owner's


class Kept:
    """The checkpoints of one agent of one run.

    Parameters
    ----------
    folder : Path
        Made if need be; refused in words if it cannot be used.
    identity : dict
        What must be equal for a checkpoint to be this run's.
    index : int
        The agent.
    neighbours : collection of str
        Their names.

    Attributes
    ----------
    saved : Saved or None
        The newest checkpoint that can be read, with the messages sent before it; without them the one before
        is better, as the agent then sends those messages again.
    notes : list of str
        A sentence about each file passed over.
    """

    def __init__(
        self, folder: Path, identity: dict[str, Any], index: int, neighbours: Collection[str]
    ) -> None:
        self.folder, self.identity, self.index = folder, identity, index
        _claim(folder)
        self.saved, self.notes = _newest(folder)
        if self.saved is not None:
            self.saved = replace(self._checked(self.saved, neighbours), ids=np.array([index]))
        self.rounds = _rounds(folder, self.saved)  # of the checkpoints on disk, oldest first

    def _checked(self, saved: checkpoints.Saved, neighbours: Collection[str]) -> checkpoints.Saved:
        for name, mine in self.identity.items():
            if (found := difference({name: mine}, {name: saved.facts.get(name)})) is not None:
                key, here, there = found
                raise saved.refuse(
                    f"belongs to another run: its {key} is {there}, this file's is {here}; "
                    "choose another folder for out"
                )
        if set(saved.facts["degrees"]) != set(neighbours):
            raise saved.refuse("belongs to another run: this file names other neighbours; use a new run id")
        return saved

    @property
    def mark(self) -> int:
        """The round of the older of the two checkpoints: the newer may turn out damaged."""
        return self.rounds[0] if len(self.rounds) >= checkpoints.KEPT else 0

    def sent(self, finished: bool) -> tuple[Sent, int]:
        """The messages on disk, and the first round this agent lacks from its neighbours."""
        round = 0 if self.saved is None else int(self.saved.facts["round"])
        if finished:  # nothing more is needed, but others may need all that was sent
            ends = [npz.read(path, ("end",), ())[1]["end"] for path in self.folder.glob("sent-*.npz")]
            round = max(ends, default=round)
        return Sent.load(self.folder, round, self.notes), round

    def write(self, arrays: dict[str, Array], facts: dict[str, Any], sent: Sent) -> None:
        """State, and the messages sent since the last checkpoint; both are there, or neither counts."""
        step, round = facts["step"], facts["round"]
        path = checkpoints.place(self.folder, step).with_suffix(".npz")
        npz.write({**sent.file(self.folder, round), path: (arrays, {**facts, **self.identity})}, PRIVATE)
        sent.saved(self.folder, round)
        checkpoints.prune(self.folder, checkpoints.kept(self.folder, step))
        self.rounds = [*self.rounds, round][-checkpoints.KEPT :]

    def write_last(self, sent: Sent, round: int) -> None:
        """The messages of the averaging, before anybody is told that this agent is done."""
        npz.write(sent.file(self.folder, round), PRIVATE)


def _claim(folder: Path) -> None:
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # out: iterates in clear are the owner's
        folder.mkdir(mode=0o700, exist_ok=True)
        aside = folder / ".try"
        aside.touch()
        aside.unlink()
    except OSError as error:
        raise SettingsError(f"[agent] out {folder.parent} cannot be used: {error.strerror}") from error


def _newest(folder: Path) -> tuple[checkpoints.Saved | None, list[str]]:
    saved, notes = checkpoints.newest(folder)
    if saved is None or Sent.reaches(folder, int(saved.facts["round"])):
        return saved, notes
    for path in checkpoints.found(folder):
        if path.stem < checkpoints.place(folder, saved.facts["step"]).name:
            with contextlib.suppress(CheckpointError):
                before = checkpoints.load(path)
                notes.append(f"{saved.path} is passed over: the messages sent before it are damaged or lost")
                return before, notes
    return saved, notes  # most likely nobody needs those messages


def _rounds(folder: Path, saved: checkpoints.Saved | None) -> list[int]:
    """Of the checkpoint in use and those before it: newer ones will be written again."""
    found: list[int] = []
    for path in checkpoints.found(folder):
        with contextlib.suppress(CheckpointError):
            round = int(npz.read(path, checkpoints.FACTS, ())[1]["round"])
            if saved is not None and round <= saved.facts["round"]:
                found.insert(0, round)
    return found
