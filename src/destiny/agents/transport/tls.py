"""Mutual TLS 1.3 with a private certificate authority; files are read again when they change."""

from __future__ import annotations

import errno
import hashlib
import math
import os
import socket
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
}  # alerts of TLS 1.3 about certificates (RFC 8446, 6.2)
UNCLEAR = "perhaps it does not accept our certificate; its own log says why"
WARNING_DAYS = 14.0  # a warning is logged once a day from so many days before expiry on


@dataclass(frozen=True)
class TlsFiles:
    """The files of [tls]: authorities, own certificate and key, revocation list."""

    ca: Path
    certificate: Path
    key: Path
    crl: Path | None = None

    def by_key(self) -> dict[str, Path]:
        """The files by their keys in [tls]."""
        files = {"ca": self.ca, "certificate": self.certificate, "key": self.key}
        return files if self.crl is None else {**files, "crl": self.crl}


@dataclass(frozen=True)
class Pin:
    """Conditions on a neighbor's certificate besides its name; none if both are empty.

    ``authority`` is a file with the certificate that must have signed it, ``fingerprints`` are the SHA-256
    digests of the accepted certificates.
    """

    authority: Path | None = None
    fingerprints: frozenset[str] = frozenset()


class Credentials:
    """The contents of the files of [tls] and of the neighbors' authorities, as last read from disk.

    Parameters
    ----------
    files : TlsFiles
    authorities : iterable of Path
        The files of the neighbors' authorities.

    Attributes
    ----------
    server, client : SSLContext
        For incoming and for dialled connections: both sides must show a certificate of an authority in ca.
    authorities : dict from Path to frozenset of bytes
        The certificates of each neighbor's authority.
    expires : dict from str to float
        When the first certificate or list in certificate, ca and crl expires, in seconds since 1970.
    """

    def __init__(self, files: TlsFiles, authorities: Iterable[Path] = ()) -> None:
        self.files = files
        self.authority_paths = sorted(set(authorities))
        self.stamps = self._stamps()
        self.changed: set[Path] = set()  # files that changed since all could last be read
        self.warned_days: dict[str, int] = {}  # days left at the last warning
        self.read()

    def read(self) -> None:
        """Read all files; `SettingsError` if one cannot be used, and nothing changes."""
        files = self.files
        check_key(files.key)
        server, client = (
            _context(kind, files) for kind in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
        )
        server.verify_mode = ssl.CERT_REQUIRED
        # No session tickets: every connection shows its certificate, which may have been revoked.
        server.num_tickets = 0
        client.check_hostname = True
        authorities = {path: frozenset(read_certificates(path, "authority")) for path in self.authority_paths}
        expires = {name: _expiry(path, name) for name, path in files.by_key().items() if name != "key"}
        self.server, self.client, self.authorities, self.expires = server, client, authorities, expires

    def refresh(self, warn: Callable[[str], None]) -> bool:
        """Read files that changed on disk; whether authorities or the revocation list may have changed.

        If a file cannot be used, half-written for instance, what was read before stays in use.
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
        """Warn once a day of what expires soon or has expired."""
        for name, days in self.days_left(now).items():
            if days < WARNING_DAYS and self.warned_days.get(name) != math.floor(days):
                self.warned_days[name] = math.floor(days)
                left = f"expires in {days:.1f} days" if days > 0 else "has expired"
                warn(f"[tls] {name} {self.files.by_key()[name].name} {left}: put a new one in its place")

    def days_left(self, now: float) -> dict[str, float]:
        """Days until certificate, ca and crl expire; negative after that."""
        return {name: (end - now) / expiry.DAY for name, end in self.expires.items()}

    def fingerprint(self) -> str:
        """SHA-256 of this agent's own certificate, as neighbors may pin it."""
        return fingerprint(read_certificates(self.files.certificate, "certificate")[0])

    def _stamps(self) -> dict[Path, tuple[int, int, int] | None]:
        return {path: _stamp(path) for path in (*self.files.by_key().values(), *self.authority_paths)}


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _context(kind: int, files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(kind)  # without the system's authorities
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    for path, what in ((files.ca, "ca"), (files.crl, "crl")):
        if path is None:
            continue
        try:
            _check_whole(path)
            context.load_verify_locations(path)
        except (OSError, ValueError) as error:  # SSLError is an OSError, but its text is the better one
            raise SettingsError(f"[tls] {what} {path} cannot be used: {_error_text(error)}") from error
    if files.crl is not None:
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise SettingsError(
            f"[tls] certificate {files.certificate} with key {files.key} cannot be used: {_error_text(error)}"
        ) from error
    return context


def _check_whole(path: Path) -> None:
    """`ValueError` if a file ends in the middle of a certificate: OpenSSL would read what is there."""
    text = path.read_bytes()
    if text.count(b"-----BEGIN ") != text.count(b"-----END "):
        raise ValueError("it ends in the middle of a certificate or list")


def read_certificates(path: Path, what: str) -> list[bytes]:
    """The certificates in a PEM file, as DER."""
    try:
        _check_whole(path)
        certificates = [
            der for kind, der in expiry.blocks(path.read_text(encoding="ascii")) if kind == "CERTIFICATE"
        ]
    except (OSError, ValueError) as error:
        raise SettingsError(f"{what} {path} cannot be used: {_error_text(error)}") from error
    if not certificates:
        raise SettingsError(f"{what} {path} cannot be used: it holds no certificate in PEM format")
    return certificates


def _expiry(path: Path, what: str) -> float:
    """When the first certificate or list of a file expires."""
    try:
        return min(expiry.expiry_times(path.read_text(encoding="ascii", errors="replace")))
    except (OSError, ValueError, IndexError, StopIteration) as error:
        raise SettingsError(f"[tls] {what} {path} cannot be used: {_error_text(error)}") from error


def _no_password() -> str:
    raise ValueError("the key has a password, and nobody is there to type it: store it without")


def _error_text(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


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
class PeerCertificate:
    """The certificate (DER) of a peer, the names in it, and the chain that OpenSSL has verified."""

    names: frozenset[str]
    certificate: bytes
    chain: Callable[[], list[bytes]]

    @classmethod
    def of(cls, secured: ssl.SSLObject) -> PeerCertificate:
        """The peer's certificate on a connection whose handshake is done."""
        facts: dict[str, Any] = secured.getpeercert() or {}
        names = frozenset(value for kind, value in facts.get("subjectAltName", ()) if kind in ("DNS", "URI"))
        return cls(names, secured.getpeercert(binary_form=True) or b"", partial(_verified_chain, secured))

    def mismatch(self, identity: str, pin: Pin, credentials: Credentials) -> str | None:
        """Why this is not the certificate of the neighbor with that identity and pin, or None."""
        if identity not in self.names:
            return f"showed a certificate of {', '.join(sorted(self.names)) or 'nobody'}, expected {identity}"
        if pin.fingerprints and (digest := fingerprint(self.certificate)) not in pin.fingerprints:
            return f"showed the certificate {digest}, expected {' or '.join(sorted(pin.fingerprints))}"
        if pin.authority is not None and credentials.authorities[pin.authority].isdisjoint(self.chain()[1:]):
            return f"showed a certificate that the authority in {pin.authority.name} has not signed"
        return None


def _verified_chain(secured: Any) -> list[bytes]:
    """The peer's certificate and those that signed it, as OpenSSL has verified them."""
    if hasattr(secured, "get_verified_chain"):  # Python 3.13
        return list(secured.get_verified_chain())
    import _ssl

    return [one.public_bytes(_ssl.ENCODING_DER) for one in secured._sslobj.get_verified_chain()]


def fingerprint(certificate: bytes) -> str:
    """SHA-256 of a certificate (DER)."""
    return "sha256:" + hashlib.sha256(certificate).hexdigest()


def read_fingerprint(text: str, where: str) -> str:
    """A fingerprint, with or without colons and capitals, in the form of `fingerprint`."""
    kind, _, digits = text.lower().partition(":")
    digits = digits.replace(":", "")
    if kind != "sha256" or len(digits) != 64 or not set(digits) <= set("0123456789abcdef"):
        raise SettingsError(f"{where} must be sha256: and 64 hexadecimal digits; found {text!r}")
    return f"{kind}:{digits}"


def describe_error(error: Exception) -> str:
    """A network error in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        plain = (error.reason or str(error)).replace("_", " ").lower()
        return rejection_reason(error) or plain
    if isinstance(error, socket.gaierror):  # its numbers are not those of the system's errors
        return f"its name cannot be resolved: {error.strerror or error}"
    if isinstance(error, ConnectionResetError):  # asyncio raises it without a number, too
        return os.strerror(errno.ECONNRESET).lower()
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number).lower() if number else str(error) or type(error).__name__


def rejection_reason(error: Exception) -> str | None:
    """What the peer's TLS alert says about our certificate, or None.

    In TLS 1.3 the side that dialled reads it after its own handshake is done.
    """
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    alert = (reason or "").partition("_ALERT_")[2]
    return f"rejected our certificate: {REJECTIONS[alert]}" if alert in REJECTIONS else None
