"""Key statements are believed only if all is right; masks cancel, and look random otherwise."""

import hashlib
import hmac
import stat
import struct
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from destiny.agents.certificates import Authority
from destiny.agents.privacy.keys import Authorities, Statement
from destiny.agents.privacy.masks import KEPT, PURPOSE, Masks, RunKey
from destiny.agents.privacy.sent_log import SentLog
from destiny.agents.transport.messages import Refusal
from destiny.errors import CheckpointError, SettingsError


@pytest.fixture(scope="module")
def authority():
    return Authority.new()


@pytest.fixture
def statement(authority, tmp_path):
    return signed(authority, tmp_path)


def signed(authority, folder, name="alice", index=3, key=None, days=30.0):
    certificate, private = authority.issue(name, ["localhost"], days)
    (folder / f"{name}.key").write_bytes(private)
    key = RunKey.new().public if key is None else key
    return Statement.sign("run 7", name, index, key, [der(certificate)], folder / f"{name}.key")


def der(pem):
    return x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)


def test_a_right_statement_is_believed_after_its_travels(statement, authority):
    Authorities(authority.pem).check(Statement.read(statement.table()))


@pytest.mark.parametrize(
    "change",
    [{"run": "run 8"}, {"index": 4}, {"key": bytes(31) + b"\1"}, {"signature": b"nothing"}, {"name": "bob"}],
    ids=lambda change: next(iter(change)),
)
def test_a_statement_that_was_changed_is_refused(statement, authority, change):
    with pytest.raises(Refusal, match=r"has not signed|with a certificate of"):
        Authorities(authority.pem).check(replace(statement, **change))


def test_strangers_names_dates_and_revoked_ones_are_refused(statement, authority, tmp_path):
    other = Authority.new("another")
    with pytest.raises(Refusal, match="not accepted"):
        Authorities(other.pem).check(statement)
    Authorities(other.pem + authority.pem).check(statement)
    with pytest.raises(Refusal, match="not accepted"):
        Authorities(authority.pem).check(statement, datetime.now(UTC) + timedelta(days=60))
    with pytest.raises(Refusal, match="not accepted"):
        Authorities(authority.pem).check(signed(authority, tmp_path, "old", days=-1.0))
    pem = x509.load_der_x509_certificate(statement.chain[0]).public_bytes(serialization.Encoding.PEM)
    Authorities(authority.pem, authority.revoked([])).check(statement)
    with pytest.raises(Refusal, match="was revoked"):
        Authorities(authority.pem, authority.revoked([pem])).check(statement)
    with pytest.raises(Refusal, match="no revocation list"):
        Authorities(authority.pem, other.revoked([])).check(statement)
    # A list that another authority signed in this one's name is none of this one's.
    forged = Authority(other.key, authority.certificate).revoked([])
    with pytest.raises(Refusal, match="no revocation list"):
        Authorities(authority.pem, forged).check(statement)


def test_somebody_elses_certificate_and_signature_do_not_vouch_for_a_name(authority, tmp_path):
    mallory = signed(authority, tmp_path, "mallory")
    with pytest.raises(Refusal, match=r"key of 'alice' with a certificate of localhost, mallory"):
        Authorities(authority.pem).check(replace(mallory, name="alice"))
    alice = signed(authority, tmp_path, "alice")
    with pytest.raises(Refusal, match="has not signed"):
        Authorities(authority.pem).check(replace(mallory, name="alice", chain=alice.chain))


def made_by(private, authority, name="alice", issuer_key=None, issuer=None, ca=False):
    """A certificate for any kind of key."""
    now = datetime.now(UTC)
    issuer = authority.certificate.subject if issuer is None else issuer
    issuer_key = authority.key if issuer_key is None else issuer_key
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=9))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
    )
    if not ca:
        built = built.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    else:
        usage = dict.fromkeys(
            (
                "digital_signature",
                "content_commitment",
                "key_encipherment",
                "data_encipherment",
                "key_agreement",
                "encipher_only",
                "decipher_only",
                "crl_sign",
            ),
            False,
        )
        built = built.add_extension(x509.KeyUsage(**usage, key_cert_sign=True), critical=True)
        built = built.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(private.public_key()), critical=False
        )
    return built.sign(issuer_key, hashes.SHA256())


def write_key(private, path):
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    path.write_bytes(private.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain))
    return path


