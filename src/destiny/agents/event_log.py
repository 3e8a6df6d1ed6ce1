"""What happened, one JSON object a line; never what was sent."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any

from destiny.agents.transport.messages import sanitise

logger = logging.getLogger(__name__)
MINUTE = 60.0
TROUBLES = ("refused", "trouble", "left", "lost", "mishap", "listener", "dropped", "certificates")
MOST = 100  # lines a minute on strangers, of each event: somebody who knocks all day does not fill the disk
MOST_EACH = 20  # lines a minute on one neighbour, of each event
LINE = 1000  # letters of a sentence


class Journal:
    """Writes events to a file, and those a person should see to standard error too.

    Nothing that fails here ends a run: a log that cannot be written is given up.

    Parameters
    ----------
    agent : str
        Who writes.
    path : Path, optional
        The file, lines are appended; None keeps them in memory only.
    loud : bool
        Whether to say things on standard error.
    """

    def __init__(self, agent: str, path: Path | None = None, loud: bool = True) -> None:
        self.agent, self.loud = agent, loud
        self.file = None if path is None else _open(path)
        self.since = time.monotonic()
        self.lines: Counter[tuple[str, str]] = Counter()  # by event and neighbour; "" for strangers
        self.recent: list[dict[str, Any]] = []

    def tell(self, event: str, peer: str, sentence: str, **facts: Any) -> None:
        """An event a person should know of."""
        self.note(event, peer=peer, why=sentence, **facts)
        self.say(sentence)

    def say(self, sentence: str, always: bool = False) -> None:
        """A line on standard error, if anybody wants it and it can still be written to."""
        if self.loud or always:
            try:
                print(f"destiny: {self.agent}: {sanitise(sentence, LINE)}", file=sys.stderr, flush=True)
            except (OSError, ValueError):
                self.loud = False

    def stranger(self, peer: str, sentence: str, address: str) -> None:
        """Somebody who is no neighbour was refused; told if there was not too much of that lately."""
        if self.room("refused"):
            self.tell("refused", peer, sentence, address=address)

    def neighbour(self, event: str, name: str, sentence: str, **facts: Any) -> None:
        """Something about a neighbour that a person should know of, unless it happens all the time."""
        if self.room(event, name):
            self.tell(event, name, sentence, **facts)

    def neighbour_note(self, event: str, name: str, **facts: Any) -> None:
        """Something about a neighbour for the file, unless it happens all the time."""
        if self.room(event, name):
            self.note(event, peer=name, **facts)

    def mishap(self, event: str, why: str) -> None:
        """Something that callers may have brought about, as often as they like."""
        if self.room(event):
            self.note(event, why=why)

    def room(self, event: str, neighbour: str = "") -> bool:
        """Whether there is room for one more line on an event with a neighbour, or with strangers."""
        self.count()
        self.lines[event, neighbour] += 1
        return self.lines[event, neighbour] <= _most(neighbour)

    def count(self, last: bool = False) -> None:
        """Once a minute is over, or in the end: say how many lines are missing."""
        if not last and time.monotonic() - self.since <= MINUTE:
            return
        lines, self.lines, self.since = self.lines, Counter(), time.monotonic()
        for (event, neighbour), number in lines.items():
            dropped = number - _most(neighbour)
            if dropped > 0:
                self.report_dropped(event, neighbour, dropped)

    def report_dropped(self, event: str, neighbour: str, dropped: int) -> None:
        """How many lines of an event were not written."""
        what = "refusals" if event == "refused" else f"lines of the kind {event!r}"
        sentence = f"{dropped} more {what} of {neighbour or 'strangers'} in the last minute"
        self.note("dropped", dropped=dropped, why=sentence, **({"peer": neighbour} if neighbour else {}))
        self.say(sentence)

    def note(self, event: str, **facts: Any) -> None:
        """An event for the file."""
        self.count()
        entry = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "agent": self.agent}
        safe = {k: sanitise(fact, LINE) if isinstance(fact, str) else fact for k, fact in facts.items()}
        entry |= {"event": event, **safe}
        self.recent = [*self.recent[-19:], entry]  # as many as a status page shows
        level = logging.WARNING if event in TROUBLES else logging.INFO
        logger.log(level, "%s: %s", self.agent, json.dumps({"event": event, **safe}))
        if self.file is not None:
            try:
                self.file.write(json.dumps(entry).encode() + b"\n")
            except OSError as error:  # a run does not end for want of a log
                self.file.close()
                self.file = None
                self.say(f"no more log: {error.strerror}", always=True)

    def close(self) -> None:
        """Let go of the file."""
        self.count(last=True)
        if self.file is not None:
            self.file.close()
            self.file = None


def _open(path: Path) -> FileIO:
    """Append to a file that its owner alone may read."""
    file = FileIO(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))
    if path.is_file():  # one of an earlier version may have had another mode
        path.chmod(0o600)
    return file


def _most(neighbour: str) -> int:
    return MOST_EACH if neighbour else MOST
