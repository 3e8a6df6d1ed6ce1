"""A round by masked sums: what each neighbour receives is of no use without what all others send to it.

An agent is a *receiver* for its own sum and a *sender* for those of its neighbours. In a round a sender tells
every neighbour its numbers in that neighbour's exponents (DATA), if it knows them and the numbers fit.
Otherwise, and whenever exponents are due to be renewed, it tells how large its numbers are (EXPONENTS). A
receiver with DATA from all, in its exponents, is done. Otherwise it chooses exponents and tells all
neighbours (PLAN), who answer by DATA in these. Nobody answers a second choice for the same round.

Totals over all agents (`destiny.engines.totals`) have masks of their own: their rounds go as DATA in clear.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import numpy as np

from destiny.agents.privacy.masks import Words
from destiny.agents.privacy.sender import (
    Arrival,
    Chosen,
    MaskedSender,
    as_tuple,
    pack_exponents,
    unpack_exponents,
)
from destiny.agents.transport.event_loop import Absent
from destiny.agents.transport.messages import (
    Header,
    Kind,
    Refusal,
    is_finite,
)
from destiny.agents.transport.neighbour import Message, Neighbour
from destiny.engines import fixed_point
from destiny.engines.fixed_point import (
    CLEAR,
    HEAD,
    LEAST,
    MOST,
    Exponents,
    Integers,
    Layout,
    Slot,
)
from destiny.errors import DestinyError
from destiny.protocols import Array

AHEAD = 2  # rounds that a neighbour may have begun which this agent has not finished


class PrivateExchange(MaskedSender):
    """`Exchange` by masked sums (`destiny.engines.exchange.SumExchange`).

    Parameters
    ----------
    connections, network, index, outbox
        As there; the outbox holds numbers in clear.
    keys : KeyRing
    log : SentLog
    """

    # Who is done still serves others: a choice of exponents may come late.
    after_bye = frozenset({Kind.REFUSED, Kind.DATA, Kind.EXPONENTS, Kind.KEY})

    known: Exponents | None = None
    plan: tuple[int, Chosen] | None = None
    """Attempt and exponents of this round, once chosen."""

    @property
    def masked(self) -> PrivateExchange:
        return self

    # Receiving

    def sum(
        self, round: int, slot: Slot, known: Exponents, numbers: Array, rider: float | None
    ) -> tuple[Array, float]:
        """One round: see `destiny.engines.exchange.SumExchange`."""
        own = [numbers] if rider is None else [numbers, np.array([rider])]
        self.known, self.plan = known, None
        if known.fresh:
            self.fresh.add(round)
        self._send_and_wait(round, slot, own)
        return self._finish(fixed_point.layout(slot[1]), rider)

    def _send_and_wait(self, round: int, slot: Slot, own: Sequence[Array]) -> Array:
        """Send this agent's numbers of a round and wait until those of all neighbours are here."""
        message = self.outbox.add(round, self.connections.mark, list(own))
        self.outbox.slots[round] = slot
        finite = is_finite(message) if slot == CLEAR else self._is_finite(round)
        if not finite:
            self.abandon_run(f"diverged: its numbers were not finite any more in round {round}")
        self.log.add_round(round, message)
        self.round = round
        for n in self.senders:
            self.channels[n.index].asked = False
            self.connections.send_pending(n)
        try:
            self.connections.wait(self.all_arrived)
            while not self.all_arrived():  # a connection was lost while the loop came to its end
                self.connections.wait(self.all_arrived)
        except Absent:
            raise self.absence_error() from None
        return message

    def swap(self, round: int, blocks: Sequence[Array]) -> Sequence[Array]:
        """A round in clear, of numbers that are masked already or tell nothing."""
        numbers = self._send_and_wait(round, CLEAR, blocks)
        rows = np.empty((len(self.positions), numbers.size))
        rows[self.positions[self.index]] = numbers
        for n in self.senders:
            rows[self.positions[n.index]] = np.frombuffer(self._pop(n).content)
        self.connections.rounds += 1
        return [rows]

    def mask_links(self, words: Words, round: int, exponents: Integers) -> None:
        """Add the masks of this agent's links to its part of a total, in place.

        Ends the run, before anything is sent, if an agent has said that its numbers are not finite. Runs with
        plain messages do the same.
        """
        if fixed_point.NOT_FINITE in exponents:
            self.abandon_run(
                f"diverged: before round {round} an agent has said that its numbers are not finite any more"
            )
        self.link_masks.add_to(words, round, 0, exponents.tolist())

    def _pop(self, peer: Neighbour) -> Arrival:
        """What has come from a neighbour for this round; its memory is free for the next message."""
        arrival = self.channels[peer.index].arrivals.pop(self.round)
        assert arrival.message is not None
        peer.next_in = self.round + 1
        peer.release(arrival.message)
        return arrival

    def _finish(self, columns: Layout, rider: float | None) -> tuple[Array, float]:
        """Add up what has come, and let go of it."""
        assert self.plan is not None
        assert self.known is not None
        arrivals = [self._pop(n) for n in self.senders]
        total = arrivals[0].numbers + arrivals[1].numbers  # who has one neighbour only is refused
        for arrival in arrivals[2:]:
            total += arrival.numbers
        flood = 0.0 if rider is None else max(rider, *(arrival.rider for arrival in arrivals))
        self.known.table[0] = self.plan[1]
        self.known = None
        self.connections.rounds += 1
        return fixed_point.decode(total.view(np.int64), columns.unit(self.plan[1])), flood

    def all_arrived(self) -> bool:
        """Whether all numbers of this round are here; chooses exponents once everybody was heard."""
        here = [self._arrival(n) for n in self.senders]
        if any(arrival is None for arrival in here):
            return False
        arrivals = [arrival for arrival in here if arrival is not None]
        if self._is_clear(self.round):
            return True
        if self.plan is not None and self.plan[0] == 0 and not all(_is_data(a, *self.plan) for a in arrivals):
            self.plan = None  # a neighbour was lost when all was here, and comes back with another attempt
        if self.plan is None:
            self.plan = self._choose(arrivals)
            if self.plan is None:
                return False
        attempt, chosen = self.plan
        right = [_is_data(a, attempt, chosen) for a in arrivals]
        for n, arrival, fits in zip(self.senders, arrivals, right, strict=True):
            if not fits and not self.channels[n.index].asked:
                self._ask(n, arrival, chosen)
        return all(right)

    def _choose(self, arrivals: list[Arrival]) -> tuple[int, Chosen] | None:
        """The exponents of this round; None if a neighbour was refused because of what it has sent."""
        assert self.known is not None
        before = as_tuple(self.known.table[0])
        answered = [a for a in arrivals if a.kind is Kind.DATA and a.attempt == 1]
        if answered:  # this agent had chosen before it was started again
            chosen = answered[0].exponents
            assert chosen is not None
            wrong = [n for n, a in zip(self.senders, arrivals, strict=True) if _contradicts(a, chosen)]
            for n in wrong:
                self._refuse(n, "answered other exponents than its neighbours")
            return None if wrong else (1, chosen)
        if not self.known.fresh and all(_is_data(a, 0, before) for a in arrivals):
            return 0, before
        reports = [a.exponents for a in arrivals if a.kind is Kind.EXPONENTS and a.exponents is not None]
        if self.known.fresh and len(reports) < len(arrivals):
            for n, a in zip(self.senders, arrivals, strict=True):
                if a.kind is Kind.DATA:
                    self._refuse(n, f"sent numbers for round {self.round}, where exponents are chosen anew")
            return None
        largest = np.array([(LEAST,) * len(before), *reports], dtype=np.int64).max(axis=0)
        return 1, as_tuple(fixed_point.decide(self.known.table[0], largest, self.known.fresh))

    def _ask(self, peer: Neighbour, arrival: Arrival, chosen: Chosen) -> None:
        """Tell a neighbour the exponents; what it has sent so far is of no use."""
        if arrival.message is not None:
            peer.release(arrival.message)
            arrival.message = None
        if peer.connection is not None:
            peer.connection.write(pack_exponents(Kind.PLAN, self.round, chosen))
            self.channels[peer.index].asked = True

    def _arrival(self, peer: Neighbour) -> Arrival | None:
        """What has come from a neighbour for this round, taken apart."""
        arrival = self.channels[peer.index].arrivals.get(self.round)
        if arrival is None or arrival.exponents is not None:
            return arrival
        try:
            self._take_apart(arrival)
        except Refusal as error:
            self._refuse(peer, str(error))
            return None
        return arrival

    def _take_apart(self, arrival: Arrival) -> None:
        """Read a message of this round; raises Refusal if it cannot be right."""
        size = self._size(self.round, arrival.kind)
        if len(arrival.content) != size:
            raise Refusal(
                f"sent {len(arrival.content)} bytes of {arrival.kind.name} for round {self.round}, expected "
                f"{size}"
            )
        if self._is_clear(self.round):
            if not is_finite(np.frombuffer(arrival.content)):
                raise Refusal(f"sent numbers that are not finite in round {self.round}")
            arrival.exponents = ()
            return
        if arrival.kind is Kind.EXPONENTS:
            arrival.exponents = unpack_exponents(arrival.content, LEAST, MOST)
            return
        columns = fixed_point.layout(self.outbox.slots[self.round][1])
        (arrival.attempt,) = struct.unpack_from("<q", arrival.content)
        if arrival.attempt not in (0, 1):
            raise Refusal(f"sent attempt {arrival.attempt} of round {self.round}, expected 0 or 1")
        end = 8 * (1 + columns.groups)
        exponents = unpack_exponents(arrival.content[8:end], LEAST, MOST + HEAD)
        if (start := size - 8 * columns.width) > end:
            (arrival.rider,) = struct.unpack_from("<d", arrival.content, end)
            if not math.isfinite(arrival.rider):
                raise Refusal(f"sent numbers that are not finite in round {self.round}")
        arrival.numbers = np.frombuffer(arrival.content, dtype="<u8", offset=start)
        arrival.exponents = exponents

    def _refuse(self, peer: Neighbour, why: str) -> None:
        if peer.connection is not None:
            peer.connection.refuse(why)
        else:
            self.on_disconnected(peer)

    def absence_error(self) -> DestinyError:
        """Who has not come, and why as far as we know."""
        for n in self.senders:  # `Exchange` looks at the inbox
            arrival = self.channels[n.index].arrivals.get(self.round)
            if arrival is not None and arrival.message is not None:
                n.inbox.append(arrival.message)
        return super().absence_error()

    # What the connections ask for (`destiny.agents.transport.connections.RoundStore`)

    def check_header(self, peer: Neighbour, header: Header) -> None:
        """Raise Refusal unless a message is due from a neighbour, and has the right size."""
        round, channel = header.round, self.channels[peer.index]
        if header.kind is Kind.PLAN:
            self._check_plan(peer, header)
            return
        due = peer.next_in + len(channel.arrivals)
        again = (
            header.kind is Kind.DATA and channel.asked and round == self.round and round in channel.arrivals
        )
        if not again and (round != due or round >= peer.next_in + AHEAD):
            raise Refusal(f"sent {header.kind.name} of round {round} where round {due} was due")
        if again and channel.arrivals[round].message is not None:
            raise Refusal(f"sent its numbers of round {round} twice")
        exact = self._size(round, header.kind) if round in self.outbox.slots else None
        largest = self.connections.limits.largest
        if not (0 < header.length <= largest and header.length % 8 == 0 and exact in (None, header.length)):
            expected = f"at most {largest}" if exact is None else str(exact)
            raise Refusal(f"announced {header.length} bytes for round {round}, expected {expected}")

    def on_data(self, peer: Neighbour, message: Message, content: memoryview) -> None:
        """A round's numbers have come, under masks."""
        self.channels[peer.index].arrivals[message.round] = Arrival(Kind.DATA, content, message)

    def on_private(self, peer: Neighbour, header: Header, content: memoryview) -> None:
        """A key, exponents or a choice of exponents has come."""
        if header.kind is Kind.KEY:
            self.on_key(peer, content)
        elif header.kind is Kind.EXPONENTS:
            self.channels[peer.index].arrivals[header.round] = Arrival(Kind.EXPONENTS, content)
            self.connections.wake()
        else:
            self.on_plan(peer, header.round, content)

    def on_disconnected(self, peer: Neighbour) -> None:
        """What has come and was not used will be sent again."""
        channel = self.channels[peer.index]
        for arrival in channel.arrivals.values():
            if arrival.message is not None:
                peer.release(arrival.message)
        channel.arrivals.clear()
        channel.planned.clear()
        channel.asked = channel.waiting = False
        channel.keys = 0

    def on_mark(self) -> None:
        """A neighbour's mark has moved: what all of them have for good can go."""
        super().on_mark()
        self.fresh = {k for k in self.fresh if k >= self.outbox.first}
        self.sizes = {k: sizes for k, sizes in self.sizes.items() if k >= self.outbox.first}
        for channel in self.channels.values():
            channel.answers = {k: a for k, a in channel.answers.items() if k >= self.outbox.first}


def _is_data(arrival: Arrival, attempt: int, exponents: Chosen) -> bool:
    """Whether these are numbers of this attempt in these exponents."""
    return arrival.message is not None and arrival.attempt == attempt and arrival.exponents == exponents


def _contradicts(arrival: Arrival, exponents: Chosen) -> bool:
    """Whether a neighbour has answered other exponents, which an agent never chooses for the same round."""
    return arrival.attempt == 1 and arrival.exponents != exponents
