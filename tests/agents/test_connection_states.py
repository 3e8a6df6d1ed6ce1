"""The states of a connection: which events can happen in which, and that a connection keeps to them."""

import asyncio
import json
import re
import socket
import ssl
import threading
from types import SimpleNamespace

import pytest

from destiny.agents.exchange import Exchange
from destiny.agents.transport import messages
from destiny.agents.transport.connection import Connection
from destiny.agents.transport.messages import Header, Kind
from destiny.agents.transport.neighbor import Neighbor
from destiny.agents.transport.state import (
    AFTER_PEERS_BYE,
    ENDED,
    TRANSITIONS,
    WRITABLE,
    ConnectionEvent,
    ConnectionState,
    next_state,
)
from tests.helpers import ROOT
from tests.helpers.agent_party import authority, client_context

POSSIBLE = {(state, event) for state, events in TRANSITIONS.items() for event in events}


@pytest.mark.parametrize("state", ConnectionState)
@pytest.mark.parametrize("event", ConnectionEvent)
def test_only_events_of_the_table_change_the_state(state, event):
    if (state, event) in POSSIBLE:
        assert next_state(state, event) is TRANSITIONS[state][event]
    else:
        with pytest.raises(
            RuntimeError, match=f"{event.name} cannot happen to a connection in state {state.name}"
        ):
            next_state(state, event)


def test_every_state_is_reached_and_every_life_ends():
    reached, frontier = set(), [ConnectionState.CONNECTING]
    while frontier:
        state = frontier.pop()
        if state not in reached:
            reached.add(state)
            frontier += TRANSITIONS[state].values()
    assert reached == set(ConnectionState) == set(TRANSITIONS)
    assert not TRANSITIONS[ConnectionState.CLOSED]
    for state in set(ConnectionState) - {ConnectionState.CONNECTING, ConnectionState.CLOSED}:
        assert TRANSITIONS[state][ConnectionEvent.LOST] is ConnectionState.CLOSED


def test_no_event_leads_back():
    """Once ended a connection stays so, and what was said cannot be unsaid."""
    for groups in (
        ENDED,
        ENDED | AFTER_PEERS_BYE,
        set(ConnectionState) - WRITABLE - {ConnectionState.CONNECTING},
    ):
        for state in groups - {ConnectionState.AWAITING_HELLO}:
            assert set(TRANSITIONS[state].values()) <= groups


def test_the_page_has_the_same_table():
    page = (ROOT / "docs" / "transport.md").read_text()
    events, rows = re.search(r"^\| state \|(.*)\|\n\|[-|]+\|\n((?:\|.*\|\n)+)", page, re.MULTILINE).groups()
    assert [cell.strip() for cell in events.split("|")] == [event.name for event in ConnectionEvent]
    table = {}
    for row in rows.splitlines():
        state, *cells = (cell.strip() for cell in row.strip("|").split("|"))
        table |= {
            (state, e.name): cell for e, cell in zip(ConnectionEvent, cells, strict=True) if cell != "-"
        }
    assert table == {(s.name, e.name): TRANSITIONS[s][e].name for s, e in POSSIBLE}


class Pipe:
    """A transport that keeps what is written to it."""

    def __init__(self):
        self.kinds, self.aborted, self.closed, self.reading = [], False, False, True

    def write(self, message):
        self.kinds.append(Header.unpack(bytes(message[: messages.HEADER.size])).kind)

    def close(self):
        self.closed = True

    def abort(self):
        self.aborted = True


class Hosts:
    """Stands in for `Connections`: admits everybody, and lists what it is told."""

    def __init__(self, loop):
        self.loop, self.calls, self.neighbors, self.open_connections = loop, [], [], set()
        self.event_log = SimpleNamespace(report_neighbor=self.log, report_stranger=self.log)
        self.store = SimpleNamespace(after_bye=Exchange.after_bye)
        self.peer = Neighbor("b", 1, "host", 1, "b", dial=False)
        self.peer.allocate(64)

    def log(self, *facts, **more):
        self.calls.append("log")

    def hello(self, n):
        return messages.encode_json(Kind.HELLO, {})

    def on_hello(self, connection, hello, mark):
        connection.admit(self.peer, 0)

    def on_bye(self, peer, why):
        self.calls.append("bye")

    def on_refused(self, connection, why):
        return why

    def on_closed(self, connection, why, disagreement):
        self.calls.append(("closed", disagreement))


@pytest.fixture
def connection(monkeypatch):
    loop = asyncio.new_event_loop()
    made = Connection(Hosts(loop), "127.0.0.1:1")
    made.transport = Pipe()
    monkeypatch.setattr("destiny.agents.transport.connection.Hello.unpack", lambda content: None)
    yield made
    loop.close()


