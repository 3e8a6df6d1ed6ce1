"""What an asynchronous agent writes down so that the run can be made again: stamps, and no other numbers."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from destiny.errors import DestinyError
from destiny.protocols import LIFE

FILE = "replay.jsonl"


@dataclass(frozen=True)
class Event:
    """One line of the log.

    Attributes
    ----------
    kind : str
        "start", "wake", "answer" or "out".
    stamp : int
        Of a start, that of the state that the agent went on from, 0 for the first; otherwise that of the
        message that came of it.
    life : int
        Of a start: the new life.
    heard : tuple of (int, int)
        Agent and stamp of each message that was used for the first time.
    """

    kind: str
    stamp: int
    life: int = 0
    heard: tuple[tuple[int, int], ...] = ()


class ReplayLog:
    """Appends events to a file, each before the message that comes of it is sent.

    Every line is handed to the system as it is made: a process that is killed loses none. A log that cannot
    be written any more ends the run, as one with a gap would be of no use.
    """

    def __init__(self, path: Path) -> None:
        self.number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        size = os.fstat(self.number).st_size
        if size and os.pread(self.number, 1, size - 1) != b"\n":
            os.write(self.number, b"\n")  # the last line was cut: nothing came of it

    def start(self, life: int, stamp: int) -> None:
        """The agent goes on from the state with this stamp."""
        self._write(["start", stamp, life])

    def event(self, kind: str, stamp: float, letters: Sequence[Any]) -> None:
        """A message with this stamp is about to be sent, after these were heard."""
        self._write([kind, int(stamp), [[int(m.sender), int(m.stamp)] for m in letters]])

    def _write(self, line: list[Any]) -> None:
        text = json.dumps(line).encode() + b"\n"
        if os.write(self.number, text) < len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Close the file."""
        os.close(self.number)


def read(path: Path) -> Iterator[Event]:
    """The events of a log, oldest first; a line that was cut by a crash is left out."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DestinyError(
            f"{path} cannot be read ({error.strerror}): every agent needs replay = true in [run]"
        ) from error
    for line in lines:
        try:
            kind, stamp, rest = json.loads(line)
        except ValueError:
            continue
        if kind == "start":
            yield Event(kind, stamp, life=rest)
        else:
            yield Event(kind, stamp, life=stamp // LIFE, heard=tuple((j, s) for j, s in rest))
