"""Receivers that do not follow the protocol: what they say of their neighbours, and of how many they have.

A receiver gets the sum over those whom it has told of each other. One that tells every neighbour of an
accomplice only would get each neighbour's numbers, and so would one whose weight changes under a mask.
"""

from __future__ import annotations

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

import destiny
from destiny.agents import read, scaffold
from destiny.agents.certificates import Authority
from destiny.agents.outbox import Outbox
from destiny.agents.privacy.exchange import PrivateExchange
from destiny.agents.privacy.key_ring import KeyRing, Party
from destiny.agents.privacy.keys import Statement
from destiny.agents.privacy.masks import Masks, RunKey
from destiny.agents.privacy.sender import as_words
from destiny.agents.privacy.sent_log import SentLog
from destiny.agents.transport.connections import Connections, Limits
from destiny.agents.transport.messages import HEADER, Header, Kind, Refusal
from destiny.agents.transport.neighbour import Neighbour
from destiny.agents.transport.tls import TlsFiles
from destiny.engines import fixed_point
from destiny.errors import CheckpointError, SettingsError
from destiny.networks.local_view import Neighbourhood
from tests.helpers.agent_party import Party as Agents

NAMES = ["victim", "receiver", "honest", "accomplice"]
RING = {1: frozenset({0, 2})}  # the receiver's neighbours are the victim and the honest agent


class Cast:
    """The agents' certificates and keys of one run; the victim is agent 0."""

    def __init__(self, folder):
        self.folder, self.authority = folder, Authority.new()
        (folder / "ca.pem").write_bytes(self.authority.pem)
        self.secrets = {name: RunKey.new() for name in NAMES}
        self.receiver = Neighbour("receiver", 1, "", 0, "receiver", True)

    def statement(self, name, index=None, key=None):
        certificate, private = self.authority.issue(name, ["localhost"], 30.0)
        path = self.folder / f"{name}.key"
        path.write_bytes(private)
        path.chmod(0o600)
        pem = self.folder / f"{name}.pem"
        pem.write_bytes(certificate)
        der = x509.load_pem_x509_certificate(certificate).public_bytes(serialization.Encoding.DER)
        key = self.secrets[name].public if key is None else key
        return Statement.sign("run", name, NAMES.index(name) if index is None else index, key, [der], path)

    def ring_of(self, **known):
        """The victim's keys, once the receiver has said its own."""
        own = self.statement("victim")
        files = TlsFiles(*(self.folder / f for f in ("ca.pem", "victim.pem", "victim.key")), crl=None)
        party = Party("run", "victim", 0, 4, files, **known)
        ring = KeyRing(party, self.folder, self.secrets["victim"], own)
        mine = self.statement("receiver")
        ring.add(self.receiver, mine, mine.chain[0])
        return ring


@pytest.fixture
def cast(tmp_path):
    return Cast(tmp_path)


def says(receiver, degree):
    """What the connections do with the number of neighbours in a HELLO."""
    connections = object.__new__(Connections)
    connections.limits = Limits(4096, 4, 100, degree=2)
    connections.check_degree(receiver, degree)
    receiver.degree = degree


def numbers_read_by(cast, ring):
    """What the victim sends, less the mask that the accomplice shares with it."""
    numbers = np.random.default_rng(0).integers(-(2**50), 2**50, 50)
    sent = ring.masks(1).add(numbers, 0, 0, np.array([4]))
    secret = cast.secrets["accomplice"].pair(cast.secrets["victim"].public, "run", 1, 3, 0)
    mask = Masks(3, {0: secret}).add(np.zeros(50, dtype=np.int64), 0, 0, np.array([4]))
    return numbers, (sent + mask).view(np.int64)


def test_an_accomplice_in_place_of_the_neighbours_reads_everything(cast):
    """Names alone do not help: the accomplice takes part, though not beside this receiver."""
    ring = cast.ring_of(participants=NAMES)
    says(cast.receiver, 2)
    ring.add(cast.receiver, cast.statement("accomplice"), b"")
    assert not ring.missing([cast.receiver])
    numbers, found = numbers_read_by(cast, ring)
    assert (found == numbers).all()


