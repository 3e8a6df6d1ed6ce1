"""The messages an agent has sent and may have to send again, in memory and on disk."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny.errors import CheckpointError
from destiny.protocols import Array
from destiny.storage import npz


class To(StrEnum):
    """To whom a message goes: in a sum there is one for the parent in the tree and one for the children."""

    ALL = "all"
    PARENT = "parent"
    CHILDREN = "children"


@dataclass
class Sent:
    """The bytes of a message, of which those before ``ready`` may be sent: the others are still computed."""

    content: memoryview
    ready: int

    @classmethod
    def whole(cls, row: NDArray[Any]) -> Sent:
        """A message that is complete."""
        content = np.ascontiguousarray(row).reshape(-1).view(np.uint8).data
        return cls(content, len(content))


EMPTY = Sent(memoryview(b""), 0)


class Outbox:
    """The messages sent, by turn: a neighbor that was killed needs those since its checkpoint again.

    Each checkpoint writes the messages since the previous one, so that each is written to disk once.

    Attributes
    ----------
    messages : dict from int to dict from To to Sent
        By turn: one message for all neighbors, or those of a sum.
    first : int
        The earliest turn still kept.
    end : int
        One after the last turn.
    unsaved : int
        The earliest turn that is not on disk.
    """

    def __init__(self) -> None:
        self.messages: dict[int, dict[To, Sent]] = {}
        self.first = self.end = self.unsaved = 0

    def add(self, turn: int, blocks: Sequence[Array]) -> Array:
        """Keep the message of a turn that goes to all; its numbers, all blocks one after the other."""
        numbers = np.concatenate([block.ravel() for block in blocks])
        self.begin(turn, {To.ALL: Sent.whole(numbers)})
        return numbers

    def begin(self, turn: int, messages: dict[To, Sent]) -> None:
        """Keep the messages of a turn."""
        self.messages[turn] = messages
        self.end = turn + 1

    def prune(self, turn: int) -> None:
        """Drop the messages before a turn."""
        for old in range(self.first, turn):
            self.messages.pop(old, None)
        self.first = max(self.first, turn)

    def unsaved_file(self, folder: Path, end: int) -> dict[Path, tuple[dict[str, Array], dict[str, int]]]:
        """Path and content, for `npz.write`, of a file with the unsaved messages before turn ``end``."""
        arrays = {
            f"{to}/{turn}": np.frombuffer(sent.content)
            for turn in range(self.unsaved, end)
            for to, sent in self.messages.get(turn, {}).items()
        }
        return {_path(folder, self.unsaved): (arrays, {"first": self.unsaved, "end": end})} if arrays else {}

    def mark_saved(self, folder: Path, end: int) -> None:
        """That file was written; remove files that nobody needs any more."""
        self.unsaved = end
        paths = _paths(folder)
        npz.remove(old for old, later in pairwise(paths) if _first(later) <= self.first)

    @staticmethod
    def is_saved_to(folder: Path, end: int) -> bool:
        """Whether the file that was written with the checkpoint of turn ``end`` can be read."""
        for path in reversed(_paths(folder)):
            with contextlib.suppress(CheckpointError):
                if npz.read(path, ("first", "end"), ())[1]["end"] == end:
                    return True
        return False

    @classmethod
    def load(cls, folder: Path, end: int, notes: list[str] | None = None) -> Outbox:
        """The messages on disk before turn ``end``, as far back as there is no gap.

        A sentence about each damaged file is added to ``notes``.
        """
        outbox = cls()
        for path in _paths(folder):
            try:
                arrays, _ = npz.read(path, ("first", "end"), ())
            except CheckpointError as error:  # most likely nobody needs it; a neighbor that does is refused
                (notes if notes is not None else []).append(str(error))
                continue
            for name, numbers in arrays.items():
                to, _, turn = name.partition("/")
                outbox.messages.setdefault(int(turn), {})[To(to)] = Sent.whole(numbers)
        outbox.first = end  # messages before a gap are of no use
        while outbox.first - 1 in outbox.messages:
            outbox.first -= 1
        outbox.messages = {k: m for k, m in outbox.messages.items() if outbox.first <= k < end}
        outbox.unsaved = outbox.end = end
        return outbox


def _path(folder: Path, first: int) -> Path:
    return folder / f"sent-{first:09d}.npz"


def _paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("sent-*.npz"))


def _first(path: Path) -> int:
    return int(path.stem.removeprefix("sent-"))
