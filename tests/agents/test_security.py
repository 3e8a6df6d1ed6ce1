"""Whoever should not be let in is refused and named in the log, and the run ends in the same bits.

The agent under attack waits for its neighbor, and is called by others meanwhile.
"""

import dataclasses
import io
import os
import socket
import ssl
import threading

import pytest

import destiny
from destiny.agents.certificates import Authority, write
from destiny.agents.transport import callers, connector, messages
from destiny.agents.transport.messages import HEADER, MAGIC, PROTOCOL, Header, Hello, Kind
from tests.helpers.agent_party import (
    PATIENCE,
    Party,
    authority,
    client_context,
    connect,
    read_message,
    wait_for,
)

PAIR = destiny.networks.path(2)
FEW = "rounds = 60\ntolerance = 0"


class Siege:
    """agent-1 runs and waits for agent-0; attackers call it at ``address``."""

    def __init__(self, folder, **options):
        self.party = Party(folder, PAIR, stop=FEW, **options)
        self.target = self.party.thread(1)
        self.address = (self.party.host, 7001)
        self.settings = self.party.settings(0)

    def identity(self, name="mallory", ca=None, hosts=None, days=30.0):
        """A folder with a certificate and a key."""
        home = self.party.folder / name
        certificate, key = (ca or authority()).issue(name, hosts or [self.party.host], days)
        write(home / "certificate.pem", certificate)
        write(home / "key.pem", key, secret=True)
        return home

    def context(self, home=None):
        return client_context(home, self.party.home(0) / "ca.pem")

    def call(self, home=None, context=None):
        """Call the agent, by default as its true neighbor."""
        return connect(self.address, context or self.context(home or self.party.home(0)))

    def hello(self, **changes):
        return dataclasses.replace(self.settings.hello, **changes)

    def admitted(self):
        """A connection of the true neighbor's, HELLOs exchanged."""
        sock = self.call()
        sock.sendall(self.hello().pack())
        header, _ = read_message(sock)
        assert header.kind is Kind.HELLO
        return sock

    def refused(self, *words):
        """The entry of the log that has all these words."""

        def entry():
            entries = [e for e in self.party.log(1) if e["event"] == "refused"]
            return next((e for e in entries if all(w in e["why"] for w in words)), None)

        return wait_for(entry, f"refused: {words}")

    def lifted(self):
        """The true neighbor comes, and all is as if nothing had been."""
        assert self.target.is_alive()
        self.party.thread(0).end()
        assert self.target.end().closed
        self.party.check()


@pytest.fixture
def siege(tmp_path):
    return Siege(tmp_path)


def farewell(sock):
    """What the agent says before it hangs up; it must hang up."""
    told = ""
    with sock:
        while (message := read_message(sock)) is not None:
            if message[0].kind is Kind.REFUSED:
                told = messages.read_reason(message[1])
    return told


# Certificates


def rejected(sock):
    """In TLS 1.3 a caller learns of its rejection when it reads."""
    with sock:
        assert read_message(sock) is None


def test_no_certificate(siege):
    rejected(siege.call(context=siege.context(None)))
    siege.refused("did not return a certificate")
    siege.lifted()


def test_another_authority(siege):
    rejected(siege.call(siege.identity("agent-0-forged", Authority.new("theirs"))))
    siege.refused("certificate refused")
    siege.lifted()


def test_another_authority_of_the_same_name(siege):
    forged = Authority.new("ours")  # same subject, other key
    rejected(siege.call(siege.identity("agent-0-forged", forged)))
    siege.refused("certificate refused")
    siege.lifted()


def test_expired_certificate(siege):
    rejected(siege.call(siege.identity("agent-0-old", days=-1)))
    siege.refused("certificate has expired")
    siege.lifted()


def test_right_authority_but_wrong_agent(siege):
    home = siege.identity("mallory")
    sock = siege.call(home)
    sock.sendall(siege.hello().pack())
    assert "showed a certificate of mallory, expected agent-0" in farewell(sock)
    entry = siege.refused("mallory", "expected agent-0")
    assert entry["address"].startswith("127.")
    siege.lifted()


def test_right_authority_and_honest_but_no_neighbor(siege):
    sock = siege.call(siege.identity("mallory"))
    sock.sendall(siege.hello(agent="mallory").pack())
    assert "'mallory', which is not whom agent-1 talks to" in farewell(sock)
    siege.refused("mallory")
    siege.lifted()


def test_revoked_certificate(tmp_path):
    bad, key = authority().issue("agent-0", ["127.0.0.1"])
    siege = Siege(tmp_path, crl=authority().revoked([bad]))
    home = tmp_path / "stolen"
    write(home / "certificate.pem", bad)
    write(home / "key.pem", key, secret=True)
    rejected(siege.call(home))
    siege.refused("certificate revoked")
    siege.lifted()


