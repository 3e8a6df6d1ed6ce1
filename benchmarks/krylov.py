"""Rounds and numbers sent to 1e-8 by Krylov spaces, on PCA: ``python -m benchmarks.krylov``.

Writes docs/krylov.csv after every run and the table in docs/krylov.md at the end. What the file has already
is not run again. CIFAR-10 and MNIST need DESTINY_DATA. Some 40 minutes on one core.
"""

import argparse
import os
import statistics
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from rich.progress import Progress
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import destiny
from benchmarks.newton import by_class, two_directions
from benchmarks.rounds import DOCS, family, figure_3
from benchmarks.rows import read, write
from destiny import networks
from destiny.algorithms import DeEPCA, DestinyKrylov, DestinyMomentum

FILE, PAGE = DOCS / "krylov.csv", DOCS / "krylov.md"
COLUMNS = ("instance", "method", "seed", "rounds", "matrices", "converged", "worst")
SEEDS = range(14, 17)  # the block's width and the number of vectors kept were chosen on seeds 0 and 1
LIMIT = 3000  # rounds
HOPELESS = 1000  # of DeEPCA, which has not converged later but on rings
EVERY = 5  # rounds between two measurements of methods with one round a step
BEGIN, END = "<!-- begin table -->", "<!-- end table -->"
METHODS: dict[str, Callable[[], Any]] = {
    "krylov": DestinyKrylov,
    "momentum": DestinyMomentum,
    "DeEPCA": DeEPCA,
}
Instance = Callable[[int], tuple[Any, Any]]


@cache
def cifar(gray: bool) -> tuple[Any, Any]:
    """10,000 images of CIFAR-10 less their mean, and their classes; gray ones have 16 x 16 pixels."""
    dataset = destiny.datasets.cifar10()
    A = dataset.data[:, :10_000] / 255
    if gray:
        A = A.reshape(3, 16, 2, 16, 2, -1).mean(axis=(0, 2, 4)).reshape(256, -1)
    return A - A.mean(axis=1, keepdims=True), dataset.labels[:10_000]


@cache
def mnist() -> tuple[Any, Any]:
    """10,000 digits of MNIST less their mean, and their classes."""
    dataset = destiny.datasets.mnist()
    A = dataset.data[:, ::6] / 255
    return A - A.mean(axis=1, keepdims=True), dataset.labels[::6]


def images(load: Callable[[], tuple[Any, Any]], p: int, by_label: bool = False) -> Instance:
    """Images over 32 agents, in their order or one class after the other."""

    def make(seed: int) -> tuple[Any, Any]:
        A, labels = load()
        A = A[:, np.argsort(labels, kind="stable")] if by_label else A
        return destiny.problems.pca.from_data(A, p, 32), networks.erdos_renyi(32, prob=0.3, seed=seed)

    return make


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
REAL: dict[str, Instance] = {
    "CIFAR gray, n = 256, p = 3": images(lambda: cifar(True), 3),
    "CIFAR gray by class, p = 3": images(lambda: cifar(True), 3, by_label=True),
    "CIFAR colour, n = 3072, p = 3": images(lambda: cifar(False), 3),
    "MNIST, n = 784, p = 5": images(mnist, 5),
    "MNIST by class, p = 5": images(mnist, 5, by_label=True),
}


def run(name: str, method: str, seed: int) -> dict[str, str]:
    problem, network = (INSTANCES | REAL)[name](seed)
    algorithm = METHODS[method]().on(network)
    every = max(1, round(EVERY / algorithm.rounds_per_step))
    rounds = HOPELESS if method == "DeEPCA" and not name.startswith("ring") else LIMIT
    result = destiny.solve(problem, network, algorithm, seed=seed, rounds=rounds, every=every, progress=False)
    if result.interrupted:
        raise SystemExit(f"interrupted by {result.interrupted}: start again to go on")
    n, p = problem.shape
    matrices = result.scalars / (2 * len(network.edges) * n * p)
    worst = f"{result.measures.worst:.1e}"
    values = (name, method, seed, result.rounds, f"{matrices:.0f}", result.converged, worst)
    return dict(zip(COLUMNS, map(str, values), strict=True))


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


def table(rows: list[dict[str, str]]) -> str:
    """One line per instance: medians."""
    lines = [
        "| instance | krylov | momentum | DeEPCA | krylov / better of the two | matrices sent: krylov | "
        "momentum | DeEPCA |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in [name for name in [*INSTANCES, *REAL] if any(row["instance"] == name for row in rows)]:
        cells = [
            cell([row for row in rows if (row["instance"], row["method"]) == (name, method)])
            for method in METHODS
        ]
        ratio = cells[0][1] / min(cells[1][1], cells[2][1])
        sent = " | ".join("-" if count == float("inf") else f"{count:.0f}" for _, _, count in cells)
        share = f"{ratio:.2f}" if ratio > 1e-4 else "they fail"
        lines.append(f"| {name} | " + " | ".join(text for text, _, _ in cells) + f" | {share} | {sent} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="*", default=list(SEEDS))
    seeds = parser.parse_args().seeds
    names = [*INSTANCES, *(REAL if "DESTINY_DATA" in os.environ else ())]
    rows = read(FILE)
    done = {(row["instance"], row["method"], int(row["seed"])) for row in rows}
    todo = [
        job
        for seed in seeds
        for name in names
        for method in METHODS
        if (job := (name, method, seed)) not in done
    ]
    with Progress() as bar:
        task = bar.add_task("runs", total=len(todo))
        for job in todo:
            rows.append(run(*job))
            write(FILE, COLUMNS, rows)
            bar.advance(task)
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    tail = rest.partition(END)[2]
    PAGE.write_text(f"{head}{BEGIN}\n\n{table(rows)}\n\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
