"""The event log of an agent: one JSON object a line, never a number of a message."""

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

from destiny.agents.transport.messages import sanitize

logger = logging.getLogger(__name__)
MINUTE = 60.0
WARNINGS = ("refused", "trouble", "left", "lost", "mishap", "listener", "dropped", "certificates")
MAX_STRANGER_LINES = 100  # a minute about strangers, for each event: they must not fill the disk
MAX_NEIGHBOR_LINES = 20  # a minute about one neighbor, for each event
MAX_SENTENCE = 1000  # characters


class EventLog:
    """Writes events to a file, and those a person should see to standard error too.

    A failure here never ends a run: a log that cannot be written is closed.

    Parameters
    ----------
    agent : str
        Name of the agent.
    path : Path, optional
        Lines are appended to it; None keeps the latest events in memory only.
    loud : bool
        Whether to print reports on standard error.
    """

    def __init__(self, agent: str, path: Path | None = None, loud: bool = True) -> None:
        self.agent, self.loud = agent, loud
        self.file = None if path is None else _open(path)
        self.since = time.monotonic()
        self.lines: Counter[tuple[str, str]] = Counter()  # by event and neighbor; "" for strangers
        self.recent: list[dict[str, Any]] = []

    def report(self, event: str, peer: str, sentence: str, **facts: Any) -> None:
        """Record an event, and print its sentence."""
        self.record(event, peer=peer, why=sentence, **facts)
        self.print(sentence)

    def print(self, sentence: str, always: bool = False) -> None:
        """Print a line on standard error, unless that failed before."""
        if self.loud or always:
            try:
                print(
                    f"destiny: {self.agent}: {sanitize(sentence, MAX_SENTENCE)}", file=sys.stderr, flush=True
                )
            except (OSError, ValueError):
                self.loud = False

    def report_stranger(self, peer: str, sentence: str, address: str) -> None:
        """Report that a stranger was refused, within the limit of lines a minute."""
        if self.admits("refused"):
            self.report("refused", peer, sentence, address=address)

    def report_neighbor(self, event: str, name: str, sentence: str, **facts: Any) -> None:
        """Report an event with a neighbor, within the limit of lines a minute."""
        if self.admits(event, name):
            self.report(event, name, sentence, **facts)

    def record_neighbor(self, event: str, name: str, **facts: Any) -> None:
        """Record an event with a neighbor, within the limit of lines a minute."""
        if self.admits(event, name):
            self.record(event, peer=name, **facts)

    def record_error(self, event: str, why: str) -> None:
        """Record an error that strangers can cause, within the limit of lines a minute."""
        if self.admits(event):
            self.record(event, why=why)

    def admits(self, event: str, neighbor: str = "") -> bool:
        """Count one more line on an event; whether it is within the limit of this minute."""
        self.flush_counts()
        self.lines[event, neighbor] += 1
        return self.lines[event, neighbor] <= _limit(neighbor)

    def flush_counts(self, last: bool = False) -> None:
        """After each minute, and at the end (``last``): report how many lines were dropped."""
        if not last and time.monotonic() - self.since <= MINUTE:
            return
        lines, self.lines, self.since = self.lines, Counter(), time.monotonic()
        for (event, neighbor), number in lines.items():
            dropped = number - _limit(neighbor)
            if dropped > 0:
                self.report_dropped(event, neighbor, dropped)

    def report_dropped(self, event: str, neighbor: str, dropped: int) -> None:
        """Report how many lines of an event were dropped."""
        what = "refusals" if event == "refused" else f"lines of the kind {event!r}"
        sentence = f"{dropped} more {what} of {neighbor or 'strangers'} in the last minute"
        self.record("dropped", dropped=dropped, why=sentence, **({"peer": neighbor} if neighbor else {}))
        self.print(sentence)

    def record(self, event: str, **facts: Any) -> None:
        """Write an event to the file, and to the logger of this module."""
        self.flush_counts()
        entry = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "agent": self.agent}
        safe = {
            k: sanitize(fact, MAX_SENTENCE) if isinstance(fact, str) else fact for k, fact in facts.items()
        }
        entry |= {"event": event, **safe}
        self.recent = [*self.recent[-19:], entry]  # as many as a status page shows
        level = logging.WARNING if event in WARNINGS else logging.INFO
        logger.log(level, "%s: %s", self.agent, json.dumps({"event": event, **safe}))
        if self.file is not None:
            try:
                self.file.write(json.dumps(entry).encode() + b"\n")
            except OSError as error:  # the run goes on without a log
                self.file.close()
                self.file = None
                self.print(f"no more log: {error.strerror}", always=True)

    def close(self) -> None:
        """Report dropped lines and close the file."""
        self.flush_counts(last=True)
        if self.file is not None:
            self.file.close()
            self.file = None


def _open(path: Path) -> FileIO:
    """Open for appending, readable by the owner alone."""
    file = FileIO(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))
    if path.is_file():  # one of an earlier version may have had another mode
        path.chmod(0o600)
    return file


def _limit(neighbor: str) -> int:
    return MAX_NEIGHBOR_LINES if neighbor else MAX_STRANGER_LINES
