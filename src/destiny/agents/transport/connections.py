"""All connections of an agent: who is admitted, and what they report."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from destiny.agents.event_log import Journal
from destiny.agents.transport.connection import Link
from destiny.agents.transport.connector import Door
from destiny.agents.transport.event_loop import Ended, Waiting
from destiny.agents.transport.messages import Hello, Kind, Refused, sanitise, words
from destiny.agents.transport.neighbour import Neighbour
from destiny.agents.transport.tls import Credentials
from destiny.engines.same_settings import difference

LAST_WORDS = 2.0  # seconds for what was written to leave


class Post(Protocol):
    """What the hub asks of the exchange."""

    def due(self, peer: Neighbour) -> int:
        """The round that must come next from a neighbour."""

    def size(self, round: int) -> int | None:
        """Bytes of a message of a round, if that is known already."""

    def pump(self, peer: Neighbour) -> None:
        """Write what a neighbour lacks, as far as it reads."""

    def serves(self, peer: Neighbour, need: int, mark: int) -> None:
        """Refuse a neighbour that needs a round nobody has any more, or claims what cannot be."""

    def learnt(self, peer: Neighbour) -> None:
        """A neighbour's mark may have moved."""


@dataclass(frozen=True)
class Address:
    """Where to listen."""

    host: str
    port: int


@dataclass(frozen=True)
class Limits:
    """What nothing that a neighbour sends can exceed."""

    largest: int
    """Bytes of the largest message of this run."""
    agents: int
    rounds: int
    """More than any agent of this run ever gets to."""


