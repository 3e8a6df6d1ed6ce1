"""All connections of an agent: decides who is admitted, and handles what connections report."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, Protocol

from destiny.agents.event_log import EventLog
from destiny.agents.transport.connection import Connection
from destiny.agents.transport.connector import Connector
from destiny.agents.transport.event_loop import EventLoop, RunEnded
from destiny.agents.transport.messages import Header, Hello, Kind, Refusal, sanitize
from destiny.agents.transport.neighbor import Message, Neighbor
from destiny.agents.transport.state import WRITABLE
from destiny.agents.transport.tls import Credentials
from destiny.engines.same_settings import difference

MARKS = 4  # checkpoints of this agent that a neighbor's mark may be behind; an honest one is behind by one
FLUSH_TIMEOUT = 2.0  # seconds that written messages may take to leave when the agent closes


class RoundStore(Protocol):
    """The rounds of this agent, as the transport needs them (`destiny.agents.exchange.Exchange`)."""

    after_bye: frozenset[Kind]
    """What a neighbor may send after it has said that it is done."""

    def check_header(self, peer: Neighbor, header: Header) -> None:
        """Raise Refusal unless a message with a round is due from a neighbor, and has the right size."""

    def on_data(self, peer: Neighbor, message: Message) -> None:
        """A turn's message has come."""

    def on_statement(self, peer: Neighbor, content: memoryview) -> None:
        """What an agent tells all others has come; raises Refusal if it cannot be right."""

    def on_state(self, peer: Neighbor, content: memoryview) -> None:
        """The newest numbers of a neighbor without rounds; raises Refusal if they cannot be right."""

    def announce(self, peer: Neighbor) -> tuple[int, int]:
        """What a HELLO to a neighbor says: the first round that is missing from it, and the mark."""

    def on_connected(self, peer: Neighbor) -> None:
        """Both sides have said HELLO."""

    def on_disconnected(self, peer: Neighbor) -> None:
        """The connection is over."""

    def send_pending(self, peer: Neighbor) -> None:
        """Write the rounds that a neighbor lacks, until its send buffer is full."""

    def check_request(self, peer: Neighbor, need: int, mark: int) -> None:
        """Raise `Refusal` if the rounds of a HELLO are impossible or cannot be sent any more."""

    def on_mark(self) -> None:
        """A neighbor's mark has moved."""


class Stage(Enum):
    """How far this agent is, as far as its connections are concerned."""

    RUNNING = auto()
    FINISHED = auto()
    """It has its answer: each neighbor is sent the rounds it lacks, then BYE."""
    CLOSING = auto()


@dataclass(frozen=True)
class Address:
    host: str
    port: int


@dataclass(frozen=True)
class Limits:
    """Upper bounds on what a neighbor may send."""

    largest: int
    """Bytes of the largest message of this run."""
    agents: int
    rounds: int
    """More rounds than any agent of this run takes."""


