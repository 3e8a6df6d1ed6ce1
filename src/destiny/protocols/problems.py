"""The contract of problems: what an agent holds, and all agents together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from destiny.protocols.arrays import Array


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
class QuadraticHosted(Hosted, Protocol):
    """Hosted objectives that may know a constant Hessian."""

    def hessian(self) -> Array | None:
        """A_i ``(agents, n, n)`` with grad f_i(X + V) - grad f_i(X) = A_i V; None where there is none."""

    def scales(self) -> Array | None:
        """u ``(agents, n)`` with ``|A_i[j, k]|^2 <= u_j u_k``: the diagonals, where A_i is semidefinite.

        None where nothing but the A_i themselves may be told, as noise was added to them.
        """


@runtime_checkable
class Sampled(Hosted, Protocol):
    """Hosted objectives with mini-batches."""

    def sample(self, X: Array, step: int) -> Array:
        """Gradients of the mini-batches of a step, ``(agents, n, p) -> (agents, n, p)``."""


@runtime_checkable
class CountedSamples(Sampled, Protocol):
    """Hosted objectives with mini-batches that know their sizes, so that passes over the data are counted."""

    def counts(self) -> Array:
        """Samples in a mini-batch, and in all, of each agent, ``(agents, 2)``."""


@runtime_checkable
class Regularizer(Protocol):
    """r(X), a term of the objective that may have kinks: known to all agents, and the same at each."""

    def value(self, X: Array) -> Array:
        """r of each matrix, ``(..., n, p) -> (...)``."""

    def prox(self, Z: Array, t: Array | float) -> Array:
        """The Y that minimizes r(Y) + ||Y - Z||^2 / (2 t), for each matrix of ``(..., n, p)``.

        ``t`` is a number or ``(..., 1, 1)``.
        """


@runtime_checkable
class RegularizedHosted(Hosted, Protocol):
    """Hosted objectives of a problem with a regularizer, which is not part of their values and gradients."""

    @property
    def regularizer(self) -> Regularizer:
        """The regularizer r of f + r."""


@runtime_checkable
class GeneralizedHosted(Hosted, Protocol):
    """Hosted objectives of a problem with the constraint X^T M X = I, M = sum M_i."""

    def mass(self, X: Array) -> Array:
        """d M_i X_i, ``(agents, n, q) -> (agents, n, q)``: the mean over all agents at one X is M X."""


@runtime_checkable
class Problem(Protocol):
    """d private objectives on n x p matrices: what a problem must have."""

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n, p) of X."""

    @property
    def agents(self) -> int:
        """Number of agents d."""

    def host(self, ids: Sequence[int]) -> Hosted:
        """Load what the agents ``ids`` need, and nothing else."""


class ProblemBase(ABC):
    """A problem (`Problem`) with everything else it may be asked for."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Shape (n, p) of X."""

    @property
    @abstractmethod
    def agents(self) -> int:
        """Number of agents d."""

    @abstractmethod
    def host(self, ids: Sequence[int]) -> Hosted:
        """Load what the agents ``ids`` need, and nothing else."""

    @property
    def kind(self) -> str:
        """Its name in files and sentences; by default that of its class."""
        return type(self).__name__

    @property
    def principal_axes(self) -> bool:
        """Whether f(X) = -1/2 tr(X^T C X), so that an answer can be rotated to principal axes."""
        return False

    @property
    def quadratic(self) -> bool:
        """Whether every f_i tells a constant Hessian V -> A_i V; its `host` then gives `QuadraticHosted`."""
        return False

    @property
    def column_names(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the columns of "data", and of "targets"; without those that have none."""
        return {}

    @property
    def batches(self) -> Sequence[tuple[int, int]]:
        """(batch, seed) of the mini-batches of each of its parts, if any; its `host` then gives `Sampled`."""
        return ()

    @property
    def regularizer(self) -> Regularizer | None:
        """r of the objective (1/d) sum f_i(X) + r(X); its `host` then gives `RegularizedHosted`."""
        return None

    @property
    def generalized(self) -> bool:
        """Whether the constraint is X^T M X = I, M = sum M_i; its `host` then gives `GeneralizedHosted`."""
        return False

    @property
    def centering(self) -> bool:
        """Whether the agents find the mean of their data, and subtract it, before the first step."""
        return False

    def describe(self) -> str:
        """The problem in one sentence; empty by default."""
        return ""

    def remarks(self) -> list[str]:
        """What is odd about the data, for the notes of a result; none by default."""
        return []

    def __repr__(self) -> str:
        n, p = self.shape
        sentence = self.describe().removesuffix(".") or f"X is {n} x {p}, agents = {self.agents}"
        return f"<{type(self).__name__}: {sentence}>"

    def portrait(self, answers: Mapping[str, Array]) -> dict[str, Any]:  # noqa: ARG002
        """What a report shows of the data and of the answers ``(n, p)``, by label: a table for JSON."""
        return {"kind": self.kind}

    def variance(self, agent: int) -> float | None:  # noqa: ARG002
        """Total variance of an agent's data, of which -2 f_i(X) is the explained part; None if it is not."""
        return None
