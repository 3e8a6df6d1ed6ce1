"""How connections come about: whom an agent calls, and how it meets whoever calls."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from destiny.agents.transport.connection import Link
from destiny.agents.transport.neighbour import Neighbour
from destiny.agents.transport.tls import UNCLEAR, Credentials, rejection, spell
from destiny.errors import SettingsError

if TYPE_CHECKING:
    from destiny.agents.transport.connections import Hub

HANDSHAKE = 10.0  # seconds for TLS, and as many again for the HELLO
PATIENT = 10.0  # seconds without a neighbour after which it is said that it cannot be reached
LOOK = 10.0  # seconds between two looks at the files of [tls]; each new connection looks, too
STRANGERS = 64  # callers that have not yet said who they are; one more, and the oldest has to go
FIRST, LONGEST = 0.1, 5.0  # seconds between two calls: at first, and at most
OFTEN = 10  # calls within the deadline at least: whoever is there for as long must not be missed
JITTER = random.Random()  # of its own: the program around it may want its random numbers to repeat


class Door:
    """Listens and calls on behalf of a hub, from the moment it is made.

    Parameters
    ----------
    hub : Hub
    host, port
        Where to listen.
    tls : Credentials
    """

    def __init__(self, hub: Hub, host: str, port: int, tls: Credentials) -> None:
        self.hub, self.loop, self.journal = hub, hub.loop, hub.journal
        self.tls = tls
        self.strangers: dict[asyncio.Task[None], None] = {}
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self.listener = socket.create_server(family[4][:2], family=family[0], backlog=512)
        except (OSError, OverflowError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise SettingsError(f"[agent] listen {host}:{port} cannot be used: {why}") from error
        self.listener.setblocking(False)
        hub.spawn(self.listen())
        hub.spawn(self.watch_files())
        for n in hub.neighbours:
            if n.dial:
                hub.spawn(self.call(n))

    async def call(self, n: Neighbour) -> None:
        """Call a neighbour again and again, at growing and uneven intervals, until both are done."""
        longest = min(LONGEST, self.hub.deadline / OFTEN) if self.hub.deadline else LONGEST
        waits = intervals(longest)
        while not (self.hub.finished and n.done):
            if n.link is None:
                before = n.need
                link = Link(self.hub, f"{n.host}:{n.port}", n)
                try:
                    async with asyncio.timeout(2 * HANDSHAKE):
                        await self.loop.create_connection(
                            partial(_as_it_is, link), n.host, n.port, ssl=self.current().client,
                            server_hostname=n.host, ssl_handshake_timeout=HANDSHAKE,
                        )  # fmt: skip
                        await link.settled
                except (OSError, UnicodeError) as error:  # TLS errors and time-outs are OSErrors
                    self.missed(n, error)
                    if hasattr(link, "transport"):
                        link.cut()
                await self.over(n)
                if n.need > before:  # it was of use: whatever ended it, start afresh
                    waits = intervals(longest)
            await asyncio.sleep(next(waits))

    async def watch_files(self) -> None:
        """Look at the files of [tls] again and again, and warn before they expire."""
        while True:
            self.current().warn_of_expiry(self.warn, time.time())
            await asyncio.sleep(LOOK)

    def current(self) -> Credentials:
        """The credentials as they are on disk now; if whom we believe has changed, all have to call again."""
        if self.tls.refresh(self.warn):
            for n in self.hub.neighbours:
                if n.link is not None:
                    n.link.cut("must show its certificate again, as the files of [tls] have changed")
        return self.tls

    def warn(self, sentence: str) -> None:
        """Tell the operator something about this agent's own files."""
        self.journal.tell("certificates", self.hub.me.agent, sentence)

    async def over(self, n: Neighbour) -> None:
        """Until there is no connection with a neighbour."""
        while n.link is not None:
            await asyncio.sleep(FIRST)

    async def listen(self) -> None:
        """Take whoever calls; a crowd of silent callers pushes out its own oldest members."""
        while True:
            try:
                sock, address = await self.loop.sock_accept(self.listener)
            except OSError as error:  # out of file descriptors: the strangers' will be free soon
                self.journal.mishap("listener", spell(error))
                await asyncio.sleep(FIRST)
                continue
            stranger = self.hub.spawn(self.greet(sock, f"{address[0]}:{address[1]}"))
            self.strangers[stranger] = None
            stranger.add_done_callback(lambda task: self.strangers.pop(task, None))
            await asyncio.sleep(0)  # a crowd would be accepted without a pause: let others have their turn
            if len(self.strangers) > STRANGERS:
                oldest = next(iter(self.strangers))
                del self.strangers[oldest]
                oldest.cancel()

    async def greet(self, sock: socket.socket, address: str) -> None:
        """A caller has to show its certificate and say HELLO in time."""
        link = Link(self.hub, address)
        try:
            await self.loop.connect_accepted_socket(
                lambda: link, sock, ssl=self.current().server, ssl_handshake_timeout=HANDSHAKE
            )
            async with asyncio.timeout(HANDSHAKE):
                await link.settled
        except OSError as error:
            if hasattr(link, "transport"):  # a time-out, as the handshake is over
                link.refuse(f"did not say HELLO within {HANDSHAKE:g} s")
                return
            unclear = isinstance(error, ConnectionResetError)  # it has ended the connection, without an alert
            why = f"a caller from {address} failed the handshake: {UNCLEAR if unclear else spell(error)}"
            self.journal.stranger("unknown", why, address)
        except asyncio.CancelledError:
            if not self.hub.closing:
                why = f"a caller from {address} was dropped: more than {STRANGERS} had not said who they are"
                self.journal.stranger("unknown", why, address)
            if hasattr(link, "transport"):
                link.cut()
            raise

    def missed(self, n: Neighbour, error: Exception) -> None:
        """A call that did not get through; agents are not started all at once, so it is not told at first."""
        wrong = isinstance(error, ssl.SSLCertVerificationError) or rejection(error) is not None
        if n.wrong and not wrong:
            return  # it left because of a disagreement that is known: that stays the reason
        n.trouble, n.wrong = f"cannot be reached at {n.host}:{n.port} ({spell(error)})", wrong
        if n.wrong or time.monotonic() - n.since > PATIENT:
            self.hub.note_trouble(n, n.trouble, n.wrong)


def intervals(longest: float = LONGEST) -> Iterator[float]:
    """Seconds between calls: twice as long each time, and by chance a bit shorter, so that crowds part."""
    delay = FIRST
    while True:
        yield delay * JITTER.uniform(0.5, 1)
        delay = max(FIRST, min(2 * delay, longest))


def _as_it_is(link: Link) -> Link:
    return link
