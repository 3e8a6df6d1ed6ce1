"""Mutual TLS 1.3 with certificates of one's own authority, and who a certificate says somebody is."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from destiny.errors import SettingsError


@dataclass(frozen=True)
class Files:
    """The files that prove who an agent is and say whom it believes."""

    ca: Path
    certificate: Path
    key: Path
    crl: Path | None = None


def contexts(files: Files) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For those who call this agent, and for calling others: both sides must show a certificate of our CA."""
    check_key(files.key)
    server, client = (_context(kind, files) for kind in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT))
    server.verify_mode = ssl.CERT_REQUIRED
    server.num_tickets = 0  # every connection shows its certificate anew: one revoked meanwhile is refused
    client.check_hostname = True
    return server, client


def _context(kind: int, files: Files) -> ssl.SSLContext:
    context = ssl.SSLContext(kind)  # believes nobody yet, the system's authorities neither
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    for path, what in ((files.ca, "ca"), (files.crl, "crl")):
        if path is None:
            continue
        try:
            context.load_verify_locations(path)
        except (OSError, ssl.SSLError) as error:  # SSLError is an OSError, but its text is the better one
            raise SettingsError(f"[tls] {what} {path} cannot be used: {_why(error)}") from error
    if files.crl is not None:
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise SettingsError(
            f"[tls] certificate {files.certificate} with key {files.key} cannot be used: {_why(error)}"
        ) from error
    return context


def _no_password() -> str:
    raise ValueError("the key has a password, and nobody is there to type it: store it without")


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def check_key(key: Path) -> None:
    """Refuse a private key that others on this machine may read."""
    try:
        mode = key.stat().st_mode & 0o777
    except OSError as error:
        raise SettingsError(f"[tls] key {key} cannot be used: {error.strerror}") from error
    if os.name == "posix" and mode & 0o077:
        raise SettingsError(
            f"[tls] key {key} must be readable by its owner alone; found mode {mode:03o}: chmod 600 it, and "
            "ask for a new certificate if others may have read it"
        )


def identities(certificate: dict[str, Any] | None) -> frozenset[str]:
    """The names a verified certificate stands for: its DNS and URI alternative names."""
    names = (certificate or {}).get("subjectAltName", ())
    return frozenset(value for kind, value in names if kind in ("DNS", "URI"))
