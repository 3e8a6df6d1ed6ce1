"""An agent's files for resuming: two checkpoints, and the messages that neighbors may need again."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from destiny.agents.outbox import Outbox
from destiny.engines.same_settings import difference
from destiny.errors import CheckpointError, SettingsError
from destiny.protocols import Array
from destiny.storage import checkpoint as checkpoints
from destiny.storage import npz

PRIVATE = 0o600  # iterates and messages are in clear


class AgentCheckpoints:
    """The checkpoints of one agent of one run.

    Parameters
    ----------
    folder : Path
        Created if it does not exist; `SettingsError` if it cannot be used.
    identity : dict
        Facts that identify the run; a checkpoint with others is refused.
    index : int
        The agent.
    neighbors : collection of str
        Their names.

    Attributes
    ----------
    saved : Saved or None
        The newest checkpoint that can be read and whose messages can; else the one before, from which the
        agent computes those messages again.
    notes : list of str
        A sentence about each file that was not used.
    """

    def __init__(
        self, folder: Path, identity: dict[str, Any], index: int, neighbors: Collection[str]
    ) -> None:
        self.folder, self.identity, self.index = folder, identity, index
        _create(folder)
        self.saved, self.notes = self.newest()
        if self.saved is not None:
            self.saved = replace(self._checked(self.saved, neighbors), ids=np.array([index]))
        self.rounds = _rounds(folder, self.saved)  # of the checkpoints on disk, oldest first

    def newest(self) -> tuple[checkpoints.Saved | None, list[str]]:
        """The checkpoint to go on from, and a sentence about each file that is passed over."""
        return _newest(self.folder)

    def _checked(self, saved: checkpoints.Saved, neighbors: Collection[str]) -> checkpoints.Saved:
        for name, mine in self.identity.items():
            if (other := difference({name: mine}, {name: saved.facts.get(name)})) is not None:
                key, here, there = other
                raise saved.refuse(
                    f"belongs to another run: its {key} is {there}, this file's is {here}; "
                    "choose another folder for out"
                )
        if set(saved.facts["degrees"]) != set(neighbors):
            raise saved.refuse("belongs to another run: this file names other neighbors; use a new run id")
        return saved

    @property
    def mark(self) -> int:
        """The round of the older checkpoint, or 0: the newer one may turn out to be damaged."""
        return self.rounds[0] if len(self.rounds) >= checkpoints.KEPT else 0

    def load_outbox(self, finished: bool) -> tuple[Outbox, int]:
        """The messages on disk, and the first round this agent needs from its neighbors."""
        round = 0 if self.saved is None else int(self.saved.facts["turn"])
        if finished:  # neighbors may still need all that was sent
            ends = [npz.read(path, ("end",), ())[1]["end"] for path in self.folder.glob("sent-*.npz")]
            round = max(ends, default=round)
        return Outbox.load(self.folder, round, self.notes), round

    def write(self, arrays: dict[str, Array], facts: dict[str, Any], outbox: Outbox) -> None:
        """Write the state and the messages since the last checkpoint, both or none."""
        step, round = facts["step"], facts["turn"]
        path = checkpoints.checkpoint_path(self.folder, step).with_suffix(".npz")
        npz.write(
            {**outbox.unsaved_file(self.folder, round), path: (arrays, {**facts, **self.identity})}, PRIVATE
        )
        outbox.mark_saved(self.folder, round)
        checkpoints.prune(self.folder, checkpoints.names_to_keep(self.folder, step))
        self.rounds = [*self.rounds, round][-checkpoints.KEPT :]

    def write_outbox(self, outbox: Outbox, round: int) -> None:
        """Write the messages of the final averaging, before this agent sends BYE."""
        npz.write(outbox.unsaved_file(self.folder, round), PRIVATE)


def _create(folder: Path) -> None:
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # out: iterates are in clear
        folder.mkdir(mode=0o700, exist_ok=True)
        probe = folder / ".try"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise SettingsError(f"[agent] out {folder.parent} cannot be used: {error.strerror}") from error


def _newest(folder: Path) -> tuple[checkpoints.Saved | None, list[str]]:
    saved, notes = checkpoints.newest(folder)
    if saved is None or Outbox.is_saved_to(folder, int(saved.facts["turn"])):
        return saved, notes
    for path in checkpoints.list_checkpoints(folder):
        if path.stem < checkpoints.checkpoint_path(folder, saved.facts["step"]).name:
            with contextlib.suppress(CheckpointError):
                previous = checkpoints.load(path)
                notes.append(f"{saved.path} is passed over: the messages sent before it are damaged or lost")
                return previous, notes
    return saved, notes  # most likely nobody needs those messages


def _rounds(folder: Path, saved: checkpoints.Saved | None) -> list[int]:
    """Rounds of the checkpoint in use and those before it, oldest first: newer ones will be replaced."""
    rounds: list[int] = []
    for path in checkpoints.list_checkpoints(folder):
        with contextlib.suppress(CheckpointError):
            round = int(npz.read(path, checkpoints.FACTS, ())[1]["turn"])
            if saved is not None and round <= saved.facts["turn"]:
                rounds.insert(0, round)
    return rounds
