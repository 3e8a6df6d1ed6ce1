"""The messages an agent has sent and may have to send again, in memory and on disk."""

from __future__ import annotations

import contextlib
from itertools import pairwise
from pathlib import Path

import numpy as np

from destiny.agents.transport.messages import HEADER, Header, Kind
from destiny.engines.fixed_point import Slot
from destiny.errors import CheckpointError
from destiny.protocols import Array
from destiny.storage import npz


class Outbox:
    """The messages sent, by round: a neighbour that was killed needs those since its checkpoint again.

    Each checkpoint writes the messages since the previous one, so that each is written to disk once.

    Attributes
    ----------
    messages : dict from int to memoryview
        Header and numbers of each round, as sent.
    first : int
        The earliest round still kept.
    end : int
        One after the last round.
    unsaved : int
        The earliest round that is not on disk.
    slots : dict from int to Slot
        Where sums are private: by round, what shares its exponents.
    """

    def __init__(self) -> None:
        self.messages: dict[int, memoryview] = {}
        self.first = self.end = self.unsaved = 0
        self.slots: dict[int, Slot] = {}

    def add(self, round: int, mark: int, blocks: list[Array]) -> Array:
        """Make the message of a round; returns its numbers, all blocks one after the other."""
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
        """Drop the messages before a round."""
        for old in range(self.first, round):
            self.messages.pop(old, None)
            self.slots.pop(old, None)
        self.first = max(self.first, round)

    def unsaved_file(self, folder: Path, end: int) -> dict[Path, tuple[dict[str, Array], dict[str, int]]]:
        """Path and content, for `npz.write`, of a file with the unsaved messages before round ``end``."""
        arrays = {
            f"round/{k}": np.frombuffer(self.messages[k], offset=HEADER.size)
            for k in range(self.unsaved, end)
            if k in self.messages
        }
        arrays |= {
            f"slot/{k}": np.array([self.slots[k][0], *self.slots[k][1]], dtype=np.float64)
            for k in range(self.unsaved, end)
            if k in self.slots
        }
        return {_path(folder, self.unsaved): (arrays, {"first": self.unsaved, "end": end})} if arrays else {}

    def mark_saved(self, folder: Path, end: int) -> None:
        """That file was written; remove files that nobody needs any more."""
        self.unsaved = end
        paths = _paths(folder)
        npz.remove(old for old, later in pairwise(paths) if _first(later) <= self.first)

    @staticmethod
    def is_saved_to(folder: Path, end: int) -> bool:
        """Whether the file that was written with the checkpoint of round ``end`` can be read."""
        for path in reversed(_paths(folder)):
            with contextlib.suppress(CheckpointError):
                if npz.read(path, ("first", "end"), ())[1]["end"] == end:
                    return True
        return False

    @classmethod
    def load(cls, folder: Path, end: int, notes: list[str] | None = None) -> Outbox:
        """The messages on disk before round ``end``, as far back as there is no gap.

        A sentence about each damaged file is added to ``notes``.
        """
        outbox = cls()
        for path in _paths(folder):
            try:
                arrays, _ = npz.read(path, ("first", "end"), ())
            except CheckpointError as error:  # most likely nobody needs it; a neighbour that does is refused
                (notes if notes is not None else []).append(str(error))
                continue
            for name, numbers in arrays.items():
                kind, _, round = name.partition("/")
                if kind == "slot":
                    call, *widths = numbers.astype(int).tolist()
                    outbox.slots[int(round)] = call, tuple(widths)
                else:
                    outbox.add(int(round), 0, [numbers])
        outbox.first = end  # messages before a gap are of no use
        while outbox.first - 1 in outbox.messages:
            outbox.first -= 1
        outbox.messages = {k: m for k, m in outbox.messages.items() if outbox.first <= k < end}
        outbox.slots = {k: slot for k, slot in outbox.slots.items() if k in outbox.messages}
        outbox.unsaved = outbox.end = end
        return outbox


def _path(folder: Path, first: int) -> Path:
    return folder / f"sent-{first:09d}.npz"


def _paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("sent-*.npz"))


def _first(path: Path) -> int:
    return int(path.stem.removeprefix("sent-"))
