"""How connections come about: whom an agent calls, and how it meets whoever calls."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from destiny.agents.link import Link
from destiny.agents.neighbour import Neighbour
from destiny.errors import SettingsError

if TYPE_CHECKING:
    from destiny.agents.hub import Hub

HANDSHAKE = 10.0  # seconds for TLS, and as many again for the HELLO
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
    tls : (server, client) contexts
    """

    def __init__(self, hub: Hub, host: str, port: int, tls: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
        self.hub, self.loop, self.journal = hub, hub.loop, hub.journal
        self.server, self.client = tls
        self.strangers: dict[asyncio.Task[None], None] = {}
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self.listener = socket.create_server(family[4][:2], family=family[0], backlog=512)
        except (OSError, OverflowError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise SettingsError(f"[agent] listen {host}:{port} cannot be used: {why}") from error
        self.listener.setblocking(False)
        hub.spawn(self.listen())
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
                            partial(_as_it_is, link), n.host, n.port, ssl=self.client, server_hostname=n.host,
                            ssl_handshake_timeout=HANDSHAKE,
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
                self.journal.mishap("listener", _spell(error))
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
                lambda: link, sock, ssl=self.server, ssl_handshake_timeout=HANDSHAKE
            )
            async with asyncio.timeout(HANDSHAKE):
                await link.settled
        except OSError as error:
            if hasattr(link, "transport"):  # a time-out, as the handshake is over
                link.refuse(f"did not say HELLO within {HANDSHAKE:g} s")
                return
            why = f"a caller from {address} failed the handshake: {_spell(error)}"
            self.journal.stranger("unknown", why, address)
        except asyncio.CancelledError:
            if not self.hub.closing:
                why = f"a caller from {address} was dropped: more than {STRANGERS} had not said who they are"
                self.journal.stranger("unknown", why, address)
            if hasattr(link, "transport"):
                link.cut()
            raise

    def missed(self, n: Neighbour, error: Exception) -> None:
        """A call that did not get through."""
        wrong = isinstance(error, ssl.SSLCertVerificationError)
        self.hub.note_trouble(n, f"cannot be reached at {n.host}:{n.port} ({_spell(error)})", wrong)


def intervals(longest: float = LONGEST) -> Iterator[float]:
    """Seconds between calls: twice as long each time, and by chance a bit shorter, so that crowds part."""
    delay = FIRST
    while True:
        yield delay * JITTER.uniform(0.5, 1)
        delay = max(FIRST, min(2 * delay, longest))


def _as_it_is(link: Link) -> Link:
    return link


def _spell(error: Exception) -> str:
    """An error of the network for people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    number = getattr(error, "errno", None)
    return os.strerror(number).lower() if number else str(error) or type(error).__name__
