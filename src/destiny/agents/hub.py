"""All connections of an agent: whom it calls, who calls it, who is admitted, and for whom it waits."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from destiny.agents.journal import Journal
from destiny.agents.link import Link
from destiny.agents.neighbour import Neighbour
from destiny.agents.wire import REASON, Hello, Kind, Refused, words
from destiny.engines.agreement import difference
from destiny.errors import DestinyError, SettingsError

HANDSHAKE = 10.0  # seconds for TLS, and as many again for the HELLO
STRANGERS = 64  # callers that have not yet said who they are; one more, and the oldest has to go
FIRST, LONGEST = 0.1, 5.0  # seconds between two calls: at first, and at most
TICK = 0.2  # seconds between two looks at the clock and at signals
GRACE = 3.0  # seconds an agent that was told to stop still waits for the step to end


class Absent(DestinyError):
    """A neighbour has been away for longer than the deadline; starting again may help."""

    code = 75  # EX_TEMPFAIL


class Ended(DestinyError):
    """The run is over without an answer."""

    code = 1


class Stopped(DestinyError):
    """A signal came; what was done is saved."""

    def __init__(self, name: str, when: str) -> None:
        super().__init__(f"stopped by {name} {when}; start it again to go on")
        self.code = 128 + signal.Signals[name]  # the shell's convention


class Post(Protocol):
    """What the hub asks of the exchange."""

    def due(self, peer: Neighbour) -> int:
        """The round that must come next from a neighbour."""

    def size(self, round: int) -> int | None:
        """Bytes of a message of a round, if that is known already."""

    def pump(self, peer: Neighbour) -> None:
        """Write what a neighbour lacks, as far as it reads."""

    def serves(self, need: int) -> None:
        """Refuse a neighbour that needs a round nobody has any more."""

    def learnt(self, peer: Neighbour) -> None:
        """A neighbour's mark may have moved."""


@dataclass(frozen=True)
class Address:
    """Where to listen."""

    host: str
    port: int


