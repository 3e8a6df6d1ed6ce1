"""Runs that must have the same bits in one process and on any number of ranks.

As a program under mpiexec it runs them all on MPI and keeps what came of them; the tests run them in one
process and compare.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import destiny
from destiny.engines.placement import assign_ranks
from destiny.engines.ranks import tree_sums
from destiny.extensions import byzantine
from destiny.problems.private_products import PrivateProductsPCA
from destiny.protocols import Agents, Array
from destiny.storage.checkpoint import flatten
from tests.helpers.small_problems import generalized, procrustes, small_problem

SCATTERED = (
    *("destiny", "links fail", "agree", "one entry", "8 bits", "generalized", "faps", "averaged-model"),
    *("private sums", "private krylov", "private lbfgs", "private products"),
)
NOTED = ("private", "private products")  # notes are those of the problem itself, which `Watched` hides
CHUNKS = {"evenly": tree_sums.CHUNK, "scattered": 1, "messages": 16}  # numbers: messages of several chunks
PRIVACY = destiny.problems.Privacy(epsilon=5, delta=1e-3, bound=0.2, seed=0)
AGENTS = 11  # more than 8, from where NumPy adds numbers in another order; not divisible by 2, 3 or 4


@dataclass(frozen=True)
class Clock:
    ticks: Array  # (agents,)
    mood: Array  # (agents, 2)


@dataclass(frozen=True)
class DriftState:
    X: Array
    clock: Clock


@dataclass(frozen=True)
class Drift:
    """Not a good method, but one with another state: nested, one number per agent, several rounds a step."""

    kind = "drift"

    def init(self, X: Array, agents: Agents) -> DriftState:
        return DriftState(X, Clock(agents.ids.astype(np.float64), np.ones((len(X), 2))))

    def step(self, s: DriftState, agents: Agents) -> DriftState:
        G = agents.gradient(s.X)
        X, ticks = agents.mix(s.X - 0.02 * destiny.stiefel.tangent(s.X, G), s.clock.ticks, rounds=2)
        (mood,) = agents.mix(s.clock.mood * X[:, :1, 0])
        return DriftState(X, Clock(ticks, mood))


class Watched:
    """A problem that remembers whose data were asked for."""

    def __init__(self, problem) -> None:
        self.problem, self.shape, self.agents, self.kind = (
            problem,
            problem.shape,
            problem.agents,
            problem.kind,
        )
        self.generalized = getattr(problem, "generalized", False)
        self.quadratic = getattr(problem, "quadratic", False)  # as the default method depends on it
        self.batches = getattr(problem, "batches", ())
        self.asked: list[int] = []

    def host(self, ids):
        self.asked += ids
        return self.problem.host(ids)


class Scalar:
    """A 1 x 1 problem: X = 1 or -1, where sums over agents have one entry only."""

    def __init__(self, agent: int) -> None:
        self.slope = np.array([[np.sqrt(2 + agent)]])

    def value(self, X: Array) -> float:
        return float(np.sum(self.slope * X))

    def gradient(self, X: Array) -> Array:
        return self.slope + 0 * X


def cases() -> dict[str, tuple]:
    """(problem, network, algorithm, options) by name; few rounds each."""
    nets = destiny.networks
    fixed = nets.erdos_renyi(AGENTS, prob=0.4, seed=1)
    ring = nets.ring(AGENTS)
    pca = small_problem("pca", AGENTS)
    short = {"rounds": 60}
    agreeing = {"rounds": 900, "local_stopping": True, "tolerance": 1e-4, "every": 0}
    private = {"messages": "private"}
    eight = {"messages": destiny.Quantized(8)}
    found: dict[str, tuple] = {
        "olsr": (small_problem("olsr", AGENTS), fixed, None, short),
        "sdl": (small_problem("sdl", AGENTS), fixed, None, short),
        "links fail": (pca, nets.link_loss(fixed, 0.3, seed=2), None, short),
        "pairs": (pca, nets.matchings(fixed, seed=3), None, short),
        "in turn": (pca, nets.periodic([fixed, ring, nets.star(AGENTS)]), None, short),
        "agree": (pca, fixed, None, agreeing),
        "other state": (pca, ring, Drift(), short),
        "one entry": ([Scalar(i) for i in range(AGENTS)], ring, None, {"start": np.ones((1, 1)), **short}),
        "generalized": (generalized(AGENTS), fixed, None, {"rounds": 120}),
        "generalized agree": (generalized(AGENTS), fixed, None, agreeing),
        "square": (procrustes(AGENTS)[0], fixed, None, {"rounds": 300, "seconds": 600.0, "tolerance": 1e-5}),
        "diverges": (pca, ring, destiny.Destiny(1e9, destiny.steps.Constant(10.0)), short),
        "own starts": (pca, ring, None, {"start": starts(), **short}),
        "private": (destiny.problems.pca.private(pca, PRIVACY), fixed, None, short),
        "private products": (PrivateProductsPCA(pca, PRIVACY), fixed, None, short),
        "rules": (pca, ring, destiny.Destiny(), {"rules": [AtStep(17)], "seconds": 600.0, **short}),
    }
    found |= {
        "private sums": (pca, ring, None, {"rounds": 150, **private}),
        "private agree": (pca, ring, None, agreeing | private),
        "private krylov": (pca, fixed, "averaged-krylov", short | private),
        "private lbfgs": (small_problem("sdl", AGENTS), fixed, None, short | private),
        "8 bits": (pca, ring, None, {"rounds": 150, **eight}),
        "8 bits agree": (pca, ring, None, agreeing | eight),
        "8 bits other state": (pca, ring, Drift(), short | eight),
        "8 bits diverge": (*found["diverges"][:3], short | eight),
        "16 bits": (pca, ring, None, short | {"messages": destiny.Quantized(16)}),
    }
    found |= {
        "mini-batches": (destiny.problems.batched(pca, 4), fixed, None, short),
        "clipped": (pca, nets.complete(AGENTS), None, short | {"messages": byzantine.Clipped(1)}),
    }
    methods = [m for m in destiny.algorithms.METHODS if "alone" not in m.about]
    star = nets.star(AGENTS)
    return found | {m.kind: (pca, star if "star" in m.about else fixed, m(), short) for m in methods}


def starts() -> Array:
    """A start of its own for every agent."""
    return np.stack([destiny.stiefel.random_point(12, 3, seed=i) for i in range(AGENTS)])


@dataclass(frozen=True)
class AtStep:
    """A rule of the user's."""

    step: int

    def check(self, progress):
        return destiny.stopping.Stop(f"step {self.step}") if progress.step == self.step else None


