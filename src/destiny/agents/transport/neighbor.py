"""A neighbor: its entry in the agent file, and what is known of it so far."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from destiny.agents.transport.tls import Pin

if TYPE_CHECKING:
    from destiny.agents.transport.connection import Connection

BUFFERS = 2  # messages held for a neighbor: without failures it is at most one round ahead of this agent
MAX_REPORTED = 20  # troubles remembered, so that they are not logged twice


@dataclass(frozen=True)
class Message:
    """The message of a turn: the first ``length`` bytes of one of the neighbor's buffers."""

    round: int
    length: int
    memory: bytearray


@dataclass(eq=False)
class Neighbor:
    """One of the agents this agent talks to; it outlives the connections to it.

    Attributes
    ----------
    name, index, host, port, identity, dial, pin
        From the file. ``identity`` is the name its certificate must bear, ``dial`` whether this agent dials
        it, ``pin`` what else its certificate must satisfy.
    connection : Connection or None
        The connection whose HELLO was accepted last, until it ends.
    next_in : int
        The first round that has not come from it.
    mark : int
        It never needs a round before this one again.
    first_need : int
        The round it asked for when it first connected to this process: it had all rounds before.
    degree : int or None
        How many neighbors it has, fixed for this run: the weights follow from it.
    around : frozenset of int or None
        The indices of its neighbors, if the file tells them.
    degree_in_file : int or None
        How many these are.
    degree_in_hello : int or None
        The same from its HELLO, while it is connected.
    standing : "late", "member" or "left"
        Whether it takes part: not yet, now, or never again. Nobody waits for one that does not.
    done : bool
        It has its answer and needs nothing more.
    heard : int
        Of a neighbor without rounds: messages that have come from it.
    silent : float
        The same: seconds in which this agent has listened since the last of them.
    trouble : str
        Why there is no connection.
    disagrees : bool
        Whether that is because one side refuses the other, so that waiting will not help.
    waiting_since : float
        When the connection was lost, or the agent began to wait for it (`time.monotonic`).
    reported_troubles : deque of str
        Troubles that were logged since the last connection.
    bytes_in, bytes_out, connection_count : int
        Counted over all connections of this process.
    inbox : deque of Message
        Messages that were received and not yet used.
    free_buffers : list of bytearray
        Memory for further messages.
    """

    name: str
    index: int
    host: str
    port: int
    identity: str
    dial: bool
    pin: Pin = field(default_factory=Pin)
    connection: Connection | None = None
    next_in: int = 0
    mark: int = 0
    first_need: int = 0
    degree: int | None = None
    around: frozenset[int] | None = None
    degree_in_file: int | None = None
    degree_in_hello: int | None = None
    standing: Literal["late", "member", "left"] = "member"
    done: bool = False
    heard: int = 0
    silent: float = 0.0
    trouble: str = "has not been heard of"
    disagrees: bool = False
    waiting_since: float = 0.0
    reported_troubles: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_REPORTED))
    bytes_in: int = 0
    bytes_out: int = 0
    connection_count: int = 0
    inbox: deque[Message] = field(default_factory=deque)
    free_buffers: list[bytearray] = field(default_factory=list)

    @property
    def takes_part(self) -> bool:
        return self.standing == "member"

    def allocate(self, size: int) -> None:
        """Allocate the buffers, of ``size`` bytes each."""
        self.free_buffers = [bytearray(size) for _ in range(BUFFERS)]

    def pop_message(self) -> Message:
        """The oldest message; give it to `release` after use."""
        return self.inbox.popleft()

    def available(self, turn: int) -> int:
        """Bytes of its message of a turn that have come."""
        if self.inbox:
            return self.inbox[0].length if self.inbox[0].round == turn else 0
        return 0 if self.connection is None else self.connection.arrived(turn)

    def content(self) -> memoryview:
        """The message of the turn that `available` was asked for, as far as it says."""
        if self.inbox:
            return memoryview(self.inbox[0].memory)
        assert self.connection is not None
        assert self.connection.buffer is not None
        return memoryview(self.connection.buffer)

    def release(self, message: Message) -> None:
        """Free the buffer of a message, and read on if reading was paused for want of one."""
        if message.length == 0:
            return
        self.free_buffers.append(message.memory)
        if self.connection is not None:
            self.connection.resume_reading()

    def discard_inbox(self, round: int) -> None:
        """Throw unused messages away; they are due again from ``round`` on."""
        while self.inbox:
            self.release(self.inbox.popleft())
        self.next_in = round
