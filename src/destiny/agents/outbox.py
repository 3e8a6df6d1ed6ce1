"""The messages an agent has sent and may be asked for again, in memory and on disk."""

from __future__ import annotations

import contextlib
from itertools import pairwise
from pathlib import Path

import numpy as np

from destiny.agents.transport.messages import HEADER, Header, Kind
from destiny.errors import CheckpointError
from destiny.protocols import Array
from destiny.storage import npz


class Sent:
    """Messages by round; a neighbour that was killed asks for those since its checkpoint.

    A checkpoint writes those since the one before, so each message is written once.
    """

    def __init__(self) -> None:
        self.messages: dict[int, memoryview] = {}
        self.first = 0  # the earliest round still held
        self.end = 0  # one after the last round sent
        self.unsaved = 0  # the earliest round not on disk

    def add(self, round: int, mark: int, blocks: list[Array]) -> Array:
        """One more message; its numbers, all blocks side by side."""
        size = sum(block.size for block in blocks)
        whole = np.empty(HEADER.size // 8 + size)
        message = whole.data.cast("B")
        message[: HEADER.size] = Header(Kind.DATA, round, mark, 8 * size).pack()
        numbers = whole[HEADER.size // 8 :]
        np.concatenate([block.ravel() for block in blocks], out=numbers)
        self.messages[round] = message
        self.end = round + 1
        return numbers

    def prune(self, round: int) -> None:
        """Nobody needs what is older."""
        for old in range(self.first, round):
            self.messages.pop(old, None)
        self.first = max(self.first, round)

    def file(self, folder: Path, end: int) -> dict[Path, tuple[dict[str, Array], dict[str, int]]]:
        """The file of the messages not yet on disk, up to a round, for `npz.write`."""
        arrays = {
            f"round/{k}": np.frombuffer(self.messages[k], offset=HEADER.size)
            for k in range(self.unsaved, end)
            if k in self.messages
        }
        return {_path(folder, self.unsaved): (arrays, {"first": self.unsaved, "end": end})} if arrays else {}

    def saved(self, folder: Path, end: int) -> None:
        """That file was written; those nobody needs can go."""
        self.unsaved = end
        paths = _paths(folder)
        npz.remove(old for old, later in pairwise(paths) if _first(later) <= self.first)

    @staticmethod
    def reaches(folder: Path, end: int) -> bool:
        """Whether the file that was written with the checkpoint of a round is there and whole."""
        for path in reversed(_paths(folder)):
            with contextlib.suppress(CheckpointError):
                if npz.read(path, ("first", "end"), ())[1]["end"] == end:
                    return True
        return False

    @classmethod
    def load(cls, folder: Path, end: int, notes: list[str] | None = None) -> Sent:
        """All messages on disk before a round, as far back as they go without a gap."""
        found = cls()
        for path in _paths(folder):
            try:
                arrays, _ = npz.read(path, ("first", "end"), ())
            except CheckpointError as error:  # most likely nobody needs it; whoever does is told
                (notes if notes is not None else []).append(str(error))
                continue
            for name, numbers in arrays.items():
                found.add(int(name.removeprefix("round/")), 0, [numbers])
        found.first = end  # a file that was damaged or lost leaves a gap: what lies before it is of no use
        while found.first - 1 in found.messages:
            found.first -= 1
        found.messages = {k: m for k, m in found.messages.items() if found.first <= k < end}
        found.unsaved = found.end = end
        return found


def _path(folder: Path, first: int) -> Path:
    return folder / f"sent-{first:09d}.npz"


def _paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("sent-*.npz"))


def _first(path: Path) -> int:
    return int(path.stem.removeprefix("sent-"))
