"""One connection with another agent: an asyncio protocol with the states of `ConnectionState`."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import TYPE_CHECKING, cast

from destiny.agents.transport import messages, tls
from destiny.agents.transport.messages import Header, Hello, Kind, Refusal, sanitize
from destiny.agents.transport.neighbor import Message, Neighbor
from destiny.agents.transport.state import (
    AFTER_PEERS_BYE,
    ENDED,
    WRITABLE,
    ConnectionEvent,
    ConnectionState,
    next_state,
)
from destiny.agents.transport.tls import PeerCertificate

if TYPE_CHECKING:
    from destiny.agents.transport.connections import Connections

USER_TIMEOUT = 30_000  # milliseconds that written data may stay unacknowledged before the system gives up
# Idle seconds before the first probe, seconds between probes, their number: 15 + 3 * 5 s, as long as above.
KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
PIECE = 2**16  # bytes of a message that are worth telling the agent of before the rest has come
FLUSH_TIMEOUT = 2.0  # seconds to flush a REFUSED before the socket is closed


class Connection(asyncio.BufferedProtocol):
    """Reads messages into the neighbor's buffers, writes messages, and honors back-pressure.

    Parameters
    ----------
    connections : Connections
        All connections of this agent: decides whom to admit, and is told of messages and of the end.
    address : str
        Address of the peer, for the log.
    target : Neighbor, optional
        The neighbor that was dialled; None for an incoming connection.

    Attributes
    ----------
    state : ConnectionState
        Changed by `_advance` and nowhere else.
    peer : Neighbor or None
        Set when the peer's HELLO is accepted.
    certificate : PeerCertificate or None
        Set when the TLS handshake is done.
    write_paused : bool
        The send buffer is full: asyncio's flow control, independent of the state.
    next_out : int
        The first turn not yet written to this connection, or not wholly.
    written : int
        Bytes of its message that were written.
    decision : Future
        Done when the peer is admitted or the connection has ended.
    """

    transport: asyncio.Transport

    def __init__(self, connections: Connections, address: str, target: Neighbor | None = None) -> None:
        self.connections, self.address, self.target = connections, address, target
        self.state = ConnectionState.CONNECTING
        self.peer: Neighbor | None = None
        self.certificate: PeerCertificate | None = None
        self.reader = messages.Reader(self.allocate)
        self.buffer: bytearray | None = None  # holds the DATA message being read
        self.write_paused = False
        self.next_out = self.written = 0
        self.told = 0  # bytes of the message being read when the agent was last told of them
        self.decision: asyncio.Future[None] = connections.loop.create_future()

    def _advance(self, event: ConnectionEvent) -> None:
        self.state = next_state(self.state, event)

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def can_send(self) -> bool:
        """Whether DATA or BYE may be written now."""
        return self.state in WRITABLE and not self.write_paused

    @property
    def identities(self) -> frozenset[str]:
        """The names in the peer's certificate."""
        return frozenset() if self.certificate is None else self.certificate.names

    @property
    def peer_name(self) -> str:
        """The peer's name for the log: the neighbor's if known, else the names in its certificate."""
        neighbor = self.peer or self.target
        return neighbor.name if neighbor else sanitize(", ".join(sorted(self.identities))) or "unknown"

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The TLS handshake is done. On a dialled connection, check the certificate and write HELLO."""
        self.transport = cast(asyncio.Transport, transport)
        self._advance(ConnectionEvent.TLS_ESTABLISHED)
        self.connections.open_connections.add(self)
        _set_socket_options(transport.get_extra_info("socket"))
        ssl_object: ssl.SSLObject = transport.get_extra_info("ssl_object")
        self.certificate = PeerCertificate.of(ssl_object)
        if self.target is not None:
            try:
                self.connections.check_certificate(self, self.target)
            except Refusal as error:
                self.refuse(str(error))
                return
            self.write(self.connections.hello(self.target))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Memory for the next bytes; bytes that arrive after the end are read and discarded."""
        return memoryview(bytearray(256)) if self.has_ended else self.reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the message if these bytes complete one; refuse the peer if the message is not valid."""
        if self.has_ended:
            return
        try:
            if self.peer is not None:
                self.peer.bytes_in += nbytes
            if (message := self.reader.advance(nbytes)) is not None:
                self.told = 0
                self.on_message(*message)
            elif self.buffer is not None and self.reader.filled - self.told >= PIECE:
                self.told = self.reader.filled
                self.connections.wake()
        except Refusal as error:
            self.refuse(str(error))

    def pause_writing(self) -> None:
        """The send buffer is full: the peer reads more slowly than we write."""
        self.write_paused = True

    def resume_writing(self) -> None:
        """The send buffer has drained: send what the neighbor still lacks."""
        self.write_paused = False
        if self.peer is not None and not self.has_ended:
            self.connections.send_pending(self.peer)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed, by either side or by an error."""
        self.connections.open_connections.discard(self)
        rejection = None if exc is None else tls.rejection_reason(exc)
        if self.target is not None and self.peer is None:
            why = f"ended the connection before its HELLO: {tls.UNCLEAR}"
        else:
            why = f"ended the connection ({tls.describe_error(exc)})" if exc else "ended the connection"
        self._end(ConnectionEvent.LOST, rejection or why, disagreement=rejection is not None)

    # Reading

    def allocate(self, header: Header) -> memoryview:
        """Memory for the message that a header announces; `Refusal` if it is not valid in this state."""
        if self.state in AFTER_PEERS_BYE and header.kind not in self.connections.store.after_bye:
            raise Refusal(f"sent {header.kind.name} after its BYE")
        if header.kind in messages.JSON:
            if header.round or (header.mark and header.kind is not Kind.HELLO):
                raise Refusal(f"sent {header.kind.name} with a round or a mark, which it cannot have")
            return memoryview(bytearray(header.length))  # at most `messages.MAX_JSON` or `MAX_STATEMENT`
        peer = self.peer
        if peer is None:
            raise Refusal("sent data before its HELLO")
        self.connections.store.check_header(peer, header)
        if header.mark > header.round:
            raise Refusal(f"sent mark {header.mark} in round {header.round}: a mark cannot be ahead")
        if header.kind is not Kind.DATA or header.length == 0:
            return memoryview(bytearray(header.length))  # at most `Limits.largest`
        self.connections.check_mark(peer, header.mark)
        if not peer.free_buffers:
            raise Refusal("sent more rounds than it may be ahead")
        self.buffer = peer.free_buffers.pop()
        return memoryview(self.buffer)[: header.length]

    def on_message(self, header: Header, content: memoryview) -> None:
        """Handle a complete message; `Refusal` if it is not valid in this state."""
        if header.kind is Kind.REFUSED:
            why = self.connections.on_refused(self, messages.read_reason(content))
            self.abort(why, disagreement=True)
        elif self.peer is None:
            if header.kind is not Kind.HELLO:
                raise Refusal(f"sent {header.kind.name} before its HELLO")
            self.connections.on_hello(self, Hello.unpack(content), header.mark)
        elif header.kind is Kind.DATA:
            self.on_data(self.peer, header)
        elif header.kind is Kind.BYE:
            self._advance(ConnectionEvent.BYE_READ)
            self.connections.on_bye(self.peer, messages.read_reason(content))
        elif header.kind is Kind.STATEMENT:
            self.connections.store.on_statement(self.peer, content)
        elif header.kind is Kind.STATE:
            self.connections.store.on_state(self.peer, content)
        else:
            raise Refusal("sent a second HELLO")

    def arrived(self, turn: int) -> int:
        """Bytes that have come of the message of a turn that is being read."""
        header = self.reader.header
        if self.buffer is None or header is None or header.round != turn:
            return 0
        return self.reader.filled

    def on_data(self, peer: Neighbor, header: Header) -> None:
        """Hand the message of a turn to the exchange."""
        memory = self.buffer if header.length else bytearray()
        assert memory is not None
        self.connections.store.on_data(peer, Message(header.round, header.length, memory))
        self.buffer = None
        self.pause_if_full(peer)
        self.connections.on_mark(peer, header.mark)

    def pause_if_full(self, peer: Neighbor) -> None:
        """Stop reading while there is no buffer for another message: TCP then slows the peer down."""
        if not peer.free_buffers:
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on: a buffer is free again."""
        if not self.has_ended and not self.transport.is_reading():
            self.transport.resume_reading()

    # Writing

    def admit(self, peer: Neighbor, need: int) -> None:
        """Accept the peer's HELLO, and answer it if the peer dialled. ``need``: the first round it lacks."""
        self._advance(ConnectionEvent.HELLO_ACCEPTED)
        self.peer, self.next_out = peer, need
        self.pause_if_full(peer)
        if self.target is None:
            self.write(self.connections.hello(peer))
        self._decide()

    def write(self, message: bytes | bytearray | memoryview) -> None:
        """Write a complete message."""
        if self.peer is not None:
            self.peer.bytes_out += len(message)
        self.transport.write(message)

    def write_part(self, *parts: bytes | memoryview) -> None:
        """Write a part of a message; short ones together, as each takes a record of TLS."""
        size = sum(map(len, parts))
        if self.peer is not None:
            self.peer.bytes_out += size
        if size <= PIECE:
            self.transport.write(b"".join(parts))
        else:
            for part in parts:
                self.transport.write(part)

    def write_bye(self, why: str) -> None:
        """Write BYE; after it only REFUSED may follow, and statements that others still need."""
        self._advance(ConnectionEvent.BYE_WRITTEN)
        self.write(messages.encode_json(Kind.BYE, {"why": why}))

    # Ending

    def refuse(self, why: str) -> None:
        """Log the reason, write it as REFUSED and close the connection."""
        if self.has_ended:
            return
        sentence = f"{self.peer_name} ({self.address}) {why}"
        neighbors = self.connections.neighbors
        neighbor = self.target or next((n for n in neighbors if n.identity in self.identities), None)
        log = self.connections.event_log
        if neighbor is not None:
            log.report_neighbor("refused", neighbor.name, sentence, address=self.address)
        else:
            log.report_stranger(self.peer_name, sentence, self.address)
        self.write(messages.encode_json(Kind.REFUSED, {"why": why}))
        self._end(ConnectionEvent.CLOSE, why, disagreement=True)
        with contextlib.suppress(RuntimeError):
            self.transport.close()  # flushes first
        self.connections.loop.call_later(FLUSH_TIMEOUT, self.transport.abort)

    def abort(self, why: str = "", disagreement: bool = False) -> None:
        """Close the socket as soon as the event loop runs, even if a REFUSED is not yet flushed.

        Not at once: asyncio may be handing over what it read when the peer ended the connection, and fails
        if it finds the connection aborted after that. Before the TLS handshake is done there is nothing to
        do: asyncio closes the socket itself.

        Parameters
        ----------
        why : str
            The reason, for the log.
        disagreement : bool
            Whether one side refused the other: waiting will not help.
        """
        if self.state is ConnectionState.CONNECTING:
            return
        if not self.has_ended:
            self._end(ConnectionEvent.CLOSE, why, disagreement)
        self.connections.loop.call_soon(self.transport.abort)

    def _end(self, event: ConnectionEvent, why: str, disagreement: bool) -> None:
        """Enter CLOSING or CLOSED; the first time, return the buffer and report the end."""
        had_ended = self.has_ended
        self._advance(event)
        if had_ended:
            return
        if self.peer is not None and self.buffer is not None:
            self.peer.free_buffers.append(self.buffer)
        self.buffer = None
        self._decide()
        self.connections.on_closed(self, why, disagreement)

    def _decide(self) -> None:
        if not self.decision.done():
            self.decision.set_result(None)


def _set_socket_options(sock: socket.socket) -> None:
    """Send small messages at once; detect a dead peer when idle (keepalive) and when writing (timeout)."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (*KEEPALIVE, ("TCP_USER_TIMEOUT", USER_TIMEOUT)):
        if hasattr(socket, name):  # not on every system
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