def receive(connection, message):
    """Let a connection read these bytes, as asyncio would."""
    while message:
        buffer = connection.get_buffer(-1)
        count = min(len(buffer), len(message))
        buffer[:count] = message[:count]
        connection.buffer_updated(count)
        message = message[count:]


def say(kind, **table):
    return messages.encode_json(kind, table)


def opened(connection):
    connection.state = ConnectionState.AWAITING_HELLO
    receive(connection, say(Kind.HELLO))
    assert connection.state is ConnectionState.OPEN
    return connection


def test_nothing_is_written_after_bye(connection):
    opened(connection)
    assert connection.can_send
    connection.write_bye("done")
    assert connection.state is ConnectionState.BYE_SENT
    assert not connection.can_send
    with pytest.raises(RuntimeError, match="BYE_WRITTEN cannot happen"):
        connection.write_bye("done")
    receive(connection, say(Kind.BYE, why="done"))
    assert connection.state is ConnectionState.DONE
    assert connection.transport.kinds == [Kind.HELLO, Kind.BYE]


@pytest.mark.parametrize("kind", [Kind.HELLO, Kind.BYE])
def test_what_comes_after_bye_is_refused(connection, kind):
    receive(opened(connection), say(Kind.BYE, why="done"))
    assert connection.state is ConnectionState.BYE_RECEIVED
    assert connection.can_send, "the neighbor's rounds may still be missing there"
    receive(connection, say(kind))
    assert connection.state is ConnectionState.CLOSING
    assert connection.transport.kinds[-1] is Kind.REFUSED
    assert ("closed", True) in connection.connections.calls


@pytest.mark.parametrize("message", [say(Kind.BYE, why="done"), Header(Kind.DATA, 0, 0, 8).pack()])
def test_hello_comes_first(connection, message):
    connection.state = ConnectionState.AWAITING_HELLO
    receive(connection, message)
    assert connection.state is ConnectionState.CLOSING


def test_an_end_is_reported_once(connection):
    opened(connection).refuse("is a test")
    connection.refuse("is a test")
    connection.abort()
    receive(connection, say(Kind.BYE, why="done"))
    connection.connection_lost(None)
    connection.connections.loop.run_until_complete(asyncio.sleep(0))
    assert connection.state is ConnectionState.CLOSED
    assert connection.transport.aborted
    assert [call for call in connection.connections.calls if call != "log"] == [("closed", True)]
    assert len(connection.connections.peer.free_buffers) == 2


def test_a_refusal_of_the_peer_s_is_a_disagreement(connection):
    receive(opened(connection), messages.encode_json(Kind.REFUSED, json.loads('{"why": "no"}')))
    assert connection.state is ConnectionState.CLOSING
    assert connection.connections.calls == [("closed", True)]


def test_before_the_handshake_there_is_nothing_to_abort(connection):
    connection.abort()
    assert connection.state is ConnectionState.CONNECTING
    assert not connection.transport.aborted


@pytest.fixture
def over_tls(connection, tmp_path):
    """A connection over TLS, the peer's end of it, and the errors that asyncio reports."""
    certificate, key = authority().issue("b", ["127.0.0.1"])
    (tmp_path / "certificate.pem").write_bytes(certificate)
    (tmp_path / "key.pem").write_bytes(key)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority().pem.decode())
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(tmp_path / "certificate.pem", tmp_path / "key.pem")
    loop, listener, errors = connection.connections.loop, socket.create_server(("127.0.0.1", 0)), []
    loop.set_exception_handler(lambda _, context: errors.append(context["message"]))
    there = socket.create_connection(listener.getsockname())
    here, _ = listener.accept()
    listener.close()
    peer = client_context(tmp_path, tmp_path).wrap_socket(there, do_handshake_on_connect=False)
    handshake = threading.Thread(target=peer.do_handshake, daemon=True)
    handshake.start()
    loop.run_until_complete(loop.connect_accepted_socket(lambda: connection, here, ssl=server))
    handshake.join()
    yield connection, peer, errors
    peer.close()


@pytest.mark.parametrize("cut", range(1, 6))
def test_a_refusal_that_comes_with_the_end_of_a_connection_is_no_error(over_tls, cut):
    """asyncio then hands it over while it shuts TLS down, and does not expect the end of all meanwhile."""
    connection, peer, errors = over_tls
    loop, head = connection.connections.loop, messages.HEADER.size
    hello, bye, refused = say(Kind.HELLO), say(Kind.BYE, why="done"), say(Kind.REFUSED, why="no")
    everything = hello + bye + refused
    at = [head, len(hello), len(hello) + head, len(hello + bye), len(hello + bye) + head][cut - 1]
    peer.sendall(everything[:at])
    loop.run_until_complete(asyncio.sleep(0.01))
    peer.sendall(everything[at:])
    peer.shutdown(socket.SHUT_WR)
    loop.run_until_complete(asyncio.sleep(0.01))
    assert connection.state is ConnectionState.CLOSED
    assert errors == []