class Hub:
    """Runs in one thread: the loop turns only while the agent waits.

    Parameters
    ----------
    me : Hello
        What this agent says of itself; ``need`` is filled in for each neighbour.
    neighbours : sequence of Neighbour
    listen : Address
    tls : (server, client) contexts
    journal : Journal
    deadline : float
        Seconds to wait for a neighbour; 0 means for ever.
    largest : int
        Bytes of the largest message of this run.
    """

    def __init__(
        self, me: Hello, neighbours: Sequence[Neighbour], listen: Address,
        tls: tuple[ssl.SSLContext, ssl.SSLContext], journal: Journal, deadline: float, largest: int,
    ) -> None:  # fmt: skip
        self.me, self.neighbours, self.address = me, list(neighbours), listen
        self.server, self.client = tls
        self.journal, self.deadline, self.largest = journal, deadline, largest
        self.by_name = {n.name: n for n in neighbours}
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(self.mishap)
        self.post: Post
        self.interrupted: Callable[[], str | None] = lambda: None
        self.watchers: list[Callable[[], None]] = []  # called at every tick
        self.mark = 0  # the round up to which this agent needs nothing more, whatever happens to it
        self.finished = self.closing = False
        self.tasks: set[asyncio.Task[None]] = set()
        self.strangers: dict[asyncio.Task[None], None] = {}
        self.waiting: asyncio.Future[None] | None = None
        self.ready: Callable[[], bool] = lambda: True
        self.since = self.told_to_stop = 0.0
        for n in self.neighbours:
            n.make_room(largest)

    # Opening and closing

    def open(self, post: Post) -> None:
        """Listen, and call the neighbours we are to call."""
        self.post = post
        try:
            family = socket.getaddrinfo(self.address.host, self.address.port, type=socket.SOCK_STREAM)[0]
            self.listener = socket.create_server(family[4][:2], family=family[0], backlog=512)
        except (OSError, OverflowError) as error:
            raise SettingsError(
                f"[agent] listen {self.address.host}:{self.address.port} cannot be used: "
                f"{getattr(error, 'strerror', None) or error}"
            ) from error
        self.listener.setblocking(False)
        self.port = int(self.listener.getsockname()[1])
        self.spawn(self.listen())
        for n in self.neighbours:
            if n.dial:
                self.spawn(self.call(n))
        self.loop.call_soon(self.tick)

    def spawn(self, task: Any) -> asyncio.Task[None]:
        """Run something in the background as long as the hub lives."""
        started: asyncio.Task[None] = self.loop.create_task(task)
        self.tasks.add(started)
        started.add_done_callback(self.finished_task)
        return started

    def finished_task(self, task: asyncio.Task[None]) -> None:
        """A mistake of ours in the background must not go unnoticed."""
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def close(self) -> None:
        """End all connections; what was written leaves first."""
        if self.loop.is_closed():
            return
        self.closing = True
        if hasattr(self, "listener"):
            self.loop.run_until_complete(self.hang_up())
            self.listener.close()
        self.loop.close()

    async def hang_up(self) -> None:
        """The end of all tasks and connections."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        links = [n.link for n in self.neighbours if n.link is not None]
        for link in links:
            link.transport.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST * 20):  # two seconds for the last words
                while any(not link.dead for link in links):
                    await asyncio.sleep(FIRST / 10)
        for link in links:
            link.cut()
        await asyncio.sleep(0)

    # Calling and being called

    async def call(self, n: Neighbour) -> None:
        """Call a neighbour again and again, at growing and uneven intervals, until both are done."""
        delay = FIRST
        while not (self.finished and n.done):
            if n.link is None:
                before = n.need
                link = Link(self, f"{n.host}:{n.port}", n)
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
                    delay = FIRST
            await asyncio.sleep(delay * random.uniform(0.5, 1))
            delay = min(2 * delay, LONGEST)

    async def over(self, n: Neighbour) -> None:
        """Until there is no connection with a neighbour."""
        while n.link is not None:
            await asyncio.sleep(FIRST)

    def missed(self, n: Neighbour, error: Exception) -> None:
        """A call that did not get through."""
        wrong = isinstance(error, ssl.SSLError)
        self.note_trouble(n, f"cannot be reached at {n.host}:{n.port} ({_spell(error)})", wrong)

    def note_trouble(self, n: Neighbour, why: str, wrong: bool) -> None:
        """Why there is no connection; said once, however often it is tried."""
        if wrong and n.trouble != why:
            self.journal.tell("refused", n.name, f"{n.name} {why}", address=f"{n.host}:{n.port}")
        n.trouble, n.wrong = why, wrong

    async def listen(self) -> None:
        """Take whoever calls; a crowd of silent callers pushes out its own oldest members."""
        while True:
            try:
                sock, address = await self.loop.sock_accept(self.listener)
            except OSError as error:  # out of file descriptors: the strangers' will be free soon
                self.journal.note("listener", why=_spell(error))
                await asyncio.sleep(FIRST)
                continue
            stranger = self.spawn(self.greet(sock, f"{address[0]}:{address[1]}"))
            self.strangers[stranger] = None
            stranger.add_done_callback(lambda task: self.strangers.pop(task, None))
            await asyncio.sleep(0)  # a crowd would be accepted without a pause: let others have their turn
            if len(self.strangers) > STRANGERS:
                oldest = next(iter(self.strangers))
                del self.strangers[oldest]
                oldest.cancel()

    async def greet(self, sock: socket.socket, address: str) -> None:
        """A caller has to show its certificate and say HELLO in time."""
        link = Link(self, address)
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
            self.journal.tell("refused", "unknown", why, address=address)
        except asyncio.CancelledError:
            if not self.closing:
                why = f"a caller from {address} was dropped: more than {STRANGERS} had not said who they are"
                self.journal.tell("refused", "unknown", why, address=address)
            if hasattr(link, "transport"):
                link.cut()
            raise

    # Who is admitted

    def hello(self, n: Neighbour) -> bytes:
        """Our HELLO to a neighbour."""
        return replace(self.me, need=n.need).pack(self.mark)

    def check_identity(self, link: Link, n: Neighbour) -> None:
        """The certificate must be the neighbour's."""
        if n.identity not in link.identities:
            shown = ", ".join(sorted(link.identities)) or "nobody"
            raise Refused(f"showed a certificate of {shown}, expected {n.identity}")

    def admit(self, link: Link, hello: Hello, mark: int) -> None:
        """Let a caller in, or refuse it naming what does not fit."""
        n = self.by_name.get(hello.agent)
        if n is None or (link.called is not None and n is not link.called):
            raise Refused(f"says it is {hello.agent!r}, which is not whom {self.me.agent} talks to here")
        self.check_identity(link, n)
        try:
            self.check_run(n, hello)
            self.post.serves(hello.need)
        except Refused as error:
            n.trouble, n.wrong = str(error), True  # the link tells it
            raise
        if n.link is not None:  # the newest is the true one: its side has given the other up
            n.link.cut()
        n.link, n.trouble, n.wrong, n.degree = link, "", False, hello.degree
        n.connections += 1
        link.peer, link.next_out = n, hello.need
        link.hold_on(n)
        if link.called is None:
            link.write(self.hello(n))
        self.journal.note("connected", peer=n.name, address=link.address, need=hello.need)
        link.settled.set_result(None)
        self.arrived(n, mark)
        self.pump(n)

    def check_run(self, n: Neighbour, hello: Hello) -> None:
        """Everything that must be equal is."""
        pairs = {
            "run": (self.me.run, hello.run), "package version": (self.me.version, hello.version),
            "its index": (n.index, hello.index), "its number of neighbours": (n.degree, hello.degree),
        }  # fmt: skip
        for what, (here, there) in pairs.items():
            if here != there and here is not None:
                raise Refused(f"is in another run: {what} is {here!r} at {self.me.agent}, {there!r} there")
        if self.me.digest != hello.digest:
            found = difference(self.me.settings, hello.settings)
            name, mine, theirs = found or ("the digest", self.me.digest, hello.digest)
            raise Refused(f"is in another run: {name} is {mine} at {self.me.agent}, {theirs} there")

    def refused_by(self, link: Link, why: str) -> None:
        """The other side does not want us."""
        if link.called is not None:  # only then do we know who speaks
            self.note_trouble(link.called, f"refused {self.me.agent}, which {why}", True)

    # What links report

    def due(self, peer: Neighbour) -> int:
        """The round that must come next from a neighbour."""
        return self.post.due(peer)

    def pump(self, peer: Neighbour) -> None:
        """Write what a neighbour lacks."""
        self.post.pump(peer)
        link = peer.link
        if self.finished and link is not None and not link.paused and not link.said_bye:
            link.said_bye = True
            link.write(words(Kind.BYE, {"why": "done"}))

    def arrived(self, peer: Neighbour, mark: int) -> None:
        """A message came."""
        if mark > peer.durable:
            peer.durable = mark
            self.post.learnt(peer)
        self.wake()

    def bye(self, peer: Neighbour, table: dict[str, Any]) -> None:
        """The run is over for a neighbour."""
        if table.get("why") == "done":
            peer.done = True
            self.wake()
        else:
            why = "".join(c if c.isprintable() else "?" for c in str(table.get("why"))[:REASON])
            self.say_bye(why)
            self.fail(Ended(f"{peer.name} ended the run, which {why}"))

    def say_bye(self, why: str) -> None:
        """Tell all neighbours that the run is over without an answer."""
        for n in self.neighbours:
            if n.link is not None and not n.link.said_bye:
                n.link.said_bye = True
                n.link.write(words(Kind.BYE, {"why": why}))

    def ended(self, link: Link, why: str) -> None:
        """A connection is over."""
        n = link.peer
        if n is None:
            if link.called is not None and not link.called.wrong:
                link.called.trouble = (
                    f"{why or 'has ended the connection'} before its HELLO: it may not accept our certificate"
                )
        elif n.link is link:
            n.link = None
            n.trouble = why or "has ended the connection"
            if not (n.done or self.closing):
                self.journal.note("lost", peer=n.name, why=n.trouble)

    def mishap(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:  # noqa: ARG002
        """Something went wrong in a callback: a peer's doing is noted, a mistake of ours ends the run."""
        error = context.get("exception")
        if error is None or isinstance(error, OSError):
            self.journal.note("mishap", why=context.get("message", ""))
        else:
            self.fail(error)

    # Waiting

    def wait(self, ready: Callable[[], bool], patient: bool = False) -> bool:
        """Turn the loop until something is the case; whether it is before the deadline, if patient."""
        self.ready, self.since = ready, time.monotonic()
        if ready():
            return True
        self.waiting = self.loop.create_future()
        try:
            self.loop.run_until_complete(self.waiting)
        except Absent:
            if not patient:
                raise
            return False
        finally:
            self.waiting = None
        return True

    def wake(self) -> None:
        """Look whether the wait is over."""
        if self.waiting is not None and not self.waiting.done() and self.ready():
            self.waiting.set_result(None)

    def fail(self, error: BaseException) -> None:
        """End the wait with an error."""
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_exception(error)

    def tick(self) -> None:
        """Look at the clock and at signals."""
        now = time.monotonic()
        if self.deadline and now - self.since > self.deadline:
            self.fail(Absent("the deadline has passed"))
        if (name := self.interrupted()) is not None:
            self.told_to_stop = self.told_to_stop or now
            if now - self.told_to_stop > GRACE:
                self.fail(Stopped(name, "while waiting for neighbours"))
        for watcher in self.watchers:
            watcher()
        self.loop.call_later(TICK, self.tick)


def _as_it_is(link: Link) -> Link:
    return link


def _spell(error: Exception) -> str:
    """An error of the network for people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return str(getattr(error, "strerror", None) or error or type(error).__name__).lower()
