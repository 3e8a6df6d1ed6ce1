"""Masks that cancel in a sum, and look like random numbers to all others.

For agent i and two of its neighbours j < k, who share a secret (X25519): j adds a mask to what it sends to i,
and k subtracts it. In totals over all agents the two ends of every link do so. A mask is a part of the key
stream of AES-256 in counter mode: the key is that of the pair and a set of exponents, the first counter is
that of the round and the attempt, so no part is used for anything else.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from destiny.agents import certificates
from destiny.agents.transport.messages import Refusal
from destiny.agents.transport.tls import check_key
from destiny.engines.fixed_point import Integers
from destiny.errors import CheckpointError

PURPOSE = b"destiny private sums 1"
FILE = "private-sums.key"
ALL = 2**64 - 1  # in place of the receiver: all agents add up what is masked
FIRST = struct.Struct(">QII")  # the first counter of a mask: round, attempt, 0; 2^32 blocks are 64 GB
KEPT = 16  # sets of exponents whose ciphers are kept: more than the messages of a step have
Words = NDArray[np.uint64]


@dataclass(frozen=True)
class RunKey:
    """The key of this agent for one run (X25519)."""

    private: X25519PrivateKey

    @classmethod
    def new(cls) -> RunKey:
        return cls(X25519PrivateKey.generate())

    @classmethod
    def keep(cls, folder: Path, begun: bool, sent: bool) -> RunKey:
        """The key in a folder, readable by its owner alone; a new one where the run has not begun.

        A run that has sent numbers cannot go on with another key, as its masks would not cancel. A key of
        which there is no log is not used again: nobody knows what was sent under its masks, by an earlier
        run of the same name for instance.

        Parameters
        ----------
        begun : bool
            Whether there is a log of this run.
        sent : bool
            Whether numbers of this run were sent.
        """
        path = folder / FILE
        if not begun:
            path.unlink(missing_ok=True)
        if path.exists():
            check_key(path)
            raw = path.read_bytes()
            if len(raw) != 32:
                raise CheckpointError(f"{path} is damaged: all agents must start a new run")
            return cls(X25519PrivateKey.from_private_bytes(raw))
        if sent:
            raise CheckpointError(
                f"{path} is missing, and masks of another key would not cancel: bring it back, or let all "
                "agents start a new run"
            )
        key = cls.new()
        certificates.write(path, key.private.private_bytes_raw(), secret=True)
        return key

    @property
    def public(self) -> bytes:
        """The key to tell others."""
        return self.private.public_key().public_bytes_raw()

    def pair(self, other: bytes, run: str, receiver: int, own: int, theirs: int) -> bytes:
        """The secret of this agent and another about what both send to a receiver, or contribute to `ALL`."""
        try:
            secret = self.private.exchange(X25519PublicKey.from_public_bytes(other))
        except ValueError as error:  # a point of small order
            raise Refusal(f"passed on a key of agent {theirs} that cannot be used") from error
        who = struct.pack("<QQQ", receiver, min(own, theirs), max(own, theirs))
        info = PURPOSE + b"\0" + who + run.encode()
        return HKDF(hashes.SHA256(), 32, None, info).derive(secret)


@dataclass(frozen=True)
class Masks:
    """What this agent adds to its messages to one receiver, or to its part of a total.

    Parameters
    ----------
    own : int
        This agent.
    pairs : mapping from int to bytes
        The secrets with the other neighbours of the receiver, or with its own, by their index.
    """

    own: int
    pairs: Mapping[int, bytes] = field(repr=False)
    streams: dict[int, bytearray] = field(default_factory=dict, repr=False, compare=False)
    """Memory for a mask, by its size, which all masks of an agent may share: fresh memory is slow."""
    ciphers: dict[bytes, list[tuple[np.ufunc, CipherContext]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """By exponents, whether the mask of each pair is added or subtracted, and what makes it."""

    def add(self, numbers: Integers, round: int, attempt: int, exponents: Sequence[int] | Integers) -> Words:
        """The numbers as they travel: modulo 2^64, with the masks of all pairs."""
        masked: Words = numbers.astype(np.int64).view(np.uint64)
        self.add_to(masked, round, attempt, exponents)
        return masked

    def add_to(self, words: Words, round: int, attempt: int, exponents: Sequence[int] | Integers) -> None:
        """Add the masks of all pairs to words, in place."""
        size = words.nbytes
        if (stream := self.streams.get(size)) is None:
            self.streams[size] = stream = bytearray(size + 15)
        mask, zeros = np.frombuffer(stream, dtype="<u8", count=words.size), _zeros(size)
        first = FIRST.pack(round, attempt, 0)
        for add, cipher in self._ciphers(struct.pack(f"<{len(exponents)}q", *exponents)):
            cipher.reset_nonce(first)
            cipher.update_into(zeros, stream)
            add(words, mask, out=words)

    def _ciphers(self, exponents: bytes) -> list[tuple[np.ufunc, CipherContext]]:
        if (found := self.ciphers.get(exponents)) is None:
            if len(self.ciphers) >= KEPT:
                self.ciphers.clear()
            self.ciphers[exponents] = found = [
                (np.add if self.own < other else np.subtract, _cipher(secret, exponents))
                for other, secret in self.pairs.items()
            ]
        return found


def _cipher(secret: bytes, exponents: bytes) -> CipherContext:
    """AES-256-CTR under the key of a pair for these exponents."""
    keyed = hmac.HMAC(secret, hashes.SHA256())
    keyed.update(exponents)
    return Cipher(algorithms.AES256(keyed.finalize()), modes.CTR(FIRST.pack(0, 0, 0))).encryptor()


@cache
def _zeros(size: int) -> bytes:
    return bytes(size)