@pytest.mark.parametrize(
    "private",
    [
        rsa.generate_private_key(65537, 2048),
        ec.generate_private_key(ec.SECP384R1()),
        ed25519.Ed25519PrivateKey.generate(),
    ],
    ids=["rsa", "p384", "ed25519"],
)
def test_other_kinds_of_keys_sign_too(authority, private, tmp_path):
    certificate = made_by(private, authority).public_bytes(serialization.Encoding.DER)
    path = write_key(private, tmp_path / "key")
    found = Statement.sign("r", "alice", 0, RunKey.new().public, [certificate], path)
    found.check_signature()
    if not isinstance(private, ed25519.Ed25519PrivateKey):  # which the verifier may not accept in a chain
        Authorities(authority.pem).check(found)
    with pytest.raises(Refusal, match="not signed"):
        replace(found, index=1).check_signature()


def test_an_authority_in_between_is_followed_but_an_agent_is_none(tmp_path):
    root = ec.generate_private_key(ec.SECP256R1())
    top = Authority(root, None)
    own = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "root")])
    top = Authority(root, made_by(root, top, "root", root, own, ca=True))
    middle, leaf = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    between = made_by(middle, top, "between", ca=True)
    agent = made_by(leaf, top, "alice", middle, between.subject)
    path = write_key(leaf, tmp_path / "key")
    chain = [c.public_bytes(serialization.Encoding.DER) for c in (agent, between)]
    found = Statement.sign("r", "alice", 0, RunKey.new().public, chain, path)
    Authorities(top.pem).check(found)
    with pytest.raises(Refusal, match="not accepted"):
        Authorities(top.pem).check(replace(found, chain=found.chain[:1]))
    # alice is an agent, not an authority: what she signs is worth nothing.
    friend = made_by(ec.generate_private_key(ec.SECP256R1()), top, "friend", leaf, agent.subject)
    chain = (friend.public_bytes(serialization.Encoding.DER), *found.chain)
    with pytest.raises(Refusal, match="not accepted"):
        Authorities(top.pem).check(replace(found, name="friend", chain=chain))


