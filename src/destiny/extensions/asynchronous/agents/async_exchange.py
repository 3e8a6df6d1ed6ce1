"""The messages of an asynchronous agent: the newest to each neighbor, the newest from each neighbor."""

from __future__ import annotations

import socket
from array import array
from collections.abc import Callable

import numpy as np

from destiny.agents.exchange import Exchange
from destiny.agents.outbox import Outbox
from destiny.agents.transport.connections import Connections
from destiny.agents.transport.messages import Header, Kind, Refusal
from destiny.agents.transport.neighbor import Neighbor
from destiny.extensions.asynchronous.agents.belief import Trim, departures
from destiny.extensions.asynchronous.agents.message_codec import MessageCodec
from destiny.extensions.asynchronous.async_protocol import LIFE
from destiny.extensions.asynchronous.members import MEMBER, first_standing
from destiny.extensions.asynchronous.termination import DONE, StampedMessage, TerminationDetection
from destiny.protocols import Array, TopologyBase

MOST_LIVES = 2**20  # starts of an agent in one run; stamps are exact for twice as many
MOST_FORGOTTEN = 1000  # lives of this agent that a neighbor may remember and its own files do not

try:
    import fcntl
    import termios
except ImportError:  # no such system calls here: only the transport's own buffer is looked at
    LINE_QUEUE = None
else:
    LINE_QUEUE = termios.TIOCOUTQ


