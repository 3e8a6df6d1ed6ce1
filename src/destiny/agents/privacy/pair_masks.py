"""Masks between pairs of agents, which cancel in the total over all agents and in no other sum.

Each pair of agents shares a secret (X25519). In every sum the agent with the lower index adds a mask to its
words, and the other agent subtracts the same mask. A mask is the key stream of AES-256 in counter mode. Its
key is derived from the secret of the pair and from the past, a digest of everything that was agreed so far.
Masks of agents with different pasts do not cancel, and their total is random.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from destiny.agents.transport.messages import Refusal
from destiny.engines.words import WORD, Words, add_into, subtract_from

PURPOSE = b"destiny pair masks 1"
GRAPH = b"destiny mask graph 1"
PAST = b"destiny past 1"
ALL_PAIRS = 256  # agents up to which every pair has masks: nobody can influence who has any with whom
CYCLES = 10  # more than log2 of the number of agents: 20 partners
PIECE = 48 * 1024  # bytes of a mask made at a time, whole wide words: it stays in the cache of a core
ZEROS = bytes(PIECE)


@dataclass(frozen=True)
class PairMasks:
    """The masks that one agent adds to its words.

    Parameters
    ----------
    own : int
        Index of this agent.
    secrets : mapping from int to bytes
        The secrets that it shares with its partners (`pair_secret`), by their index.
    """

    own: int
    secrets: Mapping[int, bytes] = field(repr=False)

    def add_to(self, words: Words, past: bytes) -> None:
        """Add the masks of all pairs to narrow words ``(k,)`` or wide words ``(k, 6)``, in place.

        Parameters
        ----------
        past : bytes
            Digest of what was agreed before this sum (`Past`). Words of two sums under one past reveal their
            difference.
        """
        stream = bytearray(PIECE + 15)  # update_into asks for 15 bytes more
        masks = np.frombuffer(stream, dtype=WORD, count=PIECE // WORD.itemsize).reshape(-1, *words.shape[1:])
        for other, secret in self.secrets.items():
            apply = add_into if self.own < other else subtract_from
            key = hmac.digest(secret, past, "sha256")
            cipher = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
            for start in range(0, len(words), len(masks)):
                piece = words[start : start + len(masks)]
                cipher.update_into(ZEROS[: piece.nbytes], stream)
                apply(piece, masks[: len(piece)])


def pair_secret(own_private: X25519PrivateKey, other_public: bytes, run: str, own: int, other: int) -> bytes:
    """The 32 bytes that this agent and another one share in a run; raises `Refusal` if the key is none."""
    try:
        secret = own_private.exchange(X25519PublicKey.from_public_bytes(other_public))
    except ValueError as error:  # not 32 bytes, or a point of small order
        raise Refusal(f"passed on a key of agent {other} that cannot be used") from error
    info = PURPOSE + b"\0" + struct.pack("<QQ", min(own, other), max(own, other)) + run.encode()
    return HKDF(hashes.SHA256(), 32, None, info).derive(secret)


def partners(count: int, seed: bytes, own: int) -> list[int]:
    """The agents with which an agent has masks, in order; the same graph at every agent with this seed.

    Up to 256 agents these are all other agents. Above, the graph is the union of ceil(log2(count)) + 10
    random cycles through all agents: about 2 log2(count) + 20 partners each (after Bell, Bonawitz, Gascon,
    Lepoint and Raykova, CCS 2020).

    Colluding agents learn only the total of the honest agents if the graph of the honest agents is connected.
    If half of the agents collude, chosen before the graph is drawn, it falls apart with a probability below
    2^-27; if a third collude, below 2^-47. Agents that collude afterwards can single out an agent whose
    partners they all are. The last agent to choose its statement can try many seeds.

    Parameters
    ----------
    count : int
        Number of agents.
    seed : bytes
        Hash of the statements of all agents.
    own : int
        Index of the agent.
    """
    if count <= ALL_PAIRS:
        return [agent for agent in range(count) if agent != own]
    cycles = (count - 1).bit_length() + CYCLES
    drawn = hashlib.shake_256(GRAPH + b"\0" + struct.pack("<Q", count) + seed).digest(8 * cycles * count)
    found = set()
    for numbers in np.frombuffer(drawn, dtype=WORD).reshape(cycles, count):
        order = np.argsort(numbers, kind="stable").tolist()
        place = order.index(own)
        found |= {order[place - 1], order[(place + 1) % count]}
    return sorted(found)


class Past:
    """A digest of everything agreed so far, which is another one after every sum.

    Parameters
    ----------
    facts : bytes
        What agents agreed on before the first sum: statements, settings, plan.

    Attributes
    ----------
    digest : bytes
        32 bytes (SHA-256). They are all there is to keep for a restart.
    """

    def __init__(self, *facts: bytes) -> None:
        self.digest = hashlib.sha256(PAST).digest()
        for fact in facts:
            self.add(fact)

    @classmethod
    def resume(cls, digest: bytes) -> Past:
        """The past with a digest that was kept."""
        past = cls()
        past.digest = digest
        return past

    def add(self, total: bytes | memoryview) -> None:
        """Add the total of a sum."""
        digest = hashlib.sha256(self.digest)
        digest.update(total)
        self.digest = digest.digest()
