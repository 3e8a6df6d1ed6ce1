"""Neighbors pinned to an authority or a certificate; certificates that are replaced or expire."""

import os
import re
import ssl
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import destiny
from destiny import cli
from destiny.agents import status
from destiny.agents.certificates import Authority, write
from destiny.agents.transport import connector, expiry, tls
from destiny.agents.transport.event_loop import Absent
from destiny.agents.transport.tls import Credentials, PeerCertificate, Pin, TlsFiles
from tests.helpers.agent_party import Party, authority, wait_for

PAIR = destiny.networks.path(2)
FEW = "rounds = 60\ntolerance = 0"
DAY = 86400.0


@pytest.fixture
def folder(tmp_path):
    """A certificate of an authority in a folder."""
    issue(tmp_path, authority())
    return tmp_path


def issue(folder, signer, days=30.0, name="agent-0"):
    certificate, key = signer.issue(name, ["127.0.0.1"], days)
    for path, content in (("ca", signer.pem), ("certificate", certificate), ("key", key)):
        (folder / f"{path}.pem").write_bytes(content)
    (folder / "key.pem").chmod(0o600)


def files(folder, crl=False):
    names = ("ca.pem", "certificate.pem", "key.pem", *(["crl.pem"] if crl else []))
    return TlsFiles(*(folder / name for name in names))


def handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> PeerCertificate:
    """What a caller shows to whoever is called."""
    wires = [ssl.MemoryBIO(), ssl.MemoryBIO()]
    called = server.wrap_bio(wires[0], wires[1], server_side=True)
    caller = client.wrap_bio(wires[1], wires[0], server_hostname="127.0.0.1")
    for side in (caller, called, caller, called):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return PeerCertificate.of(called)


# Pins


def test_one_authority_of_a_bundle_cannot_sign_for_the_others_agent(tmp_path):
    ours, theirs = authority(), authority("theirs")
    homes = {name: tmp_path / name for name in ("right", "wrong")}
    for home, signer in zip(homes.values(), (ours, theirs), strict=True):
        home.mkdir()
        issue(home, signer)
        (home / "ca.pem").write_bytes(ours.pem + theirs.pem)
    pin = tmp_path / "ours.pem"
    pin.write_bytes(ours.pem)
    right, wrong = (Credentials(files(home), [pin]) for home in homes.values())
    honest, forged = (handshake(caller.client, right.server) for caller in (right, wrong))
    assert honest.mismatch("agent-0", Pin(pin), right) is None
    assert forged.mismatch("agent-0", Pin(), right) is None, "the bundle alone lets both sign"
    assert "the authority in ours.pem has not signed" in forged.mismatch("agent-0", Pin(pin), right)
    one = Pin(fingerprints=frozenset([right.fingerprint()]))
    assert honest.mismatch("agent-0", one, right) is None
    assert f"showed the certificate {wrong.fingerprint()}" in forged.mismatch("agent-0", one, right)
    assert "expected agent-9" in honest.mismatch("agent-9", one, right)


@pytest.mark.parametrize(("who", "pin"), [(0, "authority"), (1, "fingerprint")], ids=["called", "caller"])
def test_a_pinned_neighbor_with_another_certificate_is_refused(who, pin, tmp_path):
    """Agent ``who`` has pinned the other, whose certificate is of another authority of the bundle."""
    party = Party(tmp_path, PAIR, stop=FEW, deadline=2)
    other = party.home(1 - who)
    issue_at, theirs = [party.at(1 - who)], authority("theirs")
    certificate, key = theirs.issue(party.name(1 - who), issue_at)
    for name, content in (("certificate.pem", certificate), ("key.pem", key)):
        (other / name).write_bytes(content)
    for i in range(2):
        (party.home(i) / "ca.pem").write_bytes(authority().pem + theirs.pem)
    write(party.home(who) / "ours.pem", authority().pem)
    digest = tls.fingerprint(ssl.PEM_cert_to_DER_cert(authority().pem.decode()))
    line = {"authority": 'authority = "ours.pem"', "fingerprint": f'fingerprint = ["{digest.upper()}"]'}[pin]
    path = party.home(who) / "agent.toml"
    path.write_text(path.read_text() + line)
    why = {"authority": "ours.pem has not signed", "fingerprint": f"expected {digest}"}[pin]
    running = [party.thread(i) for i in range(2)]
    for i, one in enumerate(running):
        expected = why if i == 0 else "not all neighbors have come"  # whoever calls knows whom it has called
        with pytest.raises(destiny.DestinyError, match=expected):
            one.end()
        assert any(e["event"] == "refused" and why in e["why"] for e in party.log(i)), party.log(i)


@pytest.mark.parametrize("text", ["sha1:00", "sha256:12", "sha256:" + "g" * 64, "00" * 32])
def test_a_fingerprint_of_another_form_is_refused(text, tmp_path):
    party = Party(tmp_path, PAIR)
    path = party.home(0) / "agent.toml"
    path.write_text(path.read_text() + f'fingerprint = "{text}"')
    with pytest.raises(destiny.SettingsError, match="fingerprint must be sha256: and 64 hexadecimal digits"):
        party.settings(0)


def test_fingerprints_are_those_of_openssl(folder):
    digits = Credentials(files(folder)).fingerprint().removeprefix("sha256:")
    shown = ":".join(digits[i : i + 2] for i in range(0, 64, 2)).upper()  # openssl x509 -fingerprint -sha256
    assert tls.read_fingerprint(f"SHA256:{shown}", "x") == f"sha256:{digits}"


# Files that are replaced


def touch(path):
    """A later time of change, whatever the resolution of the file system."""
    later = path.stat().st_mtime_ns + 10**9
    os.utime(path, ns=(later, later))