class Connections(EventLoop):
    """The connections of one agent, and its event loop.

    Parameters
    ----------
    me : Hello
        This agent's HELLO; ``need`` is filled in for each neighbor.
    neighbors : sequence of Neighbor
    listen : Address
    credentials : Credentials
    event_log : EventLog
    deadline : float
        Seconds to wait for a neighbor; 0 means for ever.
    limits : Limits

    Attributes
    ----------
    store : RoundStore
        Set by `open`.
    open_connections : set of Connection
        All whose sockets are open, admitted or not.
    mark : int
        This agent never needs a round before this one again, even if it is restarted.
    rounds : int
        Rounds finished by this process.
    """

    store: RoundStore

    def __init__(
        self,
        me: Hello,
        neighbors: Sequence[Neighbor],
        listen: Address,
        credentials: Credentials,
        event_log: EventLog,
        deadline: float,
        limits: Limits,
    ) -> None:
        super().__init__(deadline)
        self.loop.set_exception_handler(self.on_loop_error)
        self.me, self.neighbors, self.address, self.tls = me, list(neighbors), listen, credentials
        self.event_log, self.limits = event_log, limits
        self.by_name = {n.name: n for n in neighbors}
        self.stage = Stage.RUNNING
        self.open_connections: set[Connection] = set()
        self.connector: Connector | None = None
        self.mark = 0
        self.marks: deque[int] = deque(maxlen=MARKS)  # of the last checkpoints of this process
        self.rounds = 0
        for n in self.neighbors:
            n.allocate(limits.largest)

    # Opening and closing

    def open(self, store: RoundStore) -> None:
        """Listen, and dial the neighbors this agent is to dial."""
        self.store = store
        for n in self.neighbors:
            n.waiting_since = time.monotonic()
        names = ", ".join(n.name for n in self.neighbors if n.takes_part)
        self.event_log.report("waiting", names, f"waiting for {names}")
        # By default the lower index dials. So if neither end does, the lower one has been told not to.
        for n in self.neighbors:
            if not n.dial and self.me.index < n.index:
                sentence = f"{n.name} must have dial = true for {self.me.agent}, as it is false here"
                self.event_log.report("dial", n.name, sentence)
        self.connector = Connector(self, self.address.host, self.address.port, self.tls)
        self.loop.call_soon(self.tick)

    @property
    def is_open(self) -> bool:
        return self.connector is not None

    @property
    def has_finished(self) -> bool:
        return self.stage is Stage.FINISHED

    @property
    def is_closing(self) -> bool:
        return self.stage is Stage.CLOSING

    def progress(self) -> int:
        """Bytes read so far."""
        return sum(n.bytes_in for n in self.neighbors)

    def meet(self) -> None:
        """Wait until every neighbor has said HELLO; their degrees are fixed from then on."""
        self.wait(self._fix_degrees)

    def _fix_degrees(self) -> bool:
        """Whether all degrees are known. They are kept at once: a connection may end before the wait does."""
        known = all(n.degree or n.degree_in_hello for n in self.neighbors)
        if known:
            for n in self.neighbors:
                n.degree = n.degree or n.degree_in_hello
        return known

    def finish(self) -> None:
        """This agent has its answer: send every neighbor what it lacks, then BYE."""
        self.stage = Stage.FINISHED
        for n in self.neighbors:
            self.send_pending(n)

    def close(self) -> None:
        """Close all connections, after what was written has left, and the event loop."""
        if self.loop.is_closed():
            return
        self.stage = Stage.CLOSING
        self.loop.run_until_complete(self.close_all())
        self.loop.close()

    async def close_all(self) -> None:
        """Cancel all tasks, stop listening, flush and close all connections."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if self.connector is not None:
            self.connector.listener.close()  # at once: new callers see it and dial again later
        admitted = [n.connection for n in self.neighbors if n.connection is not None]
        for connection in admitted:
            connection.transport.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_TIMEOUT):
                while any(not connection.has_ended for connection in admitted):
                    await asyncio.sleep(0.01)
        for connection in list(self.open_connections):  # also those still writing a REFUSED
            connection.abort()
        await asyncio.sleep(0)  # they are aborted here
        await asyncio.sleep(0)  # and their sockets closed here

    # Admission

    def hello(self, n: Neighbor) -> bytes:
        """Our HELLO to a neighbor."""
        need, mark = self.store.announce(n)
        return replace(self.me, need=need).pack(mark)

    def mismatch(self, connection: Connection, n: Neighbor) -> str | None:
        """Why the certificate of a connection is not the neighbor's, or None."""
        assert connection.certificate is not None
        return connection.certificate.mismatch(n.identity, n.pin, self.tls)

    def check_certificate(self, connection: Connection, n: Neighbor) -> None:
        """Raise `Refusal` if the certificate of a connection is not the neighbor's."""
        if (why := self.mismatch(connection, n)) is not None:
            raise Refusal(why)

    def by_certificate(self, connection: Connection) -> Neighbor | None:
        """The neighbor to whom the certificate of a connection belongs."""
        return next((n for n in self.neighbors if self.mismatch(connection, n) is None), None)

    def on_hello(self, connection: Connection, hello: Hello, mark: int) -> None:
        """Admit the peer, or raise `Refusal` naming what does not fit."""
        n = self.by_name.get(hello.agent)
        if n is None or (connection.target is not None and n is not connection.target):
            raise Refusal(f"says it is {hello.agent!r}, which is not whom {self.me.agent} talks to here")
        self.check_certificate(connection, n)
        try:
            self.check_run(n, hello)
            self.check_degree(n, hello.degree)
            self.store.check_request(n, hello.need, mark)
        except Refusal as error:
            n.trouble, n.disagrees = str(error), True  # `Connection.refuse` reports it
            raise
        if n.connection is not None:  # the neighbor has given it up, or it would not connect anew
            n.connection.abort()
        n.connection, n.trouble, n.disagrees, n.degree_in_hello = connection, "", False, hello.degree
        n.reported_troubles.clear()
        if n.connection_count == 0:
            n.first_need = hello.need
        n.connection_count += 1
        connection.admit(n, hello.need)
        if self.connector is not None and connection.target is None:
            self.connector.callers.know(connection.address.rpartition(":")[0])
        sentence = f"connected to {n.name}"
        self.event_log.report_neighbor(
            "connected", n.name, sentence, address=connection.address, need=hello.need
        )
        self.store.on_connected(n)
        self.on_mark(n, mark)
        self.send_pending(n)

    def check_run(self, n: Neighbor, hello: Hello) -> None:
        """Raise `Refusal` if the neighbor's run, version, index or settings are not ours."""
        pairs = {
            "run": (self.me.run, hello.run),
            "package version": (self.me.version, hello.version),
            "its index": (n.index, hello.index),
        }
        for what, (here, there) in pairs.items():
            if here != there:
                raise Refusal(f"is in another run: {what} is {here!r} at {self.me.agent}, {there!r} there")
        if self.me.digest != hello.digest:
            first = difference(self.me.settings, hello.settings)
            name, mine, theirs = map(sanitize, first or ("the digest", self.me.digest, hello.digest))
            raise Refusal(f"is in another run: {name} is {mine} at {self.me.agent}, {theirs} there")

    def check_degree(self, n: Neighbor, degree: int) -> None:
        """Raise `Refusal` if a degree is impossible, or not the one this run began with."""
        least, most = 1, self.limits.agents - 1
        if not least <= degree <= most:
            raise Refusal(
                f"says it has {degree} neighbors, expected {least} to {most} among {most + 1} agents"
            )
        for here in (n.degree, n.degree_in_file):
            if here is not None and here != degree:
                raise Refusal(f"is in another run: it says it has {degree} neighbors, expected {here}")

    # Troubles

    def report_trouble(self, n: Neighbor, why: str, disagrees: bool) -> None:
        """Keep why there is no connection; log it once, however often dialling fails for that reason."""
        n.trouble, n.disagrees = why, disagrees
        if why not in n.reported_troubles:
            n.reported_troubles.append(why)
            self.event_log.report_neighbor("refused" if disagrees else "trouble", n.name, f"{n.name} {why}")

    def on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:  # noqa: ARG002
        """Log an exception in a callback of asyncio, which has closed the connection."""
        self.event_log.record_error("mishap", f"{context.get('message')}: {context.get('exception')!r}")

    def on_view_error(self, error: Exception) -> None:
        """Log that a view failed; it is not called again, and the run goes on."""
        self.event_log.report("mishap", self.me.agent, f"a view failed and is switched off: {error!r}")

    # Events on admitted connections

    def send_pending(self, peer: Neighbor) -> None:
        """Write the rounds a neighbor lacks, and BYE after the last of them if this agent has finished."""
        self.store.send_pending(peer)
        connection = peer.connection
        if self.has_finished and connection is not None and connection.can_send:
            connection.write_bye("done")

    def move_mark(self, mark: int) -> None:
        """This agent has written a checkpoint."""
        self.mark = mark
        self.marks.append(mark)

    def check_mark(self, peer: Neighbor, mark: int) -> None:
        """Raise `Refusal` if a neighbor's mark does not follow this agent's own.

        Agents write checkpoints after the same steps. One that says it needs ever older messages again would
        fill the memory and the disk of its neighbors, which keep these messages for it.
        """
        newest = max(mark, peer.mark)
        if len(self.marks) == MARKS and newest < self.marks[0]:
            raise Refusal(
                f"may need all messages since round {newest} again, {MARKS} checkpoints after this agent has "
                f"passed round {self.marks[0]}: it writes no checkpoints, or makes others keep what they sent"
            )

    def on_mark(self, peer: Neighbor, mark: int) -> None:
        """A message came, with the neighbor's mark."""
        if mark > peer.mark:
            peer.mark = mark
            self.store.on_mark()
        self.wake()

    def on_bye(self, peer: Neighbor, why: str) -> None:
        """A neighbor has its answer; or it has ended the run without one, and so does this agent."""
        if why == "done":
            peer.done = True
            self.wake()
        else:
            self.send_bye(why)
            self.abort_all(RunEnded(f"{peer.name} ended the run, which {why}"))

    def send_bye(self, why: str) -> None:
        """Tell all neighbors that the run ends without an answer."""
        for n in self.neighbors:
            if n.connection is not None and n.connection.state in WRITABLE:
                n.connection.write_bye(why)

    def on_refused(self, connection: Connection, why: str) -> str:
        """The peer has refused us; the sentence that says so."""
        sentence = f"refused {self.me.agent}, which {why}"
        neighbor = connection.peer or connection.target or self.by_certificate(connection)
        if neighbor is not None:
            self.report_trouble(neighbor, sentence, True)
        return sentence

    def on_closed(self, connection: Connection, why: str, disagreement: bool) -> None:
        """A connection has ended. ``disagreement``: one side refused the other, so waiting will not help."""
        n = connection.peer
        if n is None:
            target = connection.target
            if target is not None and not target.disagrees and why:
                self.report_trouble(target, why, disagreement)
        elif n.connection is connection:
            n.connection, n.waiting_since = None, time.monotonic()
            n.degree_in_hello = None
            self.store.on_disconnected(n)
            n.trouble, n.disagrees = why or "ended the connection", disagreement
            if n.takes_part and not (n.done or self.is_closing):
                self.event_log.report_neighbor("lost", n.name, f"{n.name} {n.trouble}")
