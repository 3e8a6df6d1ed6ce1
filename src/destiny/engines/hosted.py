"""What every engine shares: gradients, mixing, counting. An engine adds the transport of messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.engines import fixed_point, quantisation, totals
from destiny.engines.clipping import clipped_round
from destiny.engines.fixed_point import OUTSIDE, Agreed, Integers, Neighbours, Slot
from destiny.engines.quantisation import Copies
from destiny.engines.totals import Rows, Words
from destiny.errors import NetworkError
from destiny.protocols import (
    Array,
    CountedSamples,
    GeneralisedHosted,
    Hosted,
    Observer,
    Problem,
    QuadraticHosted,
    RegularisedHosted,
    Regulariser,
    Sampled,
    TopologyBase,
)
from destiny.storage.checkpoint import Saved

S = TypeVar("S")
EVALUATIONS = ("gradients", "minibatches", "values")


class Exchange(Protocol):
    """How a round's blocks travel between processes or threads."""

    def adopt(self, W: csr_array[Any, Any]) -> csr_array[Any, Any]:
        """Use W from now on; its rows of the hosted agents, with a column for every agent heard."""

    def swap(self, round: int, blocks: Sequence[Array]) -> Sequence[Array]:
        """Blocks of the hosted agents ``(hosted, k)`` -> the same blocks of all agents heard ``(heard, k)``.

        They come as they were given or side by side in one array, with the agents in the order of their
        index, and are valid until the next round. Of messages of few bits (`destiny.engines.quantisation`)
        the first block holds integers: its bits arrive as they are.
        """


@runtime_checkable
class DirectExchange(Exchange, Protocol):
    """An exchange between workers that can read each other's memory."""

    def show(self, round: int, blocks: Sequence[Rows]) -> Sequence[Rows]:
        """`swap` without copies: blocks have a row for each hosted agent and stay until the next round."""

    def once(self, compute: Callable[[], S]) -> S:
        """What one of the workers computes, for all of them."""


@dataclass
class Traffic:
    """What a run has cost so far; the same on every engine.

    Attributes
    ----------
    rounds : int
        Rounds of communication.
    scalars : int
        Numbers sent over all links of the network.
    bytes : int
        What they took: 8 bytes each, or less where messages have few bits (`destiny.Messages`).
    gradients, minibatches, values : int
        Evaluations by each agent of its own f_i: full gradients, gradients of mini-batches, values.
    """

    rounds: int = 0
    scalars: int = 0
    gradients: int = 0
    minibatches: int = 0
    values: int = 0
    bytes: int = 0

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Traffic:
        """Of a checkpoint; one written before evaluations were counted has none of them."""
        counted = {name: facts.get(name, 0) for name in EVALUATIONS}
        return cls(
            facts["round"], facts["scalars"], bytes=facts.get("bytes", 8 * facts["scalars"]), **counted
        )

    def facts(self) -> dict[str, int]:
        return {"round": self.rounds, "scalars": self.scalars, "bytes": self.bytes, **self.evaluations()}

    def evaluations(self) -> dict[str, int]:
        """What each agent has computed, by name."""
        return {name: getattr(self, name) for name in EVALUATIONS}


