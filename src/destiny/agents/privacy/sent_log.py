"""What an agent has sent under masks, so that no restart makes it send something else for the same sum."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from destiny.engines.words import Words
from destiny.errors import CheckpointError

FILE = "sent.log"


class SentLog:
    """A line for each sum, only ever appended: its turn, and a digest of the masked words.

    Two different messages under one mask would reveal their difference. A line is written before what it says
    is sent. The first line names the run: masks of another run are others, so its lines are of no use.

    Parameters
    ----------
    folder : Path
    run : str
    turns : int
        Turns of this run's checkpoint, which must be in the log.

    Attributes
    ----------
    end : int
        One after the last sum that an earlier process has begun to send.
    begun : bool
        Whether there was a log of this run already. Without one nobody knows what was sent under a key.
    """

    def __init__(self, folder: Path, run: str, turns: int = 0) -> None:
        self.path = folder / FILE
        self.title = f"run {json.dumps(run)}\n"
        content = self.path.read_bytes() if self.path.exists() else b""
        lines = content.splitlines(keepends=True)
        if not lines or lines[0] != self.title.encode():
            lines = []
        # A line without an end is of a crash in the middle of it: nothing was sent.
        lines = [line for line in lines if line.endswith(b"\n")]
        self.begun = len(lines) > 0
        self.digests = dict(self._read(line) for line in lines[1:])
        self.end = max(self.digests, default=-1) + 1
        if self.end < turns:
            raise CheckpointError(
                f"{self.path} must tell what was sent in {turns} turns; found {self.end}: bring it back, or "
                "let all agents start a new run"
            )
        self.has_title = self.begun
        try:
            self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            if (length := sum(map(len, lines))) < len(content):  # nothing of an agent that runs already
                os.ftruncate(self.file, length)
        except OSError as error:
            raise CheckpointError(f"{self.path} cannot be written: {error.strerror}") from error

    def begin(self) -> None:
        """Write the first line if there is none, once the run has a key of which there was no log before."""
        if not self.has_title:
            self._append(self.title)
            self.has_title = True

    def _read(self, line: bytes) -> tuple[int, str]:
        try:
            turn, digest = line.decode("ascii").split()
            return int(turn), digest
        except ValueError as error:
            raise CheckpointError(
                f"{self.path} is damaged: all agents must start a new run, as nobody knows what was sent"
            ) from error

    def add(self, turn: int, parts: Sequence[Words]) -> None:
        """Raise CheckpointError if an earlier process has sent other words in this turn."""
        whole = hashlib.sha256()
        for words in parts:
            whole.update(words.data)
        digest = whole.hexdigest()
        if turn not in self.digests:
            self._append(f"{turn} {digest}\n")
            self.digests[turn] = digest
        elif self.digests[turn] != digest:
            raise CheckpointError(
                f"what this agent would send in turn {turn} is not what it has sent before it was started "
                "again, and masks must not be used twice: run it on a machine of the same type with the same "
                "libraries, data and settings, or let all agents start a new run"
            )

    def _append(self, line: str) -> None:
        """Write a whole line or none: of half a line, a later process believes that nothing was sent."""
        whole, written = line.encode(), 0
        try:
            while written < len(whole):  # a full disk takes a part of it at first, without an error
                written += os.write(self.file, whole[written:])
            os.fsync(self.file)
        except OSError as error:
            if written:
                os.ftruncate(self.file, os.fstat(self.file).st_size - written)
            raise CheckpointError(f"{self.path} cannot be written: {error.strerror}") from error

    def close(self) -> None:
        os.close(self.file)
