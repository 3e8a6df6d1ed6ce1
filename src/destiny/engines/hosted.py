"""What every engine shares: gradients, mixing, counting. An engine adds the transport of messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.engines import quantisation
from destiny.engines.clipping import clipped_round
from destiny.engines.exchange import DirectExchange, Exchange
from destiny.engines.neighbours import Neighbours
from destiny.engines.private_sums import Hiding, PrivateSums
from destiny.engines.quantisation import OUTSIDE, Copies
from destiny.engines.traffic import Traffic
from destiny.engines.words import OutOfRangeError
from destiny.errors import NetworkError, PrivacyError
from destiny.protocols import (
    Array,
    Bounds,
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
    private_sums : PrivateSums or None
        Where messages are private (`destiny.Messages`): how numbers travel in sums, the only messages then.
    hiding : Hiding or None
        Of an agent of an organisation: how it hides its numbers where messages are private.
    copies : Copies or None
        Where messages have few bits: what the hosted agents have sent, added up, and what it mixes to.
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
        self.private_sums: PrivateSums | None = None
        self.hiding: Hiding | None = None
        self.copies: Copies | None = None
        self.liars = 0
        self.call = OUTSIDE
        self._weights: csr_array[Any, Any] | None = None
        self._neighbours: Neighbours | None = None

    def begin_step(self) -> None:
        """Number the calls of `mix` from here on: each call of a step has copies of its own."""
        self.call = 0
        if self.copies is not None:
            self.copies.forget(OUTSIDE)

    def end_steps(self) -> None:
        """From here on messages of the same widths share their copies."""
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

    def scales(self) -> Array | None:
        """u ``(hosted, n)`` with ``|A_i[j, k]|^2 <= u_j u_k`` for the constant Hessians A_i."""
        assert isinstance(self._hosted, QuadraticHosted)
        return self._hosted.scales()

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
        if self.private:
            raise PrivacyError(
                "private messages are sums over all agents; this method averages over neighbours, from which "
                "their data can be reconstructed: use destiny-newton, destiny-krylov or destiny-lbfgs"
            )
        call = self.call
        self.call += self.call != OUTSIDE
        for _ in range(rounds):
            if self.copies is not None:
                blocks = self._quantised_round(blocks, call, self.copies)
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
        """Whether agents learn sums over all agents and nothing else."""
        return self.private_sums is not None

    @property
    def clipped(self) -> bool:
        """Whether neighbours may lie."""
        return self.liars > 0

    @property
    def count(self) -> int:
        """Agents of the network."""
        return self.network.agents

    @property
    def tree(self) -> Tree:
        """The spanning tree of the network, along which sums travel."""
        assert self.network.tree is not None, "the network changes"
        return self.network.tree

    def all_reduce(self, *arrays: Array, bounds: Bounds | None = None) -> tuple[Array, ...]:
        """Sums over all agents, read-only, the same bits at every agent (`destiny.engines.exchange`).

        Every agent sends one message to its parent in the tree and one to each child: twice the depth of the
        tree in rounds. The numbers of `flood` ride along, 0 or 1 here: the largest is known to all.

        Parameters
        ----------
        bounds : sequence of arrays, numbers or None
            For each array, what the magnitudes of all agents add up to at most: private messages are shorter
            with it. All agents must know it: it follows from earlier sums.
        """
        if self.network.agents == 1:
            return arrays
        blocks = [a.reshape(len(a), -1) for a in arrays]
        limits: list[Array | float | None] = [None] * len(blocks) if bounds is None else list(bounds)
        if self.flood is not None:
            blocks.append(self.flood[:, None])
            limits.append(float(self.network.agents))
        try:
            totals = self._summed(blocks, limits)
        except OutOfRangeError as error:
            raise (self.private_sums.named(error, arrays) if self.private_sums else error) from None
        if self.flood is not None:
            self.flood = np.full(len(self.ids), np.sign(totals[-1][0]))  # whether anybody's is not 0
        return tuple(_for_all(total, a.shape) for total, a in zip(totals, arrays, strict=False))

    def _summed(self, blocks: Sequence[Array], bounds: Bounds) -> Sequence[Array]:
        """Totals ``(k,)`` of blocks ``(hosted, k)``, counted."""
        turn, private = self.traffic.turns, self.private_sums
        if private is None:
            totals = self.exchange.all_reduce(turn, self.tree, blocks)
            numbers = sum(b.shape[1] for b in blocks)
        else:
            words = private.encode(turn, blocks, bounds)
            totals = private.decode(self.exchange.all_reduce(turn, self.tree, words), blocks, bounds)
            numbers = private.numbers(blocks, bounds)
        self._count_sum(numbers)
        return totals

    @property
    def neighbours(self) -> Neighbours:
        """The neighbours of the hosted agents in this round."""
        if self._neighbours is None:
            assert self._weights is not None
            self._neighbours = Neighbours.of(self._weights, self._rows, self.ids)
        return self._neighbours

    def _swap(self, blocks: Sequence[Array]) -> Sequence[Array]:
        """What all agents heard have sent in this round, the largest rider of them kept."""
        rider = [] if self.flood is None else [self.flood[:, None]]
        received = self.exchange.swap(self.traffic.turns, [*blocks, *rider])
        self._keep_largest(received)
        return received

    def _keep_largest(self, received: Sequence[Array]) -> None:
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

    def _quantised_round(self, blocks: Sequence[Array], call: int, copies: Copies) -> list[Array]:
        """The same by rounded differences from what was sent before."""
        self._adopt(self.network.at(self.traffic.rounds))
        widths = tuple(b.shape[1] for b in blocks)
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
            if self.copies is not None:
                self._require_same(W, self.copies)
            self._weights = W
            self._rows = self.exchange.adopt(W)
            self._neighbours = None
            self._links = self.count_links(W)

    def count_links(self, W: csr_array[Any, Any]) -> int:
        """Links in use with these weights, each in both directions: what one number in a message counts."""
        return int(np.count_nonzero(W.data) - np.count_nonzero(W.diagonal()))

    def _require_same(self, W: csr_array[Any, Any], copies: Copies) -> None:
        before = self._weights
        if before is None or (before.shape == W.shape and abs(before - W).max() == 0):
            return
        raise NetworkError(
            f"messages of {copies.bits} bits need a static network, as they tell differences from earlier "
            "ones, which a new neighbour has not heard; this one changed in round "
            f"{self.traffic.rounds}: leave bits out, or fix the network"
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
