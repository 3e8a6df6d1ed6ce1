"""What an agent has sent under masks, so that no restart makes it send something else for the same round."""

from __future__ import annotations

import json
import os
import secrets
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.poly1305 import Poly1305

from destiny.errors import CheckpointError
from destiny.protocols import Array

FILE = "sent.log"
KEY_BYTES = 32


class SentLog:
    """Lines that are only ever appended: weights, a tag of each round's numbers, each choice of exponents.

    Two different messages under one mask would tell their difference, the same numbers with two weights too,
    and one message under many exponents more than its sum. A line is written before what it says is sent. The
    first line names the run: masks of another run are others, so its lines are of no use. It also has the key
    of the tags, which nobody else may read: who knew it could look for other numbers of the same tag.

    Parameters
    ----------
    folder : Path
    run : str
    rounds : int
        Rounds of this run's checkpoint, which must be in the log.

    Attributes
    ----------
    before : int
        One after the last round that an earlier process has begun to send.
    begun : bool
        Whether there was a log of this run already. Without one nobody knows what was sent under a key.
    """

    def __init__(self, folder: Path, run: str, rounds: int = 0) -> None:
        self.path = folder / FILE
        self.tags: dict[int, str] = {}
        self.plans: dict[tuple[int, int], tuple[int, ...]] = {}
        self.weights: dict[int, float] = {}
        self.title = title = f"run {json.dumps(run)} "
        content = self.path.read_bytes() if self.path.exists() else b""
        lines = content.splitlines(keepends=True)
        if not lines or not lines[0].startswith(title.encode()):
            lines = []
        # A line without an end is of a crash in the middle of it: nothing was sent.
        lines = [line for line in lines if line.endswith(b"\n")]
        self.begun = len(lines) > 0
        self.key = self._read_key(lines[0][len(title) :]) if lines else secrets.token_bytes(KEY_BYTES)
        for line in lines[1:]:
            self._read(line.decode("ascii", errors="replace").split())
        self.before = max(self.tags, default=-1) + 1
        if self.before < rounds:
            raise CheckpointError(
                f"{self.path} must tell what was sent in {rounds} rounds; found {self.before}: bring it "
                "back, or let all agents start a new run"
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
            self._append(f"{self.title}{self.key.hex()}\n")
            self.has_title = True

    def _read_key(self, rest: bytes) -> bytes:
        try:
            key = bytes.fromhex(rest.decode("ascii").strip())
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise self._damage()
        return key

    def _damage(self) -> CheckpointError:
        return CheckpointError(
            f"{self.path} is damaged: all agents must start a new run, as nobody knows what was sent"
        )

    def _read(self, words: list[str]) -> None:
        try:
            if words[0] == "sent":
                self.tags[int(words[1])] = words[2]
            elif words[0] == "weight":
                self.weights[int(words[1])] = float.fromhex(words[2])
            else:
                self.plans[int(words[1]), int(words[2])] = tuple(map(int, words[3:]))
        except (IndexError, ValueError) as error:
            raise self._damage() from error

    def add_weights(self, weights: Mapping[int, float]) -> None:
        """Raise CheckpointError if an earlier process has sent with other weights to one of these receivers.

        A receiver that says it has another number of neighbours than before would have another weight, and
        the difference of what it gets under one mask is the sender's numbers.
        """
        for receiver, weight in weights.items():
            if receiver not in self.weights:
                self._write(f"weight {receiver} {weight.hex()}\n")
                self.weights[receiver] = weight
            elif self.weights[receiver] != weight:
                raise CheckpointError(
                    f"the weight of what this agent sends to agent {receiver} must be "
                    f"{self.weights[receiver]:.6g}, as before it was started again; found {weight:.6g}: one "
                    "of the two has another number of neighbours now, and masks must not be used twice; let "
                    "all agents start a new run"
                )

    def add_round(self, round: int, numbers: Array) -> None:
        """Raise CheckpointError if an earlier process has sent other numbers for this round."""
        tag = self._tag(round, numbers)
        if round not in self.tags:
            self._write(f"sent {round} {tag}\n")
            self.tags[round] = tag
        elif self.tags[round] != tag:
            raise CheckpointError(
                f"the numbers of round {round} are not those that this agent has sent before it was started "
                "again, and masks must not be used twice: run it on a machine of the same type with the same "
                "libraries, or let all agents start a new run"
            )

    def _tag(self, round: int, numbers: Array) -> str:
        """Poly1305 under a key that is this round's alone: a sixth of the time of SHA-256."""
        keyed = hmac.HMAC(self.key, hashes.SHA256())
        keyed.update(struct.pack("<Q", round))
        return Poly1305.generate_tag(keyed.finalize(), np.ascontiguousarray(numbers).data.cast("B")).hex()

    def add_plan(self, round: int, receiver: int, plan: tuple[int, ...]) -> bool:
        """Whether these are the first exponents that a receiver has chosen for a round, or the same again."""
        if (round, receiver) in self.plans:
            return self.plans[round, receiver] == plan
        self._write(f"plan {round} {receiver} {' '.join(map(str, plan))}\n")
        self.plans[round, receiver] = plan
        return True

    def _write(self, line: str) -> None:
        self.begin()
        self._append(line)

    def _append(self, line: str) -> None:
        """Write a whole line or none: of half a line, a later process believes that nothing was sent."""
        whole, written = line.encode(), 0
        try:
            while written < len(whole):  # a full disk takes a part of it at first, without an error
                written += os.write(self.file, whole[written:])
        except OSError as error:
            if written:
                os.ftruncate(self.file, os.fstat(self.file).st_size - written)
            raise CheckpointError(f"{self.path} cannot be written: {error.strerror}") from error

    def close(self) -> None:
        os.close(self.file)
