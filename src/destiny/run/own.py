"""Algorithms and networks of a user's own class: wrapped once, so that they have all members of their
bases."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeGuard

import numpy as np
from scipy.sparse import csr_array, issparse

from destiny import registry
from destiny.algorithms import KINDS
from destiny.errors import NetworkError, SettingsError
from destiny.protocols import About, Agents, Algorithm, AlgorithmBase, Array, Topology, TopologyBase, forward
from destiny.validation import did_you_mean

ROUNDING = 1e-10  # what sums of weights computed in double precision may miss


def as_algorithm(given: object) -> AlgorithmBase:
    """The algorithm itself if it derives from `AlgorithmBase`, wrapped otherwise; of a kind, its defaults.

    `SettingsError` if it is none.
    """
    if isinstance(given, AlgorithmBase):
        return given
    if isinstance(given, str):
        if given not in KINDS:
            raise SettingsError(
                "algorithm must be a method of docs/methods.md, such as destiny, destiny-accelerated "
                f"or averaged-model; found {given!r}{did_you_mean(given, KINDS)}"
            )
        default: AlgorithmBase = KINDS[given]()
        return default
    if isinstance(given, type) or not hasattr(given, "step"):
        if (why := registry.runs_elsewhere(given)) is not None:
            raise SettingsError(why)
        raise SettingsError(f"algorithm must be an object such as destiny.Destiny(); found {given!r}")
    if not hasattr(given, "init"):
        raise SettingsError(
            f"an algorithm must have init and step; found {type(given).__name__} without init; add it"
        )
    return WrappedAlgorithm(given)


@forward
class WrappedAlgorithm(AlgorithmBase):
    """An algorithm around one of the user's own: members that it does not have are the defaults."""

    def __init__(self, inner: Algorithm[Any]) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return repr(self.inner)

    def init(self, X: Array, agents: Agents) -> Any:
        return self.inner.init(X, agents)

    def step(self, state: Any, agents: Agents) -> Any:
        return self.inner.step(state, agents)

    @property
    def kind(self) -> str:
        """That of ``inner``, by default the name of its class."""
        return str(getattr(self.inner, "kind", type(self.inner).__name__))

    @property
    def rounds_per_step(self) -> int:
        """Rounds of a step, as ``inner.about`` states them; 1 by default."""
        return 1 if self.about is None else self.about.rounds_of(self.inner)

    @property
    def about(self) -> About | None:
        about = getattr(self.inner, "about", None)
        return about if isinstance(about, About) else None

    @property
    def step_rule(self) -> object:
        """The setting ``step_size`` of ``inner``, if it has one."""
        return getattr(self.inner, "step_size", None)

    def on(self, network: TopologyBase) -> AlgorithmBase:
        """What ``inner`` makes of itself on a network, if it does."""
        on = getattr(self.inner, "on", None)
        return self if on is None else as_algorithm(on(network))

    def tracked(self, state: Any) -> tuple[Array, Array] | None:
        """``D`` and ``H`` of a state that has both."""
        return (state.D, state.H) if hasattr(state, "D") and hasattr(state, "H") else None


def settings_of(algorithm: Any) -> dict[str, Any]:
    """Kind and settings of an algorithm, ready for a JSON file."""
    if isinstance(algorithm, WrappedAlgorithm):
        algorithm = algorithm.inner
    table: dict[str, Any] = {"kind": getattr(algorithm, "kind", type(algorithm).__name__)}
    if dataclasses.is_dataclass(algorithm):
        for field in dataclasses.fields(algorithm):
            value = getattr(algorithm, field.name)
            if isinstance(value, np.generic):
                value = value.item()
            table[field.name] = settings_of(value) if dataclasses.is_dataclass(value) else value
    return table


def is_topology(given: object) -> TypeGuard[Topology]:
    """Whether something has mixing matrices."""
    return hasattr(given, "at") and not isinstance(given, type)


def as_topology(given: object) -> TopologyBase:
    """The network itself if its matrices are right by construction, one that checks them otherwise.

    `SettingsError` if it is no network.
    """
    if isinstance(given, TopologyBase) and given.verified:
        return given
    if not is_topology(given):
        raise SettingsError(f"network must be one of destiny.networks; found {describe(given)}")
    if not hasattr(given, "agents"):
        raise SettingsError(
            f"a network must have agents and at; found {type(given).__name__} without agents; add it"
        )
    return CheckedTopology(given)


def describe(given: object) -> str:
    """What somebody gave in place of a network, and the call that makes one of it."""
    if isinstance(given, str):
        return f'{given!r}: take networks.build({given!r}, agents), as networks.build("ring", 6)'
    if hasattr(given, "nodes") and hasattr(given, "edges"):
        return "a graph: take networks.from_graph(graph)"
    if hasattr(given, "shape") or isinstance(given, (list, tuple)):
        return "an array: take networks.from_weights(W) for a mixing matrix W"
    return f"{given!r}: take one such as networks.ring(6)"


@forward
class CheckedTopology(TopologyBase):
    """A network of a class of the user's own, whose matrices are checked, round by round, in every process.

    They must be doubly stochastic, or the agents would average to something else than the mean. Symmetric
    they need not be: in a round an agent may hear one neighbor and talk to another. Members that the class
    does not have are as in `TopologyBase`.
    """

    verified = True
    checked = True

    def __init__(self, inner: Topology) -> None:
        self.inner = inner
        self.last: tuple[Any, csr_array[Any, Any]] | None = None

    def __repr__(self) -> str:
        return repr(self.inner)

    @property
    def agents(self) -> int:
        """Number of agents d."""
        return self.inner.agents

    def at(self, round: int) -> csr_array[Any, Any]:
        """Mixing matrix of a round ``(d, d)``, the same object for as long as the user's is the same."""
        given, last = self.inner.at(round), self.last
        if last is None or last[0] is not given:
            self.last = last = (given, _matrix(given, self.agents, round))
        return last[1]


def _matrix(given: Any, agents: int, round: int) -> csr_array[Any, Any]:
    try:
        matrix: Any = given if issparse(given) else np.asarray(given, dtype=np.float64)
        W: csr_array[Any, Any] = csr_array(matrix).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise NetworkError(
            f"the mixing matrix of round {round} must hold numbers, a row per agent; found {type(given)}"
        ) from error
    if W.shape != (agents, agents):
        raise NetworkError(
            f"the mixing matrix of round {round} must be {agents} x {agents}, a row per agent; "
            f"found shape {W.shape}"
        )
    for axis, name in ((1, "row"), (0, "column")):
        sums = W.sum(axis=axis)
        i = int(np.abs(sums - 1).argmax())  # a NaN counts as the largest
        if not abs(sums[i] - 1) <= ROUNDING:
            raise NetworkError(
                f"every {name} of the mixing matrix of round {round} must sum to 1, or agents do not average "
                f"to the mean; {name} {i} sums to {sums[i]:.10g}: correct the network's at(round)"
            )
    # A zero on the diagonal is stored, too: agents hear themselves. The conversion sorts the indices.
    places, own = W.tocoo(), np.arange(agents)
    rows, columns = np.concatenate([places.row, own]), np.concatenate([places.col, own])
    entries = np.concatenate([places.data, np.zeros(agents)])
    return csr_array((entries, (rows, columns)), shape=(agents, agents))
