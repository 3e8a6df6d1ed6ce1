"""The contract: what problems, networks and algorithms must have, and what else they may be asked for.

`Problem`, `Topology` and `Algorithm` are what a user's object must have, and no more. `ProblemBase`,
`TopologyBase` and `AlgorithmBase` are the whole contract: every further member has a default.
`AsyncAlgorithm` and `AsyncAlgorithmBase` are the same for agents that do not wait for each other. Classes of
the package derive from the bases; other objects are wrapped once, where they come in
(`destiny.problems.own_problem`, `destiny.run.own_network`, `destiny.run.own_algorithm`). Inside, nobody asks
whether a member is there. The contract of step rules is `destiny.steps.StepRule`, that of engines is in
`destiny.engines.hosted`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array: TypeAlias = NDArray[np.float64]
"""float64; a *stack* has the hosted agents on axis 0, ``(agents, n, p)``."""

_Result = TypeVar("_Result")
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
class QuadraticHosted(Hosted, Protocol):
    """Hosted objectives that may know a constant Hessian."""

    def hessian(self) -> Array | None:
        """A_i ``(agents, n, n)`` with grad f_i(X + V) - grad f_i(X) = A_i V; None where there is none."""


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
class Regulariser(Protocol):
    """r(X), a term of the objective that may have kinks: known to all agents, and the same at each."""

    def value(self, X: Array) -> Array:
        """r of each matrix, ``(..., n, p) -> (...)``."""

    def prox(self, Z: Array, t: Array | float) -> Array:
        """The Y that minimises r(Y) + ||Y - Z||^2 / (2 t), for each matrix of ``(..., n, p)``.

        ``t`` is a number or ``(..., 1, 1)``.
        """


@runtime_checkable
class RegularisedHosted(Hosted, Protocol):
    """Hosted objectives of a problem with a regulariser, which is not part of their values and gradients."""

    @property
    def regulariser(self) -> Regulariser:
        """The regulariser r of f + r."""


@runtime_checkable
class GeneralisedHosted(Hosted, Protocol):
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
        """Names of the rows of "data", and of "targets"; without those that have none."""
        return {}

    @property
    def batches(self) -> Sequence[tuple[int, int]]:
        """(batch, seed) of the mini-batches of each of its parts, if any; its `host` then gives `Sampled`."""
        return ()

    @property
    def regulariser(self) -> Regulariser | None:
        """r of the objective (1/d) sum f_i(X) + r(X); its `host` then gives `RegularisedHosted`."""
        return None

    @property
    def generalised(self) -> bool:
        """Whether the constraint is X^T M X = I, M = sum M_i; its `host` then gives `GeneralisedHosted`."""
        return False

    def describe(self) -> str:
        """The problem in one sentence; empty by default."""
        return ""

    def portrait(self, answers: Mapping[str, Array]) -> dict[str, Any]:  # noqa: ARG002
        """What a report shows of the data and of the answers ``(n, p)``, by label: a table for JSON."""
        return {"kind": self.kind}

    def variance(self, agent: int) -> float | None:  # noqa: ARG002
        """Total variance of an agent's data, of which -2 f_i(X) is the explained part; None if it is not."""
        return None


class Topology(Protocol):
    """Who talks to whom, with which weights, in which round: what a network must have."""

    @property
    def agents(self) -> int:
        """Number of agents d."""

    def at(self, round: int) -> csr_array[Any, Any]:
        """Mixing matrix of a round ``(d, d)``, rows sorted by index; equal in every process.

        Every row and every column sums to 1; a class of your own may return any array, which is checked.
        """


