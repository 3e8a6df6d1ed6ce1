"""The messages between agents: a fixed header, then JSON or plain float64 numbers.

Nothing here touches a socket. Memory for a message is allocated only after its header was checked.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from enum import IntEnum
from typing import Any

import numpy as np

from destiny.errors import DestinyError
from destiny.protocols import Array
from destiny.validation import is_whole

HEADER = struct.Struct("<4sBBHQQQ")  # magic, protocol, kind, zero, round, mark, length
MAGIC, PROTOCOL = b"DSTY", 2
MAX_JSON = 8192  # bytes; a HELLO with all settings of a run takes about 1000
MAX_STATEMENT = 2**16  # bytes of a STATEMENT: several certificates of RSA keys, and neighbors
MAX_REASON = 500  # characters of a peer's reason
MAX_TEXT = 100  # characters of a peer's name or value; names in files have no more
MAX_DEPTH = 8  # of nested tables and lists; settings have two


def sanitize(text: object, most: int = MAX_TEXT) -> str:
    """Text from a peer, safe for a log or a terminal: one printable line of at most ``most`` characters."""
    whole = str(text)
    shown = "".join(c if c.isprintable() else "?" for c in whole[:most])
    return shown if len(whole) <= most else shown[:-3] + "..."


class Refusal(DestinyError):
    """A peer or a message is not accepted; the text says why, and is safe to show."""

    def __init__(self, why: str) -> None:
        super().__init__(sanitize(why, MAX_REASON))


class Kind(IntEnum):
    """The kinds of messages."""

    HELLO = 1
    """Name, run and settings of the sender, and the round it needs first."""
    DATA = 2
    """The numbers of a round."""
    REFUSED = 3
    """Why the sender closes the connection."""
    BYE = 4
    """The sender has its answer, or ends the run without one."""
    STATEMENT = 5
    """What an agent tells all others once: its neighbors, and in private runs its public key, signed."""
    STATE = 6
    """The newest numbers of an agent without rounds, which replace all earlier ones."""


KINDS = frozenset(Kind)
JSON = frozenset({Kind.HELLO, Kind.REFUSED, Kind.BYE, Kind.STATEMENT})


@dataclass(frozen=True)
class Header:
    """The header of a message. ``mark``: the sender never needs a round before it again."""

    kind: Kind
    round: int
    mark: int
    length: int

    def pack(self) -> bytes:
        """The header as bytes."""
        return HEADER.pack(MAGIC, PROTOCOL, self.kind, 0, self.round, self.mark, self.length)

    @classmethod
    def unpack(cls, raw: bytes | bytearray | memoryview) -> Header:
        """Read a header; `Refusal` if no agent sends such. The length of DATA is not checked here."""
        magic, protocol, kind, zero, round, mark, length = HEADER.unpack(raw)
        if magic != MAGIC:
            raise Refusal(f"sent bytes that are no message: expected {MAGIC!r}, found {magic!r}")
        if protocol != PROTOCOL:
            raise Refusal(f"speaks protocol {protocol}, expected {PROTOCOL}")
        if kind not in KINDS or zero != 0:
            raise Refusal(f"sent a message of unknown kind {kind}")
        most = MAX_STATEMENT if kind == Kind.STATEMENT else MAX_JSON
        if kind in JSON and length > most:
            raise Refusal(f"announced {length} bytes for {Kind(kind).name}, expected at most {most}")
        return cls(Kind(kind), round, mark, length)


class Reader:
    """Assembles messages from bytes, in whatever pieces they arrive.

    Parameters
    ----------
    allocate : callable
        Returns the memory for the message of a header, of the length in the header; or raises `Refusal`.
    """

    def __init__(self, allocate: Callable[[Header], memoryview]) -> None:
        self.allocate = allocate
        self.header_buffer = memoryview(bytearray(HEADER.size))
        self.reset()

    def reset(self) -> None:
        """Expect the next header."""
        self.header: Header | None = None
        self.target, self.filled = self.header_buffer, 0

    def buffer(self) -> memoryview:
        """Memory for the next bytes; never empty."""
        return self.target[self.filled :]

    def advance(self, count: int) -> tuple[Header, memoryview] | None:
        """Count bytes that were written to `buffer`; header and content if they complete a message."""
        self.filled += count
        if self.filled < len(self.target):
            return None
        if self.header is None:
            self.header = Header.unpack(self.header_buffer)
            self.target, self.filled = self.allocate(self.header), 0
            if len(self.target):
                return None
        message = self.header, self.target
        self.reset()
        return message


def is_finite(numbers: Array) -> bool:
    """Whether no number is NaN or infinite. A finite sum shows it at half the cost; a sum may overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.add.reduce(numbers)) or np.isfinite(numbers).all())


def encode_json(kind: Kind, table: dict[str, Any], mark: int = 0) -> bytes:
    """A message with JSON content."""
    text = json.dumps(table).encode()
    return Header(kind, 0, mark, len(text)).pack() + text


def decode_json(raw: bytes | memoryview) -> dict[str, Any]:
    """The JSON table in a message; `Refusal` if it is not one, or nested too deeply."""
    try:
        table = json.loads(bytes(raw), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"sent words that are no JSON ({type(error).__name__})") from error
    if not isinstance(table, dict):
        raise Refusal(f"sent JSON that is no table but {type(table).__name__}")
    if not _is_shallow(table, MAX_DEPTH):
        raise Refusal(f"sent JSON with more than {MAX_DEPTH} tables and lists inside each other")
    return table


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise Refusal("sent JSON in which a name stands twice")
    return table


def _is_shallow(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels >= 0 and all(_is_shallow(each, levels - 1) for each in inner)


def read_reason(raw: bytes | memoryview) -> str:
    """The reason in a BYE or REFUSED, safe to show."""
    return sanitize(decode_json(raw).get("why", ""), MAX_REASON)


@dataclass(frozen=True)
class Hello:
    """The first message of either side. ``need``: the first round that the sender lacks from the receiver."""

    agent: str
    index: int
    run: str
    version: str
    digest: str
    settings: dict[str, Any]
    degree: int
    need: int

    def pack(self, mark: int = 0) -> bytes:
        """The message as bytes."""
        return encode_json(Kind.HELLO, asdict(self), mark)

    @classmethod
    def unpack(cls, raw: bytes | memoryview) -> Hello:
        """Read a HELLO; `Refusal` unless it has exactly these entries, of the right types."""
        table = decode_json(raw)
        texts, counts = ("agent", "run", "version", "digest"), ("index", "degree", "need")
        if (
            set(table) != {f.name for f in fields(cls)}
            or not all(isinstance(table[name], str) and len(table[name]) <= MAX_TEXT for name in texts)
            or not all(is_whole(table[name]) and 0 <= table[name] < 2**63 for name in counts)
            or not isinstance(table["settings"], dict)
        ):
            raise Refusal("sent a HELLO without the right entries")
        return cls(**table)
