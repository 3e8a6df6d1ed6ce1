"""What travels between agents: a fixed header, then words as JSON or float64 numbers as they are.

Nothing here touches a socket. Whatever a peer sends, memory is taken only after its header was checked
against what is expected of it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from enum import IntEnum
from typing import Any

import numpy as np

from destiny.errors import DestinyError, is_whole
from destiny.protocols import Array

HEADER = struct.Struct("<4sBBHQQQ")  # magic, protocol, kind, nothing, round, mark, length
MAGIC, PROTOCOL = b"DSTY", 1
WORDS = 8192  # bytes of JSON at most; a HELLO with all settings of a run takes about 1000
REASON = 500  # letters of a reason that are passed on
LETTERS = 100  # of a name or a value of a peer's that are shown; names in files have no more
LEVELS = 8  # of tables and lists inside each other; settings have two


def sanitise(text: object, most: int = LETTERS) -> str:
    """Text of a peer's, safe for a log or a terminal: one line, printable, at most so many letters."""
    whole = str(text)
    shown = "".join(c if c.isprintable() else "?" for c in whole[:most])
    return shown if len(whole) <= most else shown[:-3] + "..."


class Refused(DestinyError):
    """A peer, or something it sent, that is not accepted; the text says why, and is safe to show."""

    def __init__(self, why: str) -> None:
        super().__init__(sanitise(why, REASON))


class Kind(IntEnum):
    """What a message is."""

    HELLO = 1
    """Who speaks, for which run, what is needed."""
    DATA = 2
    """A round's numbers."""
    REFUSED = 3
    """Why the connection ends."""
    BYE = 4
    """The run is over for the sender."""


@dataclass(frozen=True)
class Header:
    """The first bytes of a message, checked. ``mark``: the sender needs no round before it again."""

    kind: Kind
    round: int
    mark: int
    length: int

    def pack(self) -> bytes:
        """As it travels."""
        return HEADER.pack(MAGIC, PROTOCOL, self.kind, 0, self.round, self.mark, self.length)

    @classmethod
    def unpack(cls, raw: bytes | bytearray | memoryview) -> Header:
        """Refuses what no agent sends; the length is checked by whoever knows what is due."""
        magic, protocol, kind, nothing, round, mark, length = HEADER.unpack(raw)
        if magic != MAGIC:
            raise Refused(f"sent bytes that are no message: expected {MAGIC!r}, found {magic!r}")
        if protocol != PROTOCOL:
            raise Refused(f"speaks protocol {protocol}, expected {PROTOCOL}")
        if kind not in Kind.__members__.values() or nothing != 0:
            raise Refused(f"sent a message of unknown kind {kind}")
        if kind != Kind.DATA and length > WORDS:
            raise Refused(f"announced {length} bytes for {Kind(kind).name}, expected at most {WORDS}")
        return cls(Kind(kind), round, mark, length)


class Reader:
    """Messages out of bytes as they come, however they are cut.

    Parameters
    ----------
    room : callable
        Given a checked header, the memory its message may fill, as long as the header says; or it raises
        `Refused`.
    """

    def __init__(self, room: Callable[[Header], memoryview]) -> None:
        self.room = room
        self.first = memoryview(bytearray(HEADER.size))
        self.start()

    def start(self) -> None:
        """Wait for the next header."""
        self.header: Header | None = None
        self.target, self.have = self.first, 0

    def buffer(self) -> memoryview:
        """Where the next bytes belong; never empty."""
        return self.target[self.have :]

    def filled(self, count: int) -> tuple[Header, memoryview] | None:
        """So many bytes have come; the message, once it is whole."""
        self.have += count
        if self.have < len(self.target):
            return None
        if self.header is None:
            self.header = Header.unpack(self.first)
            self.target, self.have = self.room(self.header), 0
            if len(self.target):
                return None
        whole = self.header, self.target
        self.start()
        return whole


def finite(numbers: Array) -> bool:
    """Whether there is neither NaN nor infinity: their sum tells at half the cost, unless it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.add.reduce(numbers)) or np.isfinite(numbers).all())


def words(kind: Kind, table: dict[str, Any], mark: int = 0) -> bytes:
    """A message of words."""
    text = json.dumps(table).encode()
    return Header(kind, 0, mark, len(text)).pack() + text


def parse(raw: bytes | memoryview) -> dict[str, Any]:
    """The table in a message of words."""
    try:
        table = json.loads(bytes(raw), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise Refused(f"sent words that are no JSON ({type(error).__name__})") from error
    if not isinstance(table, dict):
        raise Refused(f"sent JSON that is no table but {type(table).__name__}")
    if not _is_shallow(table, LEVELS):
        raise Refused(f"sent JSON with more than {LEVELS} tables and lists inside each other")
    return table


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise Refused("sent JSON in which a name stands twice")
    return table


def _is_shallow(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels >= 0 and all(_is_shallow(each, levels - 1) for each in inner)


def reason(raw: bytes | memoryview) -> str:
    """Why a peer ends the connection or the run, safe to show."""
    return sanitise(parse(raw).get("why", ""), REASON)


@dataclass(frozen=True)
class Hello:
    """The first message of either side. ``need``: the first round it lacks from the one it speaks to."""

    agent: str
    index: int
    run: str
    version: str
    digest: str
    settings: dict[str, Any]
    degree: int
    need: int

    def pack(self, mark: int = 0) -> bytes:
        """As it travels."""
        return words(Kind.HELLO, asdict(self), mark)

    @classmethod
    def unpack(cls, raw: bytes | memoryview) -> Hello:
        """Refuses anything but exactly these entries, of the right types."""
        table = parse(raw)
        texts, counts = ("agent", "run", "version", "digest"), ("index", "degree", "need")
        if (
            set(table) != {f.name for f in fields(cls)}
            or not all(isinstance(table[name], str) and len(table[name]) <= LETTERS for name in texts)
            or not all(is_whole(table[name]) and 0 <= table[name] < 2**63 for name in counts)
            or not isinstance(table["settings"], dict)
        ):
            raise Refused("sent a HELLO without the right entries")
        return cls(**table)
