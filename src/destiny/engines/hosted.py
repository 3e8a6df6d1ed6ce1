"""What every engine shares: gradients, mixing, counting. An engine adds the transport of messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.engines.exchange import DirectExchange, Exchange
from destiny.engines.mixers.plain import BYTES, Mixer
from destiny.engines.tree_sum import Row
from destiny.engines.words import Columns, OutOfRangeError
from destiny.protocols import (
    Array,
    Bounds,
    CountedSamples,
    GeneralizedHosted,
    Hosted,
    QuadraticHosted,
    RegularizedHosted,
    Regularizer,
    Sampled,
    TopologyBase,
    Tree,
)

S = TypeVar("S")
EVALUATIONS = ("gradients", "minibatches", "values")


@dataclass
class Traffic:
    """What a run has cost so far; the same on every engine.

    Attributes
    ----------
    rounds : int
        Rounds of communication.
    turns : int
        Exchanges: a round of `mix` is one, and so is a sum over all agents, whatever its rounds.
    scalars : int
        Numbers sent over all links of the network.
    bytes : int
        What they took: 8 bytes each, or less where messages have few bits (`destiny.Quantized`).
    gradients, minibatches, values : int
        Evaluations by each agent of its own f_i: full gradients, gradients of mini-batches, values.
    """

    rounds: int = 0
    scalars: int = 0
    gradients: int = 0
    minibatches: int = 0
    values: int = 0
    bytes: int = 0
    turns: int = 0

    def add(self, rounds: int, scalars: int, bytes: int) -> None:
        """An exchange of so many rounds."""
        self.turns += 1
        self.rounds += rounds
        self.scalars += scalars
        self.bytes += bytes

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Traffic:
        """Of a checkpoint; one written before evaluations were counted has none of them."""
        counted = {name: facts.get(name, 0) for name in EVALUATIONS}
        return cls(
            facts["round"],
            facts["scalars"],
            bytes=facts.get("bytes", 8 * facts["scalars"]),
            turns=facts["turn"],
            **counted,
        )

    def facts(self) -> dict[str, int]:
        return {
            "round": self.rounds,
            "turn": self.turns,
            "scalars": self.scalars,
            "bytes": self.bytes,
            **self.evaluations(),
        }

    def evaluations(self) -> dict[str, int]:
        """What each agent has computed, by name."""
        return {name: getattr(self, name) for name in EVALUATIONS}


class HostedAgents:
    """The agents of one process or thread, as an algorithm sees them (`destiny.protocols.Agents`).

    It is complete when it is made; nobody sets its attributes.

    Parameters
    ----------
    ids : sequence of int
    hosted : Hosted
        Their objectives.
    network : TopologyBase
    exchange : Exchange
        How messages get from one process or thread to another.
    mixer : Mixer
        What is sent, and what becomes of it.
    columns : sequences of str
        What errors call features, then targets, if anything.

    Attributes
    ----------
    traffic : Traffic
        Rounds, numbers sent and evaluations so far, counted here for every algorithm alike.
    flood : ndarray (hosted,) or None
        Numbers that ride along in every message; each agent keeps the largest it has heard of. This is
        how agents agree to stop without a round of their own.
    """

    def __init__(
        self,
        ids: Sequence[int],
        hosted: Hosted,
        network: TopologyBase,
        exchange: Exchange,
        mixer: Mixer,
        columns: Columns = (),
    ) -> None:
        self.columns = columns
        self.ids: NDArray[np.intp] = np.asarray(ids, dtype=np.intp)
        self.network, self.exchange, self.mixer = network, exchange, mixer
        self.traffic = Traffic()
        self.flood: Array | None = None
        self._weights: csr_array[Any, Any] | None = None
        self.evaluate(hosted)

    def evaluate(self, hosted: Hosted) -> None:
        """Take these objectives from now on: data may be ready only after some rounds."""
        self.hosted = hosted
        self._sample = hosted.sample if isinstance(hosted, Sampled) else None
        self._regularizer = hosted.regularizer if isinstance(hosted, RegularizedHosted) else None

    def rewind(self, traffic: Traffic) -> None:
        """Count on from here."""
        self.traffic = replace(traffic)

    def set_flood(self, numbers: Array | None) -> None:
        """Let numbers of the agents ride along from now on, or none."""
        self.flood = numbers

    @property
    def regularizer(self) -> Regularizer | None:
        """r of the problem, None if the objective is smooth."""
        return self._regularizer

    def gradient(self, X: Array, step: int | None = None) -> Array:
        """Euclidean gradients of the hosted agents at their own X_i, ``(hosted, n, p)``.

        Of the step's mini-batches where a method names its step and the problem has any.
        """
        if step is None or self._sample is None:
            self.traffic.gradients += 1
            return self.hosted.gradient(X)
        self.traffic.minibatches += 1
        return np.asarray(self._sample(X, step))

    @property
    def sampled(self) -> bool:
        """Whether the gradients of a step are those of mini-batches."""
        return self._sample is not None

    def sample_counts(self) -> Array:
        """Samples in a mini-batch, and in all, of the hosted agents, ``(hosted, 2)``; NaN if not known."""
        if isinstance(self.hosted, CountedSamples):
            return self.hosted.counts()
        return np.full((len(self.ids), 2), np.nan)

    def hessian(self) -> Array | None:
        """Constant Hessians A_i of the hosted agents ``(hosted, n, n)``, or None."""
        return self.hosted.hessian() if isinstance(self.hosted, QuadraticHosted) else None

    def scales(self) -> Array | None:
        """u ``(hosted, n)`` with ``|A_i[j, k]|^2 <= u_j u_k`` for the constant Hessians A_i."""
        assert isinstance(self.hosted, QuadraticHosted)
        return self.hosted.scales()

    def mass(self, X: Array) -> Array:
        """d M_i X_i of the hosted agents, ``(hosted, n, q)``; X itself where the constraint is X^T X = I."""
        return self.hosted.mass(X) if isinstance(self.hosted, GeneralizedHosted) else X

    def value(self, X: Array) -> Array:
        """f_i(X_i) of the hosted agents, ``(hosted,)``."""
        self.traffic.values += 1
        return self.hosted.value(X)

    def mix(self, *arrays: Array, rounds: int = 1, again: bool = False) -> tuple[Array, ...]:
        """Weighted neighbor average of all arrays, in one message per neighbor and round."""
        shapes = [a.shape for a in arrays]
        blocks = [a.reshape(len(a), -1) for a in arrays]
        self.mixer.begin_call(again)
        for _ in range(rounds):
            self._adopt(self.network.at(self.traffic.rounds))
            blocks = self.mixer.mix(self, blocks)
        return tuple(b.reshape(shape) for b, shape in zip(blocks, shapes, strict=True))

    def once(self, compute: Callable[[], S]) -> S:
        """What all agents compute alike, computed once for those in this process."""
        return self.exchange.once(compute) if isinstance(self.exchange, DirectExchange) else compute()

    @property
    def exact(self) -> bool:
        """Whether averages are those of all agents."""
        return self.mixer.exact

    @property
    def bounded(self) -> bool:
        """Whether sums are shorter with bounds."""
        return self.mixer.bounded

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
            totals = self.mixer.all_reduce(self, blocks, limits)
        except OutOfRangeError as error:
            raise error.named(arrays, self.columns) from None
        if self.flood is not None:
            self.flood = np.full(len(self.ids), np.sign(totals[-1][0]))  # whether anybody's is not 0
        return tuple(_for_all(total, a.shape) for total, a in zip(totals, arrays, strict=False))

    @property
    def turn(self) -> int:
        """Number of the exchange that comes next."""
        return self.traffic.turns

    @property
    def weights(self) -> csr_array[Any, Any]:
        """The mixing matrix of the round."""
        assert self._weights is not None
        return self._weights

    def swap(self, blocks: Sequence[Array], numbers: int, bytes: int) -> Sequence[Array]:
        """A round: what all agents heard have sent, and the largest rider of them kept."""
        if self.flood is None:
            received = self.exchange.swap(self.turn, blocks)
        else:
            received = self.exchange.swap(self.turn, [*blocks, self.flood[:, None]])
            every = np.asarray(received[-1])[:, -1]
            self.flood = np.maximum.reduceat(every[self.rows.indices], self.rows.indptr[:-1])
            numbers, bytes = numbers + 1, bytes + BYTES
        self.traffic.add(1, self._links * numbers, self._links * bytes)
        return received

    def sum(self, blocks: Sequence[Row]) -> Sequence[Row]:
        """A sum over all agents: one message up and one down for every link of the tree."""
        totals = self.exchange.all_reduce(self.turn, self.tree, blocks)
        numbers = self.tree_messages * sum(block[0].size for block in blocks)
        self.traffic.add(2 * self.tree.depth, numbers, BYTES * numbers)
        return totals

    @property
    def tree_messages(self) -> int:
        """Messages of a sum that are counted here: those of all agents."""
        return self.tree.messages()

    def _adopt(self, W: csr_array[Any, Any]) -> None:
        """Keep this round's rows; a fixed network hands out the same object every time."""
        if W is not self._weights:
            self._weights = W
            self.rows = self.exchange.adopt(W)
            self._links = self.count_links(W)

    def count_links(self, W: csr_array[Any, Any]) -> int:
        """Links in use with these weights, each in both directions: what one number in a message counts."""
        return int(np.count_nonzero(W.data) - np.count_nonzero(W.diagonal()))


def _for_all(total: Array, shape: tuple[int, ...]) -> Array:
    """What all hosted agents have, stored once."""
    return np.broadcast_to(total.reshape(shape[1:]), shape)