def test_who_knows_the_neighbours_of_its_neighbour_is_not_deceived(cast):
    ring = cast.ring_of(participants=NAMES, around=RING)
    says(cast.receiver, 2)
    with pytest.raises(Refusal, match=r"agent 3, who is not its neighbour by this agent's file"):
        ring.add(cast.receiver, cast.statement("accomplice"), b"")
    assert ring.missing([cast.receiver])
    ring.add(cast.receiver, cast.statement("honest"), b"")
    numbers, found = numbers_read_by(cast, ring)
    assert not (found == numbers).any()


def test_a_neighbour_cannot_leave_neighbours_out_that_the_file_has(cast):
    cast.receiver.degree_in_file = 3
    with pytest.raises(Refusal, match="says it has 2 neighbours, expected 3"):
        says(cast.receiver, 2)


@pytest.mark.parametrize("first", ["passed on", "direct"])
def test_two_keys_of_one_agent_are_refused_in_any_order(cast, first):
    """The honest agent is a neighbour of the victim, too; the receiver passes somebody off as it."""
    ring = cast.ring_of()
    says(cast.receiver, 2)
    honest = Neighbour("honest", 2, "", 0, "honest", True)
    real, false = cast.statement("honest"), cast.statement("accomplice", index=2)
    adds = [lambda: ring.add(honest, real, real.chain[0]), lambda: ring.add(cast.receiver, false, b"")]
    one, other = adds if first == "direct" else adds[::-1]
    one()
    with pytest.raises(Refusal, match="sent another key of agent 2, as "):
        other()


# A receiver with another number of neighbours has another weight.


class Ready:
    """Connections of agent 0 to its neighbours 1 and 2; nobody is there to send to."""

    limits, mark, rounds, wait_limit = Limits(4096, 4, 100), 0, 0, 1.0

    def __init__(self):
        self.neighbours = [Neighbour(f"agent-{j}", j, "", 0, "", True) for j in (1, 2)]

    def wait(self, ready):
        assert ready()

    def send_pending(self, peer):
        pass


class Keys:
    def __init__(self, masks):
        self.one = masks

    def missing(self, neighbours):
        return {}

    def save(self):
        pass

    def link_masks(self):
        return self.one

    def masks(self, receiver):
        return self.one


def started(folder, degrees, masks):
    """An agent that has met its neighbours, who have said how many neighbours they have."""
    network = Neighbourhood(0, [1, 2], 4)
    network.learn(degrees)
    exchange = PrivateExchange(Ready(), network, 0, Outbox(), Keys(masks), SentLog(folder, "run"))
    exchange.begin()
    return exchange


def test_two_weights_under_one_mask_would_tell_the_numbers(tmp_path):
    """So an agent that was started again before its first checkpoint does not send with another weight."""
    secret = RunKey.new().pair(RunKey.new().public, "run", 1, 0, 3)
    masks = Masks(0, {3: secret})
    numbers, E = np.random.default_rng(0).standard_normal(40), np.array([4])
    columns = fixed_point.layout((40,))
    sent = []
    for folder, degree in (("a", 2), ("b", 3)):
        (tmp_path / folder).mkdir()
        weight = started(tmp_path / folder, {1: degree, 2: 2}, masks).weights[1]
        words = fixed_point.encode(numbers[None], np.array([weight]), columns.unit(E))[0]
        sent.append((weight, masks.add(words, 0, 1, E)))
    (w, first), (v, second) = sent
    found = (first - second).view(np.int64) / columns.unit(E) / (w - v)
    assert np.abs(found - numbers).max() < 1e-12
    started(tmp_path / "a", {1: 2, 2: 2}, masks)
    with pytest.raises(CheckpointError, match=r"sends to agent 1 must be 0\.333333.*; found 0\.25"):
        started(tmp_path / "a", {1: 3, 2: 2}, masks)


# A receiver that says it is behind.


class Line:
    """A connection that keeps what is written to it."""

    def __init__(self, need):
        self.next_out, self.write_paused, self.has_ended, self.sent = need, False, False, []

    def write(self, message):
        header = Header.unpack(bytes(message[: HEADER.size]))
        words = np.frombuffer(bytes(message[HEADER.size :]), dtype="<i8")
        self.sent.append((header.kind, header.round, words[: 1 + (header.kind is Kind.DATA)].tolist()))


