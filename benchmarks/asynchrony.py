"""Asynchronous DESTINY against accelerated synchronous DESTINY, in simulated seconds to a tolerance.

    python -m benchmarks.asynchrony FILE.csv [problems] [networks] [worlds] [seeds]

Writes a row as soon as it is known and goes on where it was; the further words choose rows. The problems are
PCA (n = 300, p = 10), PCA of agents that see different directions, SDL on 3200 pictures of MNIST and OLSR on
Cora-DS, with 32 agents on ER, "grid 32" and "ring 32" and 16 on grid and ring. The tolerance is 1e-8, of OLSR
1e-6. A synchronous agent waits for its neighbors in every round and sends again what was lost; its one run
gives the times in all worlds. An asynchronous run ends at twice the synchronous time, or after `LIMIT` mean
computing times.
"""

from __future__ import annotations

import csv
import itertools
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import destiny
from destiny import networks, problems
from destiny.extensions import asynchronous
from destiny.extensions.asynchronous import World
from destiny.extensions.asynchronous.simulation.barrier import BarrierClock
from destiny.problems.data.partition import split_rows
from destiny.protocols import Problem, TopologyBase

SEEDS = (40, 41, 42, 43, 44)  # docs/asynchrony.md says on which others the rule was chosen
LIMIT = 40_000  # mean computing times
TOLERANCE = {"OLSR": 1e-6}  # the others 1e-8, which synchronous OLSR may not reach in 60,000 rounds
COLUMNS = (
    "problem", "network", "world", "seed", "synchronous", "rounds", "seconds", "wakes", "worst", "converged",
)  # fmt: skip


def pca(agents: int, seed: int) -> Problem:
    return problems.pca.synthetic(n=300, m=100 * agents, p=10, xi=0.9, agents=agents, seed=seed)


def olsr(agents: int, seed: int) -> Problem:  # noqa: ARG001
    cora = destiny.datasets.cora("DS")
    return problems.olsr.from_data(cora.data, problems.olsr.one_hot(cora.labels), agents)


def sdl(agents: int, seed: int) -> Problem:
    first = 3200 * (seed % 18)
    data = destiny.datasets.mnist().data[first : first + 3200]
    return problems.SDL(list(split_rows(data, agents, what="mnist")), 1, scale=1 / 255)


def apart(agents: int, seed: int) -> Problem:
    """PCA with agents that see different directions: each knows every d-th eigenvector of the whole alone."""
    n, p = 4 * agents, 3
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    scales = np.sqrt(agents * np.r_[np.linspace(2, 1.2, p), np.linspace(1, 0.05, n - p)])
    return problems.PCA([(basis[:, i::agents] * scales[i::agents]).T for i in range(agents)], p)


PROBLEMS: dict[str, Callable[[int, int], Problem]] = {"PCA": pca, "apart": apart, "SDL": sdl, "OLSR": olsr}
NETWORKS: dict[str, Callable[[int], TopologyBase]] = {
    "ER": lambda seed: networks.erdos_renyi(32, prob=0.4, seed=seed),
    "grid": lambda seed: networks.grid(4, 4),  # noqa: ARG005
    "ring": lambda seed: networks.ring(16),  # noqa: ARG005
    "grid 32": lambda seed: networks.grid(4, 8),  # noqa: ARG005
    "ring 32": lambda seed: networks.ring(32),  # noqa: ARG005
}
WORLDS: dict[str, dict[str, Any]] = {
    "equal": {},
    "range": {"speeds": "range"},
    "straggler": {"speeds": "straggler"},
    "loss 10 %": {"loss": 0.1},
    "loss 30 %": {"loss": 0.3},
    "delay 5": {"delay": 5.0},
    "delay 50": {"delay": 50.0},
}


