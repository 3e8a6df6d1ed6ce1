"""Mutual TLS 1.3 with certificates of one's own authority, read again when their files change."""

from __future__ import annotations

import errno
import hashlib
import math
import os
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from destiny.agents.transport import expiry
from destiny.errors import SettingsError

REJECTIONS = {
    "UNKNOWN_CA": "it does not know the authority that signed it",
    "CERTIFICATE_EXPIRED": "it has expired",
    "CERTIFICATE_REVOKED": "it was revoked",
    "CERTIFICATE_REQUIRED": "none was shown",
    "CERTIFICATE_UNKNOWN": "it is not accepted",
    "UNSUPPORTED_CERTIFICATE": "it is of a kind that is not supported",
    "BAD_CERTIFICATE": "it is not valid",
}  # alerts of TLS 1.3 (RFC 8446, 6.2) that are about a certificate
UNCLEAR = "perhaps it does not accept our certificate; its own log says why"
SOON = 14.0  # days before something expires from which on a warning is written, once a day


@dataclass(frozen=True)
class Files:
    """The files that prove who an agent is and say whom it believes."""

    ca: Path
    certificate: Path
    key: Path
    crl: Path | None = None

    def named(self) -> dict[str, Path]:
        """The files by their keys in [tls]."""
        found = {"ca": self.ca, "certificate": self.certificate, "key": self.key}
        return found if self.crl is None else {**found, "crl": self.crl}


@dataclass(frozen=True)
class Pin:
    """What a neighbour's certificate must be besides bearing its name: nothing more, if both are empty.

    ``authority`` is a file with the certificate that must have signed it, ``fingerprints`` has the SHA-256
    digests of the certificates that are accepted.
    """

    authority: Path | None = None
    fingerprints: frozenset[str] = frozenset()


class Credentials:
    """What [tls] and the neighbours' pins name, as last read from disk.

    Parameters
    ----------
    files : Files
    authorities : iterable of Path
        The files of the neighbours' authorities.

    Attributes
    ----------
    server, client : SSLContext
        For those who call this agent, and for calling others: both sides must show a certificate of our CA.
    authorities : dict from Path to frozenset of bytes
        The certificates of each neighbour's authority.
    expires : dict from str to float
        For each of certificate, ca and crl the time, in seconds since 1970, at which the first of it expires.
    """

    def __init__(self, files: Files, authorities: Iterable[Path] = ()) -> None:
        self.files = files
        self.pinned = sorted(set(authorities))
        self.stamps = self._stamps()
        self.changed: set[Path] = set()  # since all files could be used together
        self.warned: dict[str, int] = {}
        self.read()

    def read(self) -> None:
        """Read all files; if one cannot be used, nothing changes."""
        files = self.files
        check_key(files.key)
        server, client = (
            _context(kind, files) for kind in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
        )
        server.verify_mode = ssl.CERT_REQUIRED
        # Every connection shows its certificate anew: one revoked meanwhile is refused.
        server.num_tickets = 0
        client.check_hostname = True
        authorities = {path: frozenset(_certificates(path, "authority")) for path in self.pinned}
        expires = {name: _end(path, name) for name, path in files.named().items() if name != "key"}
        self.server, self.client, self.authorities, self.expires = server, client, authorities, expires

    def refresh(self, warn: Callable[[str], None]) -> bool:
        """Read again what has changed on disk; whether whom we believe may have changed with it.

        A file that cannot be used, half-written for instance, leaves what was read before in use.
        """
        stamps = self._stamps()
        if stamps == self.stamps:
            return False
        self.changed |= {path for path, stamp in stamps.items() if stamp != self.stamps[path]}
        self.stamps = stamps
        names = ", ".join(sorted(path.name for path in self.changed))
        try:
            self.read()
        except SettingsError as error:
            warn(f"keeps the certificates read before, as {names} changed but {error}")
            return False
        warn(f"has read {names} again")
        changed, self.changed = self.changed, set()
        return not changed <= {self.files.certificate, self.files.key}

    def warn_of_expiry(self, warn: Callable[[str], None], now: float) -> None:
        """Say what expires soon or has expired, once a day."""
        for name, days in self.days_left(now).items():
            if days < SOON and self.warned.get(name) != math.floor(days):
                self.warned[name] = math.floor(days)
                left = f"expires in {days:.1f} days" if days > 0 else "has expired"
                warn(f"[tls] {name} {self.files.named()[name].name} {left}: put a new one in its place")

    def days_left(self, now: float) -> dict[str, float]:
        """Days until certificate, ca and crl expire; below zero for what has expired."""
        return {name: (end - now) / expiry.DAY for name, end in self.expires.items()}

    def fingerprint(self) -> str:
        """Of this agent's own certificate, as neighbours may pin it."""
        return fingerprint(_certificates(self.files.certificate, "certificate")[0])

    def _stamps(self) -> dict[Path, tuple[int, int, int] | None]:
        return {path: _stamp(path) for path in (*self.files.named().values(), *self.pinned)}


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _context(kind: int, files: Files) -> ssl.SSLContext:
    context = ssl.SSLContext(kind)  # believes nobody yet, the system's authorities neither
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    for path, what in ((files.ca, "ca"), (files.crl, "crl")):
        if path is None:
            continue
        try:
            _check_whole(path)
            context.load_verify_locations(path)
        except (OSError, ValueError) as error:  # SSLError is an OSError, but its text is the better one
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


