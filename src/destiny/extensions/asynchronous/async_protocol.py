"""The contract of asynchronous methods: pure functions of one agent, which know neither rounds nor time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from destiny.protocols.algorithms import About
from destiny.protocols.arrays import Array
from destiny.protocols.networks import TopologyBase

LIFE = 2**32
"""Stamp of a message = LIFE life + count: exact in float64 up to 2^21 lives."""


class LocalAgent(Protocol):
    """What an asynchronous algorithm sees: one agent, its own f_i and its links."""

    @property
    def index(self) -> int:
        """Its index in the network."""

    @property
    def agents(self) -> int:
        """Number of agents d."""

    @property
    def neighbors(self) -> NDArray[np.intp]:
        """Indices of its neighbors, ascending, ``(k,)``."""

    @property
    def weights(self) -> Array:
        """w_ij of the neighbors, in the same order, ``(k,)``."""

    @property
    def own_weight(self) -> float:
        """Weight w_ii of its own iterate."""

    def gradient(self, X: Array) -> Array:
        """Euclidean gradient of f_i at X, ``(n, p) -> (n, p)``."""


class Message(Protocol):
    """What an agent sends after a wake, the same to every neighbor: a frozen dataclass of float64 arrays.

    Their shapes depend on (n, p) and d alone, so that they are the same for all agents of a run.
    """

    @property
    def sender(self) -> Array:
        """Index of the agent that sent it, ``()``."""

    @property
    def stamp(self) -> Array:
        """Larger than that of every message of this agent before, also before a restart, ``()``."""

    @property
    def heard(self) -> Array:
        """Stamp of the newest message that the sender has from each agent, 0 without one, ``(d,)``."""

    @property
    def point(self) -> Array:
        """Where the sender is, ``(n, p)``: an agent that comes late begins there."""


class AsyncAlgorithmBase(ABC):
    """A frozen dataclass of settings with pure functions of one agent; it knows neither rounds nor time.

    States and messages are (nested) frozen dataclasses of float64 arrays, so that they can be saved, sent and
    computed again.
    """

    @abstractmethod
    def start(self, X: Array, agent: LocalAgent) -> Any:
        """First state from the common start X ``(n, p)``."""

    @abstractmethod
    def wake(self, state: Any, inbox: Sequence[Any], agent: LocalAgent) -> tuple[Any, Any]:
        """One iteration: the next state, and the message for all neighbors.

        ``inbox`` has the messages of neighbors since the last wake, in any order, some lost, some twice.
        """

    @abstractmethod
    def restart(self, state: Any, life: int) -> Any:
        """The state of a checkpoint, of any age, to go on from; ``life`` is larger than ever before."""

    def compute(self, state: Any, agent: LocalAgent) -> Any:  # noqa: ARG002
        """What the next wake can compute before it hears anything; called when the message was sent.

        A method that has this takes what arrives meanwhile into account. By default `wake` computes it all.
        """
        return state

    def relink(self, state: Any, before: NDArray[np.intp], agent: LocalAgent) -> Any:
        """The state of an agent whose neighbors were ``before`` and are those of ``agent`` from now on."""
        raise NotImplementedError(f"{self.kind} does not know what to do when its neighbors change")

    @abstractmethod
    def answer(self, state: Any, inbox: Sequence[Any], agent: LocalAgent) -> tuple[Any, Any]:
        """Hear the inbox and say the same as before under a new stamp: what an agent does that is done."""

    @abstractmethod
    def residual(self, state: Any) -> float:
        """How far an agent is from done as far as it can tell; agents agree to stop by it."""

    def flaw(self, message: Any) -> str | None:  # noqa: ARG002
        """What no agent of this method sends, in words; None if the message may be right."""
        return None

    @property
    def kind(self) -> str:
        """Its name in files and sentences; by default that of its class."""
        return type(self).__name__

    @property
    def about(self) -> About | None:
        """What it says of itself, by which it is checked against a problem; nothing is checked without."""
        return None

    @property
    def step_rule(self) -> object:
        """The step rule among its settings, if there is one."""
        return None

    def on(self, network: TopologyBase) -> AsyncAlgorithmBase:  # noqa: ARG002
        """The same with what it needs to know of a network, which must be equal at all agents."""
        return self
