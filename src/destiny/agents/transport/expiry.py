"""When certificates and revocation lists expire, read from their PEM files (X.509, RFC 5280)."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from datetime import UTC, datetime

DAY = 86400.0
BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s*?\n(.*?)-----END \1-----", re.DOTALL)
SEQUENCE, UTC_TIME, GENERAL_TIME = 0x30, 0x17, 0x18
TIMES = (UTC_TIME, GENERAL_TIME)
NEVER = float("inf")


def blocks(text: str) -> Iterator[tuple[str, bytes]]:
    """Kind and content (DER) of each block of a PEM file."""
    for kind, content in BLOCK.findall(text):
        yield kind, base64.b64decode("".join(content.split()))


def expiry_times(text: str) -> list[float]:
    """When each certificate and list of a PEM file expires, in seconds since 1970."""
    return [expiry_time(der) for kind, der in blocks(text) if kind in ("CERTIFICATE", "X509 CRL")] or [NEVER]


def expiry_time(der: bytes) -> float:
    """When a certificate or list expires: the second time in it; `NEVER` for a list without one.

    Both begin with the signed part, whose fields are a version, numbers, names and times; the times of a
    certificate are in a sequence of their own.
    """
    (_, signed), *_ = fields(next(fields(der))[1])
    times: list[float] = []
    for tag, content in fields(signed):
        if tag in TIMES:
            times.append(_time(tag, content))
        elif tag == SEQUENCE and content[:1] and content[0] in TIMES:
            times += [_time(*field) for field in fields(content)]
    return times[1] if len(times) > 1 else NEVER


def fields(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each part of a DER value."""
    at = 0
    while at < len(der):
        tag, length, at = der[at], der[at + 1], at + 2
        if length & 0x80:  # the length itself takes so many bytes
            size = length & 0x7F
            length, at = int.from_bytes(der[at : at + size]), at + size
        yield tag, der[at : at + length]
        at += length


def _time(tag: int, content: bytes) -> float:
    text = content.decode("ascii")
    if tag == UTC_TIME:  # two digits of the year: 1950 to 2049
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