class TopologyBase(ABC):
    """A network (`Topology`) with everything else it may be asked for."""

    verified: bool = False
    """Whether its matrices are doubly stochastic by construction; otherwise each of them is checked."""
    changes: bool = True
    """Whether the mixing matrix may differ from round to round."""
    connected: bool = True
    """False for a network in pieces, of use only as a part of one that changes."""

    @property
    @abstractmethod
    def agents(self) -> int:
        """Number of agents d."""

    @abstractmethod
    def at(self, round: int) -> csr_array[Any, Any]:
        """Mixing matrix of a round ``(d, d)``, rows sorted by index; equal in every process."""

    @property
    def diameter(self) -> int | None:
        """Rounds until every agent has heard of every other; None if it depends on the round."""
        return None

    @property
    def eccentricities(self) -> NDArray[np.intp] | None:
        """Largest distance of every agent from another, in links ``(d,)``; None if they are not known."""
        return None

    @property
    def lambda_(self) -> float | None:
        """||W - 11^T/d||_2, the factor by which one round shrinks disagreement; None if there is no one W."""
        return None

    @property
    def spectrum(self) -> tuple[float, float] | None:
        """Lowest and highest eigenvalue of W but for the 1 of the mean; None if there is no one W."""
        return None

    @property
    def lowest(self) -> float | None:
        """Smallest eigenvalue of W over some rounds, of a network that is known to change; None of others."""
        return None

    @property
    def transient(self) -> int:
        """Rounds at the start that are unlike all later ones."""
        return 0

    @property
    def with_all_links(self) -> TopologyBase:
        """The network with all its links up; by default the network itself."""
        return self

    def all_edges(self) -> NDArray[np.int64]:
        """Links alive in some round ``(E, 2)``, i < j; by default those of the first round."""
        i, j = self.at(0).nonzero()
        return np.stack([i[i < j], j[i < j]], axis=1).astype(np.int64)

    def layout(self) -> Array:
        """Where to draw the agents, ``(d, 2)``; by default on a circle."""
        angle = 2 * np.pi * np.arange(self.agents) / self.agents
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)

    def facts(self) -> dict[str, Any]:
        """What there is to know, as plain numbers by name."""
        return {}


class Agents(Protocol):
    """What an algorithm sees. Axis 0 of every array = the agents hosted in this process."""

    @property
    def ids(self) -> NDArray[np.intp]:
        """Indices of the hosted agents in the network."""

    @property
    def regulariser(self) -> Regulariser | None:
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

    def mass(self, X: Array) -> Array:
        """d M_i X_i of the hosted agents, where the constraint is X^T M X = I with M = sum M_i; else X."""

    def value(self, X: Array) -> Array:
        """f_i(X_i) of the hosted agents, ``(agents,)``; for line searches."""

    def mix(self, *arrays: Array, rounds: int = 1, again: bool = False) -> tuple[Array, ...]:
        """Weighted neighbour average of all arrays, in ONE message per neighbour and round.

        ``again`` says that they come of the last call, as in a polynomial of W: messages of few bits then
        tell what has changed since that call, and not since the same call of the last step.
        """

    @property
    def clipped(self) -> bool:
        """Whether neighbours may lie, so that `mix` clips what they send and averages are rough."""

    @property
    def private(self) -> bool:
        """Whether agents learn sums over their neighbours, and averages by `exact_mean`, only.

        Whatever is only averaged must be averaged by `exact_mean` then: rounds of `mix` can be solved for
        what everybody had at first.
        """

    def spanning_tree(self) -> Array:
        """A tree of few levels, for `exact_mean`: ``(agents, 2)``, the parents, and the depth of the tree.

        For networks that stay; it takes two diameters of rounds.
        """

    def exact_mean(self, *arrays: Array, tree: Array | None = None) -> tuple[Array, ...]:
        """Averages over the network, read-only, the same bits at all agents, in three diameters of rounds.

        For networks that stay. With a ``tree``, in twice its depth, and a diameter more if sums are private.
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


@dataclass(frozen=True)
class About:
    """Properties of a method, which the tests verify."""

    title: str
    """Its name in papers."""
    source: str
    """Where it comes from."""
    sends: int
    """Matrices n x p sent to each neighbour in a round."""
    triangles: int = 0
    """Symmetric n x n matrices sent beside them, n (n + 1) / 2 numbers each."""
    numbers: int = 0
    """Single numbers sent beside the matrices."""
    numbers_auto: int = 0
    """Further numbers if the step size (or rho) is chosen automatically."""
    rounds: int | str = 1
    """Rounds of a step, or the name of the setting that says how many."""
    totals: bool = False
    """Whether it averages by `Agents.exact_mean`, which takes whole numbers."""
    averaged: str = ""
    """What of each agent is averaged so, in words: neighbours read it in plain messages."""
    exact: bool = True
    """Whether it converges to a stationary point; otherwise it stalls at a bias, or needs vanishing steps."""
    needs: str = "doubly stochastic W"
    """Requirements on the network."""
    problem: str | None = None
    """The only kind of problem it solves; None means any f."""
    semidefinite: bool = False
    """Whether f must be that of a positive semidefinite matrix, which noise may have made indefinite."""
    alone: bool = False
    """A method for one agent (d = 1)."""
    axes: bool = False
    """Whether the columns tend to the eigenvectors themselves rather than to a basis of their span."""
    stochastic: bool = False
    """Whether it takes gradients of mini-batches."""
    variance_reduced: bool = False
    """Whether the errors of its mini-batches vanish, so that it converges with steps that do not."""
    regularised: bool = False
    """Whether it minimises f + r for a regulariser r with a prox; otherwise smooth f only."""
    generalised: bool = False
    """Whether it takes the constraint X^T M X = I; otherwise X^T X = I only."""
    star: bool = False
    """Whether it needs a star: a coordinator linked to all others."""
    reconstruction: bool = False
    """Reconstructed from a description: it may differ in details from the method of the paper."""

    def rounds_of(self, settings: object) -> int:
        """Rounds of a step with these settings."""
        return int(getattr(settings, self.rounds) if isinstance(self.rounds, str) else self.rounds)


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
        return self.about is None or self.about.exact

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

    def remarks(self, state: Any, ids: NDArray[np.intp], converged: bool) -> list[str]:  # noqa: ARG002
        """Notes on the last state of the agents ``ids``, for the result."""
        return []


class LocalAgent(Protocol):
    """What an asynchronous algorithm sees: one agent, its own f_i and its links."""

    @property
    def index(self) -> int:
        """Its index in the network."""

    @property
    def agents(self) -> int:
        """Number of agents d."""

    @property
    def neighbours(self) -> NDArray[np.intp]:
        """Indices of its neighbours, ascending, ``(k,)``."""

    @property
    def weights(self) -> Array:
        """w_ij of the neighbours, in the same order, ``(k,)``."""

    @property
    def own_weight(self) -> float:
        """Weight w_ii of its own iterate."""

    def gradient(self, X: Array) -> Array:
        """Euclidean gradient of f_i at X, ``(n, p) -> (n, p)``."""


LIFE = 2**32  # stamp of a message = LIFE life + count: exact in float64 up to 2^21 lives


class Message(Protocol):
    """What an agent sends after a wake, the same to every neighbour: a frozen dataclass of float64 arrays.

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