class SumExchange(Exchange, Protocol):
    """An exchange between agents of which none may know another's numbers."""

    def sum(
        self, round: int, slot: Slot, known: fixed_point.Exponents, numbers: Array, rider: float | None
    ) -> tuple[Array, float]:
        """What the neighbours' numbers add up to ``(width,)``, and the largest rider of all.

        ``numbers (width,)`` and ``rider`` are the agent's own; ``known`` has its exponents, which are
        replaced by those that it chooses in this round.
        """

    def mask_links(self, words: Words, round: int, exponents: Integers) -> None:
        """Add masks to words, in place, that cancel in the total over all agents and in nothing less."""


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

    def spanning_tree(self) -> Array:
        """A tree of few levels over the whole network (`destiny.engines.totals.find_tree`)."""
        if self.network.agents == 1:
            return np.array([[-1.0, 0.0]])
        return totals.find_tree(self, self.network.agents, self.depth)

    def exact_mean(self, *arrays: Array, tree: Array | None = None) -> tuple[Array, ...]:
        """Averages over the whole network, by `destiny.engines.totals`; private where sums are."""
        count = self.network.agents
        if count == 1:
            return arrays
        blocks = [a.reshape(len(a), -1) for a in arrays]
        if self.private:
            widths = tuple(b.shape[1] for b in blocks)
            own = fixed_point.side_by_side(blocks, sum(widths))
            layout = fixed_point.layout(widths)
            means = _cut(totals.private_mean(self, own, layout, count, self.depth, tree), widths)
        else:
            means = totals.tree_mean(self, blocks, count, self.depth, tree)
        return tuple(mean.reshape(a.shape) for a, mean in zip(arrays, means, strict=True))

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
            received = self.exchange.show(self.traffic.rounds, [*blocks, *rider])
        else:
            stacks = [np.asarray(block) for block in (*blocks, *rider)]
            received = self.exchange.swap(self.traffic.rounds, stacks)
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
        received = self.exchange.swap(self.traffic.rounds, [*blocks, *rider])
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

    def _count(self, numbers: int, bytes: int | None = None) -> None:
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


