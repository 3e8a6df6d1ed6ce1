"""A neighbour: what the file says of it, and what is known of it by now."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from destiny.agents.transport.tls import Pin

if TYPE_CHECKING:
    from destiny.agents.transport.connection import Link

SLOTS = 2  # messages held for a round to come: a neighbour cannot be further ahead while all is well
REMEMBERED = 20  # troubles with a neighbour that are not said twice


@dataclass(frozen=True)
class Message:
    """A round's numbers from a neighbour: the first ``length`` bytes of one of its pieces of memory."""

    round: int
    length: int
    memory: bytearray


@dataclass(eq=False)
class Neighbour:
    """One of the agents this agent talks to.

    Attributes
    ----------
    name, index, host, port, identity, dial, pin
        As the file has them; ``identity`` is what its certificate must say, ``dial`` whether we call it,
        ``pin`` what else its certificate must be.
    link : Link or None
        The connection, once both sides have said HELLO.
    need : int
        The first round that has not come from it.
    durable : int
        It needs no round before this one ever again.
    received : int
        It had all rounds before this one when it first connected to this process.
    degree : int or None
        How many neighbours it has: the weights of this run are made of it.
    degree_in_file : int or None
        The same as the network in the file has it, if the file has one.
    degree_in_hello : int or None
        The same as it says itself, while it is connected.
    done : bool
        It has its answer, and needs nothing more.
    trouble : str
        Why there is no connection.
    wrong : bool
        Whether that is a disagreement, which waiting alone does not cure.
    since : float
        When the connection was lost, or the agent began to wait for it (`time.monotonic`).
    told : deque of str
        Troubles that were said lately.
    """

    name: str
    index: int
    host: str
    port: int
    identity: str
    dial: bool
    pin: Pin = field(default_factory=Pin)
    link: Link | None = None
    need: int = 0
    durable: int = 0
    received: int = 0
    degree: int | None = None
    degree_in_file: int | None = None
    degree_in_hello: int | None = None
    done: bool = False
    trouble: str = "has not been heard of"
    wrong: bool = False
    since: float = 0.0
    told: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    bytes_in: int = 0
    bytes_out: int = 0
    connections: int = 0
    inbox: deque[Message] = field(default_factory=deque)
    free: list[bytearray] = field(default_factory=list)

    def make_room(self, size: int) -> None:
        """Memory for the messages of this neighbour, once and for all."""
        self.free = [bytearray(size) for _ in range(SLOTS)]

    def take(self) -> Message:
        """The oldest message; its memory is free again after `give_back`."""
        return self.inbox.popleft()

    def give_back(self, message: Message) -> None:
        """The numbers were used."""
        self.free.append(message.memory)
        if self.link is not None:
            self.link.go_on()

    def forget_unread(self, round: int) -> None:
        """Messages that cannot be used are as if they had never come."""
        while self.inbox:
            self.give_back(self.inbox.popleft())
        self.need = round
