"""Protocols and aliases: what the parts of the package expect of each other. Nothing here runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array: TypeAlias = NDArray[np.float64]
"""float64; a *stack* has the hosted agents on axis 0, ``(agents, n, p)``."""

State = TypeVar("State")
"""A frozen dataclass of arrays with the agents on axis 0."""


class Objective(Protocol):
    """f_i: what one agent holds. It never leaves the agent's process."""

    def value(self, X: Array) -> float:
        """f_i(X) for X ``(n, p)``."""

    def gradient(self, X: Array) -> Array:
        """Euclidean gradient of f_i at X, ``(n, p)``."""


class Hosted(Protocol):
    """The objectives of the agents that live in one process or thread, evaluated together."""

    def value(self, X: Array) -> Array:
        """f_i(X_i), ``(agents, n, p) -> (agents,)``."""

    def gradient(self, X: Array) -> Array:
        """Euclidean gradients at X_i, ``(agents, n, p) -> (agents, n, p)``."""


@runtime_checkable
class NamedColumns(Protocol):
    """A problem whose data may have named columns."""

    @property
    def column_names(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the rows of "data", and of "targets"; without those that have none."""


@runtime_checkable
class Problem(Protocol):
    """d private objectives on n x p matrices."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p)."""

    @property
    def agents(self) -> int:
        """d."""

    def host(self, ids: Sequence[int]) -> Hosted:
        """Load what the agents ``ids`` need, and nothing else."""


class Topology(Protocol):
    """Who talks to whom, with which weights, in which round."""

    @property
    def agents(self) -> int:
        """d."""

    def at(self, round: int) -> csr_array[Any, Any]:
        """Mixing matrix of a round ``(d, d)``, rows sorted by index; equal in every process.

        Every row and every column sums to 1; a class of your own may return any array, which is checked.
        """


@runtime_checkable
class ChangingTopology(Topology, Protocol):
    """A topology whose mixing matrix differs from round to round."""

    @property
    def lowest(self) -> float:
        """Smallest eigenvalue of the mixing matrix, over the rounds that were looked at."""


@runtime_checkable
class VerifiedTopology(Topology, Protocol):
    """A topology whose matrices are doubly stochastic by construction: nobody needs to check them."""

    verified: bool
    """True; that there is such an attribute is what counts."""


class Agents(Protocol):
    """What an algorithm sees. Axis 0 of every array = the agents hosted in this process."""

    @property
    def ids(self) -> NDArray[np.intp]:
        """Indices of the hosted agents in the network."""

    def gradient(self, X: Array, step: int | None = None) -> Array:
        """Euclidean gradients of the hosted agents at their own X_i.

        With the number of a step, a problem with mini-batches gives those of the step's samples.
        """

    def value(self, X: Array) -> Array:
        """f_i(X_i) of the hosted agents, ``(agents,)``; for line searches."""

    def mix(self, *arrays: Array, rounds: int = 1) -> tuple[Array, ...]:
        """Weighted neighbour average of all arrays, in ONE message per neighbour and round."""


class Observer(Protocol):
    """What a metric sees: the whole network, out of band, never counted or timed."""

    def gradient(self, X: Array) -> Array:
        """Network average of the gradients at one common X, ``(n, p) -> (n, p)``."""

    def value(self, X: Array) -> float:
        """Objective f(X) = (1/d) sum f_i(X)."""


class Algorithm(Protocol[State]):
    """A frozen dataclass of settings with two pure functions."""

    def init(self, X: Array, agents: Agents) -> State:
        """First state from the starting points X ``(agents, n, p)``."""

    def step(self, state: State, agents: Agents) -> State:
        """One iteration; depends on its arguments alone."""
