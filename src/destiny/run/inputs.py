"""Problem, network, start and method of a run: completed, and refused if they do not fit together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from destiny.errors import ProblemError, SettingsError
from destiny.geometry.stiefel import SAFE_REGION, random_point, violation
from destiny.problems import Separable
from destiny.problems.own_problem import as_problem
from destiny.protocols import (
    Algorithm,
    AlgorithmBase,
    Array,
    Objective,
    Problem,
    ProblemBase,
    Topology,
    TopologyBase,
)
from destiny.run import constraint
from destiny.run.compatibility import require_fit, require_network
from destiny.run.messages import Messages, checked_messages
from destiny.run.own_algorithm import as_algorithm
from destiny.run.own_network import as_topology
from destiny.run.privacy import privacy_of, require_private_messages
from destiny.run.private_products import require_exact_sums


def check_inputs(
    problem: Problem | Sequence[Objective],
    network: Topology,
    start: Array | None,
    seed: int,
    messages: Messages,
) -> tuple[ProblemBase, TopologyBase, Array]:
    """Complete problem and network with the members of their base classes; the start as ``(d, n, p)``.

    Raises an error of `destiny.errors` if they do not fit together.
    """
    if isinstance(problem, Sequence):
        if start is None:
            raise ProblemError("a list of objectives has no shape of its own: give start, an n x p matrix")
        problem = Separable(problem, np.shape(start)[-2:])
    ours, topology = as_problem(problem), as_topology(network)
    require_private_messages(privacy_of(ours), checked_messages(messages).private)
    require_exact_sums(ours, topology, messages)
    d, (n, p) = ours.agents, ours.shape
    if topology.agents != d:
        raise SettingsError(
            f"the problem has {d} agents but the network has {topology.agents}: make them equal"
        )
    if not topology.connected:
        raise SettingsError(
            "the network must be connected; found one that can only be a part of periodic or sequence"
        )
    X = random_point(n, p, seed) if start is None else np.asarray(start, dtype=np.float64)
    if X.shape not in ((n, p), (d, n, p)):
        raise SettingsError(f"start must be {n} x {p} (or {d} x {n} x {p}); found shape {X.shape}")
    if not np.isfinite(X).all():
        raise SettingsError("start must be finite; found NaN or infinite entries")
    if ours.generalised:
        constraint.require_independent(X)
    elif (worst := float(np.max(violation(X)))) > SAFE_REGION:
        raise SettingsError(
            f"start must be near the manifold, ||X^T X - I|| <= 1/6; found {worst:.3g}: "
            "orthonormalise its columns"
        )
    return ours, topology, np.broadcast_to(X, (d, n, p))


def prepared_algorithm(
    algorithm: Algorithm[Any] | str, problem: ProblemBase, network: TopologyBase
) -> AlgorithmBase:
    """The algorithm, once it fits problem and network."""
    given = as_algorithm(algorithm)
    require_fit(given, problem)
    require_network(given, network)
    # What the network knows of itself, and all agents must be told alike.
    return given.on(network)
