"""What neighbors will find in this agent's own certificate, tried before anybody is called."""

from __future__ import annotations

import ssl

from destiny.agents.transport.tls import PeerCertificate, TlsFiles, read_certificates
from destiny.errors import SettingsError

ANYWHERE = frozenset(
    {"0.0.0.0", "::", ""}
)  # listening on all addresses: nobody here knows which one is called
TEMPORARY = frozenset({9, 10})  # not valid yet, or no longer: the agent says so, and waits for a new one
HOST, ADDRESS = 62, 64  # another host name, another IP address (X509_V_ERR_* of OpenSSL)


def check_own_certificate(files: TlsFiles, host: str | None) -> frozenset[str]:
    """The names in this agent's certificate; `SettingsError` if neighbors would refuse it.

    The agent calls itself in memory, so OpenSSL checks what it checks between agents, except who has signed
    the certificate: with several authorities this agent need not know its own.

    Parameters
    ----------
    host : str, optional
        Where neighbors call this agent, if some do.
    """
    where = f"[tls] certificate {files.certificate}"
    try:
        names = _call(files, None)
        if not names:
            raise SettingsError(
                f"{where} must have the agent's name as an alternative name (SAN); found none: neighbors "
                "cannot tell whose it is, so ask the authority for one that has it"
            )
        if host is not None and host not in ANYWHERE:
            _call(files, host)
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in TEMPORARY:
            return frozenset()
        if error.verify_code in (HOST, ADDRESS):
            raise SettingsError(
                f"{where} must have {host}, where neighbors call this agent by [agent] listen, as an "
                f"alternative name (SAN); found {', '.join(sorted(names))}: ask the authority for one that "
                "has it, or listen on 0.0.0.0:PORT if they call another of these names"
            ) from error
        raise SettingsError(f"{where} would be refused by neighbors: {error.verify_message}") from error
    except ssl.SSLError as error:
        raise SettingsError(f"{where} would be refused by neighbors: {error.reason or error}") from error
    return names


def _call(files: TlsFiles, host: str | None) -> frozenset[str]:
    """Shake hands with oneself in memory; the names in the certificate."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_context = _context(ssl.PROTOCOL_TLS_CLIENT, files)
    client_context.check_hostname = host is not None
    client = client_context.wrap_bio(to_client, to_server, server_hostname=host)
    server = _context(ssl.PROTOCOL_TLS_SERVER, files).wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    while waiting:
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
    return PeerCertificate.of(client).names


def _context(kind: int, files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(kind)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(files.certificate, files.key)
    context.load_verify_locations(cadata=read_certificates(files.certificate, "certificate")[0])
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate itself is believed
    context.verify_mode = ssl.CERT_REQUIRED
    return context
