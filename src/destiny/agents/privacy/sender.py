"""What an agent does for the sums of its neighbours: its keys, and its numbers under masks."""

from __future__ import annotations

import operator
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from destiny.agents.exchange import Exchange
from destiny.agents.outbox import Outbox
from destiny.agents.privacy.key_ring import KeyRing
from destiny.agents.privacy.keys import Statement
from destiny.agents.privacy.masks import Masks, Words
from destiny.agents.privacy.sent_log import SentLog
from destiny.agents.transport.connections import Connections
from destiny.agents.transport.event_loop import Absent
from destiny.agents.transport.messages import (
    HEADER,
    Header,
    Kind,
    Refusal,
    decode_json,
    encode_json,
    is_finite,
)
from destiny.agents.transport.neighbour import Message, Neighbour
from destiny.engines import fixed_point
from destiny.engines.fixed_point import CLEAR, GRAIN, HEAD, LEAST, MOST, NOT_FINITE, Integers, Slot
from destiny.networks.local_view import Neighbourhood
from destiny.protocols import Array, TopologyBase

Chosen = tuple[int, ...]
"""Exponents of the groups of a message. They are few, and NumPy is slow with few numbers."""
NO_WORDS: Words = np.empty(0, dtype=np.uint64)


@dataclass
class Arrival:
    """What has come from a neighbour for a round, last of all.

    ``exponents`` are those of DATA, or the neighbour's own; None before they are read, as an early message
    cannot be taken apart before this agent comes to the round itself. ``message`` is None where numbers are
    missing.
    """

    kind: Kind
    content: memoryview
    message: Message | None = None
    attempt: int = 0
    exponents: Chosen | None = None
    rider: float = 0.0
    numbers: Words = field(default_factory=lambda: NO_WORDS)


@dataclass
class Channel:
    """What is known of a neighbour.

    Attributes
    ----------
    arrivals : dict from int to Arrival
        By round, what it has sent on this connection and is not used up.
    asked : bool
        Whether it was told this round's exponents on this connection.
    exponents : dict from Slot to (int, Chosen)
        The exponents it has chosen as a receiver, and the round of that.
    answers : dict from int to (int, Chosen)
        By round, the last attempt and the exponents in which this process has sent DATA to it.
    waiting : bool
        Whether it was told exponents on this connection, and nothing more goes out before it has chosen.
    planned : set of int
        Rounds for which it has chosen exponents on this connection.
    """

    arrivals: dict[int, Arrival] = field(default_factory=dict)
    asked: bool = False
    exponents: dict[Slot, tuple[int, Chosen]] = field(default_factory=dict)
    answers: dict[int, tuple[int, Chosen]] = field(default_factory=dict)
    waiting: bool = False
    planned: set[int] = field(default_factory=set)
    keys: int = 0
    """KEY messages that it has sent on this connection."""
    masks: Masks | None = None