def _check_whole(path: Path) -> None:
    """Refuse a file that ends in the middle of a certificate: OpenSSL would take what is there."""
    text = path.read_bytes()
    if text.count(b"-----BEGIN ") != text.count(b"-----END "):
        raise ValueError("it ends in the middle of a certificate or list")


def _certificates(path: Path, what: str) -> list[bytes]:
    """The certificates in a PEM file, as DER."""
    try:
        _check_whole(path)
        found = [
            der for kind, der in expiry.blocks(path.read_text(encoding="ascii")) if kind == "CERTIFICATE"
        ]
    except (OSError, ValueError) as error:
        raise SettingsError(f"{what} {path} cannot be used: {_why(error)}") from error
    if not found:
        raise SettingsError(f"{what} {path} cannot be used: it holds no certificate in PEM format")
    return found


def _end(path: Path, what: str) -> float:
    """When the first certificate or list of a file expires."""
    try:
        return min(expiry.ends(path.read_text(encoding="ascii", errors="replace")))
    except (OSError, ValueError, IndexError, StopIteration) as error:
        raise SettingsError(f"[tls] {what} {path} cannot be used: {_why(error)}") from error


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


@dataclass(frozen=True)
class Shown:
    """What a peer has shown in a handshake: its certificate (DER), the names in it, and who signed it."""

    names: frozenset[str]
    certificate: bytes
    chain: Callable[[], list[bytes]]

    @classmethod
    def of(cls, secured: ssl.SSLObject) -> Shown:
        """Of a connection whose handshake is over."""
        found: dict[str, Any] = secured.getpeercert() or {}
        names = frozenset(value for kind, value in found.get("subjectAltName", ()) if kind in ("DNS", "URI"))
        return cls(names, secured.getpeercert(binary_form=True) or b"", partial(_verified_chain, secured))

    def mismatch(self, identity: str, pin: Pin, credentials: Credentials) -> str | None:
        """Why this is not the certificate of a neighbour, or None."""
        if identity not in self.names:
            return f"showed a certificate of {', '.join(sorted(self.names)) or 'nobody'}, expected {identity}"
        if pin.fingerprints and (found := fingerprint(self.certificate)) not in pin.fingerprints:
            return f"showed the certificate {found}, expected {' or '.join(sorted(pin.fingerprints))}"
        if pin.authority is not None and credentials.authorities[pin.authority].isdisjoint(self.chain()[1:]):
            return f"showed a certificate that the authority in {pin.authority.name} has not signed"
        return None


def _verified_chain(secured: Any) -> list[bytes]:
    """The peer's certificate and those that vouch for it, as OpenSSL has verified them."""
    if hasattr(secured, "get_verified_chain"):  # Python 3.13
        return list(secured.get_verified_chain())
    import _ssl

    return [one.public_bytes(_ssl.ENCODING_DER) for one in secured._sslobj.get_verified_chain()]


def fingerprint(certificate: bytes) -> str:
    """SHA-256 of a certificate (DER)."""
    return "sha256:" + hashlib.sha256(certificate).hexdigest()


def read_fingerprint(text: str, where: str) -> str:
    """A fingerprint as people write it, colons and capitals or not, in the form of `fingerprint`."""
    kind, _, digits = text.lower().partition(":")
    digits = digits.replace(":", "")
    if kind != "sha256" or len(digits) != 64 or not set(digits) <= set("0123456789abcdef"):
        raise SettingsError(f"{where} must be sha256: and 64 hexadecimal digits; found {text!r}")
    return f"{kind}:{digits}"


def spell(error: Exception) -> str:
    """An error of the network for people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        plain = (error.reason or str(error)).replace("_", " ").lower()
        return rejection(error) or plain
    if isinstance(error, ConnectionResetError):  # asyncio raises it without a number, too
        return os.strerror(errno.ECONNRESET).lower()
    number = getattr(error, "errno", None)
    return os.strerror(number).lower() if number else str(error) or type(error).__name__


def rejection(error: Exception) -> str | None:
    """If the other side sent an alert about our certificate, its words; in TLS 1.3 a caller reads it late."""
    alert = (getattr(error, "reason", None) or "").partition("_ALERT_")[2]
    return f"rejected our certificate: {REJECTIONS[alert]}" if alert in REJECTIONS else None