WRONG = {
    "no table": lambda t: [t],
    "more": lambda t: t | {"more": 1},
    "less": lambda t: {k: v for k, v in t.items() if k != "key"},
    "index": lambda t: t | {"index": -1},
    "truth": lambda t: t | {"index": True},
    "short key": lambda t: t | {"key": "AAAA"},
    "no base64": lambda t: t | {"key": "\N{SNOWMAN}"},
    "no chain": lambda t: t | {"chain": []},
    "long chain": lambda t: t | {"chain": t["chain"] * 9},
    "numbers": lambda t: t | {"chain": [1]},
    "long name": lambda t: t | {"name": "a" * 101},
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_statement_is_refused(statement, what):
    with pytest.raises(Refusal):
        Statement.read(WRONG[what](statement.table()))


def test_garbage_as_a_certificate_is_refused(statement, authority):
    with pytest.raises(Refusal, match="not accepted"):
        Authorities(authority.pem).check(replace(statement, chain=(b"garbage",)))


def test_the_run_key_is_kept_for_its_owner_alone(tmp_path):
    made = RunKey.keep(tmp_path, begun=False, sent=False)
    path = tmp_path / "private-sums.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert RunKey.keep(tmp_path, begun=True, sent=False).public == made.public
    assert RunKey.keep(tmp_path, begun=True, sent=True).public == made.public
    path.chmod(0o644)
    with pytest.raises(SettingsError, match="readable by its owner alone"):
        RunKey.keep(tmp_path, begun=True, sent=True)
    path.chmod(0o600)
    path.write_bytes(b"x")
    with pytest.raises(CheckpointError, match="damaged"):
        RunKey.keep(tmp_path, begun=True, sent=True)
    path.unlink()
    with pytest.raises(CheckpointError, match="is missing"):
        RunKey.keep(tmp_path, begun=True, sent=True)


def test_a_key_without_a_log_of_what_was_sent_under_it_is_not_used_again(tmp_path):
    """A run, another one in the same folder, and the first name once more: its masks must be new."""

    def key_of(run):
        log = SentLog(tmp_path, run)
        key = RunKey.keep(tmp_path, log.begun, sent=log.before > 0)
        log.add_round(0, np.ones(3))
        log.close()
        return key.public

    first, again = key_of("one"), key_of("one")
    assert first == again, "a restart needs the masks of before"
    assert len({first, key_of("two"), key_of("one")}) == 3
    (tmp_path / "sent.log").unlink()
    assert key_of("one") not in (first, again)


def test_a_point_of_small_order_is_no_key():
    with pytest.raises(Refusal, match="cannot be used"):
        RunKey.new().pair(bytes(32), "run", 0, 1, 2)


def test_the_secret_of_a_pair_is_that_of_the_standards():
    """HKDF of RFC 5869 written out with the standard library."""
    one, two = RunKey.new(), RunKey.new()
    secret = one.private.exchange(two.private.public_key())
    info = PURPOSE + b"\0" + struct.pack("<QQQ", 5, 1, 2) + b"run"
    extracted = hmac.new(bytes(32), secret, hashlib.sha256).digest()
    expected = hmac.new(extracted, info + b"\1", hashlib.sha256).digest()
    assert one.pair(two.public, "run", 5, 1, 2) == two.pair(one.public, "run", 5, 2, 1) == expected
    others = [("run", 5, 1, 3), ("run", 4, 1, 2), ("other", 5, 1, 2)]
    assert expected not in [one.pair(two.public, *changed) for changed in others]


def neighbours_of(receiver, indices, run="run"):
    keys = {i: RunKey.new() for i in indices}
    return {
        i: Masks(i, {j: keys[i].pair(keys[j].public, run, receiver, i, j) for j in indices if j != i})
        for i in indices
    }


@pytest.mark.parametrize("degree", [2, 3, 7])
def test_masks_cancel_in_the_sum_and_only_there(degree):
    rng = np.random.default_rng(degree)
    masks = neighbours_of(0, range(1, degree + 1))
    E = np.array([4, -12])
    numbers = {i: rng.integers(-(2**59), 2**59, 33) for i in masks}
    sent = {i: masks[i].add(numbers[i], 8, 0, E) for i in masks}
    total = np.add.reduce(list(sent.values())).view(np.int64)
    assert (total == sum(numbers.values())).all()
    for left_out in sent:
        part = np.add.reduce([sent[i] for i in sent if i != left_out]).view(np.int64)
        assert not (part == sum(numbers[i] for i in sent if i != left_out)).any()


@pytest.mark.parametrize(
    "other", [(9, 0, [4]), (8, 1, [4]), (8, 0, [8])], ids=["round", "attempt", "exponents"]
)
def test_masks_are_used_once(other):
    masks = neighbours_of(0, (1, 2))
    zero = np.zeros(16, dtype=np.int64)
    first = masks[1].add(zero, 8, 0, np.array([4]))
    again = masks[1].add(zero, 8, 0, np.array([4]))
    assert (first == again).all(), "a restart sends the same"
    assert not (first == masks[1].add(zero, other[0], other[1], np.array(other[2]))).any()
    # Of different rounds or exponents they do not cancel either.
    assert (
        masks[1].add(zero, *other[:2], np.array(other[2])) + masks[2].add(zero, 8, 0, np.array([4]))
    ).all()


def test_a_mask_is_the_key_stream_of_the_standards():
    """AES-256-CTR, block by block: other rounds, attempts or exponents have another key or other counters."""
    secret, zero = bytes(range(32)), np.zeros(5, dtype=np.int64)
    masks = Masks(1, {2: secret})
    for round, attempt, exponents in [(3, 0, (4, -12)), (3, 1, (4, -12)), (2**40, 0, (8,))]:
        key = hmac.new(secret, struct.pack(f"<{len(exponents)}q", *exponents), hashlib.sha256).digest()
        blocks = b"".join(struct.pack(">QII", round, attempt, k) for k in range(3))
        stream = Cipher(algorithms.AES256(key), modes.ECB()).encryptor().update(blocks)
        assert masks.add(zero, round, attempt, exponents).tobytes() == stream[:40]


def test_masks_are_the_same_however_many_exponents_were_used_between():
    masks, zero = Masks(1, {2: bytes(32), 3: bytes(range(32))}), np.zeros(9, dtype=np.int64)
    first = masks.add(zero, 7, 0, (4,))
    for k in range(3 * KEPT):
        masks.add(zero, k, 1, (4 * k,))
    assert len(masks.ciphers) <= KEPT
    assert (masks.add(zero, 7, 0, (4,)) == first).all()


def test_what_travels_is_uniform_whatever_was_sent():
    masks = neighbours_of(0, (1, 2))
    for numbers in (np.zeros(2**16, dtype=np.int64), np.arange(2**16) ** 2):
        sent = np.concatenate([masks[1].add(numbers, k, 0, np.array([0])) for k in range(2)])
        counts = np.bincount(sent.view(np.uint8), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-6
        ones = np.unpackbits(sent.view(np.uint8)).reshape(-1, 64).sum(axis=0)
        assert (np.abs(ones - len(sent) / 2) < 6 * np.sqrt(len(sent)) / 2).all()
