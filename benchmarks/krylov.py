"""Rounds and numbers sent to 1e-8 by Krylov spaces, on PCA: ``python -m benchmarks.krylov``.

Writes docs/krylov.csv after every run and the table in docs/averaged-krylov.md at the end. What the file has
already is not run again. CIFAR-10 and MNIST need DESTINY_DATA. Some 40 minutes on one core.
"""

import statistics
from collections.abc import Callable
from typing import Any

from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import destiny
from benchmarks.images import IMAGES, Instance
from benchmarks.newton import by_class, two_directions
from benchmarks.rounds import family, figure_3
from benchmarks.rows import DOCS, Benchmark, require_done
from destiny import networks
from destiny.algorithms import AveragedKrylov, DeEPCA, DestinyAccelerated

COLUMNS = ("instance", "method", "seed", "rounds", "matrices", "converged", "worst")
SEEDS = range(14, 24)  # the block's width and the number of vectors kept were chosen on seeds 0 and 1
LIMIT = 3000  # rounds
HOPELESS = 1000  # of DeEPCA, which has not converged later but on rings
EVERY = 5  # rounds between two measurements of methods with one round a step
METHODS: dict[str, Callable[[], Any]] = {
    "krylov": AveragedKrylov,
    "momentum": DestinyAccelerated,
    "DeEPCA": DeEPCA,
}


INSTANCES: dict[str, Instance] = {
    "Figure 3, prob .2": figure_3(0.2),
    "Figure 3, prob .4": figure_3(0.4),
    "Figure 3, prob .6": figure_3(0.6),
    "digits by class, p = 10": by_class(load_digits, 10),
    "digits by class, p = 30": by_class(load_digits, 30),
    "raw wine by class, p = 3": by_class(load_wine, 3),
    "raw breast cancer by class, p = 5": by_class(load_breast_cancer, 5),
    "two directions each": two_directions,
    "grid 6 x 6": family(lambda _: networks.grid(6, 6)),
    "star, 32 agents": family(lambda _: networks.star(32)),
    "ring, 32 agents": family(lambda _: networks.ring(32)),
}


def run(name: str, method: str, seed: int) -> tuple[object, ...]:
    problem, network = (INSTANCES | IMAGES)[name](seed)
    algorithm = METHODS[method]().on(network)
    every = max(1, round(EVERY / algorithm.rounds_per_step))
    rounds = HOPELESS if method == "DeEPCA" and not name.startswith("ring") else LIMIT
    result = destiny.solve(problem, network, algorithm, seed=seed, rounds=rounds, every=every, progress=False)
    require_done(result.interrupted)
    n, p = problem.shape
    matrices = result.scalars / (2 * len(network.edges) * n * p)
    return result.rounds, f"{matrices:.0f}", result.converged, f"{result.measures.worst:.1e}"


def cell(rows: list[dict[str, str]]) -> tuple[str, float, float]:
    """Median (least to most) rounds in words and as a number, and the median of the matrices sent."""
    rounds = sorted(int(row["rounds"]) if row["converged"] == "True" else 10**9 for row in rows)
    done = [r for r in rounds if r < 10**9]
    median = statistics.median_high(rounds)
    if not done:
        worst = statistics.median(float(row["worst"]) for row in rows)
        return f"none of {len(rows)} ({worst:.0e})", median, float("inf")
    failed = f", {len(rounds) - len(done)} of {len(rounds)} fail" if len(done) < len(rounds) else ""
    text = f"{median if median < 10**9 else '-'} ({done[0]}-{done[-1]}){failed}"
    return text, median, statistics.median(int(row["matrices"]) for row in rows if row["converged"] == "True")


def relative(text: str, rounds: float, unit: float) -> str:
    """Median rounds of another method relative to those of krylov, and how many runs failed."""
    if text.startswith("none"):
        return text
    _, _, failed = text.partition("), ")
    median = f"{rounds / unit:.1f}" if rounds < 10**9 else ""
    return ", ".join(filter(None, [median, failed]))


def table(rows: list[dict[str, str]]) -> str:
    """One line per instance: medians."""
    lines = [
        "| instance | krylov | momentum / krylov | DeEPCA / krylov | matrices sent: krylov | "
        "momentum | DeEPCA |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in [name for name in [*INSTANCES, *IMAGES] if any(row["instance"] == name for row in rows)]:
        cells = [
            cell([row for row in rows if (row["instance"], row["method"]) == (name, method)])
            for method in METHODS
        ]
        sent = " | ".join("-" if count == float("inf") else f"{count:.0f}" for _, _, count in cells)
        others = " | ".join(relative(text, rounds, cells[0][1]) for text, rounds, _ in cells[1:])
        lines.append(f"| {name} | {cells[0][0]} | {others} | {sent} |")
    return "\n".join(lines) + "\n"


def jobs(seeds: list[int], real: bool) -> list[tuple[str, str, int]]:
    names = [*INSTANCES, *(IMAGES if real else ())]
    return [(name, method, seed) for seed in seeds for name in names for method in METHODS]


BENCHMARK = Benchmark(
    "krylov", __doc__, DOCS / "averaged-krylov.md", COLUMNS, COLUMNS[:3], SEEDS, jobs, run, table
)


if __name__ == "__main__":
    BENCHMARK.main()
