"""One fit: the agents' rows, their network, and the two things they do together, averaging and solving."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny import networks
from destiny.engines import Mpi
from destiny.engines.mixers import PLAIN, Messages
from destiny.engines.team import Engine
from destiny.errors import DestinyError, ProblemError, SettingsError
from destiny.estimators.averager import Averager
from destiny.estimators.rows import Table
from destiny.geometry.generalized import polar_from
from destiny.geometry.stiefel import polar
from destiny.problems.data.partition import Source, remote_source
from destiny.problems.data.rows import Rows
from destiny.problems.data.tables import TableSource
from destiny.protocols import Array, GeneralizedHosted, ProblemBase, TopologyBase
from destiny.run.metrics import Composite
from destiny.run.own import as_algorithm, as_topology, describe, is_topology
from destiny.run.result import Result
from destiny.run.solve import solve
from destiny.validation import is_whole

SEEDS = 2**31  # as scikit-learn draws them
WHOLE = 1e-12  # relative rounding of a sum over all agents


class FitSession:
    """The agents of one fit.

    Attributes
    ----------
    rows, labels, weights : dict
        The rows, labels and weights of the agents of this process, by agent number; without labels, or where
        every row counts once, those are empty.
    targets : dict
        What is predicted of the rows, if it is no class.
    partial : bool
        Whether these rows are added to those of earlier fits.
    average : Averager
        Averages a quantity over all agents.
    dtype : type
        Of the fitted attributes: float32 if all rows are float32, float64 otherwise.
    classes : ndarray
        The different labels of all agents, sorted; empty without labels.
    messages : Messages
        How messages travel, in runs and averages.
    private : bool
        Whether nothing may be told of the rows but sums with noise.
    """

    def __init__(
        self,
        tables: Mapping[int, Table],
        labeled: bool,
        network: TopologyBase,
        engine: Engine,
        seed: int,
        partial: bool = False,
        messages: Messages = PLAIN,
        columns: Sequence[str | int] = (),
    ) -> None:
        self.network, self.engine, self.seed, self.partial = network, engine, seed, partial
        self.rows = {i: table.rows for i, table in tables.items()}
        self.labels = {i: table.labels for i, table in tables.items() if labeled}
        self.targets = {i: table.labels for i, table in tables.items() if not labeled}
        self.weights = {i: table.weights for i, table in tables.items() if table.weights is not None}
        self.messages = messages
        self.average = Averager(network, engine, messages, columns)
        self.rounds = self.scalars = 0  # of all runs
        self.private = False
        single = allgather(engine, all(rows.dtype == np.float32 for rows in self.rows.values()))
        self.dtype = np.float32 if all(single) else np.float64
        labels_of_processes = allgather(engine, union_of_labels(self.labels.values()))
        self.classes = union_of_labels(map(np.asarray, labels_of_processes))

    @property
    def agents(self) -> int:
        return self.network.agents

    def data(self, agent: int) -> Source:
        """The rows of an agent as the problems take them."""
        return TableSource(self.rows[agent], ()) if agent in self.rows else remote_source

    def weighted_rows(self, agent: int) -> Rows:
        """The rows of an agent of this process, with their weights."""
        return Rows(self.rows[agent], weights=self.weights.get(agent))

    def sources(self, tables: Mapping[int, Any]) -> list[Source]:
        """What problems take: the tables of the agents of this process, and for others none."""
        return [tables.get(i, remote_source) for i in range(self.agents)]

    def solve(
        self, problem: ProblemBase, settings: Mapping[str, Any], start: Array | None = None, run: int = 0
    ) -> Solution:
        """Solve ``problem`` and return the point of the manifold nearest to the average of the agents' X.

        Without a ``start``, every ``run`` begins at a random point of its own.

        For X^T M X = I it is the nearest in the norm of M. With a regularizer it is the proximal step from
        there, which has exact zeros.

        Raises SettingsError for settings that do not fit, DestinyError if the run diverged, KeyboardInterrupt
        if it was interrupted.
        """
        method = settings["method"]
        try:
            result = solve(
                problem,
                self.network,
                method,
                start=start,
                seed=(self.seed + run) % SEEDS,
                engine=self.engine,
                progress=bool(settings["verbose"]),
                rounds=settings["max_rounds"],
                tolerance=settings["tol"],
                # The agents detect convergence from local quantities if the method can.
                local_stopping=method is None or as_algorithm(method).residual is not None,
                messages=self.messages,
            )
        except SettingsError as error:
            if error.option == "rounds":  # max_rounds here
                raise SettingsError(f"max_{error}") from error
            raise
        if result.interrupted == "SIGINT":  # `solve` raises it itself, unless SIGINT has another handler
            raise KeyboardInterrupt
        if not np.isfinite(result.X).all():
            raise DestinyError(f"the agents found no answer: {result.reason}")
        self.rounds, self.scalars = self.rounds + result.rounds, self.scalars + result.scalars
        copies = dict(zip(self.rows, result.state.X, strict=True))
        about = as_algorithm(result.settings["kind"] if method is None else method).about
        if about is not None and "totals" in about:  # all agents have the same X: there is nothing to average
            return Solution(result, {i: polar(X) for i, X in copies.items()}, result.X)
        mean = self.average(copies.__getitem__)
        if problem.generalized:
            product = self.average(lambda i: mass_of(problem, i, mean.by_agent[i]))
            points = {i: polar_from(X, product.by_agent[i]) for i, X in mean.by_agent.items()}
            return Solution(result, points, polar_from(mean.common, product.common))
        points = {i: polar(X) for i, X in mean.by_agent.items()}
        if problem.regularizer is None:
            return Solution(result, points, polar(mean.common))
        regularizer = problem.regularizer
        slope = self.average(lambda i: problem.host([i]).gradient(points[i][None])[0])

        def proximal_step(X: Array, gradient: Array) -> Array:
            return Composite.at(regularizer, gradient).step(X, gradient)[1]

        return Solution(
            result,
            {i: proximal_step(X, slope.by_agent[i]) for i, X in points.items()},
            proximal_step(polar(mean.common), slope.common),
        )


@dataclass(frozen=True)
class Solution:
    """The outcome of one run.

    Attributes
    ----------
    result : Result or None
        None if no run was needed.
    by_agent : dict
        The orthonormal X of each agent of this process, by agent number; equal up to rounding. Without a run
        it may have more than p columns, with the leading subspace in their span.
    common : ndarray (n, p)
        The X of agent 0, the same bits in every process.
    """

    result: Result | None
    by_agent: dict[int, Array]
    common: Array


@dataclass(frozen=True)
class Attempt:
    """A solution from one of several starts, with its objective and what else is averaged for it."""

    solution: Solution
    objective: float
    moments: Array

    @property
    def rank(self) -> tuple[bool, float]:
        """Smaller is better: converged runs come first."""
        return not (self.solution.result is None or self.solution.result.converged), self.objective


def best_attempt(attempt: Callable[[int], Attempt], n_init: int) -> Attempt:
    """Return the best of ``n_init`` attempts, called by their number; raise SettingsError for other numbers.

    Objectives are averages over all agents, so that all processes choose alike.
    """
    if not is_whole(n_init) or n_init < 1:
        raise SettingsError(f"n_init must be a whole number of at least 1; found {n_init!r}")
    return min(map(attempt, range(n_init)), key=lambda found: found.rank)


def mass_of(problem: ProblemBase, agent: int, X: Array) -> Array:
    """d M_i X of an agent, ``(n, p)``."""
    hosted = problem.host([agent])
    assert isinstance(hosted, GeneralizedHosted)
    return np.asarray(hosted.mass(X[None])[0])


def allgather(engine: Engine, value: Any) -> list[Any]:
    """Return the ``value`` of every process, as JSON carries it; in a single process ``[value]``."""
    if not isinstance(engine, Mpi):
        return [value]
    return engine.ranks.allgather(value.tolist() if isinstance(value, np.ndarray) else value)


def whole(total: float) -> int | float:
    """Return a sum of weights, as an int if it is whole up to rounding."""
    return round(total) if abs(total - round(total)) <= WHOLE * total else total


def union_of_labels(labels: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Return the different labels, sorted; empty arrays do not decide the dtype.

    Raises ProblemError if some labels are numbers and others text.
    """
    parts = [part for part in labels if part.size]
    kinds = {_kind(part) for part in parts}
    if len(kinds) > 1:
        raise ProblemError(f"labels must be of one type at all agents; found {' and '.join(sorted(kinds))}")
    return np.unique(np.concatenate(parts)) if parts else np.empty(0)


def _kind(labels: NDArray[Any]) -> str:
    """Return "numbers", "text" or the name of the labels' type."""
    if labels.dtype.kind in "biuf":
        return "numbers"
    return "text" if labels.dtype.kind in "UST" else type(labels.flat[0]).__name__.replace("str", "text")


def build_network(network: Any, agents: int, seed: int) -> TopologyBase:
    """Return the network of this name, or ``network`` itself.

    Raises SettingsError if it is neither a name nor a network, or has another number of agents.
    """
    if isinstance(network, str):
        # Three times the share of links at which random networks begin to be connected.
        options: dict[str, Any] = {"prob": min(1.0, 3 * math.log(agents) / agents)}
        options = options if network == "erdos-renyi" else {}
        if network in networks.KINDS and "seed" in networks.options_of(network):
            options["seed"] = seed
        return networks.build(network, agents, **options)
    if not is_topology(network):
        raise SettingsError(f"network must be a name or one of destiny.networks; found {describe(network)}")
    topology = as_topology(network)
    if topology.agents != agents:
        raise SettingsError(
            f"the network must have an agent for each of the {agents} silos; found {topology.agents} agents"
        )
    return topology
