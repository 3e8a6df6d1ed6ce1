"""Rounds and numbers sent to 1e-8 with an averaged model: ``python -m benchmarks.newton``.

Writes docs/newton.csv after every run and the table in docs/averaged-model.md at the end. What the file has
already is not run again. Instances of real data need DESTINY_DATA. Momentum on those of `benchmarks.rounds`
is read from docs/rounds.csv (seeds 4 to 8).
"""

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import destiny
from benchmarks import rounds as others
from benchmarks.rows import DOCS, Benchmark, read, require_done
from destiny import networks
from destiny.algorithms import AveragedModel, DestinyAccelerated
from destiny.algorithms.blocks.gossip import center_spectrum, rounds_for

COLUMNS = ("instance", "method", "seed", "limit", "rounds", "matrices", "converged", "worst")
SEEDS = range(14, 24)
Instance = Callable[[int], tuple[Any, Any]]


def by_class(load: Callable[[], Any], p: int) -> Instance:
    """Raw scikit-learn data over eight agents, one class after the other, on a random network."""

    def make(seed: int) -> tuple[Any, Any]:
        data = load()
        A = data.data[np.argsort(data.target, kind="stable")]
        return destiny.problems.pca.from_data(A, p, 8), networks.erdos_renyi(8, prob=0.5, seed=seed)

    return make


def two_directions(seed: int) -> tuple[Any, Any]:
    """Each of 32 agents sees two directions of 100 only."""
    rng = np.random.default_rng(100 + seed)
    U = np.linalg.qr(rng.standard_normal((100, 100)))[0]
    sizes = 0.9 ** (np.arange(1, 101) / 2)
    seen = [(2 * i + np.arange(2)) % 100 for i in range(32)]
    silos = [U[:, few] * sizes[few] @ rng.standard_normal((2, 20)) for few in seen]
    return destiny.problems.pca.PCA([a.T for a in silos], 5), networks.erdos_renyi(32, prob=0.3, seed=seed)


def mnist_pca(seed: int) -> tuple[Any, Any]:
    problem = destiny.problems.pca.from_data(destiny.datasets.mnist().data, 10, 32, scale=1 / 255)
    return problem, networks.erdos_renyi(32, prob=0.5, seed=seed)


KNOWN = [name for name in others.INSTANCES if not name.startswith("prob")]
NEW: dict[str, Instance] = {
    "two directions each": two_directions,
    "raw wine, p = 3": by_class(load_wine, 3),
    "raw breast cancer, p = 5": by_class(load_breast_cancer, 5),
    "digits, p = 30": by_class(load_digits, 30),
}
REAL: dict[str, Instance] = {"MNIST PCA, p = 10": mnist_pca}


def jobs(seeds: list[int], real: bool) -> list[tuple[str, str, int]]:
    known = [*KNOWN, *([name for name in others.REAL if name.startswith("OLSR")] if real else ())]
    new = [*NEW, *(REAL if real else ())]
    newton = [(name, "newton", seed) for seed in seeds for name in [*known, *new]]
    return newton + [(name, "momentum", seed) for seed in seeds[:3] for name in new]


def run(name: str, method: str, seed: int) -> tuple[object, ...]:
    instances = {key: make for key, (make, _) in (others.INSTANCES | others.REAL).items()} | NEW | REAL
    problem, network = instances[name](seed)
    algorithm = {"newton": AveragedModel, "momentum": DestinyAccelerated}[method]()
    every = 1 if method == "newton" else max(1, round(10 / algorithm.on(network).rounds))
    result = destiny.solve(problem, network, algorithm, seed=seed, rounds=30_000, every=every, progress=False)
    require_done(result.interrupted)
    n, p = problem.shape
    limit = rounds_for(1e-8, center_spectrum(*network.spectrum)[1])
    matrices = result.scalars / (2 * len(network.edges) * n * p)
    return limit, result.rounds, f"{matrices:.0f}", result.converged, f"{result.measures.worst:.1e}"


def table(rows: list[dict[str, str]]) -> str:
    """One line per instance: medians."""
    lines = [
        "| instance | averaging one number | newton | newton / averaging | matrices sent | momentum | "
        "matrices sent |",
        "|---|---|---|---|---|---|---|",
    ]
    before = [row for row in read(others.BENCHMARK.file) if row["method"] == "momentum"]
    for name in dict.fromkeys(row["instance"] for row in rows):
        mine = [row for row in rows if row["instance"] == name and row["method"] == "newton"]
        failed = sum(row["converged"] != "True" for row in mine)
        done = [row for row in mine if row["converged"] == "True"]
        limit = statistics.median(int(row["limit"]) for row in mine)
        rounds = sorted(int(row["rounds"]) for row in done)
        newton = f"{statistics.median_high(rounds)} ({rounds[0]}-{rounds[-1]})" if rounds else "-"
        ratio = (
            statistics.median(int(row["rounds"]) / int(row["limit"]) for row in done)
            if done
            else float("nan")
        )
        sent = statistics.median(int(row["matrices"]) for row in done) if done else float("nan")
        rival = [row for row in rows if row["instance"] == name and row["method"] == "momentum"]
        rival = rival or [row for row in before if row["instance"] == name]
        past = sorted(int(r["rounds"]) if r["converged"] == "True" else 10**9 for r in rival)
        median = statistics.median_high(past) if past else 10**9
        momentum = f"{median}" if median < 10**9 else "does not converge" if past else "-"
        twice = f"{2 * median}" if median < 10**9 else "-"
        text = newton + (f", {failed} of {len(mine)} fail" if failed else "")
        lines.append(f"| {name} | {limit:.0f} | {text} | {ratio:.1f} | {sent:.0f} | {momentum} | {twice} |")
    return "\n".join(lines) + "\n"


BENCHMARK = Benchmark(
    "newton", __doc__, DOCS / "averaged-model.md", COLUMNS, COLUMNS[:3], SEEDS, jobs, run, table
)


if __name__ == "__main__":
    BENCHMARK.main()
