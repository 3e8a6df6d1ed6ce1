"""Passes over the data to 1e-8, full gradients against mini-batches: ``python -m benchmarks.passes``.

Writes docs/passes.csv after every run and the table in docs/minibatches.md at the end. What the file has
already is not run again: delete it to start anew. MNIST needs DESTINY_DATA, a folder with the official files;
without it the synthetic instance alone is run. About half an hour on one core.
"""

import argparse
import os
import statistics
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

import destiny
from benchmarks.rows import read, write
from destiny import networks
from destiny.algorithms import DPRGD, VRSGT, DestinyMomentum

DOCS = Path(__file__).parents[1] / "docs"
FILE, PAGE = DOCS / "passes.csv", DOCS / "minibatches.md"
BEGIN, END = "<!-- begin passes -->", "<!-- end passes -->"
COLUMNS = ("instance", "method", "share", "seed", "rounds", "passes", "converged", "worst")
AGENTS = 32
SEEDS = (4, 5, 6)  # VRSGT's period was chosen on seeds 0 and 1
LIMIT = 3000  # rounds; full gradients converge in at most 300 here
# label: (method, samples of a mini-batch as a share of an agent's)
METHODS: dict[str, tuple[Callable[[], Any], float | None]] = {
    "destiny-momentum": (DestinyMomentum, None),
    "vrsgt 5 %": (VRSGT, 0.05),
    "vrsgt 2 %": (VRSGT, 0.02),
    "vrsgt 0.5 %": (VRSGT, 0.005),
    "vrsgt 5 %, no momentum": (lambda: VRSGT(momentum=False), 0.05),
    "dprgd 5 %": (DPRGD, 0.05),
}


@cache
def centred_images() -> Any:
    images = destiny.datasets.mnist().data.astype(np.float32) / 255
    return images - images.mean(axis=1, keepdims=True)


def mnist_pca(p: int) -> Callable[[int], Any]:
    return lambda _: destiny.problems.pca.from_data(centred_images(), p, AGENTS)


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


def run(name: str, label: str, seed: int) -> dict[str, str]:
    problem = (INSTANCES | REAL)[name](seed)
    network = networks.erdos_renyi(AGENTS, prob=0.5, seed=seed)
    make, share = METHODS[label]
    if share is not None:
        samples = problem.sample_gradient(0).count
        problem = destiny.problems.batched(problem, max(1, round(share * samples)), seed)
    limit = LIMIT if label != "dprgd 5 %" else 600  # it has stalled long before
    result = destiny.solve(problem, network, make(), seed=seed, rounds=limit, every=5)
    if result.interrupted:
        raise SystemExit(f"interrupted by {result.interrupted}: start again to go on")
    outcome = (result.rounds, f"{result.passes:.1f}", result.converged, f"{result.measures.worst:.1e}")
    return dict(zip(COLUMNS, map(str, (name, label, share, seed, *outcome)), strict=True))


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
        full = {row["seed"]: row for row in mine if row["method"] == "destiny-momentum"}
        cells = [cell([row for row in mine if row["method"] == label], full) for label in METHODS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def publish(text: str) -> None:
    """Put the table into the page."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(f"{BEGIN}\n")
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n{text}{END}{tail}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.passes", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--out", type=Path, default=FILE)
    options = parser.parse_args()
    real = "DESTINY_DATA" in os.environ
    if not real:
        print("DESTINY_DATA is not set: the MNIST instances are left out")
    rows = read(options.out)
    done = {(row["instance"], row["method"], int(row["seed"])) for row in rows}
    names = [*INSTANCES, *(REAL if real else ())]
    jobs = [(name, label, seed) for seed in options.seeds for name in names for label in METHODS]
    todo = [job for job in jobs if job not in done]
    with Progress() as progress:
        bar = progress.add_task("passes", total=len(todo))
        for job in todo:
            progress.update(bar, description=", ".join(map(str, job)))
            rows.append(run(*job))
            write(options.out, COLUMNS, rows)
            progress.advance(bar)
    if options.out == FILE:
        publish(table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
