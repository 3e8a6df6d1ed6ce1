"""The agents of one fit: their rows, their network, and what they do together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny import networks
from destiny.engines import Mpi
from destiny.engines.hosted import Engine
from destiny.errors import DestinyError, ProblemError, SettingsError
from destiny.estimators.moments import Averages
from destiny.estimators.rows import elsewhere
from destiny.geometry.stiefel import polar
from destiny.problems.data.partition import Source
from destiny.protocols import Array, Problem, Topology
from destiny.run.result import Result
from destiny.run.solve import solve


class Party:
    """The agents of one fit.

    Attributes
    ----------
    rows, labels : dict
        What the agents of this process hold, by their numbers.
    average : Averages
        Asks all agents for an average.
    dtype : of what is reported: float32 if all rows are, float64 otherwise
    classes : ndarray
        The labels there are, in order; empty where there are none.
    """

    def __init__(
        self, rows: Mapping[int, Any], labels: Mapping[int, Any], network: Topology, engine: Engine, seed: int
    ) -> None:
        self.rows, self.labels, self.network, self.engine, self.seed = rows, labels, network, engine, seed
        self.average = Averages(network, engine)
        single = everyone(engine, all(table.dtype == np.float32 for table in rows.values()))
        self.dtype = np.float32 if all(single) else np.float64
        told = everyone(engine, union(labels.values()))
        self.classes = union(map(np.asarray, told))

    @property
    def agents(self) -> int:
        """d."""
        return self.network.agents

    def data(self, agent: int) -> Source:
        """An agent's rows as the problems have them, samples in columns."""
        return self.rows[agent].T if agent in self.rows else elsewhere

    def solve(self, problem: Problem, settings: Mapping[str, Any], start: Array | None = None) -> Found:
        """Minimise, then average the agents' copies: the point of the manifold nearest to that is found."""
        method = settings["method"]
        try:
            result = solve(
                problem, self.network, method, start=start, seed=self.seed, engine=self.engine,
                progress=False, rounds=settings["max_rounds"], tolerance=settings["tol"],
                # By themselves, from what each of them sees, if the method can.
                decentralised=method is None or hasattr(method, "residual"),
            )  # fmt: skip
        except SettingsError as error:
            if str(error).startswith("rounds"):
                raise SettingsError(f"max_{error}") from error
            raise
        if result.interrupted == "SIGINT":  # `solve` raises it itself, unless SIGINT has another handler
            raise KeyboardInterrupt
        if not np.isfinite(result.X).all():
            raise DestinyError(f"the agents found no answer: {result.reason}")
        copies = dict(zip(self.rows, result.state.X, strict=True))
        mean = self.average(copies.__getitem__)
        return Found(result, {i: polar(X) for i, X in mean.own.items()}, polar(mean.told))


@dataclass(frozen=True)
class Found:
    """What came of a run: the orthonormal answer as each agent holds it, and as it is reported."""

    result: Result
    own: dict[int, Array]
    told: Array


def everyone(engine: Engine, value: Any) -> list[Any]:
    """A value of every process, as JSON carries it; of this one as it is."""
    if not isinstance(engine, Mpi):
        return [value]
    return engine.ranks.all_told(value.tolist() if isinstance(value, np.ndarray) else value)


def union(labels: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """All labels there are, in order; agents without rows have no say in their dtype."""
    found = [part for part in labels if part.size]
    kinds = {_kind(part) for part in found}
    if len(kinds) > 1:
        raise ProblemError(f"labels must be of one type at all agents; found {' and '.join(sorted(kinds))}")
    return np.unique(np.concatenate(found)) if found else np.empty(0)


def _kind(labels: NDArray[Any]) -> str:
    """What labels are, in a word."""
    if labels.dtype.kind in "biuf":
        return "numbers"
    return "text" if labels.dtype.kind in "UST" else type(labels.flat[0]).__name__.replace("str", "text")


def network_of(asked: Any, agents: int, seed: int) -> Topology:
    """The network asked for by name, or the one given if it has as many agents."""
    if isinstance(asked, str):
        # Three times the share of links at which random networks begin to be connected.
        options: dict[str, Any] = {"prob": min(1.0, 3 * math.log(agents) / agents)}
        options = options if asked == "erdos-renyi" else {}
        if asked in networks.KINDS and "seed" in networks.options_of(asked):
            options["seed"] = seed
        return networks.build(asked, agents, **options)
    if not hasattr(asked, "at"):
        raise SettingsError(f"network must be a name or one of destiny.networks; found {asked!r}")
    if asked.agents != agents:
        raise SettingsError(
            f"the network must have an agent for each of the {agents} silos; found {asked.agents} agents"
        )
    topology: Topology = asked
    return topology
