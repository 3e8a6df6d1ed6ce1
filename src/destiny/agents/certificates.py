"""A certificate authority for trials and tests."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from destiny.errors import INSTALL, MissingExtraError, SettingsError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

DAYS = 30  # a test authority should not be used for longer


def _library() -> Any:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise MissingExtraError(
            f"making certificates needs cryptography: {INSTALL.format(extra='tls')}"
        ) from error
    return x509, hashes, serialization, ec


@dataclass(frozen=True)
class Authority:
    """A key that signs certificates, and its own certificate."""

    key: EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def new(cls, name: str = "DESTINY test authority", days: float = DAYS) -> Authority:
        """A new authority, with a self-signed certificate."""
        x509, _, _, ec = _library()
        key = ec.generate_private_key(ec.SECP256R1())
        own = _builder(_named(name), key, _named(name), days)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        own = own.add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        own = own.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        return cls(key, _signed(own, key))

    def issue(self, name: str, hosts: Sequence[str], days: float = DAYS) -> tuple[bytes, bytes]:
        """Certificate and key (PEM) of an agent at some hosts. With negative ``days`` it has expired."""
        x509, _, serialization, ec = _library()
        key = ec.generate_private_key(ec.SECP256R1())
        known = x509.SubjectAlternativeName([_dns_name(name), *(_host(host) for host in hosts)])
        builder = _builder(_named(name), key, self.certificate.subject, days)
        builder = builder.add_extension(known, critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(digital_signature=True), critical=True)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
        )
        encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)
        return _signed(builder, self.key).public_bytes(encoding), private

    @property
    def pem(self) -> bytes:
        """The certificate of the authority."""
        _, _, serialization, _ = _library()
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def revoked(self, certificates: Sequence[bytes]) -> bytes:
        """A revocation list (PEM)."""
        x509, hashes, serialization, _ = _library()
        now = datetime.now(UTC)
        builder = x509.CertificateRevocationListBuilder().issuer_name(self.certificate.subject)
        builder = builder.last_update(now - timedelta(hours=1)).next_update(now + timedelta(days=DAYS))
        for pem in certificates:
            serial = x509.load_pem_x509_certificate(pem).serial_number
            entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now)
            builder = builder.add_revoked_certificate(entry.build())
        signed = builder.sign(self.key, hashes.SHA256())
        return bytes(signed.public_bytes(serialization.Encoding.PEM))


def _named(name: str) -> Any:
    x509 = _library()[0]
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name[:64])])  # the format's limit


def _host(host: str) -> Any:
    x509 = _library()[0]
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return _dns_name(host)


def _dns_name(text: str) -> Any:
    x509 = _library()[0]
    try:
        return x509.DNSName(text)
    except ValueError as error:
        raise SettingsError(
            f"{text!r} cannot stand in a certificate, which has ASCII letters alone: choose another name, or "
            "write a host as xn--..."
        ) from error


def _usage(**flags: bool) -> Any:
    x509 = _library()[0]
    names = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(**{name: flags.get(name, False) for name in names})


def _builder(subject: Any, key: Any, issuer: Any, days: float) -> Any:
    x509 = _library()[0]
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    start = now - timedelta(days=max(1.0, 1 - days))  # clocks differ, and what has expired began before
    return builder.not_valid_before(start).not_valid_after(now + timedelta(days=days))


def _signed(builder: Any, key: Any) -> Any:
    hashes = _library()[1]
    return builder.sign(key, hashes.SHA256())


def check_absent(path: Path) -> None:
    """Refuse to overwrite a file."""
    if path.exists():
        raise SettingsError(f"{path} is there already: remove it, or choose another folder")


def write(path: Path, content: bytes, secret: bool = False) -> None:
    """Write a new file; a secret one is created readable by its owner alone. Refuses to overwrite."""
    check_absent(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if secret else 0o644)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from error
    with os.fdopen(number, "wb") as file:
        file.write(content)
