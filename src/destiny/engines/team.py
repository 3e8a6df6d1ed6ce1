"""The contract of engines: `Engine` makes a `Team`, the agents of a run wherever they live."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from destiny.engines.hosted import HostedAgents, Traffic
from destiny.engines.mixers.plain import PLAIN, Messages
from destiny.protocols import Array, Observer, Problem, TopologyBase
from destiny.storage.checkpoint import Saved

S = TypeVar("S")


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

    def first(self, parts: Sequence[Array]) -> Array:
        """The row of agent 0, in every process; of an agent among others, its own."""

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
        """Return the leader's JSON-serializable ``value`` in every process."""

    def any_signal(self, signal: str | None) -> str | None:
        """Return the name of a signal that any process received, in all processes after the same step.

        Processes compare their signals a few times a second, not after every step.
        """

    def require_same(self, facts: Callable[[], Mapping[str, Any]], start: Array) -> Array:
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

    def connect(self, problem: Problem, network: TopologyBase, messages: Messages = PLAIN) -> Team:
        """Load what the agents hosted here need; ``messages`` make their mixers."""

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
