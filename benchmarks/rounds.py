"""Rounds to 1e-8 of DESTINY, plain and accelerated, over the whole test set: ``python -m benchmarks.rounds``.

Writes docs/rounds.csv after every run and the table in docs/acceleration.md at the end. What the file has
already is not run again: delete it to start anew. The Cora and MNIST instances need DESTINY_DATA, a folder
with the official files; without it they are left out. Some 40 minutes on one core; ``--seeds`` takes others.
"""

import argparse
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.progress import Progress

import destiny
from benchmarks.rows import read, write
from destiny import networks
from destiny.algorithms import DeEPCA, Destiny, DestinyMomentum
from destiny.algorithms.blocks.step_sizes import PlainBB

DOCS = Path(__file__).parents[1] / "docs"
FILE = DOCS / "rounds.csv"
COLUMNS = ("instance", "method", "seed", "lambda", "rounds", "scalars", "converged", "worst", "limit")
METHODS: dict[str, Callable[[], Any]] = {
    "capped BB": Destiny,
    "plain BB": lambda: Destiny(step_size=PlainBB()),
    "momentum": DestinyMomentum,
    "momentum on h": lambda: DestinyMomentum(direction="h"),
    "DeEPCA": DeEPCA,
}
SEEDS = range(4, 9)  # the constants of the accelerated method were chosen on seeds 0 to 3


def figure_3(prob: float, scale: float = 1.0) -> Callable[[int], tuple[Any, Any]]:
    def make(seed: int) -> tuple[Any, Any]:
        problem = destiny.problems.pca.synthetic(300, 3200, 10, 0.95, agents=32, seed=seed, scale=scale)
        return problem, networks.erdos_renyi(32, prob=prob, seed=seed)

    return make


def family(network: Callable[[int], Any]) -> Callable[[int], tuple[Any, Any]]:
    def make(seed: int) -> tuple[Any, Any]:
        net = network(seed)
        d = net.agents
        return destiny.problems.pca.synthetic(100, 100 * d, 5, 0.9, agents=d, seed=seed), net

    return make


def cora(name: str) -> Callable[[int], tuple[Any, Any]]:
    def make(seed: int) -> tuple[Any, Any]:
        dataset = destiny.datasets.cora(name)
        targets = destiny.problems.olsr.one_hot(dataset.labels)
        problem = destiny.problems.olsr.from_data(dataset.data, targets, 32)
        return problem, networks.erdos_renyi(32, prob=0.5, seed=seed)

    return make


def mnist(seed: int) -> tuple[Any, Any]:
    problem = destiny.problems.sdl.from_data(destiny.datasets.mnist().data, p=1, agents=32, scale=1 / 255)
    return problem, networks.erdos_renyi(32, prob=0.5, seed=seed)


# name: (instance for a seed, rounds allowed); real data last
INSTANCES: dict[str, tuple[Callable[[int], tuple[Any, Any]], int]] = {
    "Figure 3, prob .2": (figure_3(0.2), 3000),
    "Figure 3, prob .4": (figure_3(0.4), 3000),
    "Figure 3, prob .6": (figure_3(0.6), 3000),
    "prob .4, data x 1e-3": (figure_3(0.4, 1e-3), 3000),
    "prob .4, data x 1e3": (figure_3(0.4, 1e3), 3000),
    "ER .15, 32 agents": (family(lambda seed: networks.erdos_renyi(32, prob=0.15, seed=seed)), 6000),
    "grid 6 x 6": (family(lambda _: networks.grid(6, 6)), 6000),
    "star, 32 agents": (family(lambda _: networks.star(32)), 20000),
    "ring, 32 agents": (family(lambda _: networks.ring(32)), 20000),
    "path, 16 agents": (family(lambda _: networks.path(16)), 20000),
}
REAL: dict[str, tuple[Callable[[int], tuple[Any, Any]], int]] = {
    "OLSR Cora-HA": (cora("HA"), 5000),
    "OLSR Cora-PL": (cora("PL"), 5000),
    "OLSR Cora-DS": (cora("DS"), 30000),
    "SDL MNIST": (mnist, 1000),
}
# Where these have not converged by then, they never have.
HOPELESS = {("plain BB", None): 3000, ("DeEPCA", None): 2000, ("capped BB", "OLSR Cora-DS"): 10000}


def jobs(seeds: list[int], real: bool) -> list[tuple[str, str, int]]:
    """One seed after the other, so that whatever is there is a whole table."""
    names = [*INSTANCES, *(REAL if real else ())]
    return [
        (name, method, seed)
        for seed in seeds
        for name in names
        for method in METHODS
        if not (method == "DeEPCA" and name.startswith(("OLSR", "SDL")))  # it is for PCA only
        and not (method == "momentum on h" and name == "OLSR Cora-DS")  # minutes, and nothing to learn
    ]


