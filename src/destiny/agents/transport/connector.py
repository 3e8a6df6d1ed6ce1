"""Makes connections: dials neighbors, and accepts callers."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from destiny.agents.transport.callers import MAX_STRANGERS, Caller, Callers, site_of
from destiny.agents.transport.connection import Connection
from destiny.agents.transport.neighbor import Neighbor
from destiny.agents.transport.state import ConnectionState
from destiny.agents.transport.tls import UNCLEAR, Credentials, describe_error, rejection_reason
from destiny.errors import SettingsError

if TYPE_CHECKING:
    from destiny.agents.transport.connections import Connections

HANDSHAKE_TIMEOUT = 10.0  # seconds for TLS, and as many again for the HELLO
REPORT_AFTER = 10.0  # seconds without a neighbor before it is logged that it cannot be reached
FILE_CHECK_INTERVAL = (
    10.0  # seconds between checks of the files of [tls]; each new connection checks them too
)
ADDRESS_INTERVAL = 600.0  # seconds between two looks for the addresses of neighbors' hosts
FIRST_DELAY, MAX_DELAY = 0.1, 5.0  # seconds between two attempts to dial: at first, and at most
MIN_DIALS = 10  # attempts within the deadline: a neighbor that is up for that long is reached
JITTER = random.Random()  # of its own, so that a seeded random module elsewhere stays reproducible


class Connector:
    """Listens and dials for `Connections`, from its construction on.

    Parameters
    ----------
    connections : Connections
    host, port
        Where to listen; `SettingsError` if that is not possible.
    tls : Credentials
    """

    def __init__(self, connections: Connections, host: str, port: int, tls: Credentials) -> None:
        self.connections, self.loop, self.event_log = connections, connections.loop, connections.event_log
        self.tls = tls
        self.callers = Callers()
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self.listener = socket.create_server(family[4][:2], family=family[0], backlog=512)
        except (OSError, OverflowError, UnicodeError) as error:
            why = (isinstance(error, OSError) and error.strerror) or error
            raise SettingsError(f"[agent] listen {host}:{port} cannot be used: {why}") from error
        self.listener.setblocking(False)
        connections.spawn(self.listen())
        connections.spawn(self.watch_files())
        connections.spawn(self.watch_addresses())
        for n in connections.neighbors:
            if n.dial:
                connections.spawn(self.dial(n))

    # Credentials

    async def watch_files(self) -> None:
        """Check the files of [tls] at intervals, and warn before they expire."""
        while True:
            self.fresh_credentials().warn_of_expiry(self.warn, time.time())
            await asyncio.sleep(FILE_CHECK_INTERVAL)

    def fresh_credentials(self) -> Credentials:
        """The credentials as on disk; if an authority or list has changed, all connections are made anew."""
        if self.tls.refresh(self.warn):
            for n in self.connections.neighbors:
                if n.connection is not None:
                    n.connection.abort("must show its certificate again, as the files of [tls] have changed")
        return self.tls

    def warn(self, sentence: str) -> None:
        """Log something about this agent's own files."""
        self.event_log.report("certificates", self.connections.me.agent, sentence)

    # Dialling

    async def dial(self, n: Neighbor) -> None:
        """Keep a connection to a neighbor until both agents are done; retry at growing, random intervals."""
        deadline = self.connections.deadline
        longest = min(MAX_DELAY, deadline / MIN_DIALS) if deadline else MAX_DELAY
        delays = retry_delays(longest)
        while not (self.connections.has_finished and (n.done or not n.takes_part)):
            if n.connection is None:
                before = n.next_in, n.heard
                await self.dial_once(n)
                await self.until_disconnected(n)
                if (n.next_in, n.heard) != before:  # it carried something: retry quickly again
                    delays = retry_delays(longest)
            await asyncio.sleep(next(delays))

    async def until_disconnected(self, n: Neighbor) -> None:
        """Return when there is no connection with a neighbor."""
        while n.connection is not None:
            await asyncio.sleep(FIRST_DELAY)

    async def dial_once(self, n: Neighbor) -> None:
        """Try to connect; returns when the neighbor is admitted, or the attempt has failed."""
        connection = Connection(self.connections, f"{n.host}:{n.port}", n)
        try:
            async with asyncio.timeout(2 * HANDSHAKE_TIMEOUT):
                await self.loop.create_connection(
                    lambda: connection,
                    n.host,
                    n.port,
                    ssl=self.fresh_credentials().client,
                    server_hostname=n.host,
                    ssl_handshake_timeout=HANDSHAKE_TIMEOUT,
                )
                await connection.decision
        except (OSError, UnicodeError) as error:  # TLS errors and time-outs are OSErrors
            self.on_dial_failure(n, error)
            connection.abort()

    def on_dial_failure(self, n: Neighbor, error: Exception) -> None:
        """Keep why; log it after a while only, as agents are not started at the same moment."""
        disagrees = isinstance(error, ssl.SSLCertVerificationError) or rejection_reason(error) is not None
        if n.disagrees and not disagrees:
            return  # it left because of a known disagreement, which stays the reason
        n.trouble = f"cannot be reached at {n.host}:{n.port} ({describe_error(error)})"
        n.disagrees = disagrees
        if n.disagrees or (n.takes_part and time.monotonic() - n.waiting_since > REPORT_AFTER):
            self.connections.report_trouble(n, n.trouble, n.disagrees)

    # Listening

    async def watch_addresses(self) -> None:
        """Keep places for callers from the neighbors' hosts, whose addresses may change."""
        while True:
            for n in self.connections.neighbors:
                self.callers.know(n.host)
                with contextlib.suppress(OSError, UnicodeError):  # the name is not known now
                    for found in await self.loop.getaddrinfo(n.host, None, type=socket.SOCK_STREAM):
                        self.callers.know(str(found[4][0]))
            await asyncio.sleep(ADDRESS_INTERVAL)

    async def listen(self) -> None:
        """Accept callers; if too many have not said who they are, one of them is dropped (`Callers`)."""
        while True:
            try:
                sock, address = await self.loop.sock_accept(self.listener)
            except OSError as error:  # out of file descriptors: those of strangers are released soon
                self.event_log.record_error("listener", describe_error(error))
                await asyncio.sleep(FIRST_DELAY)
                continue
            caller = Caller(f"{address[0]}:{address[1]}", site_of(address[0]))
            dropped = self.callers.add(caller)
            if dropped is not None and dropped.task is not None:
                dropped.task.cancel()
            caller.task = self.connections.spawn(self.accept(sock, caller))
            await asyncio.sleep(0)  # let other tasks run, however many callers there are

    async def first_word(self, sock: socket.socket) -> None:
        """Return when a caller has sent something, or has left; `TimeoutError` if it does neither."""
        spoken = asyncio.Event()
        try:
            self.loop.add_reader(sock, spoken.set)
        except NotImplementedError:  # not on every system: the handshake has a time limit, too
            return
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT):
                await spoken.wait()
        except TimeoutError:
            raise TimeoutError(f"it said nothing for {HANDSHAKE_TIMEOUT:g} s") from None
        finally:
            self.loop.remove_reader(sock)

    async def accept(self, sock: socket.socket, caller: Caller) -> None:
        """Give a caller time for the TLS handshake and its HELLO; refuse or drop it otherwise."""
        address = caller.address
        connection = Connection(self.connections, address)
        try:
            try:
                await self.first_word(sock)
                caller.has_spoken = True
            except (asyncio.CancelledError, TimeoutError):
                sock.close()
                raise
            await self.loop.connect_accepted_socket(
                lambda: connection,
                sock,
                ssl=self.fresh_credentials().server,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT,
            )
            async with asyncio.timeout(HANDSHAKE_TIMEOUT):
                await connection.decision
        except OSError as error:
            if connection.state is not ConnectionState.CONNECTING:  # a time-out: the handshake is done
                connection.refuse(f"did not say HELLO within {HANDSHAKE_TIMEOUT:g} s")
                return
            reset = isinstance(error, ConnectionResetError)  # the caller has left without a TLS alert
            why = f"failed the handshake: {UNCLEAR if reset else describe_error(error)}"
            self.event_log.report_stranger("unknown", f"a caller from {address} {why}", address)
        except asyncio.CancelledError:
            if not self.connections.is_closing:
                why = f"was dropped: more than {MAX_STRANGERS} had not said who they are"
                self.event_log.report_stranger("unknown", f"a caller from {address} {why}", address)
            connection.abort()
            raise
        finally:
            self.callers.remove(caller)


def retry_delays(longest: float = MAX_DELAY) -> Iterator[float]:
    """Seconds between attempts: doubled each time up to ``longest``, times a random factor of 0.5 to 1."""
    delay = FIRST_DELAY
    while True:
        yield delay * JITTER.uniform(0.5, 1)
        delay = max(FIRST_DELAY, min(2 * delay, longest))
