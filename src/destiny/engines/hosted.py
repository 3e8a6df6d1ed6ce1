"""What every engine shares: gradients, mixing, counting. An engine adds the transport of messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.engines import fixed_point, quantisation, totals
from destiny.engines.clipping import clipped_round
from destiny.engines.exchange import DirectExchange, Exchange, SumExchange
from destiny.engines.fixed_point import OUTSIDE, Agreed, Integers, Neighbours, Slot
from destiny.engines.quantisation import Copies
from destiny.engines.totals import Rows, Words
from destiny.engines.traffic import Traffic
from destiny.errors import NetworkError
from destiny.protocols import (
    Array,
    CountedSamples,
    GeneralisedHosted,
    Hosted,
    QuadraticHosted,
    RegularisedHosted,
    Regulariser,
    Sampled,
    TopologyBase,
    Tree,
)

S = TypeVar("S")


class HostedAgents:
    """The agents of one process or thread, as an algorithm sees them (`destiny.protocols.Agents`).

    Attributes
    ----------
    traffic : Traffic
        Rounds, numbers sent and evaluations so far, counted here for every algorithm alike.
    flood : ndarray (hosted,) or None
        Numbers that ride along in every message; each agent keeps the largest it has heard of. This is
        how agents agree to stop without a round of their own.
    agreed : Agreed or None
        Where sums are private (`destiny.Messages`): the exponents of the hosted agents.
    copies : Copies or None
        Where messages have few bits: what the hosted agents have sent, added up, and what it mixes to.
    masked : SumExchange or None
        The exchange, where neighbours may not know this agent's numbers.
    liars : int
        Neighbours of an agent that may lie: mixing is clipped (`destiny.engines.clipping`) unless it is 0.
    """

    def __init__(self, ids: Sequence[int], hosted: Hosted, network: TopologyBase, exchange: Exchange) -> None:
        self.ids: NDArray[np.intp] = np.asarray(ids, dtype=np.intp)
        self.hosted = hosted
        self.network = network
        self.exchange = exchange
        self.traffic = Traffic()
        self.flood: Array | None = None
        self.agreed: Agreed | None = None
        self.copies: Copies | None = None
        self.masked: SumExchange | None = None
        self.liars = 0
        self.call = OUTSIDE
        self._depth: int | None = None
        self._weights: csr_array[Any, Any] | None = None
        self._neighbours: Neighbours | None = None

    def sum_privately(self, depth: int) -> None:
        """Mix by exact sums from now on; ``depth`` rounds later everybody has heard of everybody."""
        self.agreed, self._depth = Agreed(len(self.ids)), depth

    def begin_step(self) -> None:
        """Number the calls of `mix` from here on: each call of a step has exponents or copies of its own."""
        self.call = 0
        if self.copies is not None:
            self.copies.forget(OUTSIDE)

    def end_steps(self) -> None:
        """From here on messages of the same widths share their exponents or copies."""
        self.call = OUTSIDE
        if self.copies is not None:  # what is averaged in the end are the iterates, sent in the first call
            self.copies.pass_on(0, OUTSIDE)

    @property
    def hosted(self) -> Hosted:
        """The objectives of the agents."""
        return self._hosted

    @hosted.setter
    def hosted(self, hosted: Hosted) -> None:
        self._hosted = hosted
        self._sample = hosted.sample if isinstance(hosted, Sampled) else None
        self._regulariser = hosted.regulariser if isinstance(hosted, RegularisedHosted) else None

    @property
    def regulariser(self) -> Regulariser | None:
        """r of the problem, None if the objective is smooth."""
        return self._regulariser

    def gradient(self, X: Array, step: int | None = None) -> Array:
        """Euclidean gradients of the hosted agents at their own X_i, ``(hosted, n, p)``.

        Of the step's mini-batches where a method names its step and the problem has any.
        """
        if step is None or self._sample is None:
            self.traffic.gradients += 1
            return self._hosted.gradient(X)
        self.traffic.minibatches += 1
        return np.asarray(self._sample(X, step))

    @property
    def sampled(self) -> bool:
        """Whether the gradients of a step are those of mini-batches."""
        return self._sample is not None

    def sample_counts(self) -> Array:
        """Samples in a mini-batch, and in all, of the hosted agents, ``(hosted, 2)``; NaN if not known."""
        if isinstance(self._hosted, CountedSamples):
            return self._hosted.counts()
        return np.full((len(self.ids), 2), np.nan)

    def hessian(self) -> Array | None:
        """Constant Hessians A_i of the hosted agents ``(hosted, n, n)``, or None."""
        return self._hosted.hessian() if isinstance(self._hosted, QuadraticHosted) else None

    def mass(self, X: Array) -> Array:
        """d M_i X_i of the hosted agents, ``(hosted, n, q)``; X itself where the constraint is X^T X = I."""
        return self._hosted.mass(X) if isinstance(self._hosted, GeneralisedHosted) else X

    def value(self, X: Array) -> Array:
        """f_i(X_i) of the hosted agents, ``(hosted,)``."""
        self.traffic.values += 1
        return self._hosted.value(X)

    def mix(self, *arrays: Array, rounds: int = 1, again: bool = False) -> tuple[Array, ...]:
        """Weighted neighbour average of all arrays, in one message per neighbour and round."""
        shapes = [a.shape for a in arrays]
        blocks = [a.reshape(len(a), -1) for a in arrays]
        if again and self.call > 0:
            self.call -= 1
        slot = self.call, tuple(b.shape[1] for b in blocks)
        self.call += self.call != OUTSIDE
        for _ in range(rounds):
            if self.agreed is not None:
                blocks = self._private_round(blocks, slot)
            elif self.copies is not None:
                blocks = self._quantised_round(blocks, slot, self.copies)
            elif self.liars > 0:
                blocks = self._clipped_round(blocks)
            else:
                blocks = self._round(blocks)
        return tuple(b.reshape(shape) for b, shape in zip(blocks, shapes, strict=True))

    def once(self, compute: Callable[[], S]) -> S:
        """What all agents compute alike, computed once for those in this process."""
        return self.exchange.once(compute) if isinstance(self.exchange, DirectExchange) else compute()

    @property
    def private(self) -> bool:
        """Whether agents learn sums over their neighbours and averages only."""
        return self.agreed is not None

    @property
    def clipped(self) -> bool:
        """Whether neighbours may lie."""
        return self.liars > 0

    @property
    def last_mean(self) -> Array:
        """Digest of the last private average ``(hosted, DIGEST)``."""
        assert self.agreed is not None
        return self.agreed.last_mean

    @last_mean.setter
    def last_mean(self, digest: Array) -> None:
        assert self.agreed is not None
        self.agreed.last_mean = digest

    @property
    def tree(self) -> Tree:
        """The spanning tree of the network, along which sums travel."""
        assert self.network.tree is not None, "the network changes"
        return self.network.tree

    def all_reduce(self, *arrays: Array) -> tuple[Array, ...]:
        """Sums over all agents, read-only, the same bits at every agent (`destiny.engines.exchange`).

        Every agent sends one message to its parent in the tree and one to each child: twice the depth of the
        tree in rounds. The numbers of `flood` ride along and are added up, too.
        """
        if self.network.agents == 1:
            return arrays
        blocks = [a.reshape(len(a), -1) for a in arrays]
        if self.flood is not None:
            blocks.append(self.flood[:, None])
        totals = self.exchange.all_reduce(self.traffic.turns, self.tree, blocks)
        if self.flood is not None:
            self.flood = np.full(len(self.ids), totals[-1][0])
        self._count_sum(sum(b.shape[1] for b in blocks))
        return tuple(_for_all(total, a.shape) for total, a in zip(totals, arrays, strict=False))

    def exact_mean(self, *arrays: Array) -> tuple[Array, ...]:
        """Averages over all agents: `all_reduce` by their number; private where sums are."""
        count = self.network.agents
        if count == 1:
            return arrays
        if not self.private:
            return tuple(
                _for_all(total[0] / count, total.shape) for total in self.all_reduce(*arrays)
            )
        blocks = [a.reshape(len(a), -1) for a in arrays]
        widths = tuple(b.shape[1] for b in blocks)
        own = fixed_point.side_by_side(blocks, sum(widths))
        layout = fixed_point.layout(widths)
        known = self._known_sizes(widths)
        tree = np.column_stack([self.tree.parents[self.ids], np.full(len(self.ids), self.tree.depth)])
        means = _cut(totals.private_mean(self, own, layout, count, self.depth, tree, known), widths)
        return tuple(mean.reshape(a.shape) for a, mean in zip(arrays, means, strict=True))

    def _known_sizes(self, widths: tuple[int, ...]) -> fixed_point.Exponents | None:
        """The exponents of a total that is made in every step; None of one that is made once."""
        assert self.agreed is not None
        return None if self.call == OUTSIDE else self.agreed.at((fixed_point.TOTAL - self.call, widths))

    @property
    def depth(self) -> int:
        """Rounds in which everybody hears of everybody."""
        if self._depth is None:
            self._depth = self.network.diameter
        assert self._depth is not None, "the network changes"
        return self._depth

    def tell(self, *blocks: Rows) -> tuple[list[Rows], Neighbours]:
        """One round in which neighbours learn ``blocks``, a row for each hosted agent: those of all heard.

        What was told must not change and what was heard may be read until the next round.
        """
        self._adopt(self.network.at(self.traffic.rounds))
        widths = [len(block[0]) for block in blocks]
        rider = [] if self.flood is None else [self.flood[:, None]]
        received: Sequence[Rows]
        if isinstance(self.exchange, DirectExchange):
            received = self.exchange.show(self.traffic.turns, [*blocks, *rider])
        else:
            stacks = [np.asarray(block) for block in (*blocks, *rider)]
            received = self.exchange.swap(self.traffic.turns, stacks)
        self._keep_largest(received)
        self._count(sum(widths) + len(rider))
        if len(received[0][0]) != widths[0]:  # they came side by side
            received = np.split(np.asarray(received[0]), np.cumsum(widths), axis=1)
        return list(received[: len(blocks)]), self.neighbours

    @property
    def neighbours(self) -> Neighbours:
        """The neighbours of the hosted agents in this round."""
        if self._neighbours is None:
            assert self._weights is not None
            self._neighbours = Neighbours.of(self._weights, self._rows, self.ids)
        return self._neighbours

    def mask_links(self, words: Words, exponents: Integers) -> None:
        """Add the masks of an agent's links to its words, where neighbours may not know its numbers."""
        if self.masked is not None:
            self.masked.mask_links(words, self.traffic.rounds, exponents)

    def _swap(self, blocks: Sequence[Array]) -> Sequence[Array]:
        """What all agents heard have sent in this round, the largest rider of them kept."""
        rider = [] if self.flood is None else [self.flood[:, None]]
        received = self.exchange.swap(self.traffic.turns, [*blocks, *rider])
        self._keep_largest(received)
        return received

    def _keep_largest(self, received: Sequence[Rows]) -> None:
        """Of the riders, the last numbers received; there are some if there is a flood."""
        if self.flood is not None:
            every = np.asarray(received[-1])[:, -1]
            self.flood = np.maximum.reduceat(every[self._rows.indices], self._rows.indptr[:-1])

    def _round(self, blocks: Sequence[Array]) -> list[Array]:
        self._adopt(self.network.at(self.traffic.rounds))
        received = self._swap(blocks)
        # CSR times dense adds the neighbours in the order of their index: the same bits on every engine.
        mixed = [self._rows @ h for h in received]
        widths = [b.shape[1] for b in blocks] + [1] * (self.flood is not None)
        self._count(sum(widths))
        return (mixed if len(mixed) == len(widths) else _cut(mixed[0], widths))[: len(blocks)]

    def _clipped_round(self, blocks: Sequence[Array]) -> list[Array]:
        """The same, but nobody pulls an agent further than all but the farthest neighbours do."""
        self._adopt(self.network.at(self.traffic.rounds))
        received = self._swap(blocks)
        widths = [b.shape[1] for b in blocks] + [1] * (self.flood is not None)
        self._count(sum(widths))
        if len(received) < len(widths):
            received = np.split(received[0], np.cumsum(widths)[:-1], axis=1)
        return clipped_round(blocks, received[: len(blocks)], self.neighbours, self.liars)

    def _private_round(self, blocks: Sequence[Array], slot: Slot) -> list[Array]:
        """The same by exact sums: own number by its weight, plus what the neighbours' numbers add up to."""
        assert self.agreed is not None
        self._adopt(self.network.at(self.traffic.rounds))
        round, known, columns = self.traffic.rounds, self.agreed.at(slot), fixed_point.layout(slot[1])
        own = fixed_point.side_by_side(blocks, columns.width)
        if self.masked is None:
            everybody = fixed_point.side_by_side(self._swap(blocks), columns.width)
            sums = fixed_point.sum_in_clear(known, columns, everybody, self.neighbours)
        else:
            sums, flood = self.masked.sum(
                round, slot, known, own[0], None if self.flood is None else float(self.flood[0])
            )
            self.flood = None if self.flood is None else np.array([flood])
        known.uses += 1
        self._count(columns.width + (self.flood is not None))
        mixed = self.neighbours.own[:, None] * own
        mixed += sums
        return _cut(mixed, slot[1])

    def _quantised_round(self, blocks: Sequence[Array], slot: Slot, copies: Copies) -> list[Array]:
        """The same by rounded differences from what was sent before."""
        self._adopt(self.network.at(self.traffic.rounds))
        call, widths = slot
        layout = quantisation.layout(widths, copies.bits)
        parts = copies.differences(call, blocks)
        received = self._swap(layout.pack(parts))
        if len(received) == 1:
            received = received[0][:, : layout.words], received[0][:, layout.words :]
        mixed = [self._rows @ part for part in layout.unpack(received[0], received[1])]
        flood = int(self.flood is not None)
        self._count(sum(widths) + flood, layout.bytes + 8 * flood)
        return copies.add(call, blocks, parts, mixed)

    def _count_sum(self, numbers: int) -> None:
        """A sum over all agents: one message up and one down for every link of the tree."""
        self.traffic.turns += 1
        self.traffic.rounds += 2 * self.tree.depth
        self.traffic.scalars += self.tree_messages * numbers
        self.traffic.bytes += 8 * self.tree_messages * numbers

    @property
    def tree_messages(self) -> int:
        """Messages of a sum that are counted here: those of all agents."""
        return self.tree.messages()

    def _count(self, numbers: int, bytes: int | None = None) -> None:
        self.traffic.turns += 1
        self.traffic.rounds += 1
        self.traffic.scalars += self._links * numbers
        self.traffic.bytes += self._links * (8 * numbers if bytes is None else bytes)

    def _adopt(self, W: csr_array[Any, Any]) -> None:
        """Keep this round's rows; a fixed network hands out the same object every time."""
        if W is not self._weights:
            if self.agreed is not None or self.copies is not None:
                self._require_same(W)
            self._weights = W
            self._rows = self.exchange.adopt(W)
            self._neighbours = None
            self._links = self.count_links(W)

    def count_links(self, W: csr_array[Any, Any]) -> int:
        """Links in use with these weights, each in both directions: what one number in a message counts."""
        return int(np.count_nonzero(W.data) - np.count_nonzero(W.diagonal()))

    def _require_same(self, W: csr_array[Any, Any]) -> None:
        before = self._weights
        if before is None or (before.shape == W.shape and abs(before - W).max() == 0):
            return
        if self.copies is None:
            why, left_out = "private sums", "private"
            reason = "the difference of two sums tells what was sent"
        else:
            why, left_out = f"messages of {self.copies.bits} bits", "bits"
            reason = "they tell differences from earlier ones, which a new neighbour has not heard"
        raise NetworkError(
            f"{why} need a network that stays, as {reason}; this one changed in round "
            f"{self.traffic.rounds}: leave {left_out} out, or fix the network"
        )


def rows_of(W: csr_array[Any, Any], ids: NDArray[np.intp]) -> tuple[NDArray[np.intp], csr_array[Any, Any]]:
    """The agents that some agents hear, themselves included, and their rows of W with a column for each."""
    rows = W[ids]
    senders = np.union1d(rows.indices, ids)
    columns = np.searchsorted(senders, rows.indices)  # keeps the order of the agents' indices
    return senders, csr_array((rows.data, columns, rows.indptr), shape=(len(ids), len(senders)))


def _for_all(total: Array, shape: tuple[int, ...]) -> Array:
    """What all hosted agents have, stored once."""
    return np.broadcast_to(total.reshape(shape[1:]), shape)


def _cut(stack: Array, widths: Sequence[int]) -> list[Array]:
    """Blocks that lie side by side, each in an array of its own."""
    ends = accumulate(widths)
    return [
        np.ascontiguousarray(stack[:, end - width : end]) for end, width in zip(ends, widths, strict=True)
    ]