def facts(result, part=None) -> dict[str, np.ndarray]:
    """Everything of a result that must not depend on where it was computed; states of the agents ``part``."""
    rows = slice(None) if part is None else part
    history = np.delete(result.history.as_array(), result.history.columns.index("seconds"), axis=1)
    counts = f"{result.steps} {result.rounds} {result.scalars} {result.bytes} {result.gradients}"
    text = f"{result.reason} {result.converged} {counts} {result.notes}"
    numbers = {"X": result.X, "history": history, "text": np.array(text)}
    if result.axes is not None:
        numbers["axes"] = result.axes
    return numbers | {f"state.{name}": array[rows] for name, array in flatten(result.state).items()}


def engines(ranks: int) -> dict[str, dict]:
    """Ways to deal the agents out, and to exchange: the last as between hosts."""
    mixed = np.random.default_rng(ranks).permutation(np.arange(AGENTS) % ranks).tolist()
    return {"evenly": {}, "scattered": {"map": mixed}, "messages": {"map": mixed}}


def main(folder: Path) -> None:
    """All cases on this rank; scattered placements for a few of them."""
    for way, options in engines(destiny.engines.mpi().ranks.size).items():
        engine = destiny.engines.mpi(**options, deadline=120)
        engine.ranks.one_host &= way != "messages"
        tree_sums.CHUNK = CHUNKS[way]
        for name, (problem, network, algorithm, settings) in cases().items():
            if way != "evenly" and name not in SCATTERED:
                continue
            watched = problem if isinstance(problem, list) or name in NOTED else Watched(problem)
            result = destiny.solve(watched, network, algorithm, engine=engine, **settings)
            ids = np.flatnonzero(
                assign_ranks(AGENTS, engine.ranks.size, table=engine.map) == engine.ranks.rank
            )
            if isinstance(watched, Watched):
                assert set(watched.asked) == set(ids.tolist()), "a rank loads its own agents' data only"
            assert engine.leader == (len(result.agents) == AGENTS) or engine.ranks.size == 1
            kept = facts(result) | {"ids": ids, "agents": result.agents}
            np.savez(folder / f"{way} {name} {engine.ranks.rank}.npz", **kept)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