class AsyncAlgorithm(Protocol[State]):
    """A frozen dataclass of settings with pure functions of one agent; it knows neither rounds nor time.

    States and messages are (nested) frozen dataclasses of float64 arrays, so that they can be saved, sent and
    computed again.
    """

    def start(self, X: Array, agent: LocalAgent) -> State:
        """First state from the common start X ``(n, p)``."""

    def wake(self, state: State, inbox: Sequence[Any], agent: LocalAgent) -> tuple[State, Any]:
        """One iteration: the next state, and the message for all neighbours.

        ``inbox`` has the messages of neighbours since the last wake, in any order, some lost, some twice.
        """

    def restart(self, state: State, life: int) -> State:
        """The state of a checkpoint, of any age, to go on from.

        ``life`` counts the starts of this agent: it must be larger than ever before.
        """

    def answer(self, state: State, inbox: Sequence[Any], agent: LocalAgent) -> tuple[State, Any]:
        """Hear the inbox and say the same as before under a new stamp: what an agent does that is done."""


class AsyncAlgorithmBase(ABC):
    """An asynchronous algorithm (`AsyncAlgorithm`) with everything else it may be asked for."""

    @abstractmethod
    def start(self, X: Array, agent: LocalAgent) -> Any:
        """First state from the common start X ``(n, p)``."""

    @abstractmethod
    def wake(self, state: Any, inbox: Sequence[Any], agent: LocalAgent) -> tuple[Any, Any]:
        """One iteration: the next state, and the message for all neighbours."""

    @abstractmethod
    def restart(self, state: Any, life: int) -> Any:
        """The state of a checkpoint, of any age, to go on from; ``life`` is larger than ever before."""

    def compute(self, state: Any, agent: LocalAgent) -> Any:  # noqa: ARG002
        """What the next wake can compute before it hears anything; called when the message was sent.

        A method that has this takes what arrives meanwhile into account. By default `wake` computes it all.
        """
        return state

    def relink(self, state: Any, before: NDArray[np.intp], agent: LocalAgent) -> Any:
        """The state of an agent whose neighbours were ``before`` and are those of ``agent`` from now on."""
        raise NotImplementedError(f"{self.kind} does not know what to do when its neighbours change")

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


_Wrapper = TypeVar("_Wrapper")


def forward(wrapper: type[_Wrapper]) -> type[_Wrapper]:
    """Class decorator for wrappers: what the base class has and the wrapper does not is asked of ``inner``.

    Where ``self.inner`` has no such member either, it is the default of the base class.
    """
    (base,) = wrapper.__bases__
    missing = object()

    def member(name: str) -> property:
        def read(self: Any) -> Any:
            own = getattr(self.inner, name, missing)
            return getattr(super(wrapper, self), name) if own is missing else own

        return property(read)

    for name in vars(base):
        if not name.startswith("_") and name not in vars(wrapper):
            setattr(wrapper, name, member(name))
    return wrapper
