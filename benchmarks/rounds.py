"""Rounds to 1e-8 of DESTINY, plain and accelerated, over the whole test set: ``python -m benchmarks.rounds``.

Writes docs/rounds.csv after every run and the table in docs/acceleration.md at the end. What the file has
already is not run again: delete it to start anew. The Cora and MNIST instances need DESTINY_DATA, a folder
with the official files; without it they are left out. Some 40 minutes on one core; ``--seeds`` takes others.
"""

import statistics
from collections.abc import Callable
from typing import Any

import destiny
from benchmarks.images import IMAGES, Instance
from benchmarks.rows import DOCS, Benchmark, Row, require_done
from destiny import networks
from destiny.algorithms import DeEPCA, Destiny, DestinyAccelerated
from destiny.algorithms.blocks.step_sizes import PlainBB

COLUMNS = ("instance", "method", "seed", "lambda", "rounds", "scalars", "converged", "worst", "limit")
METHODS: dict[str, Callable[[], Any]] = {
    "capped BB": Destiny,
    "plain BB": lambda: Destiny(step_size=PlainBB()),
    "momentum": DestinyAccelerated,
    "momentum on h": lambda: DestinyAccelerated(direction="h"),
    "DeEPCA": DeEPCA,
}
SEEDS = range(4, 9)  # the constants of the accelerated method were chosen on seeds 0 to 3
SLOW = {"capped BB", "plain BB", "momentum on h"}  # for comparison: not on images, where they take minutes


def figure_3(prob: float, scale: float = 1.0) -> Instance:
    def make(seed: int) -> tuple[Any, Any]:
        problem = destiny.problems.pca.synthetic(300, 3200, 10, 0.95, agents=32, seed=seed, scale=scale)
        return problem, networks.erdos_renyi(32, prob=prob, seed=seed)

    return make


def family(network: Callable[[int], Any]) -> Instance:
    def make(seed: int) -> tuple[Any, Any]:
        net = network(seed)
        d = net.agents
        return destiny.problems.pca.synthetic(100, 100 * d, 5, 0.9, agents=d, seed=seed), net

    return make


def cora(name: str) -> Instance:
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
INSTANCES: dict[str, tuple[Instance, int]] = {
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
REAL: dict[str, tuple[Instance, int]] = {
    "OLSR Cora-HA": (cora("HA"), 5000),
    "OLSR Cora-PL": (cora("PL"), 5000),
    "OLSR Cora-DS": (cora("DS"), 30000),
    "SDL MNIST": (mnist, 1000),
    **{f"PCA {name}": (make, 3000) for name, make in IMAGES.items()},
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
        if applies(name, method)
    ]


def applies(name: str, method: str) -> bool:
    """Whether a method takes an instance, and is run on it."""
    if name.startswith("PCA") and method in SLOW:
        return False
    if name == "OLSR Cora-DS" and method == "momentum on h":
        return False  # minutes, and nothing to learn
    return not (name.startswith(("SDL", "OLSR")) and method == "DeEPCA")


def run(name: str, method: str, seed: int) -> tuple[object, ...]:
    make, limit = (INSTANCES | REAL)[name]
    limit = min(limit, *(HOPELESS.get((method, which), limit) for which in (None, name)))
    problem, network = make(seed)
    algorithm = METHODS[method]()
    # Measure about every ten rounds; once the method knows the network, its rounds are a number.
    every = max(1, round(10 / int(algorithm.on(network).rounds_per_step)))
    result = destiny.solve(problem, network, algorithm, seed=seed, rounds=limit, every=every, progress=False)
    require_done(result.interrupted)
    outcome = (result.rounds, result.scalars, result.converged, f"{result.measures.worst:.1e}", limit)
    return f"{network.lambda_:.3f}", *outcome


def cell(rows: list[Row]) -> tuple[str, float | None]:
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


def table(rows: list[Row]) -> str:
    """One line per instance, of rounds with their ratios of medians."""
    lines = [
        "| instance | lambda | " + " | ".join(METHODS) + " | momentum / capped BB |",
        "|---|---|" + "---|" * (len(METHODS) + 1),
    ]
    for name in [name for name in [*INSTANCES, *REAL] if any(row["instance"] == name for row in rows)]:
        mine = {m: [r for r in rows if (r["instance"], r["method"]) == (name, m)] for m in METHODS}
        cells = {m: cell(of_method) for m, of_method in mine.items()}
        ours, paper = cells["momentum"][1], cells["capped BB"][1]
        ratio = "-" if ours is None or paper is None else f"{ours / paper:.2f}"
        lambdas = sorted({row["lambda"] for of_method in mine.values() for row in of_method})
        span = lambdas[0] if len(lambdas) == 1 else f"{lambdas[0]}-{lambdas[-1]}"
        lines.append(f"| {name} | {span} | {' | '.join([*(c for c, _ in cells.values()), ratio])} |")
    return "\n".join(lines) + "\n"


BENCHMARK = Benchmark(
    "rounds", __doc__, DOCS / "acceleration.md", COLUMNS, COLUMNS[:3], SEEDS, jobs, run, table
)


if __name__ == "__main__":
    BENCHMARK.main()