class AsyncExchange(Exchange):
    """STATE messages while the method runs; the rounds of `Exchange` for the averages at the end.

    Nothing is queued: what was not yet written to a neighbor is replaced by what is newer, and so is what
    has come and was not yet used.

    Parameters
    ----------
    connections, network, index, outbox
        As for `Exchange`.
    method : TerminationDetection
    codec : MessageCodec
    newest : ndarray (d,)
        Stamp of the newest message of each agent that was heard before.

    Attributes
    ----------
    news : dict from int to StampedMessage
        By agent, the newest message since the last `take`.
    life, life_heard : int
        The life of this agent, and the largest of those before it that somebody has heard of.
    agreed : bool
        Whether this agent has ended its iteration: rounds may follow.
    answer : callable or None
        Called with each message of a neighbor that is not done, once this agent is.
    written : int
        STATE messages written to neighbors by this process.
    opinions : dict from int to ndarray (d,)
        By neighbor, who takes part by its newest message.
    trims : dict from int to (int, Trim)
        By neighbor, stamp of its newest message and what is left out of it, if anything is.
    standing : callable
        Who takes part as this agent knows it.
    majority : bool
        Whether more than half of the neighbors must say that an agent has left (`departures`).
    """

    def __init__(
        self,
        connections: Connections,
        network: TopologyBase,
        index: int,
        outbox: Outbox,
        method: TerminationDetection,
        codec: MessageCodec,
        newest: Array,
    ) -> None:
        super().__init__(connections, network, index, outbox)
        self.method, self.codec, self.index = method, codec, index
        self.newest = newest.copy()
        self.news: dict[int, StampedMessage] = {}
        self.latest: memoryview | None = None
        self.stamp = 0.0  # of the latest message
        self.sent: dict[int, float] = {}  # by neighbor, the stamp last written on its connection
        self.life = self.life_heard = 0
        self.agreed = False
        self.answer: Callable[[Neighbor, StampedMessage], None] | None = None
        self.written = 0
        self.opinions: dict[int, Array] = {}
        self.trims: dict[int, tuple[int, Trim]] = {}
        self.standing: Callable[[], Array] = lambda: first_standing(len(newest))
        self.majority = True
        self.doubted: set[tuple[int, int]] = set()  # neighbors and the agents that they have taken out
        self.reminded: set[int] = set()  # neighbors that remember a later life than this process began with

    # For the agent

    def take(self) -> list[StampedMessage]:
        """What has come since the last time, in the order of the neighbors."""
        letters = [self.news[j] for j in sorted(self.news)]
        self.news = {}
        return letters

    @property
    def is_forgotten(self) -> bool:
        """Whether others have heard of a life that this agent knows nothing of: its files were lost."""
        return self.life_heard >= self.life

    def trim_of(self, letter: StampedMessage) -> Trim | None:
        """What was left out of a message of `take`."""
        stamp, trim = self.trims.get(int(letter.sender), (0, None))
        return trim if stamp == int(letter.stamp) else None

    def told_by(self, agent: int) -> list[Neighbor]:
        """The neighbors that say an agent leaves or has left."""
        return [
            n
            for n in self.connections.neighbors
            if n.index in self.opinions and self.opinions[n.index][agent] > MEMBER
        ]

    def publish(self, letter: StampedMessage) -> None:
        """Make this the latest message; `send_pending` writes it."""
        self.latest, self.stamp = self.codec.pack(letter), float(letter.stamp)

    # For the connections

    def announce(self, peer: Neighbor) -> tuple[int, int]:
        """The first round missing from a neighbor, and the newest of its lives that was heard of."""
        return peer.next_in, int(self.newest[peer.index] // LIFE)

    def check_request(self, peer: Neighbor, need: int, mark: int) -> None:
        """Raise `Refusal` if a neighbor has rounds that this agent never sent, or lives that cannot be."""
        if mark >= MOST_LIVES:
            raise Refusal(
                f"says that it has heard life {mark} of this agent, expected less than {MOST_LIVES}"
            )
        if need > 0 and not self.agreed:
            raise Refusal(
                f"has all rounds of the last average before {need}, but this agent has not come that far: "
                "its checkpoints were lost or are of another time; all agents must start a new run"
            )
        super().check_request(peer, need, 0)
        # Nobody can have heard of this life before the first connection.
        later = mark > self.life or (mark == self.life and peer.connection_count == 0)
        if later and (why := self.remind(peer, mark)) is not None:
            raise Refusal(f"says {why}")

    def remind(self, peer: Neighbor, life: int) -> str | None:
        """A neighbor has heard of a later life of this agent; what is wrong with that, None if it may be.

        The files of this agent may be lost or old, but by `MOST_FORGOTTEN` lives at most, and a neighbor has
        to say so once: a neighbor hears of lives from this agent alone.
        """
        if life > max(self.life, self.life_heard):
            if life > self.life + MOST_FORGOTTEN or peer.index in self.reminded:
                return f"that it has heard life {life} of this agent, which is in life {self.life}"
            self.reminded.add(peer.index)
        self.life_heard = max(self.life_heard, life)
        return None

    def on_mark(self) -> None:
        """Marks are lives here; the few rounds at the end are kept until the run is over."""

    def on_connected(self, peer: Neighbor) -> None:
        """The neighbor gets the latest message, whatever an earlier connection has carried."""
        self.sent.pop(peer.index, None)

    def check_header(self, peer: Neighbor, header: Header) -> None:
        """Raise Refusal unless a message may come now, and has the right size."""
        if header.kind is not Kind.STATE:
            super().check_header(peer, header)
        elif header.round or header.length != self.codec.length:
            raise Refusal(
                f"announced {header.length} bytes of STATE for round {header.round}, expected "
                f"{self.codec.length} for round 0"
            )

    def on_state(self, peer: Neighbor, content: memoryview) -> None:
        """Keep the newest message of a neighbor; raises Refusal if it cannot be right."""
        letter: StampedMessage = self.codec.unpack(content)
        if (why := self.flaw_of(peer, letter)) is not None:
            raise Refusal(f"sent {why}")
        peer.silent, peer.heard = 0.0, peer.heard + 1
        if letter.stamp <= self.newest[peer.index]:  # sent again on a new connection
            return
        self.newest[peer.index] = letter.stamp
        letter = self.believed(peer, letter)
        if not self.agreed:
            self.news[peer.index] = letter
            self.connections.wake()
        elif letter.levels[peer.index] < DONE and self.answer is not None:
            self.answer(peer, letter)

    def believed(self, peer: Neighbor, letter: StampedMessage) -> StampedMessage:
        """A message without what its sender cannot know, or may not decide (`departures`).

        What neighbors say of themselves is heard from them alone. So no agent passes on a false stamp to the
        agent that it is about, which would refuse the one that has passed it on.
        """
        near = [n.index for n in self.connections.neighbors if n.takes_part]
        ahead = [j for j in near if j != peer.index and letter.stamps[j] > self.newest[j]]
        self.opinions[peer.index] = letter.standing
        standing = departures(letter, self.standing(), self.opinions, near, self.majority)
        self.trims.pop(peer.index, None)
        if not np.array_equal(standing, letter.standing):  # its levels are about another set
            self.doubt(peer, np.flatnonzero(standing != letter.standing).tolist())
            trim = Trim(tuple(range(len(standing))), tuple(standing.tolist()))
        elif ahead:
            trim = Trim(tuple(ahead))
        else:
            return letter
        self.trims[peer.index] = int(letter.stamp), trim
        return trim.of(letter)

    def doubt(self, peer: Neighbor, agents: list[int]) -> None:
        """Log once that a neighbor has taken agents out, and this agent has not."""
        if new := [j for j in agents if (peer.index, j) not in self.doubted]:
            self.doubted.update((peer.index, j) for j in new)
            who = ", ".join(f"agent {j}" for j in new)
            sentence = f"{peer.name} says that {who} left: not believed before most neighbors say so"
            self.connections.event_log.report_neighbor("members", peer.name, sentence)

    def flaw_of(self, peer: Neighbor, letter: StampedMessage) -> str | None:
        """What is wrong with a message, in words; None if it may be right."""
        if (why := self.method.flaw(letter)) is not None:
            return why
        if letter.sender != peer.index or letter.stamps[peer.index] != letter.stamp:
            return f"a message of agent {letter.sender:g} with stamp {letter.stamps[peer.index]:.0f}"
        if (letter.stamps >= LIFE * float(MOST_LIVES)).any():
            return f"a stamp of an agent that was started {MOST_LIVES} times or more"
        mine = float(max(letter.heard[self.index], letter.stamps[self.index]))
        life = int(mine // LIFE)
        beyond = life == self.life and mine > self.stamp and not self.is_forgotten
        if life >= MOST_LIVES or beyond:
            return f"that it has heard message {mine:.0f} of this agent, which was never sent"
        return self.remind(peer, life) if life > self.life else None

    def send_pending(self, peer: Neighbor) -> None:
        """Write the rounds that a neighbor lacks, and the latest message if it has not got it.

        One that has not come yet gets nothing; one that has left hears so, and gets no rounds.
        """
        if peer.takes_part:
            super().send_pending(peer)
        connection = None if peer.standing == "late" else peer.connection
        if (
            self.latest is None
            or connection is None
            or not connection.can_send
            or self.sent.get(peer.index) == self.stamp
            or not line_is_free(connection.transport.get_extra_info("socket"), len(self.latest))
        ):
            return
        connection.write(self.latest)
        self.sent[peer.index] = self.stamp
        self.written += 1


def line_is_free(sock: socket.socket | None, size: int) -> bool:
    """Whether less than one message of so many bytes waits to be acknowledged by the other machine.

    Otherwise a slow line would carry a queue of old messages: the system buffers megabytes.
    """
    if sock is None or sock.fileno() < 0:  # the other side has just closed it
        return False
    if LINE_QUEUE is None:
        return True
    waiting = array("i", [0])
    try:
        fcntl.ioctl(sock.fileno(), LINE_QUEUE, waiting)
    except OSError:
        return True
    return waiting[0] < size