class MaskedSender(Exchange):
    """The half of `destiny.agents.privacy.exchange.PrivateExchange` that sends, with the same parameters."""

    def __init__(
        self,
        connections: Connections,
        network: TopologyBase,
        index: int,
        outbox: Outbox,
        keys: KeyRing,
        log: SentLog,
    ) -> None:
        super().__init__(connections, network, index, outbox)
        self.index, self.keys, self.log = index, keys, log
        self.channels = {n.index: Channel() for n in connections.neighbours}
        self.weights: Mapping[int, float] = {}
        self.fresh: set[int] = set()  # rounds in which exponents are renewed
        self.sizes: dict[int, Chosen] = {}  # exponents of this agent's numbers, by round

    # Keys

    def begin(self) -> None:
        """Wait until all keys have come that hide this agent's messages."""
        self.adopt(self.network.at(0))
        neighbours = self.connections.neighbours
        try:
            self.connections.wait(lambda: not self.keys.missing(neighbours))
        except Absent:
            who = ", ".join(self.keys.missing(neighbours))
            raise Absent(
                f"not all keys have come within {self.connections.wait_limit:g} s: {who} could not pass on "
                "those of all other neighbours, who may not be running"
            ) from None
        self.log.add_weights({n.index: self.weights[n.index] for n in neighbours})
        self.keys.save()
        self.link_masks = self.keys.link_masks()
        for n in neighbours:
            self.channels[n.index].masks = self.keys.masks(n.index)
            self.connections.send_pending(n)

    def on_connected(self, peer: Neighbour) -> None:
        """Tell a neighbour this agent's key, and those of all other neighbours that are known."""
        self.send_key(peer, self.keys.own)
        for index, statement in self.keys.direct.items():
            if index != peer.index:
                self.send_key(peer, statement)

    def send_key(self, peer: Neighbour, statement: Statement) -> None:
        if peer.connection is not None:
            peer.connection.write(encode_json(Kind.KEY, statement.table()))

    def on_key(self, peer: Neighbour, content: memoryview) -> None:
        """A key has come: the neighbour's own is passed on to the others."""
        assert peer.connection is not None
        assert peer.connection.certificate is not None
        channel, most = self.channels[peer.index], peer.degree_in_hello or 1
        channel.keys += 1
        if channel.keys > most:  # its own and those of its other neighbours, each once
            raise Refusal(f"sent {channel.keys} keys on one connection, expected at most {most}")
        statement = Statement.read(decode_json(content))
        if self.keys.add(peer, statement, peer.connection.certificate.certificate):
            for n in self.connections.neighbours:
                if n is not peer:
                    self.send_key(n, statement)
        self.connections.wake()

    def adopt(self, W: csr_array[Any, Any]) -> csr_array[Any, Any]:
        """The agent's row, with a column for every agent it hears."""
        rows = super().adopt(W)
        self.weights = self._weights(W)
        return rows

    def _weights(self, W: csr_array[Any, Any]) -> dict[int, float]:
        """The weight that each neighbour gives to this agent."""
        if isinstance(self.network, Neighbourhood):  # Metropolis weights are symmetric
            mine = slice(W.indptr[self.index], W.indptr[self.index + 1])
            return dict(zip(W.indices[mine].tolist(), W.data[mine].tolist(), strict=True))
        return {
            n.index: float(W.data[row][W.indices[row] == self.index].sum())
            for n in self.connections.neighbours
            for row in [slice(W.indptr[n.index], W.indptr[n.index + 1])]
        }

    def max_received(self, peer: Neighbour) -> int:  # noqa: ARG002
        """A neighbour can only have rounds that are in the log, which has them before they are sent.

        One that has more shows that this agent's files are of an earlier time: numbers that it computes now
        need not be those that it has sent under the same masks.
        """
        return max(self.log.before, self.outbox.end)

    # Sending

    def send_pending(self, peer: Neighbour) -> None:
        """Write what a neighbour lacks, as far as it reads and has chosen exponents."""
        connection, channel = peer.connection, self.channels[peer.index]
        # After BYE, too: who is done still serves others.
        while connection is not None and not (
            connection.write_paused or connection.has_ended or channel.waiting
        ):
            k = connection.next_out
            if k not in self.outbox.messages or channel.masks is None:
                return
            if self._is_clear(k):
                connection.write(self.outbox.messages[k])
                connection.next_out = k + 1
                continue
            answer = channel.answers.get(k) or self._first_answer(channel, k)
            if answer is None or self._must_ask(channel, k, *answer):
                # Numbers that were told in some exponents fit there: these tell nothing new of their size.
                told = self._own_exponents(k) if answer is None else tuple(min(e, MOST) for e in answer[1])
                connection.write(pack_exponents(Kind.EXPONENTS, k, told))
                channel.waiting = True
                return
            self._send_data(peer, k, *answer)
            connection.next_out = k + 1

    def _must_ask(self, channel: Channel, round: int, attempt: int, exponents: Chosen) -> bool:
        """Whether to let a receiver choose exponents again, in place of numbers in those that it has.

        So it is with one that is behind: another neighbour that was started again may make it ask for the
        round a second time, and the answer would come after all the rounds that follow. One that chooses
        again is sent one round at a time. But exponents that it has lowered since, in a round before this
        one, must not be told as a size: it would take larger ones than agents in one process do.
        """
        if attempt > 0 or round + 1 not in self.outbox.messages:
            return False
        chosen_in, newest = channel.exponents[self.outbox.slots[round]]  # numbers were sent in them first
        return chosen_in >= round or newest == exponents

    def _first_answer(self, channel: Channel, round: int) -> tuple[int, Chosen] | None:
        """Attempt and exponents for a round's numbers, if the receiver need not be asked.

        What an earlier process has sent is sent in exponents that the receiver chooses now: so there are
        never more than two versions of the same numbers, one of the first attempt and one of its choice.
        """
        known = channel.exponents.get(self.outbox.slots[round])
        if known is None or round in self.fresh or round < self.log.before:
            return None
        return (0, known[1]) if self._fit(round, known[1]) else None

    def _numbers(self, round: int) -> Array:
        return np.frombuffer(self.outbox.messages[round], offset=HEADER.size)

    def _own_exponents(self, round: int) -> Chosen:
        if round not in self.sizes:
            columns = fixed_point.layout(self.outbox.slots[round][1])
            self.sizes[round] = as_tuple(columns.exponents(self._numbers(round)[None, : columns.width])[0])
        return self.sizes[round]

    def _fit(self, round: int, exponents: Chosen) -> bool:
        """Whether this agent's numbers of a round can be told in these exponents."""
        return all(map(operator.le, self._own_exponents(round), exponents))

    def _is_finite(self, round: int) -> bool:
        """Whether this agent's numbers of a round are finite, which their exponents tell; and its rider."""
        width = fixed_point.layout(self.outbox.slots[round][1]).width
        return NOT_FINITE not in self._own_exponents(round) and is_finite(self._numbers(round)[width:])

    def _send_data(self, peer: Neighbour, round: int, attempt: int, exponents: Chosen) -> None:
        """Numbers in a receiver's exponents and under its masks, with the rider in clear."""
        channel, columns = self.channels[peer.index], fixed_point.layout(self.outbox.slots[round][1])
        assert channel.masks is not None
        assert peer.connection is not None
        channel.answers[round] = attempt, exponents
        kept, size = self.outbox.messages[round], self._size(round, Kind.DATA)
        header = Header(Kind.DATA, round, Header.unpack(kept[: HEADER.size]).mark, size)
        start = header.pack() + as_words(attempt, *exponents) + kept[HEADER.size + 8 * columns.width :]
        words = np.empty((HEADER.size + size) // 8, dtype="<i8")  # made in place: it is large
        message, masked = words.data.cast("B"), words[-columns.width :]
        message[: len(start)] = start
        weight, unit = self.weights[peer.index], columns.unit(exponents)
        fixed_point.encode_to(masked, self._numbers(round)[: columns.width], weight, unit)
        channel.masks.add_to(masked.view("<u8"), round, attempt, exponents)
        peer.connection.write(message)

    def _check_plan(self, peer: Neighbour, header: Header) -> None:
        """Raise Refusal unless a neighbour may choose exponents for this round."""
        connection, round = peer.connection, header.round
        channel = self.channels[peer.index]
        assert connection is not None
        is_open = round < connection.next_out or (channel.waiting and round == connection.next_out)
        if round not in self.outbox.slots or self._is_clear(round) or not is_open or round in channel.planned:
            raise Refusal(f"chose exponents for round {round}, which is not to be chosen for")
        if header.length != (due := self._size(round, Kind.PLAN)):
            raise Refusal(f"announced {header.length} bytes of PLAN for round {round}, expected {due}")

    def on_plan(self, peer: Neighbour, round: int, content: memoryview) -> None:
        """A receiver has chosen exponents: the answer, unless the numbers do not fit or it chose before."""
        channel, connection = self.channels[peer.index], peer.connection
        assert connection is not None
        chosen = unpack_exponents(content, LEAST, MOST + HEAD)
        if not self._fit(round, chosen):
            raise Refusal(f"chose exponents for round {round} that are too small for the numbers of it")
        if not self.log.add_plan(round, peer.index, chosen):
            raise Refusal(f"chose other exponents for round {round} than before")
        channel.planned.add(round)
        slot = self.outbox.slots[round]
        if slot not in channel.exponents or channel.exponents[slot][0] <= round:
            channel.exponents[slot] = round, chosen
        self._send_data(peer, round, 1, chosen)
        if channel.waiting and round == connection.next_out:
            channel.waiting = False
            connection.next_out = round + 1
            self.connections.send_pending(peer)

    def _size(self, round: int, kind: Kind) -> int:
        """Bytes of a message of a round that this agent has begun."""
        clear = self._is_clear(round)
        groups = 0 if clear else fixed_point.layout(self.outbox.slots[round][1]).groups
        if kind is not Kind.DATA:
            return 8 * groups
        mine = self.message_size(round)
        assert mine is not None
        return mine if clear else 8 * (1 + groups) + mine

    def _is_clear(self, round: int) -> bool:
        return self.outbox.slots[round] == CLEAR


def as_tuple(exponents: Integers) -> Chosen:
    return tuple(exponents.tolist())


def unpack_exponents(content: memoryview, least: int, most: int) -> Chosen:
    """Exponents of a neighbour's; raises Refusal if nobody has such."""
    exponents = struct.unpack(f"<{len(content) // 8}q", content)
    if not all(least <= e <= most and e % GRAIN == 0 for e in exponents):
        raise Refusal("sent exponents that no numbers have")
    return exponents


def pack_exponents(kind: Kind, round: int, exponents: Chosen) -> bytes:
    return Header(kind, round, 0, 8 * len(exponents)).pack() + as_words(*exponents)


def as_words(*integers: int) -> bytes:
    return struct.pack(f"<{len(integers)}q", *integers)
