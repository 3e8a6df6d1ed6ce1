"""What happened, one JSON object a line; never what was sent."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MINUTE = 60.0
MOST = 100  # lines a minute: somebody who knocks all day does not fill the disk


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
        self.since, self.lines, self.untold = time.monotonic(), 0, 0
        self.recent: list[dict[str, Any]] = []

    def tell(self, event: str, peer: str, sentence: str, **facts: Any) -> None:
        """An event a person should know of."""
        if self.note(event, peer=peer, why=sentence, **facts) and self.loud:
            print(f"destiny: {self.agent}: {sentence}", file=sys.stderr, flush=True)

    def note(self, event: str, **facts: Any) -> bool:
        """An event for the file; whether there was room for it."""
        if time.monotonic() - self.since > MINUTE:
            untold, self.since, self.lines, self.untold = self.untold, time.monotonic(), 0, 0
            if untold:
                self.note("silence", why=f"{untold} further events in the last minute")
        if self.lines >= MOST:
            self.untold += 1
            return False
        self.lines += 1
        entry = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "agent": self.agent}
        entry |= {"event": event, **facts}
        self.recent = [*self.recent[-19:], entry]  # as many as a status page shows
        if self.file is not None:
            try:
                self.file.write(json.dumps(entry).encode() + b"\n")
            except OSError as error:  # a run does not end for want of a log
                self.close()
                print(f"destiny: {self.agent}: no more log: {error.strerror}", file=sys.stderr, flush=True)
        return True

    def close(self) -> None:
        """Let go of the file."""
        if self.file is not None:
            self.file.close()
            self.file = None
