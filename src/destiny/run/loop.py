"""The loop: `iterate`, a generator of the steps of an algorithm."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from destiny.engines import Local
from destiny.engines.hosted import HostedAgents, Traffic
from destiny.engines.mixers.plain import PLAIN, Messages, as_messages
from destiny.engines.silent_agents import silent
from destiny.engines.team import Engine, Team
from destiny.geometry.generalized import MassMatrix
from destiny.protocols import Algorithm, AlgorithmBase, Array, Objective, Problem, Topology
from destiny.run import metrics
from destiny.run.plan import Plan, make_plan
from destiny.storage import checkpoint as checkpoints


@dataclass(frozen=True)
class Moment:
    """A run after some step. The state of all agents is joined when it is first read."""

    step: int
    traffic: Traffic
    seconds: float
    parts: list[Any]
    """The states of the workers of this process."""
    team: Team
    plan: Plan

    @property
    def round(self) -> int:
        """Rounds of communication so far."""
        return self.traffic.rounds

    @property
    def scalars(self) -> int:
        """Numbers sent over all links so far."""
        return self.traffic.scalars

    @property
    def mass(self) -> MassMatrix | None:
        """M of the constraint X^T M X = I; None for X^T X = I."""
        return self.plan.mass

    @cached_property
    def state(self) -> Any:
        """The algorithm's state, all agents on axis 0; a collective call if there are several processes."""
        return self.team.join(self.parts)

    @property
    def X(self) -> Array:
        """The agents' iterates ``(d, n, p)``."""
        X: Array = self.state.X
        return X

    @cached_property
    def spread(self) -> metrics.Spread:
        """What the measures ask of the iterates."""
        stacks = [part.X for part in self.parts]
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self.team.mean(stacks)
            table = self.team.each(lambda X, _: metrics.Spread.numbers(X, mean, self.mass), stacks)
        return metrics.Spread(mean, self.team.gather(table))


def iterate(
    problem: Problem | Sequence[Objective],
    network: Topology,
    algorithm: Algorithm[Any] | str | None = None,
    *,
    start: Array | None = None,
    seed: int = 0,
    engine: Engine | None = None,
    resume: checkpoints.Saved | None = None,
    messages: Messages | str = PLAIN,
) -> Iterator[Moment]:
    """Yield a `Moment` at the start and after every step, without end: break out of the loop to stop.

    Parameters
    ----------
    problem : Problem, or a list of d objectives with ``value`` and ``gradient`` (then give ``start``)
    network : Network or a changing network with as many agents
    algorithm : Algorithm or its kind, optional
        The method. By default, for a smooth objective, the one of `AveragedModel`, `AveragedKrylov`,
        `AveragedLBFGS` and `DestinyAccelerated` that applies and is predicted to be fastest; with private
        messages on a network that stays, one of the first three. `DestinyProx` for a problem with a
        regularizer, `CDADT` for one with the constraint X^T M X = I. `Result.choice` of `solve` says which
        and why. `Destiny()`, or "destiny", is the paper's method.
    start : ndarray (n, p) or (d, n, p), optional
        Starting point; by default a random point of the manifold from ``seed``, the same at all agents. For
        X^T M X = I any with independent columns: the agents make it feasible.
    engine : Engine, optional
        Where the agents live: `destiny.engines.local` (this process, the default) or `destiny.engines.mpi`.
    resume : Saved, optional
        A checkpoint to continue from.
    messages : Messages
        How messages travel: "plain" (the default); "private", so that agents learn sums over all agents only;
        `Quantized(8)`, which are small; or those of an extension.
    """
    plan = make_plan(problem, network, algorithm, start=start, seed=seed, messages=as_messages(messages))
    return moments(plan, engine or Local(), resume)


def moments(
    plan: Plan,
    engine: Engine,
    resume: checkpoints.Saved | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Iterator[Moment]:
    """The loop of `iterate`; ``facts`` must be the same in all processes of the run."""
    algorithm = plan.algorithm

    def take_step(state: Any, agents: HostedAgents) -> Any:
        agents.mixer.begin_step()
        return algorithm.step(state, agents)

    def common() -> dict[str, Any]:
        step = None if resume is None else resume.facts["step"]
        return {**plan.facts(), "step to resume from": step, **(facts or {})}

    team = engine.connect(plan.problem, plan.network, plan.messages)
    try:
        X = team.require_same(common, plan.X)
        clock = time.perf_counter()
        for part in plan.parts:
            part.begin(plan, team, resume)
        begin_mixers(team, resume)
        if resume is None:
            step, parts = 0, team.split(X)
            for part in plan.parts:
                parts = team.each(partial(part.start, plan), parts)
            parts = team.each(algorithm.init, parts)
            seconds = time.perf_counter() - clock
        else:
            step, seconds, parts = _restore(resume, algorithm, team, X)
        while True:
            yield Moment(step, replace(team.traffic), seconds, parts, team, plan)
            clock = time.perf_counter()
            parts = team.each(take_step, parts)
            seconds += time.perf_counter() - clock
            step += 1
    finally:
        team.close()


def begin_mixers(team: Team, saved: checkpoints.Saved | None) -> None:
    """Let the mixers of a team begin, with their arrays of a checkpoint."""

    def begin(ids: Any, agents: HostedAgents) -> None:
        agents.mixer.begin({} if saved is None else saved.select(ids).state)

    try:
        team.each(begin, team.hosts)
    except ValueError as error:
        if saved is None:
            raise
        raise saved.refuse(f"is damaged: {error}") from error


def _restore(
    saved: checkpoints.Saved, algorithm: AlgorithmBase, team: Team, X: Array
) -> tuple[int, float, list[Any]]:
    """Give a saved state to the team; return its step, its seconds and each part of the state.

    A start without communication shows which arrays the state must have.
    """
    templates = team.each(lambda X, agents: algorithm.init(X, silent(agents)), team.split(X))
    parts = [
        checkpoints.unflatten(template, saved.select(ids))
        for template, ids in zip(templates, team.hosts, strict=True)
    ]
    team.rewind(Traffic.from_facts(saved.facts))
    if "flood" in saved.arrays:
        team.set_flood(team.split(saved.arrays["flood"]))
    return saved.facts["step"], saved.facts["seconds"], parts