def reconnected(exchange, peer, need):
    """A new connection of a neighbour that says which round it needs."""
    exchange.on_disconnected(peer)
    peer.connection = Line(need)
    exchange.send_pending(peer)
    return peer.connection


def test_who_says_it_is_behind_hears_no_size_of_numbers_and_one_round_at_a_time(tmp_path):
    """Sizes of every round, at points that the receiver chooses, would tell the numbers after a while."""
    secret = RunKey.new().pair(RunKey.new().public, "run", 1, 0, 3)
    exchange = started(tmp_path, {1: 2, 2: 2}, Masks(0, {3: secret}))
    exchange.connections.send_pending = exchange.send_pending
    peer, channel, slot = exchange.connections.neighbours[0], exchange.channels[1], (0, (40,))
    numbers = np.random.default_rng(0).standard_normal(40)
    for k in range(3):
        exchange.outbox.slots[k] = slot
        exchange.outbox.add(k, 0, [1e-9**k * numbers])
    channel.exponents[slot] = -1, (8,)
    plan = memoryview(as_words(8))
    line = reconnected(exchange, peer, 0)
    assert line.sent == [(Kind.EXPONENTS, 0, [8])]
    exchange.on_plan(peer, 0, plan)
    assert line.sent[1:] == [(Kind.DATA, 0, [1, 8]), (Kind.EXPONENTS, 1, [8])]
    line = reconnected(exchange, peer, 0)  # it asks again, from the start
    assert line.sent == [(Kind.DATA, 0, [1, 8]), (Kind.EXPONENTS, 1, [8])]
    exchange.on_plan(peer, 1, plan)
    assert line.sent[2:] == [(Kind.DATA, 1, [1, 8]), (Kind.DATA, 2, [0, 8])]


def test_exponents_that_are_not_the_receivers_any_more_are_not_told_as_sizes(tmp_path):
    """It would choose larger ones than it has, and round otherwise than agents in one process do."""
    secret = RunKey.new().pair(RunKey.new().public, "run", 1, 0, 3)
    exchange = started(tmp_path, {1: 2, 2: 2}, Masks(0, {3: secret}))
    peer, channel, slot = exchange.connections.neighbours[0], exchange.channels[1], (0, (40,))
    for k in range(3):
        exchange.outbox.slots[k] = slot
        exchange.outbox.add(k, 0, [np.full(40, 1e-3)])
    channel.answers = {1: (0, (8,)), 2: (0, (8,))}
    channel.exponents[slot] = 0, (4,)  # its choice for round 0 came after the numbers of round 1 had left
    line = reconnected(exchange, peer, 1)
    assert line.sent == [(Kind.DATA, 1, [0, 8]), (Kind.DATA, 2, [0, 8])]


# Files


def test_files_tell_the_neighbours_of_neighbours(tmp_path):
    scaffold.write_agent_files("ring", "a=h:1,b=h:2,c=h:3,d=h:4", tmp_path / "ring", "run")
    text = (tmp_path / "ring" / "a" / "agent.toml").read_text()
    assert "neighbours = [0, 2]" in text
    party = Agents(tmp_path / "party", destiny.networks.ring(4), messages="private = true")
    path = party.home(0) / "agent.toml"
    plain = path.read_text()
    assert [n.around for n in read(path).neighbours] == [None, None]
    path.write_text(plain.replace("index = 1\n", "index = 1\nneighbours = [0, 2]\n"))
    first, second = read(path).neighbours
    assert (first.around, first.degree_in_file) == (frozenset({0, 2}), 2)
    assert (second.around, second.degree_in_file) == (None, None)
    for wrong in ([2, 3], [0, 1], [0, 4], [0, 2, 2]):
        path.write_text(plain.replace("index = 1\n", f"index = 1\nneighbours = {wrong}\n"))
        with pytest.raises(SettingsError, match="must be the indices, from 0 to 3, of all its neighbours"):
            read(path)
    network = '[network]\nkind = "ring"\n'
    path.write_text(network + plain.replace("index = 1\n", "index = 1\nneighbours = [0, 3]\n"))
    with pytest.raises(SettingsError, match=r"links agent 1 with \[0, 2\], but .* neighbours = \[0, 3\]"):
        read(path)
