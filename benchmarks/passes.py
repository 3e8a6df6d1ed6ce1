"""Passes over the data to 1e-8, full gradients against mini-batches: ``python -m benchmarks.passes``.

Writes docs/passes.csv after every run and the table in docs/minibatches.md at the end. What the file has
already is not run again: delete it to start anew. MNIST needs DESTINY_DATA, a folder with the official files;
without it the synthetic instance alone is run. About half an hour on one core.
"""

import statistics
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import destiny
from benchmarks.rows import DOCS, Benchmark, require_done
from destiny import networks
from destiny.algorithms import DPRGD, VRSGT, DestinyAccelerated

COLUMNS = ("instance", "method", "share", "seed", "rounds", "passes", "converged", "worst")
AGENTS = 32
SEEDS = (4, 5, 6)  # VRSGT's period was chosen on seeds 0 and 1
LIMIT = 3000  # rounds; full gradients converge in at most 300 here
# label: (method, samples of a mini-batch as a share of an agent's)
METHODS: dict[str, tuple[Callable[[], Any], float | None]] = {
    "destiny-accelerated": (DestinyAccelerated, None),
    "vrsgt 5 %": (VRSGT, 0.05),
    "vrsgt 2 %": (VRSGT, 0.02),
    "vrsgt 0.5 %": (VRSGT, 0.005),
    "vrsgt 5 %, no momentum": (lambda: VRSGT(momentum=False), 0.05),
    "dprgd 5 %": (DPRGD, 0.05),
}


@cache
def centered_images() -> Any:
    images = destiny.datasets.mnist().data.astype(np.float32) / 255
    return images - images.mean(axis=0)


def mnist_pca(p: int) -> Callable[[int], Any]:
    return lambda _: destiny.problems.pca.from_data(centered_images(), p, AGENTS)


def mnist_sdl(seed: int) -> Any:  # noqa: ARG001
    return destiny.problems.sdl.from_data(destiny.datasets.mnist().data, 1, AGENTS, scale=1 / 255)


def synthetic(seed: int) -> Any:
    return destiny.problems.pca.synthetic(100, 320 * AGENTS, 5, 0.9, agents=AGENTS, seed=seed)


INSTANCES: dict[str, Callable[[int], Any]] = {"PCA synthetic, n = 100, p = 5": synthetic}
REAL: dict[str, Callable[[int], Any]] = {
    "PCA MNIST, p = 5": mnist_pca(5),
    "PCA MNIST, p = 10": mnist_pca(10),
    "SDL MNIST, p = 1": mnist_sdl,
}


def run(name: str, label: str, seed: int) -> tuple[object, ...]:
    problem = (INSTANCES | REAL)[name](seed)
    network = networks.erdos_renyi(AGENTS, prob=0.5, seed=seed)
    make, share = METHODS[label]
    if share is not None:
        samples = problem.sample_gradient(0).count
        problem = destiny.problems.batched(problem, max(1, round(share * samples)), seed)
    limit = LIMIT if label != "dprgd 5 %" else 600  # it has stalled long before
    result = destiny.solve(problem, network, make(), seed=seed, rounds=limit, every=5)
    require_done(result.interrupted)
    outcome = (result.rounds, f"{result.passes:.1f}", result.converged, f"{result.measures.worst:.1e}")
    return share, *outcome


def cell(rows: list[dict[str, str]], full: dict[str, dict[str, str]]) -> str:
    """Median passes and rounds, and passes relative to full gradients on the same seed; or how it ended."""
    done = [row for row in rows if row["converged"] == "True"]
    if not rows:
        return ""
    if not done:
        worst = statistics.median(float(row["worst"]) for row in rows)
        return f"none of {len(rows)} ({worst:.0e} at {rows[0]['rounds']} rounds)"
    passes = statistics.median(float(row["passes"]) for row in done)
    rounds = statistics.median_high(int(row["rounds"]) for row in done)
    ratio = statistics.median(float(row["passes"]) / float(full[row["seed"]]["passes"]) for row in done)
    failed = f", {len(rows) - len(done)} of {len(rows)} fail" if len(done) < len(rows) else ""
    against = "" if ratio == 1 else f", {ratio:.2f}"
    return f"{passes:.0f} ({rounds}{against}){failed}"


def table(rows: list[dict[str, str]]) -> str:
    """One line per instance."""
    lines = ["| instance | " + " | ".join(METHODS) + " |", "|---|" + "---|" * len(METHODS)]
    for name in dict.fromkeys(row["instance"] for row in rows):
        mine = [row for row in rows if row["instance"] == name]
        full = {row["seed"]: row for row in mine if row["method"] == "destiny-accelerated"}
        cells = [cell([row for row in mine if row["method"] == label], full) for label in METHODS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def jobs(seeds: list[int], real: bool) -> list[tuple[str, str, int]]:
    names = [*INSTANCES, *(REAL if real else ())]
    return [(name, label, seed) for seed in seeds for name in names for label in METHODS]


BENCHMARK = Benchmark(
    "passes",
    __doc__,
    DOCS / "minibatches.md",
    COLUMNS,
    ("instance", "method", "seed"),
    SEEDS,
    jobs,
    run,
    table,
)


if __name__ == "__main__":
    BENCHMARK.main()
