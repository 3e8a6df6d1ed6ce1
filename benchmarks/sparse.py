"""F - F* of methods with a prox and of subgradients on sparse PCA: ``python -m benchmarks.sparse``.

Writes docs/sparse.csv after every run and the table in docs/sparse.md at the end. What the file has already
is not run again: delete it to start anew. About five minutes on one core. Constants of destiny-prox were
chosen on seeds 0 to 3.
"""

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

import destiny
from benchmarks.rows import DOCS, Benchmark, require_done
from destiny import networks
from destiny.algorithms import DRSM, SLPG, DestinyProx, Thanos
from destiny.problems import L1

COLUMNS = ("network", "method", "seed", "to 1e-4", "to 1e-8", "gap", "zeros", "zeros beside")
LEVELS = (1e-4, 1e-8)
ROUNDING = 1e-14
SEEDS = (22, 23, 24)
ROUNDS = 1500
WEIGHT = 0.05  # of ||C||_2
METHODS: dict[str, Callable[[], Any]] = {
    "destiny-prox": DestinyProx,
    "thanos": Thanos,
    "thanos, sigma .01": lambda: Thanos(sigma=0.01),
    "drsm": DRSM,
}
NETWORKS: dict[str, Callable[[int], Any]] = {
    "random, 8 agents": lambda seed: networks.erdos_renyi(8, prob=0.5, seed=seed),
    "random, 16 agents": lambda seed: networks.erdos_renyi(16, prob=0.4, seed=seed),
    "ring, 16 agents": lambda _: networks.ring(16),
}


def run(name: str, method: str, seed: int) -> tuple[object, ...]:
    network = NETWORKS[name](seed)
    problem = destiny.problems.pca.synthetic(n=30, m=400, p=3, xi=0.8, agents=network.agents, seed=seed)
    C = sum(problem.second_moments(i) for i in range(network.agents)) / network.agents
    size = float(np.linalg.norm(C, 2))
    sparse = problem + L1(WEIGHT * size)
    result = destiny.solve(
        sparse, network, METHODS[method](), seed=seed, rounds=ROUNDS, tolerance=0, every=10
    )
    require_done(result.interrupted)
    # From where a method ends to the stationary point beside it: each is judged by its own.
    pooled = destiny.problems.pooled(sparse)
    best = destiny.solve(pooled, networks.complete(1), SLPG(), start=result.X, rounds=20_000, tolerance=1e-12)
    gaps = (result.history["objective"] - best.measures.objective) / size
    reached = [result.history["round"][gaps < level] for level in LEVELS]
    rounds = [str(int(r[0])) if len(r) else "" for r in reached]
    return *rounds, f"{max(gaps[-1], 0.0):.1e}", f"{result.sparsity:.2f}", f"{best.sparsity:.2f}"


def cell(rows: list[dict[str, str]]) -> str:
    """Median rounds to 1e-4 and 1e-8 of ||C||_2, then the gap and the share of zeros in the end."""
    if not rows:
        return ""
    reached = []
    for level in ("to 1e-4", "to 1e-8"):
        rounds = [int(row[level]) for row in rows if row[level]]
        reached.append(f"{statistics.median_high(rounds)}" if len(rounds) == len(rows) else "-")
    gap = statistics.median(float(row["gap"]) for row in rows)
    zeros = statistics.median(float(row["zeros"]) for row in rows)
    left = "rounding" if gap < ROUNDING else f"{gap:.0e}"
    return f"{reached[0]} / {reached[1]}; {left}; {100 * zeros:.0f} %"


def table(rows: list[dict[str, str]]) -> str:
    """One line per network."""
    lines = ["| network | " + " | ".join(f"`{m}`" for m in METHODS) + " |", "|---" * (1 + len(METHODS)) + "|"]
    for name in dict.fromkeys(row["network"] for row in rows):
        mine = [row for row in rows if row["network"] == name]
        lines.append(
            f"| {name} | " + " | ".join(cell([r for r in mine if r["method"] == m]) for m in METHODS) + " |"
        )
    return "\n".join(lines) + "\n"


def jobs(seeds: list[int], real: bool) -> list[tuple[str, str, int]]:  # noqa: ARG001
    return [(name, method, seed) for seed in seeds for name in NETWORKS for method in METHODS]


BENCHMARK = Benchmark("sparse", __doc__, DOCS / "sparse.md", COLUMNS, COLUMNS[:3], SEEDS, jobs, run, table)


if __name__ == "__main__":
    BENCHMARK.main()