def run(name: str, method: str, seed: int) -> dict[str, str]:
    make, limit = (INSTANCES | REAL)[name]
    limit = min(limit, *(HOPELESS.get((method, which), limit) for which in (None, name)))
    problem, network = make(seed)
    algorithm = METHODS[method]()
    per_step = algorithm.on(network).rounds if isinstance(algorithm, DestinyMomentum) else 1
    # Measure about every ten rounds; once the method knows the network, its rounds are a number.
    every = max(1, round(10 / int(per_step)))
    result = destiny.solve(problem, network, algorithm, seed=seed, rounds=limit, every=every)
    if result.interrupted:
        raise SystemExit(f"interrupted by {result.interrupted}: start again to go on")
    outcome = (result.rounds, result.scalars, result.converged, f"{result.measures.worst:.1e}", limit)
    values = (name, method, seed, f"{network.lambda_:.3f}", *outcome)
    return dict(zip(COLUMNS, map(str, values), strict=True))  # as they are read back


def cell(rows: list[dict[str, str]]) -> tuple[str, float | None]:
    """Median (least to most) rounds, how many seeds failed; and the median as a number."""
    if not rows:
        return "", None
    rounds = sorted(int(row["rounds"]) if row["converged"] == "True" else 10**9 for row in rows)
    done = [r for r in rounds if r < 10**9]
    failed = len(rounds) - len(done)
    median = statistics.median_high(rounds)
    if not done:
        worst = statistics.median(float(row["worst"]) for row in rows)
        return f"none of {failed} ({worst:.0e} at {rows[0]['limit']})", None
    text = f"{median:.0f}" if median < 10**9 else "-"
    spread = f" ({done[0]}-{done[-1]})" if len(done) > 1 else ""
    return text + spread + (f", {failed} of {len(rounds)} fail" if failed else ""), (
        median if median < 10**9 else None
    )


def table(rows: list[dict[str, str]]) -> str:
    """One line per instance; ratios of medians, to capped BB and to the best of all."""
    lines = [
        "| instance | lambda | " + " | ".join(METHODS) + " | momentum / capped BB | momentum / best |",
        "|---|---|" + "---|" * (len(METHODS) + 2),
    ]
    for name in dict.fromkeys(row["instance"] for row in rows):
        mine = [row for row in rows if row["instance"] == name]
        cells = {m: cell([row for row in mine if row["method"] == m]) for m in METHODS}
        medians = {m: median for m, (_, median) in cells.items() if median is not None}
        ours = medians.get("momentum")
        lambdas = sorted({row["lambda"] for row in mine})
        ratios = ["-", "-"]
        if ours is not None:
            ratios[1] = f"{ours / min(medians.values()):.2f}"
            if "capped BB" in medians:
                ratios[0] = f"{ours / medians['capped BB']:.2f}"
        span = lambdas[0] if len(lambdas) == 1 else f"{lambdas[0]}-{lambdas[-1]}"
        lines.append(f"| {name} | {span} | " + " | ".join([c for c, _ in cells.values()] + ratios) + " |")
    return "\n".join(lines) + "\n"


def publish(rows: list[dict[str, str]]) -> None:
    """Put the table into docs/acceleration.md."""
    page = DOCS / "acceleration.md"
    head, _, rest = page.read_text(encoding="utf-8").partition("<!-- rounds -->\n")
    _, _, tail = rest.partition("<!-- end -->")
    page.write_text(f"{head}<!-- rounds -->\n{table(rows)}<!-- end -->{tail}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rounds", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--out", type=Path, default=FILE)
    options = parser.parse_args()
    real = "DESTINY_DATA" in os.environ
    if not real:
        print("DESTINY_DATA is not set: the Cora and MNIST instances are left out")
    rows = read(options.out)
    done = {(row["instance"], row["method"], int(row["seed"])) for row in rows}
    todo = [job for job in jobs(options.seeds, real) if job not in done]
    with Progress() as progress:
        bar = progress.add_task("rounds", total=len(todo))
        for job in todo:
            progress.update(bar, description=f"{job[0]}, {job[1]}, seed {job[2]}")
            rows.append(run(*job))
            write(options.out, COLUMNS, rows)
            progress.advance(bar)
    if options.out == FILE:
        publish(rows)
    print(table(rows))


if __name__ == "__main__":
    main()
