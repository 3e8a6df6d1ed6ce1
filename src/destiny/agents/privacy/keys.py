"""Statements of private runs: each agent signs its key and its neighbors, and all pass them on.

The modules of this folder need the package cryptography.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.x509 import verification

from destiny.agents.transport.messages import MAX_TEXT, Refusal
from destiny.errors import SettingsError

PURPOSE = b"destiny key statement 2"  # signed along: no other signature of a certificate's key will do
KEY = 32  # bytes of an X25519 key
CHAIN = 8  # certificates of a statement at most
PADDING = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH)  # of RSA signatures
EXTENSIONS = {
    "2.5.29.14": "subjectKeyIdentifier",
    "2.5.29.15": "keyUsage",
    "2.5.29.17": "subjectAltName",
    "2.5.29.19": "basicConstraints",
    "2.5.29.35": "authorityKeyIdentifier",
    "2.5.29.37": "extendedKeyUsage",
}
DEPTH = 4  # authorities between a certificate and one that is believed


@dataclass(frozen=True)
class Statement:
    """Who has which public key and which neighbors in a run, signed with the key of its certificate.

    Attributes
    ----------
    run, name, index
        The run, and the agent in it.
    key : bytes
        Its public key for the run (X25519).
    links : tuple of int
        Its neighbors.
    chain : tuple of bytes
        Its certificate and those that vouch for it (DER).
    signature : bytes
    """

    run: str
    name: str
    index: int
    key: bytes
    links: tuple[int, ...]
    chain: tuple[bytes, ...]
    signature: bytes

    @classmethod
    def sign(
        cls,
        run: str,
        name: str,
        index: int,
        key: bytes,
        links: Sequence[int],
        chain: Sequence[bytes],
        private: Path,
    ) -> Statement:
        """Make and sign a statement with the private key in a PEM file."""
        try:
            signer = serialization.load_pem_private_key(private.read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise SettingsError(f"[tls] key {private} cannot be used to sign: {error}") from error
        signed = _signed_bytes(run, name, index, key, links)
        if isinstance(signer, ec.EllipticCurvePrivateKey):
            signature = signer.sign(signed, ec.ECDSA(hashes.SHA256()))
        elif isinstance(signer, rsa.RSAPrivateKey):
            signature = signer.sign(signed, PADDING, hashes.SHA256())
        elif isinstance(signer, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey):
            signature = signer.sign(signed)
        else:
            raise SettingsError(
                f"[tls] key {private} must be an ECDSA, RSA or Ed25519 key; found {type(signer).__name__}"
            )
        return cls(run, name, index, key, tuple(links), tuple(chain), signature)

    def table(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "name": self.name,
            "index": self.index,
            "key": _text(self.key),
            "links": list(self.links),
            "chain": [_text(der) for der in self.chain],
            "signature": _text(self.signature),
        }

    @classmethod
    def read(cls, table: Any) -> Statement:
        """From a peer's table; refuses other entries, types and sizes. Nothing is verified yet."""
        names = {
            "run": str,
            "name": str,
            "index": int,
            "key": str,
            "links": list,
            "chain": list,
            "signature": str,
        }
        if (
            not isinstance(table, dict)
            or set(table) != set(names)
            or not all(type(table[name]) is kind for name, kind in names.items())
            or not all(0 < len(table[name]) <= MAX_TEXT for name in ("run", "name"))
            or not 0 <= table["index"] < 2**31
            or not 1 <= len(table["chain"]) <= CHAIN
            or not all(isinstance(der, str) for der in table["chain"])
        ):
            raise Refusal("sent a key without the right entries")
        key, signature = _bytes(table["key"]), _bytes(table["signature"])
        if len(key) != KEY:
            raise Refusal(f"sent a key of {len(key)} bytes, expected {KEY}")
        chain = tuple(_bytes(der) for der in table["chain"])
        return cls(table["run"], table["name"], table["index"], key, tuple(table["links"]), chain, signature)

    def check_signature(self) -> None:
        """Raise Refusal unless the key of the certificate has signed this statement."""
        signed = _signed_bytes(self.run, self.name, self.index, self.key, self.links)
        try:
            public = x509.load_der_x509_certificate(self.chain[0]).public_key()
            if isinstance(public, ec.EllipticCurvePublicKey):
                public.verify(self.signature, signed, ec.ECDSA(hashes.SHA256()))
            elif isinstance(public, rsa.RSAPublicKey):
                public.verify(self.signature, signed, PADDING, hashes.SHA256())
            elif isinstance(public, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
                public.verify(self.signature, signed)
            else:
                raise Refusal(f"passed on a key of {self.name!r} with a certificate that cannot sign")
        except InvalidSignature as error:
            raise Refusal(f"passed on a key of {self.name!r} that its certificate has not signed") from error
        except ValueError as error:
            raise Refusal(f"passed on a key of {self.name!r} with a damaged certificate") from error


@dataclass(frozen=True)
class Authorities:
    """Whom an agent believes: the certificates in its file of authorities, and the revocation list.

    Parameters
    ----------
    ca : bytes
        Certificates of authorities (PEM).
    crl : bytes, optional
        Revocation lists (PEM).
    """

    ca: bytes
    crl: bytes | None = None

    @cached_property
    def store(self) -> Any:
        return verification.Store(x509.load_pem_x509_certificates(self.ca))

    @cached_property
    def lists(self) -> list[x509.CertificateRevocationList]:
        ending = b"-----END X509 CRL-----"
        parts = [part + ending for part in (self.crl or b"").split(ending)[:-1]]
        return [x509.load_pem_x509_crl(part[part.index(b"-----BEGIN X509 CRL") :]) for part in parts]

    def check(self, statement: Statement, now: datetime | None = None) -> None:
        """Raise Refusal unless the certificate is valid, is the agent's and has signed the statement."""
        who = repr(statement.name)
        now = now or datetime.now(UTC)
        try:
            leaf, *others = (x509.load_der_x509_certificate(der) for der in statement.chain)
            policy = verification.PolicyBuilder().store(self.store).time(now).max_chain_depth(DEPTH)
            verified = policy.build_client_verifier().verify(leaf, others)
        except (verification.VerificationError, ValueError) as error:
            raise Refusal(
                f"passed on a certificate of {who} that is not accepted: {_in_words(str(error))}"
            ) from error
        kinds = (x509.DNSName, x509.UniformResourceIdentifier)
        names = {each.value for each in verified.subjects or () if isinstance(each, kinds)}
        if statement.name not in names:
            raise Refusal(f"passed on a key of {who} with a certificate of {', '.join(sorted(names))}")
        if self.crl is not None:
            self._check_revocation(leaf, verified.chain[1] if len(verified.chain) > 1 else leaf, who, now)
        statement.check_signature()

    def _check_revocation(self, leaf: Any, issuer: Any, who: str, now: datetime) -> None:
        """As OpenSSL does: there must be a list of the issuer that has not expired."""
        for revocations in self.lists:
            if revocations.issuer != leaf.issuer or not revocations.is_signature_valid(issuer.public_key()):
                continue
            if revocations.next_update_utc is not None and revocations.next_update_utc < now:
                continue
            if revocations.get_revoked_certificate_by_serial_number(leaf.serial_number) is not None:
                raise Refusal(f"passed on a certificate of {who} that was revoked")
            return
        raise Refusal(f"passed on a certificate of {who}, of whose authority there is no revocation list")


def _in_words(error: str) -> str:
    """An error about extensions, with their names besides the numbers."""
    for number, name in EXTENSIONS.items():
        error = re.sub(rf"{re.escape(number)}(?![.0-9])", f"{number} ({name})", error)
    return error


def _signed_bytes(run: str, name: str, index: int, key: bytes, links: Sequence[int]) -> bytes:
    return PURPOSE + b"\0" + json.dumps([run, name, index, key.hex(), list(links)]).encode()


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refusal("sent a key that is not in base64") from error
