"""What happened, one JSON object a line; never what was sent."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)
MINUTE = 60.0
TROUBLES = ("refused", "trouble", "left", "lost", "mishap", "listener", "dropped")
MOST = 100  # lines a minute on strangers, of each event: somebody who knocks all day does not fill the disk


class Journal:
    """Writes events to a file, and those a person should see to standard error too.

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
        self.file = None if path is None else path.open("ab", buffering=0)
        self.since, self.dropped = time.monotonic(), 0
        self.lines: Counter[str] = Counter()  # on strangers
        self.recent: list[dict[str, Any]] = []

    def tell(self, event: str, peer: str, sentence: str, **facts: Any) -> None:
        """An event a person should know of."""
        self.note(event, peer=peer, why=sentence, **facts)
        if self.loud:
            print(f"destiny: {self.agent}: {sentence}", file=sys.stderr, flush=True)

    def stranger(self, peer: str, sentence: str, address: str) -> None:
        """Somebody who is no neighbour was refused; told if there was not too much of that lately."""
        if self.room("refused"):
            self.tell("refused", peer, sentence, address=address)

    def mishap(self, event: str, why: str) -> None:
        """Something that callers may have brought about, as often as they like."""
        if self.room(event):
            self.note(event, why=why)

    def room(self, event: str) -> bool:
        """Whether there is room for one more line that strangers caused."""
        self.count()
        self.lines[event] += 1
        self.dropped += self.lines[event] > MOST
        return self.lines[event] <= MOST

    def count(self, last: bool = False) -> None:
        """Once a minute is over, or in the end: say how many lines on strangers are missing."""
        if last or time.monotonic() - self.since > MINUTE:
            dropped, self.since, self.dropped = self.dropped, time.monotonic(), 0
            self.lines.clear()
            if dropped:
                self.note("dropped", dropped=dropped, why=f"{dropped} more lines on strangers")

    def note(self, event: str, **facts: Any) -> None:
        """An event for the file."""
        self.count()
        entry = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "agent": self.agent}
        entry |= {"event": event, **facts}
        self.recent = [*self.recent[-19:], entry]  # as many as a status page shows
        level = logging.WARNING if event in TROUBLES else logging.INFO
        logger.log(level, "%s: %s", self.agent, json.dumps({"event": event, **facts}))
        if self.file is not None:
            try:
                self.file.write(json.dumps(entry).encode() + b"\n")
            except OSError as error:  # a run does not end for want of a log
                self.file.close()
                self.file = None
                print(f"destiny: {self.agent}: no more log: {error.strerror}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Let go of the file."""
        self.count(last=True)
        if self.file is not None:
            self.file.close()
            self.file = None