class Hub(Waiting):
    """Whom this agent is connected with.

    Parameters
    ----------
    me : Hello
        What this agent says of itself; ``need`` is filled in for each neighbour.
    neighbours : sequence of Neighbour
    listen : Address
    credentials : Credentials
    journal : Journal
    deadline : float
        Seconds to wait for a neighbour; 0 means for ever.
    limits : Limits
    """

    def __init__(
        self, me: Hello, neighbours: Sequence[Neighbour], listen: Address,
        credentials: Credentials, journal: Journal, deadline: float, limits: Limits,
    ) -> None:  # fmt: skip
        super().__init__(deadline)
        self.loop.set_exception_handler(self.mishap)
        self.me, self.neighbours, self.address, self.tls = me, list(neighbours), listen, credentials
        self.journal, self.limits, self.largest = journal, limits, limits.largest
        self.by_name = {n.name: n for n in neighbours}
        self.post: Post
        self.links: set[Link] = set()  # whose sockets are open, admitted or not
        self.door: Door | None = None
        self.mark = 0  # this agent needs no round before it again, whatever happens to it
        self.rounds = 0  # finished in this process
        self.finished = self.closing = False
        for n in self.neighbours:
            n.make_room(self.largest)

    # Opening and closing

    def open(self, post: Post) -> None:
        """Listen, and call the neighbours we are to call."""
        self.post = post
        for n in self.neighbours:
            n.since = time.monotonic()
        names = ", ".join(n.name for n in self.neighbours)
        self.journal.tell("waiting", names, f"waiting for {names}")
        self.door = Door(self, self.address.host, self.address.port, self.tls)
        self.loop.call_soon(self.tick)

    def meet(self) -> None:
        """Wait for all neighbours. The numbers of neighbours they have are fixed from here on."""
        self.wait(lambda: all(n.degree or n.degree_in_hello for n in self.neighbours))
        for n in self.neighbours:
            n.degree = n.degree or n.degree_in_hello

    def close(self) -> None:
        """End all connections; what was written leaves first."""
        if self.loop.is_closed():
            return
        self.closing = True
        self.loop.run_until_complete(self.hang_up())
        self.loop.close()

    async def hang_up(self) -> None:
        """The end of all tasks and connections."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if self.door is not None:
            self.door.listener.close()  # at once: whoever calls now is told, and calls again
        links = [n.link for n in self.neighbours if n.link is not None]
        for link in links:
            link.transport.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                while any(not link.dead for link in links):
                    await asyncio.sleep(0.01)
        for link in list(self.links):  # those that were refused a moment ago, too
            link.cut()
        await asyncio.sleep(0)

    # Who is admitted

    def hello(self, n: Neighbour) -> bytes:
        """Our HELLO to a neighbour."""
        return replace(self.me, need=n.need).pack(self.mark)

    def check_identity(self, link: Link, n: Neighbour) -> None:
        """The certificate must be the neighbour's."""
        if (why := self.mismatch(link, n)) is not None:
            raise Refused(why)

    def mismatch(self, link: Link, n: Neighbour) -> str | None:
        """Why the certificate of a connection is not the neighbour's, or None."""
        assert link.shown is not None
        return link.shown.mismatch(n.identity, n.pin, self.tls)

    def by_certificate(self, link: Link) -> Neighbour | None:
        """The neighbour whose certificate the other side has shown."""
        return next((n for n in self.neighbours if self.mismatch(link, n) is None), None)

    def admit(self, link: Link, hello: Hello, mark: int) -> None:
        """Let a caller in, or refuse it naming what does not fit."""
        n = self.by_name.get(hello.agent)
        if n is None or (link.called is not None and n is not link.called):
            raise Refused(f"says it is {hello.agent!r}, which is not whom {self.me.agent} talks to here")
        self.check_identity(link, n)
        try:
            self.check_run(n, hello)
            self.check_degree(n, hello.degree)
            self.post.serves(n, hello.need, mark)
        except Refused as error:
            n.trouble, n.wrong = str(error), True  # the link tells it
            raise
        if n.link is not None:  # the newest is the true one: its side has given the other up
            n.link.cut()
        n.link, n.trouble, n.wrong, n.degree_in_hello = link, "", False, hello.degree
        n.told.clear()
        if n.connections == 0:
            n.received = hello.need
        n.connections += 1
        link.peer, link.next_out = n, hello.need
        link.hold_on(n)
        if link.called is None:
            link.write(self.hello(n))
        sentence = f"connected to {n.name}"
        self.journal.neighbour("connected", n.name, sentence, address=link.address, need=hello.need)
        if not link.settled.done():
            link.settled.set_result(None)
        self.arrived(n, mark)
        self.pump(n)

    def check_run(self, n: Neighbour, hello: Hello) -> None:
        """Everything that must be equal is."""
        pairs = {
            "run": (self.me.run, hello.run), "package version": (self.me.version, hello.version),
            "its index": (n.index, hello.index),
        }  # fmt: skip
        for what, (here, there) in pairs.items():
            if here != there:
                raise Refused(f"is in another run: {what} is {here!r} at {self.me.agent}, {there!r} there")
        if self.me.digest != hello.digest:
            found = difference(self.me.settings, hello.settings)
            name, mine, theirs = map(sanitise, found or ("the digest", self.me.digest, hello.digest))
            raise Refused(f"is in another run: {name} is {mine} at {self.me.agent}, {theirs} there")

    def check_degree(self, n: Neighbour, degree: int) -> None:
        """A neighbour's number of neighbours is possible, and what it was when the run began."""
        if not 1 <= degree < self.limits.agents:
            most = self.limits.agents - 1
            raise Refused(f"says it has {degree} neighbours, expected 1 to {most} among {most + 1} agents")
        for here in (n.degree, n.degree_in_file):
            if here is not None and here != degree:
                raise Refused(f"is in another run: it says it has {degree} neighbours, expected {here}")

    def refused_by(self, link: Link, why: str) -> str:
        """The other side does not want us; the same in words."""
        told = f"refused {self.me.agent}, which {why}"
        known = link.peer or link.called or self.by_certificate(link)
        if known is not None:
            self.note_trouble(known, told, True)
        return told

    def note_trouble(self, n: Neighbour, why: str, wrong: bool) -> None:
        """Why there is no connection; said once, however often it is tried."""
        n.trouble, n.wrong = why, wrong
        if why not in n.told:
            n.told.append(why)
            self.journal.neighbour("refused" if wrong else "trouble", n.name, f"{n.name} {why}")

    def mishap(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:  # noqa: ARG002
        """Something went wrong on a connection, which is closed by now: whoever was there may call again."""
        self.journal.mishap("mishap", f"{context.get('message')}: {context.get('exception')!r}")

    def view_failed(self, error: Exception) -> None:
        """A view is switched off; the run goes on without it."""
        self.journal.tell("mishap", self.me.agent, f"a view failed and is switched off: {error!r}")

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

    def bye(self, peer: Neighbour, why: str) -> None:
        """The run is over for a neighbour."""
        if why == "done":
            peer.done = True
            self.wake()
        else:
            self.say_bye(why)
            self.end(Ended(f"{peer.name} ended the run, which {why}"))

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
            if link.called is not None and not link.called.wrong and why:
                self.note_trouble(link.called, why, link.disagreed)
        elif n.link is link:
            n.link, n.since = None, time.monotonic()
            n.degree_in_hello = None
            n.trouble, n.wrong = why or "ended the connection", link.disagreed
            if not (n.done or self.closing):
                self.journal.neighbour("lost", n.name, f"{n.name} {n.trouble}")
