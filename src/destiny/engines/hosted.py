"""What every engine shares: gradients, mixing, counting. An engine adds how messages travel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.protocols import Array, Hosted, Observer, Problem, Topology
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
        index, and are valid until the next round.
        """


@dataclass
class Traffic:
    """What a run has cost so far; the same on every engine.

    Attributes
    ----------
    rounds : int
        Rounds of communication.
    scalars : int
        float64 numbers sent over all links of the network.
    gradients, minibatches, values : int
        Evaluations by each agent of its own f_i: full gradients, gradients of mini-batches, values.
    """

    rounds: int = 0
    scalars: int = 0
    gradients: int = 0
    minibatches: int = 0
    values: int = 0

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Traffic:
        """Of a checkpoint; one written before evaluations were counted has none of them."""
        return cls(facts["round"], facts["scalars"], *(facts.get(name, 0) for name in EVALUATIONS))

    def facts(self) -> dict[str, int]:
        """For a checkpoint."""
        return {"round": self.rounds, "scalars": self.scalars, **self.evaluations()}

    def evaluations(self) -> dict[str, int]:
        """What each agent has computed, by name."""
        return {name: getattr(self, name) for name in EVALUATIONS}


class HostedAgents:
    """The agents of one process or thread, as an algorithm sees them (`destiny.protocols.Agents`).

    Attributes
    ----------
    traffic : Traffic
        Rounds, numbers sent and evaluations so far, counted here for every algorithm alike.
    flood : ndarray (hosted,) or None
        Numbers that ride along in every message; each agent keeps the largest it has heard of. This is
        how agents agree to stop without a round of their own.
    """

    def __init__(self, ids: Sequence[int], hosted: Hosted, network: Topology, exchange: Exchange) -> None:
        self.ids: NDArray[np.intp] = np.asarray(ids, dtype=np.intp)
        self.hosted = hosted
        self.network = network
        self.exchange = exchange
        self.traffic = Traffic()
        self.flood: Array | None = None
        self._weights: csr_array[Any, Any] | None = None

    def gradient(self, X: Array, step: int | None = None) -> Array:
        """Euclidean gradients of the hosted agents at their own X_i, ``(hosted, n, p)``.

        Of the step's mini-batches where a method names its step and the problem has any.
        """
        sample = None if step is None else getattr(self.hosted, "sample", None)
        if sample is None:
            self.traffic.gradients += 1
            return self.hosted.gradient(X)
        self.traffic.minibatches += 1
        return np.asarray(sample(X, step))

    def value(self, X: Array) -> Array:
        """f_i(X_i) of the hosted agents, ``(hosted,)``."""
        self.traffic.values += 1
        return self.hosted.value(X)

    def mix(self, *arrays: Array, rounds: int = 1) -> tuple[Array, ...]:
        """Weighted neighbour average of all arrays, in one message per neighbour and round."""
        shapes = [a.shape for a in arrays]
        blocks = [a.reshape(len(a), -1) for a in arrays]
        for _ in range(rounds):
            blocks = self._round(blocks)
        return tuple(b.reshape(shape) for b, shape in zip(blocks, shapes, strict=True))

    def _round(self, blocks: Sequence[Array]) -> list[Array]:
        self._adopt(self.network.at(self.traffic.rounds))
        rider = [] if self.flood is None else [self.flood[:, None]]
        heard = self.exchange.swap(self.traffic.rounds, [*blocks, *rider])
        if rider:
            every = heard[-1][:, -1]
            self.flood = np.maximum.reduceat(every[self._rows.indices], self._rows.indptr[:-1])
        # CSR times dense adds the neighbours in the order of their index: the same bits on every engine.
        mixed = [self._rows @ h for h in heard]
        widths = [b.shape[1] for b in [*blocks, *rider]]
        self.traffic.rounds += 1
        self.traffic.scalars += self._links * sum(widths)
        return (mixed if len(mixed) == len(widths) else _cut(mixed[0], widths))[: len(blocks)]

    def _adopt(self, W: csr_array[Any, Any]) -> None:
        """Keep this round's rows; a fixed network hands out the same object every time."""
        if W is not self._weights:
            self._weights = W
            self._rows = self.exchange.adopt(W)
            self._links = int(np.count_nonzero(W.data) - np.count_nonzero(W.diagonal()))


class Deaf:
    """Agents that hear nobody. What a method makes of them has the shapes of a real state, without a round.

    Attributes
    ----------
    largest : int
        Numbers in the largest message they would have sent.
    """

    def __init__(self, agents: HostedAgents) -> None:
        self.ids, self.gradient, self.value = agents.ids, agents.gradient, agents.value
        self.largest = 0

    def mix(self, *arrays: Array, rounds: int = 1) -> tuple[Array, ...]:  # noqa: ARG002
        """Everybody keeps what is theirs."""
        self.largest = max(self.largest, sum(a.size for a in arrays) // len(self.ids))
        return tuple(a.copy() for a in arrays)


def rows_of(W: csr_array[Any, Any], ids: NDArray[np.intp]) -> tuple[NDArray[np.intp], csr_array[Any, Any]]:
    """The agents that some agents hear, themselves included, and their rows of W with a column for each."""
    rows = W[ids]
    heard = np.union1d(rows.indices, ids)
    columns = np.searchsorted(heard, rows.indices)  # keeps the order of the agents' indices
    return heard, csr_array((rows.data, columns, rows.indptr), shape=(len(ids), len(heard)))


def _cut(stack: Array, widths: Sequence[int]) -> list[Array]:
    """Blocks that lie side by side, each in an array of its own."""
    return [np.ascontiguousarray(part) for part in np.split(stack, np.cumsum(widths)[:-1], axis=1)]


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

    def told(self, value: Any) -> Any:
        """The leader's value, which JSON can carry, in every process."""

    def noticed(self, signal: str | None) -> str | None:
        """The name of a signal that reached any process, in all of them after the same step.

        Processes ask each other several times a second, not after every step.
        """

    def same(self, facts: Mapping[str, Any], start: Array) -> Array:
        """Refuse processes that were not asked for the same run; the start, equal in all of them."""

    def save(self, folder: Path, saved: Saved) -> None:
        """Write a checkpoint; ``saved.state`` holds the agents of this process."""

    def close(self) -> None:
        """Let go of what the run needed."""


class Engine(Protocol):
    """Where agents live: makes the team of a run."""

    @property
    def leader(self) -> bool:
        """Whether this process is the one that prints and writes results."""

    def same(self, facts: Mapping[str, Any]) -> None:
        """Refuse processes that were not told the same."""

    def connect(self, problem: Problem, network: Topology) -> Team:
        """Load what the agents hosted here need."""

    def newest(self, folder: Path, agents: int) -> tuple[Saved | None, list[str]]:
        """The newest whole checkpoint, for the agents hosted here, and a sentence about each passed over."""


def map_arrays(function: Callable[..., Array], *states: Any) -> Any:
    """Apply a function to every array of (nested) dataclasses of the same type."""
    if isinstance(states[0], np.ndarray):
        return function(*states)
    parts = {f.name: map_arrays(function, *(getattr(s, f.name) for s in states)) for f in fields(states[0])}
    return type(states[0])(**parts)