def rows(words: list[str], known: set[tuple[str, ...]]) -> Iterator[dict[str, Any]]:
    """The rows that are missing, as they become known."""
    kinds = [list(PROBLEMS), list(NETWORKS), list(WORLDS), [str(seed) for seed in SEEDS]]
    if strange := [word for word in words if word not in itertools.chain(*kinds)]:
        raise SystemExit(f"expected problems, networks, worlds or seeds of {kinds}; found {strange}")
    cases, graphs, worlds, seeds = ([w for w in kind if w in words] or kind for kind in kinds)
    for seed, problem, network in itertools.product(seeds, cases, graphs):
        if missing := [world for world in worlds if (problem, network, world, seed) not in known]:
            yield from compare(problem, network, missing, int(seed))


def compare(problem: str, network: str, worlds: list[str], seed: int) -> Iterator[dict[str, Any]]:
    """One synchronous run with a clock for each world, and an asynchronous run in each."""
    links = NETWORKS[network](seed)
    case = PROBLEMS[problem](links.agents, seed)
    clocks = {name: BarrierClock(links, World(**WORLDS[name], seed=seed), 1e12) for name in worlds}
    tolerance = TOLERANCE.get(problem, 1e-8)
    barrier = destiny.solve(
        case,
        links,
        destiny.DestinyAccelerated(),
        seed=seed,
        tolerance=tolerance,
        rounds=20_000,
        rules=list(clocks.values()),
    )
    if not barrier.converged:  # there is nothing to compare with
        raise RuntimeError(f"{problem} on {network}, seed {seed}: {barrier.reason}")
    for name, clock in clocks.items():
        clock.advance(barrier.steps, barrier.rounds, barrier.gradients)
        limit = min(2 * clock.time, LIMIT * float(clock.world.computing_times(links.agents).mean()))
        run = asynchronous.simulate(case, links, clock.world, seed=seed, seconds=limit, tolerance=tolerance)
        yield {
            "problem": problem,
            "network": network,
            "world": name,
            "seed": seed,
            "synchronous": round(clock.time, 1),
            "rounds": barrier.rounds,
            "seconds": round(run.seconds, 1),
            "wakes": run.rounds,
            "worst": f"{run.measures.worst:.1e}",
            "converged": run.converged,
        }


def table(path: Path) -> str:
    """Medians over the seeds, as Markdown; of runs that ended before the tolerance, how far they came."""
    groups: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            groups.setdefault((row["problem"], row["network"], row["world"]), []).append(row)
    lines = [
        "| problem | network | world | seeds | synchronous | asynchronous | ratio | from - to |",
        "|---|" + 7 * "---|",
    ]
    lines += [
        f"| {' | '.join((*key, ' '.join(row['seed'] for row in groups[key])))} | {outcome(groups[key])} |"
        for key in itertools.product(PROBLEMS, NETWORKS, WORLDS)
        if key in groups
    ]
    return "\n".join(lines)


def outcome(found: list[dict[str, str]]) -> str:
    """Median seconds of both, and their ratio: its median, least and most."""
    barrier, free = ([float(row[name]) for row in found] for name in ("synchronous", "seconds"))
    ratios = [b / a for a, b in zip(barrier, free, strict=True)]
    start = f"{statistics.median(barrier):.0f}"
    if unfinished := [k for k, row in enumerate(found) if row["converged"] != "True"]:
        worst = max(float(found[k]["worst"]) for k in unfinished)
        share = max(ratios[k] for k in unfinished)
        return f"{start} | {len(unfinished)} not done: {worst:.0e} after {share:.2f} of the time | - | -"
    middle = f"{statistics.median(free):.0f} | {statistics.median(ratios):.2f}"
    return f"{start} | {middle} | {min(ratios):.2f} - {max(ratios):.2f}"


def main(path: Path, words: list[str]) -> None:
    known: set[tuple[str, ...]] = set()
    if path.exists():
        with path.open(newline="") as file:
            known = {tuple(row[name] for name in COLUMNS[:4]) for row in csv.DictReader(file)}
    for row in rows(words, known):
        new = not path.exists()
        with path.open("a", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            if new:
                writer.writeheader()
            writer.writerow(row)
        print(", ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    print(table(path))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
