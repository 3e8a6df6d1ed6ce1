"""Participants of private runs that do not follow the protocol: what they learn, and how the run ends."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

import destiny
from destiny.agents.certificates import Authority
from destiny.agents.engine import OneAgent
from destiny.agents.exchange import Exchange
from destiny.agents.outbox import Outbox, Sent
from destiny.agents.privacy.hiding import AgentHiding
from destiny.agents.privacy.keys import Statement
from destiny.agents.privacy.notary import Party as Member
from destiny.agents.privacy.notary import SigningNotary
from destiny.agents.privacy.pair_masks import PairMasks
from destiny.agents.privacy.run_key import RunKey
from destiny.agents.statements import Notary, Statements
from destiny.agents.transport.connection import Connection
from destiny.agents.transport.connections import Limits
from destiny.agents.transport.event_loop import Absent, RunEnded
from destiny.agents.transport.messages import HEADER, MAGIC, PROTOCOL, Header, Kind, Refusal, encode_json
from destiny.agents.transport.neighbor import BUFFERS, Message, Neighbor
from destiny.agents.transport.tls import TlsFiles
from destiny.engines.mixers.private import PrivateMixer
from destiny.engines.words import add_into, subtract_from
from destiny.errors import NetworkError, PrivacyError, SettingsError
from destiny.networks.local_view import Neighborhood
from tests.helpers.agent_party import PATIENCE, Party, client_context, connect, read_message

nets = destiny.networks
PCA = 'kind = "pca"\nsynthetic = { n = 6, m = 60, xi = 0.7, seed = 0 }\np = 2'
NEWTON = 'kind = "averaged-model"'


def private(folder, network, problem=PCA, stop="rounds = 60\ntolerance = 1e-7", **options):
    return Party(folder, network, problem, NEWTON, stop, messages="private = true", **options)


def ends(party):
    running = [party.thread(i) for i in range(party.size)]
    for one in running:
        one.join(PATIENCE)
    return running


# Over TLS, with one participant that lies


def test_a_root_that_tells_two_children_different_totals_learns_nothing_from_the_next_sum(
    tmp_path, monkeypatch
):
    """By the last bit of one word, which changes no float64 number."""
    tell, add, told, words = Exchange.message_for, Exchange.all_reduce, [], {}

    def lie(self, peer, turn):
        message = tell(self, peer, turn)
        if (self.ids[0], peer.index, turn) != (1, 2, 0) or message.ready < len(message.content):
            return message
        false = bytearray(message.content)
        false[8] ^= 1
        told.append(turn)
        return Sent(memoryview(false), len(false))

    def listen(self, turn, tree, blocks):
        words[int(self.ids[0]), turn] = [block[0].copy() for block in blocks]
        return add(self, turn, tree, blocks)

    monkeypatch.setattr(Exchange, "message_for", lie)
    monkeypatch.setattr(Exchange, "all_reduce", listen)
    party = private(tmp_path, nets.path(3), deadline=10)
    running = ends(party)
    assert told
    for one in running:
        assert isinstance(one.error, RunEnded), one.error
        assert "masks of 3 agents must cancel in a total, but they do not" in str(one.error)
    assert max(turn for _, turn in words) == 1
    total = np.sum([words[i, 1][0] for i in range(3)], axis=0, dtype=np.uint64)
    ones = np.unpackbits(total.view(np.uint8)).mean()
    assert abs(ones - 0.5) < 5 * 0.5 / np.sqrt(64 * len(total)), "each bit is a toss of a coin"


def test_one_who_never_agrees_to_stop_does_not_change_the_method(tmp_path, monkeypatch):
    """Its rider says that its residual is too large, for ever; nobody mixes with neighbors because of it."""
    whole, sizes = OneAgent.all_reduce, []

    def stubborn(self, *arrays, bounds=None):
        if self.ids[0] == 1 and self.flood is not None:
            self.flood = np.ones(1)
        sizes.append(tuple(a.shape for a in arrays))
        return whole(self, *arrays, bounds=bounds)

    def mixes(*_):
        raise AssertionError("numbers went to neighbors")

    monkeypatch.setattr(OneAgent, "all_reduce", stubborn)
    monkeypatch.setattr(Exchange, "swap", mixes)
    party = private(tmp_path, nets.ring(3), stop="rounds = 12\ntolerance = 1e-7")
    for outcome in party.go():
        assert not outcome.reason.startswith("converged")
        assert np.abs(outcome.X - party.reference.X).max() < 1e-10
    assert {shape for shapes in sizes for shape in shapes} == {
        (1, 6), (1, 2), (1, 6, 2), (1, 21), (1,)
    }  # fmt: skip


@pytest.mark.parametrize("turn", [0, 1], ids=["without bounds", "above a bound"])
@pytest.mark.parametrize("number", [3.25e65, np.inf, np.nan])
def test_numbers_that_words_cannot_hold_end_the_run_before_they_are_sent(number, turn, tmp_path, monkeypatch):
    sent, write, whole = [], Connection.write_part, OneAgent.all_reduce

    def spy(self, *parts):
        size = sum(map(len, parts)) - HEADER.size
        sent.append((self.connections.me.agent, Header.unpack(b"".join(parts)[: HEADER.size]).round, size))
        write(self, *parts)

    def spoilt(self, *arrays, bounds=None):
        if self.ids[0] == 1 and self.traffic.turns == turn:
            arrays = (np.full_like(arrays[0], number), *arrays[1:])
        return whole(self, *arrays, bounds=bounds)

    monkeypatch.setattr(Connection, "write_part", spy)
    monkeypatch.setattr(OneAgent, "all_reduce", spoilt)
    errors = [one.error for one in ends(private(tmp_path, nets.ring(3), deadline=10))]
    assert all(isinstance(error, RunEnded) for error in errors)
    assert not [size for agent, k, size in sent if agent == "agent-1" and k == turn and size > 0]
    for error in (errors[0], errors[2]):
        assert "has numbers that its private messages cannot carry" in str(error)
        assert not any(word in str(error) for word in ("e+", "inf", "nan", "3.25"))


def statement_of(index, links):
    return encode_json(Kind.STATEMENT, {"index": index, "links": links})


def called(party, *frames):
    """A connection to agent-1 with the certificate of agent-0, after its HELLO, its statement and more."""
    sock = connect((party.host, 7001), client_context(party.home(0), party.home(0) / "ca.pem"))
    sock.sendall(party.settings(0).hello.pack() + statement_of(0, [1]) + b"".join(frames))
    assert read_message(sock)[0].kind is Kind.HELLO
    return sock


def data(turn, length, content=b""):
    return HEADER.pack(MAGIC, PROTOCOL, Kind.DATA, 0, turn, 0, length) + content


def test_half_a_message_and_then_silence_ends_at_the_deadline(tmp_path):
    party = Party(tmp_path, nets.path(2), PCA, NEWTON, deadline=1)
    running = party.thread(1)
    length = 8 * (12 + 12 + 21 + 1)  # X, R, the model and a rider
    with (
        called(party, data(0, length, bytes(80))),
        pytest.raises(Absent, match="agent-0 has not sent round 0"),
    ):
        running.end()


@pytest.mark.parametrize(
    ("frames", "sentence"),
    [
        ([data(0, 0)], "bytes for turn 0, expected|bytes for round 0, expected"),
        ([data(0, 16, bytes(16))], "16 bytes for (turn|round) 0, expected"),
        ([data(0, 2**40)], "announced 1099511627776 bytes"),
        ([data(1, 0)], "sent round 1 where round 0 was due"),
        ([statement_of(0, [1])] * 9, "sent more statements than there are agents, 2"),
        ([encode_json(Kind.STATEMENT, {"index": 1, "links": []})], "another statement of agent 1"),
    ],
    ids=["empty", "short", "endless", "ahead", "flood of statements", "about the victim itself"],
)
def test_messages_that_cannot_be_are_refused_in_words(frames, sentence, tmp_path):
    party = Party(tmp_path, nets.path(2), PCA, NEWTON, deadline=1)
    running = party.thread(1)
    with called(party, *frames), pytest.raises(SettingsError, match=sentence):
        running.end()


def test_a_refusal_before_statements_is_told_as_the_reason(tmp_path):
    party = Party(tmp_path, nets.path(2), PCA, NEWTON, deadline=1)
    running = party.thread(1)
    sock = connect((party.host, 7001), client_context(party.home(0), party.home(0) / "ca.pem"))
    with sock:
        sock.sendall(party.settings(0).hello.pack() + encode_json(Kind.REFUSED, {"why": "is not wanted"}))
        with pytest.raises(
            SettingsError, match=r"agent-0 has not said .*refused agent-1, which is not wanted"
        ):
            running.end()


# Turns of an exchange, without sockets


def exchange_at(turn):
    """Agent 0 in a ring of four, in a sum: agent 1 is its child, agent 3 is, too; or its parent is there."""
    network = nets.ring(4)
    neighbors = [Neighbor(f"agent-{i}", i, "", 0, f"agent-{i}", True) for i in (1, 3)]
    connections = SimpleNamespace(neighbors=neighbors, limits=Limits(4096, 4, 100))
    exchange = Exchange(connections, network, 0, Outbox())
    exchange.turn, exchange.size, exchange.awaited = turn, 80, neighbors[:1]
    for n in neighbors:
        n.allocate(4096)
        n.next_in = turn
    return exchange, *neighbors


HEADERS = {
    "content from outside the tree": (1, 5, 80, "announced 80 bytes for round 5, expected 0"),
    "nothing from inside": (0, 5, 0, "announced 0 bytes for round 5, expected 80"),
    "too much": (0, 5, 88, "announced 88 bytes for round 5, expected 80"),
    "odd": (0, 6, 81, "announced 81 bytes for round 6, expected at most 4096"),
    "late content from outside the tree": (1, 4, 80, "announced 80 bytes for round 4, expected 0"),
    "far ahead": (1, 5 + BUFFERS + 1, 0, "more rounds than it may be ahead"),
}


@pytest.mark.parametrize("what", HEADERS)
def test_what_is_not_due_is_refused_by_its_header(what):
    who, turn, length, sentence = HEADERS[what]
    exchange, *neighbors = exchange_at(5)
    neighbors[who].next_in = turn
    with pytest.raises(Refusal, match=sentence):
        exchange.check_header(neighbors[who], Header(Kind.DATA, turn, 0, length))


def test_a_turn_is_taken_once_and_empty_ones_only_so_far_ahead():
    exchange, _, other = exchange_at(5)
    for turn in range(5, 5 + BUFFERS + 1):
        header = Header(Kind.DATA, turn, 0, 0)
        exchange.check_header(other, header)
        exchange.on_data(other, Message(turn, 0, bytearray()))
        with pytest.raises(Refusal, match=f"sent round {turn} where round {turn + 1} was due"):
            exchange.check_header(other, header)
    with pytest.raises(Refusal, match="more rounds than it may be ahead"):
        exchange.check_header(other, Header(Kind.DATA, 5 + BUFFERS + 1, 0, 0))


def test_an_empty_message_that_comes_late_does_not_pass_for_that_of_this_turn():
    exchange, _, other = exchange_at(5)
    other.next_in = 4
    exchange.check_header(other, Header(Kind.DATA, 4, 0, 0))
    exchange.on_data(other, Message(4, 0, bytearray()))
    assert not other.inbox
    assert other.next_in == 5


# Masks


class Forgetful:
    """A log that takes everything."""

    def add(self, turn, parts):
        pass


def hidings(count=3):
    found = []
    for i in range(count):
        hiding = AgentHiding(None, Forgetful(), "settings")
        secrets = {j: hashlib.sha256(bytes(sorted((i, j)))).digest() for j in range(count) if j != i}
        hiding.masks = PairMasks(i, secrets)
        found.append(hiding)
    return found


def total_of(encoded):
    totals = [part[0].copy() for part in encoded[0]]
    for parts in encoded[1:]:
        for total, part in zip(totals, parts, strict=True):
            add_into(total, part[0])
    return totals


def summed(agents, turns, numbers, bounds):
    sums = [PrivateMixer(len(agents), hiding) for hiding in agents]
    blocks = [[np.full((1, 4), number), np.full((1, 2), number)] for number in numbers]
    encoded = [
        s.encode(turn, b, bound) for s, turn, b, bound in zip(sums, turns, blocks, bounds, strict=True)
    ]
    return sums[0].decode(total_of(encoded), blocks[0], bounds[0])


BOUNDS = [8.0, None]


def test_masks_of_honest_agents_cancel():
    narrow, wide = summed(hidings(), [4] * 3, [1.0, 2.0, 0.5], [BOUNDS] * 3)
    assert narrow.tolist() == [3.5] * 4
    assert wide.tolist() == [3.5] * 2


DIFFERENT = {
    "turn": ([4, 4, 5], [BOUNDS] * 3),
    "unit": ([4] * 3, [BOUNDS, BOUNDS, [4.0, None]]),
    "unit of one word": ([4] * 3, [BOUNDS, BOUNDS, [np.array([8.0, 8.0, 8.0, 64.0]), None]]),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_masks_of_words_that_mean_different_things_do_not_cancel(what):
    """Agents that disagree on the units of words would have a wrong total, and not know it."""
    turns, bounds = DIFFERENT[what]
    with pytest.raises(PrivacyError, match="masks of 3 agents must cancel"):
        summed(hidings(), turns, [1.0, 2.0, 0.5], bounds)


def test_masks_of_another_number_of_words_do_not_cancel():
    """The first words of a longer sum are not those of a shorter one."""
    agents = hidings(2)
    one, other = np.zeros(3, dtype="<u8"), np.zeros(5, dtype="<u8")
    agents[0].hide(0, [one], np.zeros(3, dtype=np.intc))
    agents[1].hide(0, [other], np.zeros(5, dtype=np.intc))
    assert (one + other[:3]).all()


@pytest.mark.parametrize("learned", [[b"a total", b"a total", b"another"], [b"", b"a total", b"a total"]])
def test_masks_of_agents_that_were_told_different_totals_do_not_cancel(learned):
    agents = hidings()
    for hiding, total in zip(agents, learned, strict=True):
        hiding.learn([np.frombuffer(total.ljust(16), dtype="<u8")])
    with pytest.raises(PrivacyError, match="masks of 3 agents must cancel"):
        summed(agents, [4] * 3, [1.0, 2.0, 0.5], [BOUNDS] * 3)


def test_a_cut_vertex_gets_no_sum_of_one_side():
    """Two triangles share agent 0, which knows its own masks with everybody."""
    agents, numbers = hidings(5), np.arange(1.0, 6.0)
    sums = [PrivateMixer(5, hiding) for hiding in agents]
    sent = [s.encode(0, [np.full((1, 300), x)], [32.0])[0][0] for s, x in zip(sums, numbers, strict=True)]
    bare = [PrivateMixer(5).encode(0, [np.full((1, 300), x)], [32.0])[0][0] for x in numbers]
    own = sent[0] - bare[0]  # masks of agent 0 with all others
    for side in ((1, 2), (3, 4)):
        heard = sent[side[0]] + sent[side[1]]
        for guess in (heard, heard + own, heard - own):
            assert not (guess == bare[side[0]] + bare[side[1]]).any()
    everybody = np.sum(sent, axis=0, dtype=np.uint64)
    assert (everybody == np.sum(bare, axis=0, dtype=np.uint64)).all()


def test_nobody_and_one_patient_look_the_same():
    """A column of zeros: sizes of messages are the same, and no word is bare."""
    found = []
    for patients in (0.0, 1.0):
        parts = PrivateMixer(3, hidings()[1]).encode(0, [np.full((1, 50), patients)] * 2, [100.0, None])
        assert [part.shape for part in parts] == [(1, 51), (1, 50, 6)]
        assert all(part.all() for part in parts)
        found.append(parts)
    difference = found[1][1][0].copy()
    subtract_from(difference, found[0][1][0])
    assert difference.any(), "under one mask they could be told apart: which is why none is used twice"


# Statements

NAMES = ["victim", "liar", "honest", "far"]
LINKS = [[1, 2], [0, 2, 3], [0, 1, 3], [1, 2]]


class Cast:
    """Certificates and keys of the agents of one run; the victim is agent 0."""

    def __init__(self, folder):
        self.folder, self.authority = folder, Authority.new()
        (folder / "ca.pem").write_bytes(self.authority.pem)
        self.secrets = [RunKey.new() for _ in NAMES]
        self.neighbors = [Neighbor(NAMES[i], i, "", 0, NAMES[i], True) for i in (1, 2)]

    def statement(self, i, run="run", name=None, key=None, links=None):
        name = NAMES[i] if name is None else name
        certificate, private_key = self.authority.issue(name, ["localhost"], 30.0)
        (self.folder / f"{name}.key").write_bytes(private_key)
        (self.folder / f"{name}.key").chmod(0o600)
        (self.folder / f"{name}.pem").write_bytes(certificate)
        der = x509.load_pem_x509_certificate(certificate).public_bytes(serialization.Encoding.DER)
        key = self.secrets[i].public if key is None else key
        links = LINKS[i] if links is None else links
        signed = Statement.sign(run, name, i, key, links, [der], self.folder / f"{name}.key")
        return signed.table()

    def victim(self, **known):
        self.statement(0)
        files = TlsFiles(*(self.folder / f for f in ("ca.pem", "victim.pem", "victim.key")), crl=None)
        member = Member("run", "victim", 0, 4, LINKS[0], files, **known)
        return Statements(SigningNotary(member, self.secrets[0]), self.neighbors, self.folder, "run")


@pytest.fixture
def cast(tmp_path):
    return Cast(tmp_path)


def receive(statements, peer, table):
    message = encode_json(Kind.STATEMENT, table)
    return list(statements.receive(peer, memoryview(message)[HEADER.size :]))


def test_right_statements_are_taken_and_passed_on_once(cast):
    statements, (liar, honest) = cast.victim(participants=NAMES), cast.neighbors
    told = cast.statement(3)
    assert [n.name for n, _ in receive(statements, liar, told)] == ["honest"]
    assert receive(statements, honest, told) == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_statements_of_one_agent_to_two_neighbors_are_refused(cast, order):
    """Whoever of its neighbors hears of both: in the key or in the links."""
    first = cast.statement(1)
    for second in (cast.statement(1, key=RunKey.new().public), cast.statement(1, links=[0, 2])):
        statements, pair = cast.victim(), (first, second)
        receive(statements, cast.neighbors[1], pair[order[0]])
        with pytest.raises(Refusal, match="another statement of agent 1 than this agent has"):
            receive(statements, cast.neighbors[1], pair[order[1]])


FORGERIES = {
    "a key put in": (lambda c: c.statement(3) | {"key": c.statement(1)["key"]}, "has not signed"),
    "links put in": (lambda c: c.statement(3) | {"links": [1]}, "has not signed"),
    "another's name": (
        lambda c: c.statement(1) | {"name": "far", "index": 3, "links": [1, 2]},
        "with a certificate of",
    ),
    "an accomplice in its place": (
        lambda c: c.statement(3, name="accomplice"),
        "who is 'far' in participants",
    ),
    "of an earlier run": (lambda c: c.statement(3, run="run-0"), "for the run 'run-0', expected 'run'"),
    "of the victim": (lambda c: c.statement(3, name="victim"), "who cannot be that agent"),
    "other neighbors than in the file": (lambda c: c.statement(2, links=[0, 1]), "other neighbors of"),
    "no agents": (lambda c: c.statement(3) | {"links": [1, 1]}, "no list of agents"),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_forged_and_old_statements_are_refused(cast, what):
    make, sentence = FORGERIES[what]
    around = {2: frozenset(LINKS[2])}
    statements = cast.victim(participants=NAMES, around=around)
    with pytest.raises(Refusal, match=sentence):
        receive(statements, cast.neighbors[0], make(cast))
    assert len(statements.known) == 1


def test_whoever_hears_of_other_keys_has_other_masks(cast):
    """A liar between two parts of a network can tell each another key: their masks do not cancel."""
    keys = []
    for key in (None, RunKey.new().public):
        statements = cast.victim()
        for i in (1, 2, 3):
            table = cast.statement(i, key=key if i == 1 else None)
            receive(statements, cast.neighbors[1], table)
        hiding = AgentHiding(statements.notary, Forgetful(), "settings")
        hiding.begin(statements)
        words = np.zeros(4, dtype="<u8")
        hiding.masks = PairMasks(0, {2: bytes(32)})  # with the honest agent alone
        hiding.hide(0, [words], np.zeros(4, dtype=np.intc))
        keys.append(words)
    assert (keys[0] != keys[1]).all()


def test_links_that_one_end_denies_are_refused_by_name(tmp_path):
    network = Neighborhood(0, [1], 3)
    with pytest.raises(NetworkError, match="agent 2 says that agent 0 is its neighbor, but agent 0 does not"):
        network.learn_links({0: [1], 1: [0, 2], 2: [0, 1]})
    statements = Statements(Notary(0, 3, [1]), [], tmp_path, "run")
    peer = Neighbor("liar", 1, "", 0, "liar", True)
    for table in (
        {"index": 7, "links": []},
        {"index": 2, "links": [2]},
        {"index": 2},
        {"index": True, "links": []},
    ):
        with pytest.raises(Refusal):
            receive(statements, peer, table)
