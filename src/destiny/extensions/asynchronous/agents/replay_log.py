"""What an asynchronous agent writes down so that the run can be made again: stamps, and no other numbers."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from destiny.errors import DestinyError
from destiny.extensions.asynchronous.agents.belief import Trim
from destiny.extensions.asynchronous.async_protocol import LIFE
from destiny.extensions.asynchronous.termination import StampedMessage
from destiny.protocols import Array

FILE = "replay.jsonl"


@dataclass(frozen=True)
class Event:
    """One line of the log.

    Attributes
    ----------
    kind : str
        "start", "join", "members", "wake", "answer" or "out".
    stamp : int
        Of a start, that of the state that the agent went on from, 0 for the first; otherwise that of the
        message that came of it.
    life : int
        Of a start: the new life.
    standing : tuple of float
        Of a start and of members: what the agent knows of all agents besides what it has heard.
    heard : tuple of (int, int)
        Agent and stamp of each message that was used for the first time; of a join, that of the neighbor
        where a late agent begins.
    """

    kind: str
    stamp: int
    life: int = 0
    standing: tuple[float, ...] = ()
    heard: tuple[tuple[int, int], ...] = ()
    trims: Mapping[tuple[int, int], Trim] = field(default_factory=dict)
    """What was left out of some of these messages."""


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

    def start(self, life: int, stamp: int, standing: Array) -> None:
        """The agent goes on from the state with this stamp, and knows this standing of all agents."""
        self._write(["start", stamp, [life, standing.tolist()]])

    def members(self, standing: Array) -> None:
        """Somebody is asked to come or to leave, or does."""
        self._write(["members", 0, standing.tolist()])

    def event(
        self,
        kind: str,
        stamp: float,
        letters: Sequence[StampedMessage],
        trim_of: Callable[[StampedMessage], Trim | None],
    ) -> None:
        """A message with this stamp is about to be sent, after these were heard."""
        heard: list[list[Any]] = []
        for letter in letters:
            trim = trim_of(letter)
            heard.append([int(letter.sender), int(letter.stamp)])
            if trim is not None:
                heard[-1] += [list(trim.void), trim.standing]
        self._write([kind, int(stamp), heard])

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
            life, standing = rest
            yield Event(kind, stamp, life=life, standing=tuple(standing))
        elif kind == "members":
            yield Event(kind, stamp, standing=tuple(rest))
        else:
            heard = tuple((j, s) for j, s, *_ in rest)
            trims = {(j, s): _trim(*more) for j, s, *more in rest if more}
            yield Event(kind, stamp, life=stamp // LIFE, heard=heard, trims=trims)


def _trim(void: list[int], standing: list[float] | None) -> Trim:
    return Trim(tuple(void), None if standing is None else tuple(standing))