def test_tls_1_2(siege):
    context = siege.context(siege.party.home(0))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        siege.call(context=context)
    siege.refused("protocol")
    siege.lifted()


def test_a_key_others_may_read(tmp_path):
    party = Party(tmp_path, PAIR)
    (party.home(0) / "key.pem").chmod(0o640)
    with pytest.raises(
        destiny.SettingsError, match=r"readable by its owner alone; found mode 640: chmod 600"
    ):
        party.thread(0).end()


def test_a_key_with_a_password_does_not_wait_for_one(tmp_path):
    from cryptography.hazmat.primitives import serialization

    party = Party(tmp_path, PAIR)
    path = party.home(0) / "key.pem"
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    secret = serialization.BestAvailableEncryption(b"secret")
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret))
    with pytest.raises(destiny.SettingsError, match="the key has a password"):
        party.thread(0).end()


@pytest.mark.parametrize("file", ["ca.pem", "certificate.pem", "key.pem"])
def test_files_that_are_no_certificates(file, tmp_path):
    party = Party(tmp_path, PAIR)
    (party.home(0) / file).write_bytes(b"rubbish")
    with pytest.raises(destiny.SettingsError, match=r"\[tls\] .* cannot be used"):
        party.thread(0).end()
    (party.home(0) / file).unlink()
    with pytest.raises(destiny.SettingsError, match=r"\[tls\] .* cannot be used: No such file"):
        party.thread(0).end()


