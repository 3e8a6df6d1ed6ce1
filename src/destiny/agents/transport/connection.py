"""One connection with another agent, from the end of the TLS handshake to its own end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import TYPE_CHECKING, cast

import numpy as np

from destiny.agents.transport import messages, tls
from destiny.agents.transport.messages import Header, Hello, Kind, Refused, sanitise
from destiny.agents.transport.neighbour import Message, Neighbour
from destiny.agents.transport.tls import Shown

if TYPE_CHECKING:
    from destiny.agents.transport.connections import Hub

SILENCE = 30_000  # milliseconds without a sign of life after which the system gives a connection up
PROBES = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))  # seconds, seconds, count: as long
FLUSH = 2.0  # seconds a refusal may take to leave before the connection is cut


class Link(asyncio.BufferedProtocol):
    """Reads messages into memory set aside for the neighbour, writes them, and honours back-pressure.

    Parameters
    ----------
    hub : Hub
        Decides whom to admit and hears what happens.
    address : str
        Where the other side is, for the log.
    called : Neighbour, optional
        Whom we called; None if somebody called us.
    """

    def __init__(self, hub: Hub, address: str, called: Neighbour | None = None) -> None:
        self.hub, self.address, self.called = hub, address, called
        self.peer: Neighbour | None = None  # known after its HELLO was accepted
        self.reader = messages.Reader(self.room)
        self.slot: bytearray | None = None  # memory of the message being read
        self.shown: Shown | None = None  # known after the handshake
        self.paused = self.dead = self.said_bye = self.heard_bye = False
        self.disagreed = False  # one side does not accept the other: waiting alone does not help
        self.next_out = 0  # the first round this connection has not carried to the peer
        self.settled: asyncio.Future[None] = hub.loop.create_future()  # admitted, or over
        self.transport: asyncio.Transport

    @property
    def identities(self) -> frozenset[str]:
        """The names in the other side's certificate."""
        return frozenset() if self.shown is None else self.shown.names

    @property
    def who(self) -> str:
        """The other side for the log: the agent if known, else what its certificate says."""
        known = self.peer or self.called
        return known.name if known else self.shown_identities or "unknown"

    @property
    def shown_identities(self) -> str:
        """What its certificate says, safe to show."""
        return sanitise(", ".join(sorted(self.identities)))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is over: both certificates are of our CA."""
        self.transport = cast(asyncio.Transport, transport)
        self.hub.links.add(self)
        _tune(transport.get_extra_info("socket"))
        secured: ssl.SSLObject = transport.get_extra_info("ssl_object")
        self.shown = Shown.of(secured)
        if self.called is not None:
            try:
                self.hub.check_identity(self, self.called)
            except Refused as error:
                self.refuse(str(error))
                return
            self.write(self.hub.hello(self.called))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Where the next bytes go."""
        return memoryview(bytearray(256)) if self.dead else self.reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        if self.dead:
            return
        try:
            if self.peer is not None:
                self.peer.bytes_in += nbytes
            if (whole := self.reader.filled(nbytes)) is not None:
                self.take(*whole)
        except Refused as error:
            self.refuse(str(error))

    def room(self, header: Header) -> memoryview:
        """Memory for a message; refuses what is not due."""
        if self.heard_bye and header.kind is not Kind.REFUSED:
            raise Refused(f"sent {header.kind.name} after its BYE")
        if header.kind is not Kind.DATA:
            if header.round or (header.mark and header.kind is not Kind.HELLO):
                raise Refused(f"sent {header.kind.name} with a round or a mark, which it cannot have")
            return memoryview(bytearray(header.length))  # at most `wire.WORDS`
        peer = self.peer
        if peer is None:
            raise Refused("sent data before its HELLO")
        if header.round != (due := self.hub.due(peer)):
            raise Refused(f"sent round {header.round} where round {due} was due")
        if header.mark > header.round:
            raise Refused(f"sent mark {header.mark} in round {header.round}: it has not come so far")
        exact = self.hub.post.size(due)
        if not self.fits(header.length, exact):
            expected = f"at most {self.hub.largest}" if exact is None else str(exact)
            raise Refused(f"announced {header.length} bytes for round {due}, expected {expected}")
        if not peer.free:
            raise Refused("sent more rounds than it may be ahead")
        self.slot = peer.free.pop()
        return memoryview(self.slot)[: header.length]

    def fits(self, length: int, exact: int | None) -> bool:
        """Whether a message may have so many bytes; before its round all that is known is the largest."""
        return 0 < length <= self.hub.largest and length % 8 == 0 and exact in (None, length)

    def take(self, header: Header, content: memoryview) -> None:
        """A whole message."""
        if header.kind is Kind.REFUSED:
            self.disagreed = True
            self.cut(self.hub.refused_by(self, messages.reason(content)))
        elif self.peer is None:
            if header.kind is not Kind.HELLO:
                raise Refused(f"sent {header.kind.name} before its HELLO")
            self.hub.admit(self, Hello.unpack(content), header.mark)
        elif header.kind is Kind.DATA:
            self.take_numbers(self.peer, header, content)
        elif header.kind is Kind.BYE:
            self.heard_bye = True
            self.hub.bye(self.peer, messages.reason(content))
        else:
            raise Refused("sent a second HELLO")

    def take_numbers(self, peer: Neighbour, header: Header, content: memoryview) -> None:
        """A round's numbers."""
        if not messages.finite(np.frombuffer(content)):
            raise Refused(f"sent numbers that are not finite in round {header.round}")
        assert self.slot is not None
        peer.inbox.append(Message(header.round, header.length, self.slot))
        self.slot = None
        peer.need = header.round + 1
        self.hold_on(peer)
        self.hub.arrived(peer, header.mark)

    def hold_on(self, peer: Neighbour) -> None:
        """Read no further while there is no memory for another message."""
        if not peer.free:
            self.transport.pause_reading()

    def go_on(self) -> None:
        """There is memory again."""
        if not self.dead and not self.transport.is_reading():
            self.transport.resume_reading()

    def write(self, message: bytes | memoryview) -> None:
        """Send a whole message."""
        if self.peer is not None:
            self.peer.bytes_out += len(message)
        self.transport.write(message)

    def pause_writing(self) -> None:
        """The other side does not read as fast as we write."""
        self.paused = True

    def resume_writing(self) -> None:
        """It does again."""
        self.paused = False
        if self.peer is not None and not self.dead:
            self.hub.pump(self.peer)

    def refuse(self, why: str) -> None:
        """Say why, here and there, and end the connection."""
        if self.dead:
            return
        sentence = f"{self.who} ({self.address}) {why}"
        known = self.called or next((n for n in self.hub.neighbours if n.identity in self.identities), None)
        if known is not None:
            self.hub.journal.neighbour("refused", known.name, sentence, address=self.address)
        else:
            self.hub.journal.stranger(self.who, sentence, self.address)
        self.disagreed = True
        self.write(messages.words(Kind.REFUSED, {"why": why}))
        self.end(why)
        with contextlib.suppress(RuntimeError):
            self.transport.close()  # flushes first
        self.hub.loop.call_later(FLUSH, self.transport.abort)

    def cut(self, why: str = "") -> None:
        """End the connection at once."""
        self.end(why)
        self.transport.abort()

    def end(self, why: str) -> None:
        """Not to be used any more, whatever still comes."""
        if self.dead:
            return
        self.dead = True
        if self.peer is not None and self.slot is not None:
            self.peer.free.append(self.slot)
        self.slot = None
        if not self.settled.done():
            self.settled.set_result(None)
        self.hub.ended(self, why)

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side is gone."""
        self.hub.links.discard(self)
        rejection = None if exc is None else tls.rejection(exc)
        self.disagreed = self.disagreed or rejection is not None
        if self.called is not None and self.peer is None:
            ended = f"ended the connection before its HELLO: {tls.UNCLEAR}"
        else:
            ended = f"ended the connection ({tls.spell(exc)})" if exc else "ended the connection"
        self.end(rejection or ended)


def _tune(sock: socket.socket) -> None:
    """Small messages leave at once; a dead line is noticed whether idle (keepalive) or in use (timeout)."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (*PROBES, ("TCP_USER_TIMEOUT", SILENCE)):
        if hasattr(socket, name):  # not on every system
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
