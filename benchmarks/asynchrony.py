"""Asynchronous DESTINY against accelerated synchronous DESTINY, in simulated seconds to 1e-8.

    python -m benchmarks.asynchrony FILE.csv [problem] [network] [world]

Writes a row as soon as it is known and goes on where it was; the further words choose rows. The problems are
PCA (n = 300, p = 10), PCA of agents that see different directions, SDL on 3200 pictures of MNIST and OLSR on
Cora-DS, with 32 agents each (16 on the ring and the grid). A synchronous agent waits for its neighbours in
every round and sends again what was lost; its one run gives the times in all worlds. An asynchronous run ends
at twice the synchronous time, or after `WAKES` wakes of an agent.
"""

from __future__ import annotations

import csv
import itertools
import math
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import destiny
from destiny import networks, problems
from destiny.problems.data.partition import split_columns
from destiny.protocols import Problem, TopologyBase
from destiny.simulation import World
from destiny.simulation.barrier import BarrierClock

SEEDS = (10, 11, 12, 13, 14)  # constants were chosen on seeds 0 and 1
WAKES = 12_000
COLUMNS = ("problem", "network", "world", "seed", "synchronous", "rounds", "seconds", "wakes", "worst")


def pca(agents: int, seed: int) -> Problem:
    return problems.pca.synthetic(n=300, m=100 * agents, p=10, xi=0.9, agents=agents, seed=seed)


def olsr(agents: int, seed: int) -> Problem:  # noqa: ARG001
    cora = destiny.datasets.cora("DS")
    return problems.olsr.from_data(cora.data, problems.olsr.one_hot(cora.labels), agents)


def sdl(agents: int, seed: int) -> Problem:
    data = destiny.datasets.mnist().data[:, 3200 * (seed - 10) : 3200 * (seed - 9)]
    return problems.SDL(list(split_columns(data, agents, what="mnist")), 1, scale=1 / 255)


def apart(agents: int, seed: int) -> Problem:
    """PCA with agents that see different directions: each knows every d-th eigenvector of the whole alone."""
    n, p = 4 * agents, 3
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    scales = np.sqrt(agents * np.r_[np.linspace(2, 1.2, p), np.linspace(1, 0.05, n - p)])
    return problems.PCA([basis[:, i::agents] * scales[i::agents] for i in range(agents)], p)


PROBLEMS: dict[str, Callable[[int, int], Problem]] = {"PCA": pca, "apart": apart, "SDL": sdl, "OLSR": olsr}
NETWORKS: dict[str, Callable[[int], TopologyBase]] = {
    "ER": lambda seed: networks.erdos_renyi(32, prob=0.4, seed=seed),
    "grid": lambda seed: networks.grid(4, 4),  # noqa: ARG005
    "ring": lambda seed: networks.ring(16),  # noqa: ARG005
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


def rows(chosen: list[str], known: set[tuple[str, ...]]) -> Iterator[dict[str, Any]]:
    """The rows that are missing, as they become known."""
    for seed in SEEDS:
        for network in NETWORKS:
            for problem in PROBLEMS:
                missing = [
                    world
                    for world in WORLDS
                    if all(word in (problem, network, world) for word in chosen)
                    and (problem, network, world, str(seed)) not in known
                ]
                if missing:
                    yield from compare(problem, network, missing, seed)


def compare(problem: str, network: str, worlds: list[str], seed: int) -> Iterator[dict[str, Any]]:
    """One synchronous run with a clock for each world, and an asynchronous run in each."""
    links = NETWORKS[network](seed)
    case = PROBLEMS[problem](links.agents, seed)
    clocks = {name: BarrierClock(links, World(**WORLDS[name], seed=seed), 1e12) for name in worlds}
    barrier = destiny.solve(
        case, links, destiny.DestinyMomentum(), seed=seed, rounds=20_000, rules=list(clocks.values())
    )
    for name, clock in clocks.items():
        clock.advance(barrier.steps, barrier.rounds, barrier.gradients)
        limit = min(2 * clock.time, WAKES * float(clock.world.computing_times(links.agents).mean()))
        run = destiny.simulate(case, links, clock.world, seed=seed, seconds=limit)
        yield {
            "problem": problem,
            "network": network,
            "world": name,
            "seed": seed,
            "synchronous": round(clock.time, 1) if barrier.converged else "inf",
            "rounds": barrier.rounds,
            "seconds": round(run.seconds, 1) if run.converged else "inf",
            "wakes": run.rounds,
            "worst": f"{run.measures.worst:.1e}",
        }


def table(path: Path) -> str:
    """Medians over the seeds, as Markdown: simulated seconds, and asynchronous over synchronous."""
    groups: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            groups.setdefault((row["problem"], row["network"], row["world"]), []).append(row)
    lines = [
        "| problem | network | world | seeds | synchronous | asynchronous | ratio |",
        "|---|" + 6 * "---|",
    ]
    for problem, network, world in itertools.product(PROBLEMS, NETWORKS, WORLDS):
        if found := groups.get((problem, network, world)):
            slow, fast = (
                statistics.median(float(row[name]) for row in found) for name in ("synchronous", "seconds")
            )
            worst = max(float(row["worst"]) for row in found)
            end = f"{fast:.0f} | {fast / slow:.2f}" if fast < math.inf else f"not yet: {worst:.0e} | -"
            lines.append(f"| {problem} | {network} | {world} | {len(found)} | {slow:.0f} | {end} |")
    return "\n".join(lines)


def main(path: Path, chosen: list[str]) -> None:
    known: set[tuple[str, ...]] = set()
    if path.exists():
        with path.open(newline="") as file:
            known = {tuple(row[name] for name in COLUMNS[:4]) for row in csv.DictReader(file)}
    for row in rows(chosen, known):
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