class SilentAgents:
    """Stand-in whose `mix` returns its input: shapes of states and sizes of messages without communication.

    Attributes
    ----------
    largest : int
        Numbers in the largest message that an agent would have sent.
    bytes : int
        Bytes of the largest message, with numbers of so many bits.
    groups : int
        The most exponents that a message would have, were sums private.
    """

    def __init__(self, agents: HostedAgents, bits: int = quantisation.FULL) -> None:
        self.ids, self.gradient, self.value = agents.ids, agents.gradient, agents.value
        self.regulariser, self.hessian, self.mass = agents.regulariser, agents.hessian, agents.mass
        self.sampled, self.clipped = agents.sampled, agents.clipped
        self.private, self.bits, self.count = agents.private, bits, agents.network.agents
        self.largest = self.groups = self.bytes = 0

    def mix(self, *arrays: Array, rounds: int = 1, again: bool = False) -> tuple[Array, ...]:  # noqa: ARG002
        widths = tuple(a.size // len(self.ids) for a in arrays)
        self.largest = max(self.largest, sum(widths))
        self.bytes = max(self.bytes, quantisation.message_bytes(widths, self.bits))
        self.groups = max(self.groups, fixed_point.layout(widths).groups)
        return tuple(a.copy() for a in arrays)

    def once(self, compute: Callable[[], S]) -> S:
        return compute()

    def spanning_tree(self) -> Array:
        size = min(self.count, totals.CANDIDATES)
        self.largest, self.bytes = max(self.largest, size), max(self.bytes, 8 * size)
        return np.tile([-1.0, 0.0], (len(self.ids), 1))

    def exact_mean(self, *arrays: Array, tree: Array | None = None) -> tuple[Array, ...]:  # noqa: ARG002
        size = totals.message_size(sum(a.size // len(self.ids) for a in arrays), self.private)
        self.largest, self.bytes = max(self.largest, size), max(self.bytes, 8 * size)
        return tuple(a.copy() for a in arrays)


def rows_of(W: csr_array[Any, Any], ids: NDArray[np.intp]) -> tuple[NDArray[np.intp], csr_array[Any, Any]]:
    """The agents that some agents hear, themselves included, and their rows of W with a column for each."""
    rows = W[ids]
    senders = np.union1d(rows.indices, ids)
    columns = np.searchsorted(senders, rows.indices)  # keeps the order of the agents' indices
    return senders, csr_array((rows.data, columns, rows.indptr), shape=(len(ids), len(senders)))


def _cut(stack: Array, widths: Sequence[int]) -> list[Array]:
    """Blocks that lie side by side, each in an array of its own."""
    ends = accumulate(widths)
    return [
        np.ascontiguousarray(stack[:, end - width : end]) for end, width in zip(ends, widths, strict=True)
    ]


class Team(Observer, Protocol):
    """The agents of a run wherever they live, as `iterate` and `solve` see them.

    ``parts`` is a list with one state (or array) per worker of this process. Every process of a run calls the
    same methods in the same order. An observer's numbers are the same in all processes.
    """

    @property
    def hosts(self) -> list[NDArray[np.intp]]:
        """Which agents each worker of this process hosts, in the order of their index."""

    @property
    def leader(self) -> bool:
        """Whether this process speaks for the run: the one that prints and writes results."""

    @property
    def traffic(self) -> Traffic:
        """What the run has cost so far."""

    def rewind(self, traffic: Traffic) -> None:
        """Count on from ``traffic``: a run is resumed."""

    def each(self, task: Callable[[Any, HostedAgents], S], parts: Sequence[Any]) -> list[S]:
        """Run ``task(part, agents)`` for every worker of this process."""

    def split(self, stack: Array) -> list[Array]:
        """An array of all agents ``(d, ...)``, cut along axis 0 for the workers of this process."""

    def join(self, parts: Sequence[Any]) -> Any:
        """A state of all agents, agents on axis 0."""

    def own(self, parts: Sequence[Any]) -> Any:
        """A state of the agents of this process."""

    def collect(self, parts: Sequence[Array]) -> Array:
        """An array of all agents at the leader; elsewhere that of the agents of the process."""

    def gather(self, parts: Sequence[Array]) -> Array:
        """An array of all agents ``(d, ...)``, in every process."""

    def mean(self, parts: Sequence[Array]) -> Array:
        """Average over all agents, added in the order of their index, in every process."""

    def values(self, X: Array) -> Array:
        """f_i(X) of every agent at one common X, ``(d,)``."""

    def set_flood(self, parts: Sequence[Array] | None) -> None:
        """Start a new max-consensus among the agents, or end it with None."""

    @property
    def flood(self) -> Array:
        """What every agent of this process has heard as the largest value so far."""

    def broadcast(self, value: Any) -> Any:
        """Return the leader's JSON-serialisable ``value`` in every process."""

    def any_signal(self, signal: str | None) -> str | None:
        """Return the name of a signal that any process received, in all processes after the same step.

        Processes compare their signals a few times a second, not after every step.
        """

    def require_same(self, facts: Mapping[str, Any], start: Array) -> Array:
        """Return the leader's start; raise SettingsError if processes differ in ``facts`` or start."""

    def save(self, folder: Path, saved: Saved) -> None:
        """Write a checkpoint; ``saved.state`` holds the agents of this process."""

    def close(self) -> None:
        """Release threads, requests and connections."""


class Engine(Protocol):
    """Where agents live: makes the team of a run."""

    @property
    def leader(self) -> bool:
        """Whether this process is the one that prints and writes results."""

    def require_same(self, facts: Mapping[str, Any]) -> None:
        """Raise SettingsError if ``facts`` differ between processes."""

    def connect(self, problem: Problem, network: TopologyBase) -> Team:
        """Load what the agents hosted here need."""

    def newest(self, folder: Path, agents: int) -> tuple[Saved | None, list[str]]:
        """The newest whole checkpoint, for the agents hosted here, and a sentence about each passed over."""


def concatenate(*arrays: Array) -> Array:
    """Arrays of some agents as one of all; what is stored once for agents that are equal stays so."""
    if all(a.strides[0] == 0 for a in arrays) and all((a[0] == arrays[0][0]).all() for a in arrays):
        return np.broadcast_to(arrays[0][0], (sum(map(len, arrays)), *arrays[0].shape[1:]))
    return np.concatenate(arrays)


def map_arrays(function: Callable[..., Array], *states: Any) -> Any:
    """Apply a function to every array of (nested) dataclasses and tuples of the same type."""
    if isinstance(states[0], np.ndarray):
        return function(*states)
    if isinstance(states[0], tuple):
        return tuple(map_arrays(function, *parts) for parts in zip(*states, strict=True))
    parts = {f.name: map_arrays(function, *(getattr(s, f.name) for s in states)) for f in fields(states[0])}
    return type(states[0])(**parts)
