"""Messages of asynchronous agents: what is refused, what is replaced, and what a slow line carries."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import destiny
from destiny.agents.exchange import Exchange
from destiny.agents.outbox import Outbox
from destiny.agents.transport.messages import HEADER, Header, Kind, Refusal
from destiny.agents.transport.neighbor import Neighbor
from destiny.extensions.asynchronous.agents.async_exchange import MOST_LIVES, AsyncExchange, line_is_free
from destiny.extensions.asynchronous.agents.belief import Trim
from destiny.extensions.asynchronous.agents.message_codec import MessageCodec
from destiny.extensions.asynchronous.async_protocol import LIFE
from destiny.extensions.asynchronous.destiny_async import DestinyAsync
from destiny.extensions.asynchronous.termination import TerminationDetection
from destiny.storage.checkpoint import flatten
from tests.helpers.async_agents import AsyncAgents
from tests.helpers.small_problems import small_problem

NETWORK = destiny.networks.ring(3)
METHOD = TerminationDetection(DestinyAsync(), 1e-6).on(NETWORK)


def letters(rounds=3):
    """Messages of agent 1 one after the other, of agents that hear everything."""
    agents = AsyncAgents(problem(), NETWORK, TerminationDetection(DestinyAsync(), 1e-6))
    made = []
    for _ in range(rounds):
        agents.lockstep()
        made.append(next(m for m in agents.inboxes[0] if int(m.sender) == 1))
    return made


def problem():
    return small_problem("pca", agents=3)


class Line:
    """A connection whose line can be stopped."""

    def __init__(self):
        self.can_send, self.written, self.next_out = True, [], 0
        self.socket, self.other = socket.socketpair()
        self.transport = SimpleNamespace(get_extra_info=lambda _: self.socket)

    def write(self, message):
        self.written.append(bytes(message))


@pytest.fixture
def peer():
    n = Neighbor("agent-1", 1, "127.0.0.1", 7001, "agent-1", False)
    n.connection = line = Line()
    yield n
    line.socket.close()
    line.other.close()


@pytest.fixture
def exchange(peer):
    connections = SimpleNamespace(
        neighbors=[peer], mark=0, wake=lambda: None, limits=SimpleNamespace(largest=10_000, rounds=1000)
    )
    codec = MessageCodec.of(METHOD, problem().shape, 3)
    one = AsyncExchange(connections, NETWORK, 0, Outbox(), METHOD, codec, np.zeros(3))
    one.life = 1
    one.stamp = float(LIFE + 40)
    return one


def content(exchange, letter):
    return exchange.codec.pack(letter)[HEADER.size :]


def test_numbers_arrive_as_they_were_sent(exchange, peer):
    for letter in letters():
        exchange.on_state(peer, content(exchange, letter))
    (newest,) = exchange.take()  # what was not used is replaced
    sent, came = flatten(letter), flatten(newest)
    assert sent.keys() == came.keys()
    assert all(np.array_equal(came[name], array) for name, array in sent.items())
    assert exchange.take() == []
    exchange.on_state(peer, content(exchange, letters(1)[0]))  # one that is older
    assert exchange.take() == []
    assert peer.heard == 4


WRONG = {
    "not finite": lambda m: m.message.point.fill(np.nan),
    "infinite sum": lambda m: m.message.total.fill(np.inf),
    "age": lambda m: m.message.age.fill(-1),
    "ceiling": lambda m: m.message.ceiling.fill(-1),
    "cosine": lambda m: m.message.cosine.fill(2),
    "curvature": lambda m: m.message.curvature.fill(-1),
    "scale": lambda m: m.message.scale.fill(np.nan),
    "gain": lambda m: m.message.gain.fill(0.1),
    "large gain": lambda m: m.message.gain.fill(2.1),
    "sender": lambda m: m.message.sender.fill(2),
    "fraction": lambda m: m.message.stamp.fill(1.5),
    "no stamp": lambda m: m.message.stamp.fill(0),
    "beyond 2^53": lambda m: m.message.heard.fill(2.0**53),
    "negative": lambda m: m.stamps.fill(-1),
    "another stamp of its own": lambda m: m.stamps.fill(0),
    "level": lambda m: m.levels.fill(5),
    "half a level": lambda m: m.levels.fill(0.5),
    "never sent": lambda m: m.message.heard.fill(LIFE + 41),
    "never lived": lambda m: m.message.heard.fill(LIFE * float(MOST_LIVES)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_no_agent_sends_is_refused(exchange, peer, wrong):
    good = exchange.codec.unpack(memoryview(bytearray(content(exchange, letters(1)[0]))))
    assert exchange.flaw_of(peer, good) is None
    WRONG[wrong](good)
    with pytest.raises(Refusal):
        exchange.on_state(peer, content(exchange, good))
    assert exchange.take() == []


@pytest.mark.parametrize("header", [(Kind.STATE, 0, 8), (Kind.STATE, 1, None)])
def test_a_message_of_the_wrong_size_or_kind_is_refused_before_it_is_read(exchange, peer, header):
    kind, round, length = header
    with pytest.raises(Refusal):
        exchange.check_header(peer, Header(kind, round, 0, length or exchange.codec.length))
    exchange.check_header(peer, Header(Kind.STATE, 0, 0, exchange.codec.length))


def test_an_echo_of_a_life_that_was_forgotten_is_no_lie(exchange, peer):
    """The files of this agent were lost: it must not refuse whoever remembers it."""
    exchange.life, exchange.stamp = 1, float(LIFE + 2)
    exchange.check_request(peer, need=0, mark=1)
    assert exchange.is_forgotten
    (letter,) = letters(1)
    heard = letter.heard.copy()
    heard[0] = LIFE + 5000
    exchange.on_state(peer, content(exchange, replace(letter, message=replace(letter.message, heard=heard))))
    assert len(exchange.take()) == 1


def with_echo(letter, mine):
    """The same message of a sender that says it has heard this one of agent 0."""
    heard = letter.heard.copy()
    heard[0] = mine
    return replace(letter, message=replace(letter.message, heard=heard))


@pytest.mark.parametrize("way", ["HELLO", "STATE"])
def test_a_false_echo_of_a_late_life_is_refused_and_changes_nothing(exchange, peer, way):
    """One that was believed would end this agent for good, as it may not be started so often."""
    echo = with_echo(letters(1)[0], LIFE * float(MOST_LIVES - 1))
    ways = {
        "HELLO": lambda: exchange.check_request(peer, need=0, mark=MOST_LIVES - 1),
        "STATE": lambda: exchange.on_state(peer, content(exchange, echo)),
    }
    with pytest.raises(Refusal, match="heard life 1048575 of this agent, which is in life 1"):
        ways[way]()
    assert not exchange.is_forgotten
    assert exchange.take() == []


def test_a_neighbor_reminds_this_agent_of_a_forgotten_life_once(exchange, peer):
    exchange.check_request(peer, need=0, mark=7)
    exchange.check_request(peer, need=0, mark=7)  # again, before this agent has seen to it
    assert (exchange.is_forgotten, exchange.life_heard) == (True, 7)
    exchange.life = 8
    with pytest.raises(Refusal, match="heard life 9 of this agent, which is in life 8"):
        exchange.check_request(peer, need=0, mark=9)
    other = Neighbor("agent-2", 2, "127.0.0.1", 7002, "agent-2", False)
    exchange.check_request(other, need=0, mark=9)  # it may have heard more than the first
    assert exchange.life_heard == 9


def test_what_is_said_of_a_neighbor_is_believed_from_itself_alone(exchange, peer):
    """A false stamp is not passed on to the agent that it is about, which would refuse who passes it on."""
    third = Neighbor("agent-2", 2, "127.0.0.1", 7002, "agent-2", False)
    exchange.connections.neighbors.append(third)
    (letter,) = letters(1)
    stamps = letter.stamps.copy()
    stamps[2] = LIFE + 5000.0  # agent 2 has never sent that
    exchange.on_state(peer, content(exchange, replace(letter, stamps=stamps)))
    (came,) = exchange.take()
    assert came.stamps[2] == 0
    assert came.stamps[1] == letter.stamps[1]
    assert exchange.trim_of(came) == Trim((2,))
    stamps[2] = LIFE * float(MOST_LIVES)
    with pytest.raises(Refusal, match="started 1048576 times or more"):
        exchange.on_state(peer, content(exchange, replace(letter, stamps=stamps)))


def test_lives_and_rounds_of_a_hello_that_cannot_be_are_refused(exchange, peer):
    with pytest.raises(Refusal, match="life"):
        exchange.check_request(peer, need=0, mark=MOST_LIVES)
    with pytest.raises(Refusal, match="all agents must start a new run"):
        exchange.check_request(peer, need=1, mark=0)


def test_a_slow_line_gets_the_newest_message_and_never_a_queue(exchange, peer):
    first, second, third = letters()
    line = peer.connection
    exchange.publish(first)
    exchange.send_pending(peer)
    exchange.send_pending(peer)  # it has it
    line.can_send = False  # the transport's buffer is full
    for letter in (second, third):
        exchange.publish(letter)
        exchange.send_pending(peer)
    line.can_send = True
    exchange.send_pending(peer)
    assert line.written == [bytes(exchange.codec.pack(letter)) for letter in (first, third)]
    assert exchange.written == 2


def test_a_new_connection_carries_the_latest_message_again(exchange, peer):
    exchange.publish(letters(1)[0])
    exchange.send_pending(peer)
    exchange.on_connected(peer)
    exchange.send_pending(peer)
    assert len(peer.connection.written) == 2


def test_a_line_is_free_when_the_other_machine_has_what_was_sent():
    """Between two machines the system would buffer megabytes of old messages."""
    server = socket.create_server(("127.0.0.1", 0))
    near = socket.create_connection(server.getsockname())
    far, _ = server.accept()
    assert line_is_free(near, 100)
    near.setblocking(False)
    with contextlib.suppress(BlockingIOError):  # nobody reads: both ends fill up
        while True:
            near.send(bytes(1 << 20))
    assert not line_is_free(near, 100)
    near.close()
    assert not line_is_free(near, 100)
    for each in (far, server):
        each.close()


def test_a_synchronous_agent_refuses_messages_of_asynchronous_ones(exchange, peer):
    plain = Exchange(exchange.connections, NETWORK, 0, Outbox())
    with pytest.raises(Refusal, match="does not belong to runs of this method"):
        plain.check_header(peer, Header(Kind.STATE, 0, 0, exchange.codec.length))
    with pytest.raises(Refusal, match="runs without rounds"):
        plain.on_state(peer, content(exchange, letters(1)[0]))
