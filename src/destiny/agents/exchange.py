"""The messages of an agent by turns (`destiny.engines.exchange.Exchange`): rounds of mixing, and sums.

In a round every neighbor gets the same message. In a sum the parent in the tree gets one message, each child
another one, and all other neighbors an empty one, so that all count the same turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from scipy.sparse import csr_array

from destiny.agents.outbox import EMPTY, Outbox, Sent, To
from destiny.agents.statements import Statements
from destiny.agents.transport.connections import Connections
from destiny.agents.transport.event_loop import Absent, RunEnded
from destiny.agents.transport.messages import Header, Kind, Refusal, is_finite
from destiny.agents.transport.neighbor import BUFFERS, Message, Neighbor
from destiny.agents.tree_stream import TreeStream
from destiny.engines.exchange import rows_of
from destiny.engines.tree_sum import Row
from destiny.errors import DestinyError, SettingsError
from destiny.protocols import Array, TopologyBase, Tree

MAX_LOOKAHEAD = 100_000  # rounds to search for one in which a link is up again
CACHED_ROUNDS = 16  # rounds whose links are cached: more than neighbors are apart


class Exchange:
    """Sends this agent's messages of a turn to its neighbors and waits for theirs.

    It is also the `RoundStore` of the connections: it knows which turn each neighbor needs next, and keeps
    what was sent for neighbors that ask again.

    Parameters
    ----------
    connections : Connections
    network : Topology
        Only this agent's row of the weights is used.
    index : int
        This agent.
    outbox : Outbox
        The messages it sent before it was restarted.
    statements : Statements, optional
        What every agent tells all others once; None where no sums are made.
    few_bits : bool
        Whether messages hold integers before the numbers (`destiny.engines.mixers.quantized`).
    begun : int, optional
        Where it is known, one after the last turn that an earlier process of this agent has begun to send.
    """

    def __init__(
        self,
        connections: Connections,
        network: TopologyBase,
        index: int,
        outbox: Outbox,
        statements: Statements | None = None,
        few_bits: bool = False,
        begun: int | None = None,
    ) -> None:
        self.connections, self.network, self.outbox = connections, network, outbox
        self.statements, self.few_bits, self.begun = statements, few_bits, begun
        self.words = 0  # of integers in the messages of this round
        self.ids = np.array([index], dtype=np.intp)
        self.turn = outbox.end
        self.changes = network.changes
        self.neighbors_by_round: dict[int, frozenset[int]] = {}
        self.buffer: Array = np.empty((0, 0))
        self.awaited: list[Neighbor] = []  # whose messages of this turn are needed
        self.size: int | None = None  # bytes of the messages of this turn, but for empty ones; None before it

    def begin(self) -> None:
        """All neighbors were met once: find out who takes part and who is linked to whom."""
        if self.statements is None:
            return
        try:
            self.connections.wait(self.statements.all_known)
        except Absent:
            raise self.statements.absence_error(self.connections.wait_limit) from None
        self.statements.save()

    # For the engine

    def adopt(self, W: csr_array[Any, Any]) -> csr_array[Any, Any]:
        """This agent's row of W, with a column for each agent that it receives from."""
        agents, rows = rows_of(W, self.ids)
        self.positions = {int(agent): position for position, agent in enumerate(agents)}
        self.senders = [n for n in self.connections.neighbors if n.index in self.positions]
        return rows

    def swap(self, round: int, blocks: Sequence[Array]) -> Sequence[Array]:
        """Send the blocks, wait for all messages of the round, return them in the order of their index.

        Raises `Absent` or `SettingsError` at the deadline, `RunEnded` if the numbers are not finite.
        """
        numbers = self.outbox.add(round, blocks)
        self.words = blocks[0].shape[1] if self.few_bits else 0
        if not is_finite(numbers[self.words :]):
            self.abandon_run(f"diverged: its numbers were not finite any more in round {round}")
        self._begin_turn(round, self.senders, 8 * numbers.size)
        self._wait(self.all_arrived)
        if self.buffer.shape != (len(self.positions), numbers.size):
            self.buffer = np.empty((len(self.positions), numbers.size))
        self.buffer[self.positions[int(self.ids[0])]] = numbers
        for n in self.senders:
            message = n.pop_message()
            self.buffer[self.positions[n.index]] = np.frombuffer(message.memory, count=numbers.size)
            n.release(message)
        self.connections.rounds += 1
        return [self.buffer]

    def all_reduce(self, turn: int, tree: Tree, blocks: Sequence[Row]) -> Sequence[Row]:
        """The sums of the rows of all agents, along the tree; bytes are passed on as soon as they are added.

        Raises as `swap` does.
        """
        rows = [np.ascontiguousarray(block[0]) for block in blocks]
        if not all(row.dtype != np.float64 or is_finite(row) for row in rows):
            self.abandon_run(f"diverged: its numbers were not finite any more in turn {turn}")
        (me,), by_index = self.ids.tolist(), {n.index: n for n in self.connections.neighbors}
        parent = by_index.get(int(tree.parents[me]))
        children = [by_index[child] for child in tree.children[me]]
        stream = TreeStream(rows, parent, children)
        self.outbox.begin(turn, stream.messages)
        self._begin_turn(turn, [*children, *([] if parent is None else [parent])], stream.size)

        def advance() -> bool:
            if not self._sizes_fit():
                return False
            try:
                changed = stream.advance(turn)
            except Refusal as error:
                assert stream.blamed is not None
                self._refuse(stream.blamed, str(error))
                return False
            if changed:
                for n in self.awaited:
                    self.connections.send_pending(n)
            return stream.done

        self._wait(advance)
        if not stream.is_finite:
            self.abandon_run(f"diverged: a sum was not finite any more in turn {turn}")
        for n in self.awaited:
            n.release(n.pop_message())
        self.connections.rounds += 2 * tree.depth
        return stream.totals

    def _begin_turn(self, turn: int, awaited: Sequence[Neighbor], size: int) -> None:
        self.turn, self.awaited, self.size = turn, list(awaited), size
        for n in self.connections.neighbors:
            while n.inbox and n.inbox[0].round < turn:  # empty messages of sums
                n.pop_message()
            self.connections.send_pending(n)

    def _wait(self, ready: Any) -> None:
        try:
            self.connections.wait(ready)
        except Absent:
            raise self.absence_error() from None

    def all_arrived(self) -> bool:
        """Whether all messages of this round are here; refuses a sender whose message cannot be right."""
        if not self._sizes_fit() or not all(n.inbox for n in self.awaited):
            return False
        for n in self.awaited:
            message = n.inbox[0]
            numbers = np.frombuffer(message.memory, count=message.length // 8)
            if not is_finite(numbers[self.words :]):
                self._refuse(n, f"sent numbers that are not finite in round {self.turn}")
                return False
        return True

    def _sizes_fit(self) -> bool:
        """Whether the messages of this turn have the right sizes, as far as they came before it began."""
        fit = True
        for n in self.connections.neighbors:
            if n.inbox and n.inbox[0].round == self.turn and n.inbox[0].length != (due := self._due(n)):
                self._refuse(n, f"sent {n.inbox[0].length} bytes for turn {self.turn}, expected {due}")
                fit = False
        return fit

    def _due(self, peer: Neighbor) -> int:
        """Bytes of a neighbor's message of this turn."""
        assert self.size is not None
        return self.size if peer in self.awaited else 0

    def _refuse(self, peer: Neighbor, why: str) -> None:
        peer.discard_inbox(self.turn)
        if peer.connection is not None:
            peer.connection.refuse(why)

    def abandon_run(self, why: str) -> NoReturn:
        """Tell the neighbors why this agent cannot continue, and raise `RunEnded`."""
        self.connections.send_bye(why)
        raise RunEnded(f"{why}; try a smaller step or a larger beta, in a new run")

    def absence_error(self) -> DestinyError:
        """The error for a turn that was not complete at the deadline: who is missing, and why."""
        late = [n for n in self.awaited if not n.inbox]
        text = " and ".join(
            f"{n.name} has not sent round {self.turn} for {self.connections.wait_limit:g} s: it "
            + (n.trouble if n.connection is None else "is connected and may itself be waiting for somebody")
            for n in late
        )
        # A disagreement needs a person; otherwise starting again may help. Connected neighbors wait, too.
        away = [n for n in late if n.connection is None]
        return SettingsError(text) if away and all(n.disagrees for n in away) else Absent(text)

    # For the connections (`destiny.agents.transport.connections.RoundStore`)

    after_bye = frozenset({Kind.REFUSED, Kind.STATEMENT})

    def check_header(self, peer: Neighbor, header: Header) -> None:
        """Raise Refusal unless a message is due from a neighbor, and has the right size."""
        if header.kind is not Kind.DATA:
            raise Refusal(f"sent {header.kind.name}, which does not belong to runs of this method")
        if header.round != (due := self.next_active_round(peer, peer.next_in)):
            raise Refusal(f"sent round {header.round} where round {due} was due")
        if header.round > self.turn + BUFFERS:
            raise Refusal("sent more rounds than it may be ahead")
        exact = None
        if header.round < self.turn:  # this agent did not wait for it: the neighbor had nothing to send
            exact = 0
        elif self.size is not None and header.round == self.turn:
            exact = self._due(peer)
        largest = self.connections.limits.largest
        if not (0 <= header.length <= largest and header.length % 8 == 0 and exact in (None, header.length)):
            expected = f"at most {largest}" if exact is None else str(exact)
            raise Refusal(f"announced {header.length} bytes for round {due}, expected {expected}")

    def on_data(self, peer: Neighbor, message: Message) -> None:
        """A turn's message has come; it is looked at when this agent has come to the turn."""
        if message.round >= self.turn:  # an earlier one is empty: it must not pass for that of this turn
            peer.inbox.append(message)
        peer.next_in = message.round + 1

    def on_statement(self, peer: Neighbor, content: memoryview) -> None:
        """What an agent tells all others has come, from that agent or passed on."""
        if self.statements is None:
            raise Refusal("sent STATEMENT, which does not belong to runs of this method")
        for n, message in self.statements.receive(peer, content):
            if n.connection is not None:
                n.connection.write(message)
        self.connections.wake()

    def on_state(self, peer: Neighbor, content: memoryview) -> None:  # noqa: ARG002
        """Nothing is due of this kind."""
        raise Refusal("sent STATE, which belongs to runs without rounds")

    def announce(self, peer: Neighbor) -> tuple[int, int]:
        """The first turn missing from a neighbor, and the mark of this agent."""
        return peer.next_in, self.connections.mark

    def on_connected(self, peer: Neighbor) -> None:
        """Tell what all agents have told so far."""
        if self.statements is not None and peer.connection is not None:
            for message in self.statements.for_newcomer(peer):
                peer.connection.write(message)

    def on_disconnected(self, peer: Neighbor) -> None:
        """What has come stays."""

    def send_pending(self, peer: Neighbor) -> None:
        """Write the turns that a neighbor lacks, as far as they are ready, until its send buffer is full."""
        connection = peer.connection
        while connection is not None and connection.can_send:
            turn = self.next_active_round(peer, connection.next_out)
            if turn not in self.outbox.messages:
                return
            message = self.message_for(peer, turn)
            start, whole = connection.written, len(message.content)
            if start == 0:
                if whole and not message.ready:
                    return
                header = Header(Kind.DATA, turn, min(self.connections.mark, turn), whole)
                connection.write_part(header.pack(), message.content[: message.ready])
            else:
                connection.write_part(message.content[start : message.ready])
            connection.written = message.ready
            if connection.written < whole:
                return
            connection.next_out, connection.written = turn + 1, 0

    def message_for(self, peer: Neighbor, turn: int) -> Sent:
        """This agent's message of a turn to a neighbor."""
        messages = self.outbox.messages[turn]
        if To.ALL in messages:
            return messages[To.ALL]
        tree, (me,) = self.network.tree, self.ids.tolist()
        assert tree is not None
        if tree.parents[me] == peer.index:
            return messages[To.PARENT]
        return messages[To.CHILDREN] if tree.parents[peer.index] == me else EMPTY

    def check_request(self, peer: Neighbor, need: int, mark: int) -> None:
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

    def max_received(self, peer: Neighbor) -> int:
        """A neighbor can only have rounds of this agent before this one.

        Where there is no log of it, how far an earlier process of this agent came is known only from the
        neighbors' first HELLOs.
        """
        if self.begun is not None:
            return max(self.begun, self.outbox.end)
        if peer.connection_count == 0:
            return self.connections.limits.rounds
        return max(peer.first_need, self.next_active_round(peer, self.outbox.end))

    def on_mark(self) -> None:
        """Drop the messages that no neighbor needs again, but not those of the current turn.

        The marks can be ahead of this agent, if it had to resume from the checkpoint before its newest.
        """
        self.outbox.prune(min(self.turn, *(n.mark for n in self.connections.neighbors)))

    def next_active_round(self, peer: Neighbor, round: int) -> int:
        """The first round from ``round`` on in which the link to a neighbor is up."""
        if not self.changes:
            return round
        for k in range(round, round + MAX_LOOKAHEAD):
            if peer.index in self.neighbors_in(k):
                return k
        raise Refusal(f"has no link that is up from round {round} on")

    def neighbors_in(self, round: int) -> frozenset[int]:
        """Indices of the agents whose links to this agent are up in a round."""
        if round not in self.neighbors_by_round:
            W = self.network.at(round)
            mine = slice(W.indptr[self.ids[0]], W.indptr[self.ids[0] + 1])
            self.neighbors_by_round[round] = frozenset(W.indices[mine].tolist())
            while len(self.neighbors_by_round) > CACHED_ROUNDS:
                del self.neighbors_by_round[next(iter(self.neighbors_by_round))]
        return self.neighbors_by_round[round]
