"""The loop: `iterate`, a generator of the steps of an algorithm."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from destiny._version import __version__
from destiny.engines import Local
from destiny.engines.hosted import HostedAgents
from destiny.engines.same_settings import columns_of
from destiny.engines.silent_agents import SilentAgents
from destiny.engines.team import Engine, Team
from destiny.engines.traffic import Traffic
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
from destiny.run import clipped, constraint, message_memory, private_products
from destiny.run.centring import centre, centring_settings, without_shifts
from destiny.run.choice import choose
from destiny.run.inputs import check_inputs, prepared_algorithm
from destiny.run.messages import PLAIN, Messages
from destiny.run.moment import Moment
from destiny.run.options import SolveOptions
from destiny.run.privacy import privacy_of
from destiny.run.settings import settings_of
from destiny.storage import checkpoint as checkpoints


def iterate(
    problem: Problem | Sequence[Objective],
    network: Topology,
    algorithm: Algorithm[Any] | str | None = None,
    *,
    start: Array | None = None,
    seed: int = SolveOptions.seed,
    engine: Engine | None = None,
    resume: checkpoints.Saved | None = None,
    messages: Messages = PLAIN,
) -> Iterator[Moment]:
    """Yield a `Moment` at the start and after every step, without end: break out of the loop to stop.

    Parameters
    ----------
    problem : Problem, or a list of d objectives with ``value`` and ``gradient`` (then give ``start``)
    network : Network or a changing network with as many agents
    algorithm : Algorithm or its kind, optional
        The method. By default, for a smooth objective, the one of `DestinyNewton`, `DestinyKrylov`,
        `DestinyLBFGS` and `DestinyMomentum` that applies and is predicted to be fastest; with private
        messages on a network that stays, one of the first three. `DestinyProx` for a problem with a
        regulariser, `CDADT` for one with the constraint X^T M X = I. `Result.choice` of `solve` says which
        and why. `Destiny()`, or "destiny", is the paper's method.
    start : ndarray (n, p) or (d, n, p), optional
        Starting point; by default a random point of the manifold from ``seed``, the same at all agents. For
        X^T M X = I any with independent columns: the agents make it feasible.
    engine : Engine, optional
        Where the agents live: `destiny.engines.local` (this process, the default) or `destiny.engines.mpi`.
    resume : Saved, optional
        A checkpoint to continue from.
    messages : Messages
        How messages travel: `Messages(private=True)` lets neighbours learn sums only, `Messages(bits=8)`
        makes messages small, `Messages(clip=1)` protects from a neighbour that lies.
    """
    ours, topology, X = check_inputs(problem, network, start, seed, messages)
    if algorithm is None:
        algorithm = choose(ours, topology, messages=messages).algorithm
    method = prepared_algorithm(algorithm, ours, topology)
    return moments(ours, topology, method, X, engine or Local(), resume, messages, {})


def moments(
    problem: ProblemBase,
    network: TopologyBase,
    algorithm: AlgorithmBase,
    X: Array,
    engine: Engine,
    resume: checkpoints.Saved | None,
    messages: Messages,
    facts: Mapping[str, Any],
) -> Iterator[Moment]:
    """The loop of `iterate`; ``facts`` must be the same in all processes of the run."""

    def take_step(state: Any, agents: HostedAgents) -> Any:
        agents.begin_step()
        return algorithm.step(state, agents)

    team = engine.connect(problem, network)
    try:
        common = _facts(problem, network, algorithm, resume) | {"messages": str(messages)}
        X = team.require_same({**common, **facts}, X)
        message_memory.require_messages(messages, algorithm, problem, network)
        clipped.require_clip(messages, algorithm, problem)
        clipped.require_neighbours(messages, network, np.concatenate(team.hosts).tolist())
        message_memory.begin_sums(team, messages, resume, message_memory.spelled_columns(problem))
        clipped.begin_clipping(team, messages)
        clock = time.perf_counter()
        centring = centre(problem, network, team, resume)
        solved = problem if centring is None else centring.problem
        released = private_products.find_matrix(solved, team, resume)
        mass = constraint.find_mass(problem, team)
        message_memory.begin_copies(team, messages, resume)
        if resume is None:
            step, parts = 0, team.split(X)
            if mass is not None:
                parts = team.each(lambda X, agents: constraint.make_feasible(X, network, agents), parts)
            parts = team.each(algorithm.init, parts)
            seconds = time.perf_counter() - clock
        else:
            saved = message_memory.without(resume)
            saved = saved if centring is None else without_shifts(saved)
            saved = saved if released is None else private_products.without_matrix(saved)
            step, seconds, parts = _restore(saved, algorithm, team, X)
        while True:
            yield Moment(step, replace(team.traffic), seconds, parts, team, centring, mass, released)
            clock = time.perf_counter()
            parts = team.each(take_step, parts)
            seconds += time.perf_counter() - clock
            step += 1
    finally:
        team.close()


def _restore(
    saved: checkpoints.Saved, algorithm: AlgorithmBase, team: Team, X: Array
) -> tuple[int, float, list[Any]]:
    """Give a saved state to the team; return its step, its seconds and each part of the state.

    A start without communication shows which arrays the state must have.
    """
    templates = team.each(lambda X, agents: algorithm.init(X, SilentAgents(agents)), team.split(X))
    parts = [
        checkpoints.unflatten(template, saved.select(ids))
        for template, ids in zip(templates, team.hosts, strict=True)
    ]
    team.rewind(Traffic.from_facts(saved.facts))
    if "flood" in saved.arrays:
        team.set_flood(team.split(saved.arrays["flood"]))
    return saved.facts["step"], saved.facts["seconds"], parts


def _facts(
    problem: ProblemBase, network: TopologyBase, algorithm: AlgorithmBase, resume: checkpoints.Saved | None
) -> dict[str, Any]:
    """What must be the same in all processes of a run."""
    return {
        "package version": __version__,
        "problem": [problem.kind, problem.agents, *problem.shape],
        "mini-batches": problem.batches,
        "regulariser": repr(problem.regulariser),
        "constraint X^T M X = I": problem.generalised,
        "centring": centring_settings(problem),
        "privacy": {} if (private := privacy_of(problem)) is None else private.settings,
        "columns": columns_of(problem),
        "network": checkpoints.network_digest(network),
        "algorithm": settings_of(algorithm),
        "step to resume from": None if resume is None else resume.facts["step"],
    }
