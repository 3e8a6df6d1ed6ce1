"""The contract of synchronous methods: what they see, what they must have and what they are asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from destiny.errors import SettingsError
from destiny.protocols.arrays import Array, State
from destiny.protocols.networks import TopologyBase
from destiny.protocols.problems import Regularizer

_Result = TypeVar("_Result")
Bounds: TypeAlias = Sequence[Array | float | None]
"""For each array of a sum, what the magnitudes of all agents add up to at most, or None."""


class Agents(Protocol):
    """What an algorithm sees. Axis 0 of every array = the agents hosted in this process."""

    @property
    def ids(self) -> NDArray[np.intp]:
        """Indices of the hosted agents in the network."""

    @property
    def regularizer(self) -> Regularizer | None:
        """r of the problem, None if the objective is smooth."""

    def gradient(self, X: Array, step: int | None = None) -> Array:
        """Euclidean gradients of the hosted agents at their own X_i.

        With the number of a step, a problem with mini-batches gives those of the step's samples.
        """

    @property
    def sampled(self) -> bool:
        """Whether the gradients of a step are those of mini-batches."""

    def hessian(self) -> Array | None:
        """A_i ``(agents, n, n)`` with grad f_i(X + V) - grad f_i(X) = A_i V for all X and V.

        None where some f_i is not quadratic or does not know its A_i.
        """

    def scales(self) -> Array | None:
        """u ``(agents, n)`` with ``|A_i[j, k]|^2 <= u_j u_k`` of the A_i of `hessian`, not computing them.

        None where nothing but the A_i themselves may be told.
        """

    def mass(self, X: Array) -> Array:
        """d M_i X_i of the hosted agents, where the constraint is X^T M X = I with M = sum M_i; else X."""

    def value(self, X: Array) -> Array:
        """f_i(X_i) of the hosted agents, ``(agents,)``; for line searches."""

    def mix(self, *arrays: Array, rounds: int = 1, again: bool = False) -> tuple[Array, ...]:
        """Weighted neighbor average of all arrays, in ONE message per neighbor and round.

        ``again`` says that they come of the last call, as in a polynomial of W: messages of few bits then
        tell what has changed since that call, and not since the same call of the last step.
        """

    @property
    def exact(self) -> bool:
        """Whether averages are those of all agents; neighbors may have falsified them otherwise."""

    @property
    def bounded(self) -> bool:
        """Whether sums are shorter with ``bounds``, so that a method had better find some."""

    @property
    def count(self) -> int:
        """Agents of the network, d."""

    def all_reduce(self, *arrays: Array, bounds: Bounds | None = None) -> tuple[Array, ...]:
        """Sums over all agents, read-only, the same bits at every agent, along a spanning tree.

        For static networks. One message to the parent in the tree and one to each child, in twice the depth
        of the tree in rounds. ``bounds`` has for each array what the magnitudes of all agents add up to at
        most, entry by entry, or None; all agents must know it. Where agents are `bounded`, numbers take 8
        bytes with it, and 48 without; it changes nothing else.
        """

    def once(self, compute: Callable[[], _Result]) -> _Result:
        """What all agents compute alike from equal numbers: once in a process, and stored once."""


class Observer(Protocol):
    """What a metric sees: the whole network, out of band, never counted or timed."""

    def gradient(self, X: Array) -> Array:
        """Network average of the gradients at one common X, ``(n, p) -> (n, p)``."""

    def value(self, X: Array) -> float:
        """Objective f(X) = (1/d) sum f_i(X)."""

    def mass(self, X: Array) -> Array:
        """M X at one common X, ``(n, q) -> (n, q)``; X itself where the constraint is X^T X = I."""


Trait: TypeAlias = Literal[
    "alone",
    "axes",
    "fixed",
    "generalized",
    "inexact",
    "reconstruction",
    "regularized",
    "semidefinite",
    "star",
    "stochastic",
    "totals",
    "variance_reduced",
]
"""What a method can do or needs; `About` says what each means."""


@dataclass(frozen=True)
class About:
    """Properties of a method, which the tests verify; ``"regularized" in about`` asks for one of its traits.

    Traits are "alone" (a method for one agent, d = 1), "axes" (columns tend to the eigenvectors themselves
    rather than to a basis of their span), "fixed" (W must be symmetric and the same in every round),
    "generalized" (takes the constraint X^T M X = I), "inexact" (stalls at a bias, or needs vanishing steps),
    "reconstruction" (from a description: it may differ in details from the method of the paper),
    "regularized" (minimizes f + r for a regularizer r with a prox), "semidefinite" (f must be that of a
    positive semidefinite matrix, which noise may have made indefinite), "star" (needs a coordinator linked to
    all others), "stochastic" (takes gradients of mini-batches), "totals" (averages by `Agents.all_reduce`)
    and "variance_reduced" (the errors of its mini-batches vanish, so that its steps need not).
    """

    title: str
    """Its name in papers."""
    source: str
    """Where it comes from."""
    sends: int
    """Matrices n x p sent to each neighbor in a round."""
    triangles: int = 0
    """Symmetric n x n matrices sent beside them, n (n + 1) / 2 numbers each."""
    numbers: int = 0
    """Single numbers sent beside the matrices."""
    numbers_auto: int = 0
    """Further numbers if the step size (or rho) is chosen automatically."""
    rounds: int | str = 1
    """Rounds of a step, or the name of the setting that says how many."""
    averaged: str = ""
    """What of each agent is averaged by "totals", in words: neighbors read it in plain messages."""
    learned: str = ""
    """The totals that all agents learn from it, in words."""
    needs: str = "doubly stochastic W"
    """Requirements on the network."""
    problem: str | None = None
    """The only kind of problem it solves; None means any f."""
    traits: frozenset[Trait] = frozenset()

    def __post_init__(self) -> None:
        if unknown := sorted(self.traits - set(get_args(Trait))):
            raise SettingsError(f"traits of a method must be among {get_args(Trait)}; found {unknown}")

    def __contains__(self, trait: Trait) -> bool:
        return trait in self.traits

    def rounds_of(self, settings: object) -> int:
        """Rounds of a step with these settings."""
        return int(getattr(settings, self.rounds) if isinstance(self.rounds, str) else self.rounds)


class Method(Protocol):
    """What every method says of itself, whether it has rounds (`AlgorithmBase`) or is of an extension."""

    @property
    def kind(self) -> str:
        """Its name in files and sentences."""

    @property
    def about(self) -> About | None:
        """What it is checked against a problem by; nothing is checked without."""

    @property
    def step_rule(self) -> object:
        """The step rule among its settings, if there is one."""


class Algorithm(Protocol[State]):
    """A frozen dataclass of settings with two pure functions: what an algorithm must have."""

    def init(self, X: Array, agents: Agents) -> State:
        """First state from the starting points X ``(agents, n, p)``."""

    def step(self, state: State, agents: Agents) -> State:
        """One iteration; depends on its arguments alone."""


class AlgorithmBase(ABC):
    """An algorithm (`Algorithm`) with everything else it may be asked for."""

    residual: Callable[[Any], Array] | None = None
    """A method from a state to one number per agent, how far it is from done as far as it can tell.

    Agents agree to stop by it; without one they cannot.
    """

    few_steps: bool = False
    """Whether it takes a handful of large steps, so that each of them is measured."""

    @abstractmethod
    def init(self, X: Array, agents: Agents) -> Any:
        """First state from the starting points X ``(agents, n, p)``."""

    @abstractmethod
    def step(self, state: Any, agents: Agents) -> Any:
        """One iteration; depends on its arguments alone."""

    @property
    def kind(self) -> str:
        """Its name in files and sentences; by default that of its class."""
        return type(self).__name__

    @property
    def about(self) -> About | None:
        """What it says of itself, by which it is checked against a problem; nothing is checked without."""
        return None

    @property
    def exact(self) -> bool:
        """Whether it converges to a stationary point, as far as it says."""
        return self.about is None or "inexact" not in self.about

    @property
    def opening(self) -> int:
        """Rounds before the first step."""
        return 0

    @property
    def rounds_per_step(self) -> int:
        """Rounds of a step, as `about` states them; 1 by default."""
        return 1 if self.about is None else self.about.rounds_of(self)

    @property
    def step_rule(self) -> object:
        """The step rule among its settings (`destiny.steps.StepRule`), if there is one."""
        return None

    def on(self, network: TopologyBase) -> AlgorithmBase:  # noqa: ARG002
        """The same with what it needs to know of a network, which must be equal at all agents."""
        return self

    def tracked(self, state: Any) -> tuple[Array, Array] | None:  # noqa: ARG002
        """The trackers and what they track, whose means over the agents are equal; None without trackers."""
        return None

    def exhausted(self, state: Any) -> str | None:  # noqa: ARG002
        """Why further steps change nothing, in words; None where they may."""
        return None

    def remarks(self, state: Any, ids: NDArray[np.intp], converged: bool) -> list[str]:  # noqa: ARG002
        """Notes on the last state of the agents ``ids``, for the result."""
        return []
