"""The rounds of an agent (`destiny.engines.exchange.Exchange`): one message to and from each neighbour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from destiny.agents.outbox import Outbox
from destiny.agents.transport.connections import Connections
from destiny.agents.transport.event_loop import Absent, RunEnded
from destiny.agents.transport.messages import HEADER, Header, Kind, Refusal, is_finite
from destiny.agents.transport.neighbour import Message, Neighbour
from destiny.engines.exchange import SumExchange
from destiny.engines.hosted import rows_of
from destiny.errors import DestinyError, SettingsError
from destiny.protocols import Array, TopologyBase

MAX_LOOKAHEAD = 100_000  # rounds to search for one in which a link is up again
CACHED_ROUNDS = 16  # rounds whose links are cached: more than neighbours are apart


class Exchange:
    """Sends this agent's message of a round to its neighbours and waits for theirs.

    It is also the `RoundStore` of the connections: it knows which round each neighbour needs next, and keeps
    what was sent for neighbours that ask again.

    Parameters
    ----------
    connections : Connections
    network : Topology
        Only this agent's row of the weights is used.
    index : int
        This agent.
    outbox : Outbox
        The messages it sent before it was restarted.
    few_bits : bool
        Whether messages hold integers before the numbers (`destiny.engines.quantisation`).
    """

    def __init__(
        self,
        connections: Connections,
        network: TopologyBase,
        index: int,
        outbox: Outbox,
        few_bits: bool = False,
    ) -> None:
        self.connections, self.network, self.outbox = connections, network, outbox
        self.few_bits = few_bits
        self.words = 0  # of integers in the messages of this round
        self.ids = np.array([index], dtype=np.intp)
        self.round = outbox.end
        self.changes = network.changes
        self.neighbours_by_round: dict[int, frozenset[int]] = {}
        self.buffer: Array = np.empty((0, 0))

    @property
    def masked(self) -> SumExchange | None:
        """This exchange, if it is one by masked sums."""
        return None

    def begin(self) -> None:
        """All neighbours were met once; sums need their keys, too."""

    # For the engine

    def adopt(self, W: csr_array[Any, Any]) -> csr_array[Any, Any]:
        """This agent's row of W, with a column for each agent that it receives from."""
        agents, rows = rows_of(W, self.ids)
        self.positions = {int(agent): position for position, agent in enumerate(agents)}
        self.senders = [n for n in self.connections.neighbours if n.index in self.positions]
        return rows

    def swap(self, round: int, blocks: Sequence[Array]) -> Sequence[Array]:
        """Send the blocks, wait for all messages of the round, return them in the order of their index.

        Raises `Absent` or `SettingsError` at the deadline, `RunEnded` if the numbers are not finite.
        """
        numbers = self.outbox.add(round, self.connections.mark, list(blocks))
        self.words = blocks[0].shape[1] if self.few_bits else 0
        if not is_finite(numbers[self.words :]):
            self.abandon_run(f"diverged: its numbers were not finite any more in round {round}")
        self.round = round
        for n in self.senders:
            self.connections.send_pending(n)
        try:
            self.connections.wait(self.all_arrived)
        except Absent:
            raise self.absence_error() from None
        if self.buffer.shape != (len(self.positions), numbers.size):
            self.buffer = np.empty((len(self.positions), numbers.size))
        self.buffer[self.positions[int(self.ids[0])]] = numbers
        for n in self.senders:
            message = n.pop_message()
            self.buffer[self.positions[n.index]] = np.frombuffer(message.memory, count=numbers.size)
            n.release(message)
        self.connections.rounds += 1
        return [self.buffer]

    def all_arrived(self) -> bool:
        """Whether all messages of this round are here; refuses a sender whose message cannot be right."""
        for n in self.senders:
            if not n.inbox:
                return False
            if (why := self.flaw(n.inbox[0])) is not None:
                n.discard_inbox(self.round)
                if n.connection is not None:
                    n.connection.refuse(why)
                return False
        return True

    def flaw(self, message: Message) -> str | None:
        """What is wrong with a message that came before this agent knew what the round's should look like."""
        size = self.message_size(self.round)
        if message.length != size:
            return f"sent {message.length} bytes for round {self.round}, expected {size}"
        if self.few_bits and not is_finite(np.frombuffer(message.memory, count=size // 8)[self.words :]):
            return f"sent numbers that are not finite in round {self.round}"
        return None

    def abandon_run(self, why: str) -> None:
        """Tell the neighbours why this agent cannot continue, and raise `RunEnded`."""
        self.connections.send_bye(why)
        raise RunEnded(f"{why}; try a smaller step or a larger beta, in a new run")

    def absence_error(self) -> DestinyError:
        """The error for a round that was not complete at the deadline: who is missing, and why."""
        late = [n for n in self.senders if not n.inbox]
        text = " and ".join(
            f"{n.name} has not sent round {self.round} for {self.connections.wait_limit:g} s: it "
            + (n.trouble if n.connection is None else "is connected and may itself be waiting for somebody")
            for n in late
        )
        # A disagreement needs a person; otherwise starting again may help. Connected neighbours wait, too.
        away = [n for n in late if n.connection is None]
        return SettingsError(text) if away and all(n.disagrees for n in away) else Absent(text)

    # For the connections (`destiny.agents.transport.connections.RoundStore`)

    after_bye = frozenset({Kind.REFUSED})

    def check_header(self, peer: Neighbour, header: Header) -> None:
        """Raise Refusal unless a message is due from a neighbour, and has the right size."""
        if header.kind is not Kind.DATA:
            raise Refusal(f"sent {header.kind.name}, which does not belong to runs of this method")
        if header.round != (due := self.next_active_round(peer, peer.next_in)):
            raise Refusal(f"sent round {header.round} where round {due} was due")
        exact, largest = self.message_size(due), self.connections.limits.largest
        if not (0 < header.length <= largest and header.length % 8 == 0 and exact in (None, header.length)):
            expected = f"at most {largest}" if exact is None else str(exact)
            raise Refusal(f"announced {header.length} bytes for round {due}, expected {expected}")

    def on_data(self, peer: Neighbour, message: Message, content: memoryview) -> None:
        """A round's numbers have come; raises Refusal if they are not finite."""
        if not self.few_bits and not is_finite(np.frombuffer(content)):
            raise Refusal(f"sent numbers that are not finite in round {message.round}")
        peer.inbox.append(message)
        peer.next_in = message.round + 1

    def on_private(self, peer: Neighbour, header: Header, content: memoryview) -> None:  # noqa: ARG002
        """Nothing is due of this kind."""
        raise Refusal(f"sent {header.kind.name}, which belongs to private sums: this run has none")

    def on_state(self, peer: Neighbour, content: memoryview) -> None:  # noqa: ARG002
        """Nothing is due of this kind."""
        raise Refusal("sent STATE, which belongs to asynchronous runs")

    def announce(self, peer: Neighbour) -> tuple[int, int]:
        """The first round missing from a neighbour, and the mark of this agent."""
        return peer.next_in, self.connections.mark

    def on_connected(self, peer: Neighbour) -> None:
        """Nothing to say before the first round."""

    def on_disconnected(self, peer: Neighbour) -> None:
        """What has come stays."""

    def message_size(self, round: int) -> int | None:
        """Bytes of a message of a round, the same for all agents; None before our own message of it."""
        mine = self.outbox.messages.get(round)
        return None if mine is None else len(mine) - HEADER.size

    def send_pending(self, peer: Neighbour) -> None:
        """Write the rounds that a neighbour lacks, until its send buffer is full."""
        connection = peer.connection
        while connection is not None and connection.can_send:
            round = self.next_active_round(peer, connection.next_out)
            if round not in self.outbox.messages:
                return
            connection.write(self.message_for(peer, round))
            connection.next_out = round + 1

    def message_for(self, peer: Neighbour, round: int) -> memoryview:  # noqa: ARG002
        """The bytes of this agent's message of a round, the same for all neighbours."""
        return self.outbox.messages[round]

    def check_request(self, peer: Neighbour, need: int, mark: int) -> None:
        """Raise `Refusal` if a HELLO asks for a round that is gone, or its rounds are impossible."""
        if need < self.outbox.first:
            raise Refusal(
                f"needs round {need}, but what was sent before round {self.outbox.first} is gone: "
                "its checkpoints were lost or are of another time; all agents must start a new run"
            )
        if need > (most := self.max_received(peer)):
            raise Refusal(
                f"says that it has all rounds before {need}, but can have those before {most} only, unless "
                "files here are of an earlier time; then all agents must start a new run"
            )
        if mark > self.next_active_round(peer, need):
            raise Refusal(f"says that it needs round {need}, and no round before {mark}: one must be wrong")

    def max_received(self, peer: Neighbour) -> int:
        """A neighbour can only have rounds of this agent before this one.

        How far an earlier process of this agent came is known only from the neighbours' first HELLOs.
        """
        if peer.connection_count == 0:
            return self.connections.limits.rounds
        return max(peer.first_need, self.next_active_round(peer, self.outbox.end))

    def on_mark(self) -> None:
        """Drop the messages that no neighbour needs again, but not those of the current round.

        The marks can be ahead of this agent, if it had to resume from the checkpoint before its newest.
        """
        self.outbox.prune(min(self.round, *(n.mark for n in self.connections.neighbours)))

    def next_active_round(self, peer: Neighbour, round: int) -> int:
        """The first round from ``round`` on in which the link to a neighbour is up."""
        if not self.changes:
            return round
        for k in range(round, round + MAX_LOOKAHEAD):
            if peer.index in self.neighbours_in(k):
                return k
        raise Refusal(f"has no link that is up from round {round} on")

    def neighbours_in(self, round: int) -> frozenset[int]:
        """Indices of the agents whose links to this agent are up in a round."""
        if round not in self.neighbours_by_round:
            W = self.network.at(round)
            mine = slice(W.indptr[self.ids[0]], W.indptr[self.ids[0] + 1])
            self.neighbours_by_round[round] = frozenset(W.indices[mine].tolist())
            while len(self.neighbours_by_round) > CACHED_ROUNDS:
                del self.neighbours_by_round[next(iter(self.neighbours_by_round))]
        return self.neighbours_by_round[round]