def test_files_are_read_again_when_they_change_and_only_if_they_can_be_used(folder):
    (folder / "crl.pem").write_bytes(authority().revoked([]))
    credentials = Credentials(files(folder, crl=True))
    said: list[str] = []
    assert not credentials.refresh(said.append)
    before, old = credentials.client, credentials.fingerprint()
    whole = (folder / "crl.pem").read_bytes()
    (folder / "crl.pem").write_bytes(whole[: len(whole) // 2])
    assert not credentials.refresh(said.append)
    assert not credentials.refresh(said.append)
    assert len(said) == 1
    assert re.search("keeps the certificates read before, as crl.pem changed but .* cannot be used", said[0])
    assert credentials.client is before
    (folder / "crl.pem").write_bytes(whole)
    assert credentials.refresh(said.append), "whom we believe may have changed"
    issue(folder, authority())
    touch(folder / "key.pem")
    assert credentials.refresh(said.append)
    assert said[-1].startswith("has read ")
    assert credentials.client is not before
    assert credentials.fingerprint() != old
    (folder / "key.pem").rename(folder / "aside.pem")
    (folder / "crl.pem").write_bytes(authority().revoked([(folder / "certificate.pem").read_bytes()]))
    assert not credentials.refresh(said.append)
    assert "crl.pem, key.pem changed but [tls] key" in said[-1]
    (folder / "aside.pem").rename(folder / "key.pem")
    assert credentials.refresh(said.append), "the list has changed since all files could be used"


def test_a_bundle_cut_off_within_its_second_certificate_is_not_taken(folder):
    whole = (folder / "ca.pem").read_bytes()
    (folder / "ca.pem").write_bytes(whole + authority("theirs").pem[:300])
    with pytest.raises(destiny.SettingsError, match="ends in the middle of a certificate"):
        Credentials(files(folder))


def test_a_neighbor_revoked_during_the_run_is_cut_off_without_a_restart(tmp_path, monkeypatch):
    monkeypatch.setattr(connector, "FILE_CHECK_INTERVAL", 0.05)
    party = Party(tmp_path, destiny.networks.path(3), crl=authority().revoked([]), deadline=4)
    running = [party.thread(i) for i in (0, 1)]  # and wait for agent-2
    wait_for(lambda: any(e["event"] == "connected" for e in party.log(1)), "a connection")
    revoked = (party.home(0) / "certificate.pem").read_bytes()
    new = party.home(1) / "new.pem"
    new.write_bytes(authority().revoked([revoked]))
    new.replace(party.home(1) / "crl.pem")
    wait_for(lambda: any("certificate revoked" in e.get("why", "") for e in party.log(1)), "a refusal")
    events = [e["event"] for e in party.log(1)]
    assert events.index("certificates") < events.index("lost") < events.index("refused")
    for one in running:
        with pytest.raises(Absent):
            one.end()


# Expiry


def test_the_end_of_certificates_and_lists_is_that_of_the_library(folder):
    from cryptography import x509

    for days in (1.0, 30.0, 365 * 40.0):  # beyond 2049 times are written in another form
        signer = Authority.new(days=days)
        (found,) = expiry.expiry_times(signer.pem.decode())
        assert found == signer.certificate.not_valid_after_utc.timestamp()
    pem = authority().revoked([(folder / "certificate.pem").read_bytes()])
    (found,) = expiry.expiry_times(pem.decode())
    assert found == x509.load_pem_x509_crl(pem).next_update_utc.timestamp()


def test_a_warning_once_a_day_before_a_certificate_expires(tmp_path):
    issue(tmp_path, authority(), days=5.5)
    credentials = Credentials(files(tmp_path))
    said: list[str] = []
    now = time.time()
    for later in (0.0, 0.1, 1.0, 5.2, 5.6, 5.7):
        credentials.warn_of_expiry(said.append, now + later * DAY)
    assert said == [
        "[tls] certificate certificate.pem expires in 5.5 days: put a new one in its place",
        "[tls] certificate certificate.pem expires in 4.5 days: put a new one in its place",
        "[tls] certificate certificate.pem expires in 0.3 days: put a new one in its place",
        "[tls] certificate certificate.pem has expired: put a new one in its place",
    ]


def test_days_left_are_in_the_metrics_on_the_page_and_in_a_warning(tmp_path):
    party = Party(tmp_path, PAIR, stop=FEW, deadline=20)
    certificate, key = authority().issue("agent-1", [party.host], days=3.5)
    (party.home(1) / "certificate.pem").write_bytes(certificate)
    (party.home(1) / "key.pem").write_bytes(key)
    running = party.thread(1)
    view = wait_for(lambda: running.view)
    labels = 'agent="agent-1",run="run-1"'
    assert re.search(
        rf'^destiny_days_left{{{labels},file="certificate"}} 3\.49\d+$', status.metrics(view), re.M
    )
    assert re.search(rf'^destiny_days_left{{{labels},file="ca"}} 29\.\d+$', status.metrics(view), re.M)
    assert "certificate expires in 3.5 days" in status.page(view)
    warned = wait_for(lambda: [e for e in party.log(1) if e["event"] == "certificates"], "a warning")
    assert "certificate.pem expires in 3.5 days" in warned[0]["why"]
    party.thread(0).end()
    running.end()


def test_agents_check_prints_fingerprint_and_days_left(tmp_path):
    party = Party(tmp_path, PAIR)
    done = CliRunner().invoke(cli.app, ["agents", "check", str(party.home(0) / "agent.toml")])
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "agent-0, run run-1: pca, n = 12, p = 3"
    assert lines[1] == f"certificate {Credentials(party.settings(0).files).fingerprint()}"
    assert "certificate expires in 30.0 days" in lines[2]
    assert np.isfinite(Credentials(party.settings(0).files).expires["ca"])