class Impostor(threading.Thread):
    """Listens where agent-1 should, with a certificate of our authority."""

    def __init__(self, party, name, hosts, days=30.0):
        super().__init__(daemon=True)
        certificate, key = authority().issue(name, hosts, days)
        home = party.folder / "impostor"
        write(home / "certificate.pem", certificate)
        write(home / "key.pem", key, secret=True)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(home / "certificate.pem", home / "key.pem")
        self.listener = socket.create_server((party.host, 7001))
        self.heard = b""
        self.start()

    def run(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.settimeout(10)
            try:
                with self.context.wrap_socket(sock, server_side=True) as secured:
                    while part := secured.recv(4096):
                        self.heard += part
            except OSError:
                pass

    def leave(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.join(PATIENCE)


@pytest.mark.parametrize(
    ("name", "hosts", "days", "told"),
    [
        ("agent-1", ["elsewhere.example"], 30, "certificate refused: "),
        ("mallory", None, 30, "showed a certificate of mallory, expected agent-1"),
        ("agent-1", None, -1, "certificate has expired"),
    ],
    ids=["wrong host name", "wrong agent", "expired"],
)
def test_the_caller_checks_whom_it_has_reached(name, hosts, days, told, tmp_path):
    party = Party(tmp_path, PAIR, stop=FEW)
    impostor = Impostor(party, name, hosts or [party.host], days)
    caller = party.thread(0)
    wait_for(lambda: any(told in e.get("why", "") for e in party.log(0)), told)
    assert b"HELLO" not in impostor.heard
    assert b"run-1" not in impostor.heard, "not even the name of the run was told to it"
    impostor.leave()
    party.thread(1).end()
    caller.end()
    party.check()


# Bytes


def frame(kind=Kind.DATA, round=0, length=0, content=b"", magic=MAGIC, protocol=PROTOCOL):
    return HEADER.pack(magic, protocol, kind, 0, round, 0, length) + content


def test_a_hello_overheard_and_said_again_by_another(siege):
    said = siege.hello().pack()
    siege.admitted().close()
    sock = siege.call(siege.identity("mallory"))
    sock.sendall(said)
    assert "showed a certificate of mallory, expected agent-0" in farewell(sock)
    siege.lifted()


# Exhaustion


def test_500_half_open_connections(siege):
    connect(siege.address, None).close()
    crowd = [socket.create_connection(siege.address, timeout=PATIENCE) for _ in range(500)]
    try:
        siege.refused("was dropped: more than 64 had not said who they are")
        assert (
            len(siege.target.view.connections.connector.callers) <= 2 * callers.MAX_STRANGERS + 1
        )  # the one about to be dropped
        siege.lifted()
    finally:
        for sock in crowd:
            sock.close()


class SlowCall:
    """A call of the true neighbor over a slow line: its first word is sent, the rest on `finish`."""

    def __init__(self, siege, source="127.0.0.1"):
        self.siege, self.sock = siege, wait_for(lambda: called(siege.address, source), "listening")
        self.inward, self.outward = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = siege.context(siege.party.home(0))
        self.tls = context.wrap_bio(self.inward, self.outward, server_hostname="x")
        self.step()

    def step(self):
        """Whether the handshake is done; writes what there is to write."""
        try:
            self.tls.do_handshake()
            done = True
        except ssl.SSLWantReadError:
            done = False
        if self.outward.pending:
            self.sock.sendall(self.outward.read())
        return done

    def finish(self):
        """Handshake and HELLO; whether the agent answers by its own HELLO."""
        while not self.step():
            if not (read := self.sock.recv(65536)):
                return False
            self.inward.write(read)
        self.tls.write(self.siege.hello().pack())
        self.sock.sendall(self.outward.read())
        while read := self.sock.recv(65536):
            self.inward.write(read)
            try:
                head = Header.unpack(self.tls.read(HEADER.size))
            except ssl.SSLWantReadError:
                continue
            return head.kind is Kind.HELLO
        return False


def called(address, source):
    sock = socket.socket()
    sock.settimeout(PATIENCE)
    sock.bind((source, 0))
    try:
        sock.connect(address)
    except ConnectionRefusedError:
        sock.close()
        return None
    return sock


@pytest.mark.parametrize("same", [True, False], ids=["from the neighbor's own address", "from elsewhere"])
def test_a_flood_of_silent_callers_does_not_keep_a_slow_neighbor_out(siege, same):
    """A caller that has spoken is not dropped for those who have not, though it is older than all of them."""
    slow = SlowCall(siege)
    waiting = siege.target.view.connections.connector.callers.waiting
    wait_for(lambda: any(caller.has_spoken for caller in waiting), "the first word")
    count = 3 * callers.MAX_STRANGERS
    sources = ["127.0.0.1" if same else f"127.0.9.{k % 200 + 1}" for k in range(count)]
    crowd = [called(siege.address, source) for source in sources]
    assert crowd[count - callers.MAX_STRANGERS - 2].recv(1) == b""  # all have come, and these are dropped
    assert slow.finish()
    for sock in (*crowd, slow.sock):
        sock.close()
    siege.lifted()


def crowd_of(*groups):
    """Callers in the order in which they came: (number, site, whether they have spoken) for each group."""
    return [
        callers.Caller(f"{site}:{group}.{k}", site, spoken)
        for group, (number, site, spoken) in enumerate(groups)
        for k in range(number)
    ]


FULL = callers.MAX_STRANGERS


@pytest.mark.parametrize(
    ("groups", "known", "dropped"),
    [
        ([(1, "neighbor", True), (FULL, "flood", False)], (), "flood:1.0"),
        ([(1, "neighbor", False), (FULL, "flood", False)], (), "flood:1.0"),
        ([(1, "neighbor", True), (FULL, "flood", True)], (), "flood:1.0"),
        ([(1, "shared", True), (FULL, "shared", False)], (), "shared:1.0"),
        ([(FULL, "shared", True), (1, "neighbor", False)], (), "shared:0.0"),
        ([(FULL, "flood", False), (1, "neighbor", False)], {"neighbor"}, None),
        ([(FULL, "flood", False), (FULL, "neighbor", True)], {"neighbor"}, None),
        ([(FULL, "neighbor", False), (FULL + 1, "flood", True)], {"neighbor"}, "flood:1.0"),
    ],
)
def test_who_is_dropped_when_too_many_wait(groups, known, dropped):
    kept = callers.Callers()
    for site in known:
        kept.know(site)
    *before, last = crowd_of(*groups)
    assert [kept.add(caller) for caller in before] == [None] * len(before)
    found = kept.add(last)
    assert (None if found is None else found.address) == dropped
    assert len(kept) == len(before) + 1 - (found is not None)


@pytest.mark.parametrize(
    ("host", "site"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("hospital.example", "hospital.example"),
    ],
)
def test_callers_of_one_site_are_counted_together(host, site):
    assert callers.site_of(host) == site


def test_silence_after_the_connection_and_after_the_handshake(tmp_path, monkeypatch):
    monkeypatch.setattr(connector, "HANDSHAKE_TIMEOUT", 0.5)
    siege = Siege(tmp_path)
    silent, shy = connect(siege.address, None), siege.call()
    siege.refused("failed the handshake")
    assert "did not say HELLO within 0.5 s" in farewell(shy)
    silent.close()
    siege.refused("agent-0", "did not say HELLO")
    monkeypatch.undo()
    siege.lifted()


def test_a_peer_that_never_reads(tmp_path):
    """It asks for everything ever sent and reads none of it: what is kept for it stays bounded."""
    large = 'kind = "pca"\nsynthetic = { n = 600, m = 700, xi = 0.9 }\np = 9'
    party = Party(tmp_path, PAIR, large, stop="rounds = 100\ntolerance = 0", run="checkpoint = 1000")
    siege = Siege.__new__(Siege)
    siege.party, siege.address, siege.settings = party, (party.host, 7001), party.settings(0)
    # The true neighbor leaves in the middle, so that there is a lot to be sent again.
    siege.target = party.thread(1)
    friend = party.start(0)
    connections = wait_for(lambda: siege.target.view and siege.target.view.connections)
    wait_for(lambda: connections.is_open and len(connections.store.outbox.messages) > 60)
    friend.kill()
    friend.communicate()
    sock = siege.call()
    sock.sendall(siege.hello().pack())
    connection = wait_for(lambda: connections.neighbors[0].connection)
    wait_for(lambda: connection.write_paused)
    held = connection.transport.get_write_buffer_size()
    one = len(connections.store.outbox.messages[50])
    assert held < 4 * one + 2**20, (held, one)
    siege.lifted()
    sock.close()


def test_at_most_two_rounds_ahead_are_held(tmp_path):
    """agent-1 waits for agent-2; whatever agent-0 sends meanwhile stays with it from the third round on."""
    siege = Siege.__new__(Siege)
    siege.party = Party(tmp_path, destiny.networks.path(3), stop=FEW)
    siege.address, siege.settings = (siege.party.host, 7001), siege.party.settings(0)
    siege.target = siege.party.thread(1)
    sock = siege.admitted()
    connections = siege.target.view.connections
    largest = connections.limits.largest
    for k in range(200):
        sock.sendall(frame(round=k, length=largest, content=bytes(largest)))
    peer = connections.neighbors[0]
    wait_for(lambda: len(peer.inbox) == 2 and not peer.connection.transport.is_reading())
    assert not peer.free_buffers
    assert peer.next_in == 2
    sock.close()


def test_lines_are_tls_1_3_with_our_authority_alone_and_notice_silence(tmp_path):
    party = Party(tmp_path, destiny.networks.path(3))
    running = [party.thread(i) for i in (0, 1)]  # and wait for agent-2
    connections = wait_for(lambda: running[1].view and running[1].view.connections)
    connection = wait_for(lambda: connections.neighbors[0].connection)
    assert connection.transport.get_extra_info("ssl_object").version() == "TLSv1.3"
    for context in (connections.tls.server, connections.tls.client):
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert [ca["subject"][0][0][1] for ca in context.get_ca_certs()] == ["ours"]
    sock = connection.transport.get_extra_info("socket")
    tcp = socket.IPPROTO_TCP
    assert sock.getsockopt(tcp, socket.TCP_NODELAY)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert sock.getsockopt(tcp, socket.TCP_USER_TIMEOUT) == 30_000
    assert sock.getsockopt(tcp, socket.TCP_KEEPIDLE) == 15
    party.thread(2).end()
    for one in running:
        one.end()
    party.check()


@pytest.mark.parametrize("longest", [connector.MAX_DELAY, 0.4])
def test_calls_come_at_growing_and_uneven_intervals(longest):
    waits = [next(w) for w in [connector.retry_delays(longest)] for _ in range(40)]
    for k, wait in enumerate(waits):
        most = min(longest, connector.FIRST_DELAY * 2**k)
        assert most / 2 <= wait <= most
    assert len(set(waits)) == 40


def test_there_are_ten_calls_within_the_deadline(tmp_path, monkeypatch):
    """Whoever comes late is found all the same."""
    asked, intervals = [], connector.retry_delays
    monkeypatch.setattr(
        connector, "retry_delays", lambda longest: asked.append(longest) or intervals(longest)
    )
    party = Party(tmp_path, PAIR, stop=FEW, deadline=4)
    caller = party.thread(0)
    wait_for(lambda: asked)
    party.thread(1).end()
    caller.end()
    assert set(asked) == {0.4}


def test_memory_is_taken_only_for_what_is_due():
    """A reader asks for room before it takes any; a length alone costs nothing."""
    asked = []

    def room(header):
        asked.append(header.length)
        raise messages.Refusal("no")

    reader = messages.Reader(room)
    raw = frame(length=2**60)
    reader.buffer()[:] = raw
    with pytest.raises(messages.Refusal):
        reader.advance(len(raw))
    assert asked == [2**60]


def test_nothing_listens_on_all_addresses_unless_the_file_says_so(siege):
    wait_for(lambda: siege.target.view is not None)
    connections = siege.target.view.connections
    wait_for(lambda: connections.connector is not None)
    assert connections.connector.listener.getsockname()[0] == siege.party.host
    siege.lifted()


def test_words_for_the_log_cannot_steer_a_terminal():
    raw = io.BytesIO(b'{"why": "\\u001b[2J bad\\nline"}').read()
    assert messages.read_reason(raw) == "?[2J bad?line"


def test_hello_survives_the_way_there(siege):
    hello = siege.hello(need=7)
    header, content = hello.pack(mark=3)[: HEADER.size], hello.pack(mark=3)[HEADER.size :]
    assert Header.unpack(header) == Header(Kind.HELLO, 0, 3, len(content))
    assert Hello.unpack(content) == hello
    assert os.linesep not in content.decode()
    siege.lifted()
