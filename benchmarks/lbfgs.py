"""Rounds and numbers sent to 1e-8 by quasi-Newton steps: ``python -m benchmarks.lbfgs``.

Writes docs/lbfgs.csv after every run and the table in docs/averaged-lbfgs.md at the end. What the file has
already is not run again. Instances of real data need DESTINY_DATA. Momentum on those of `benchmarks.rounds`
is read from docs/rounds.csv (seeds 4 to 8).
"""

import statistics
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import destiny
from benchmarks import rounds as others
from benchmarks.images import Instance
from benchmarks.rows import DOCS, Benchmark, read, require_done
from destiny import networks
from destiny.algorithms import AveragedLBFGS, DestinyAccelerated
from destiny.problems import custom, olsr, sdl

COLUMNS = ("instance", "method", "seed", "steps", "rounds", "matrices", "converged", "worst")
SEEDS = range(14, 24)  # the constants were chosen on seeds 0 and 1
FEW = 3  # seeds of momentum, and of private messages
LIMIT = 30_000  # rounds
Network = Callable[[int], Any]


def random(prob: float) -> Network:
    return lambda seed: networks.erdos_renyi(32, prob=prob, seed=seed)


def dictionary(p: int, network: Network) -> Instance:
    """A planted dictionary, n = 30, 100 samples an agent."""

    def make(seed: int) -> tuple[Any, Any]:
        net = network(seed)
        return sdl.synthetic(n=30, m=100 * net.agents, p=p, agents=net.agents, seed=seed), net

    return make


def regression(seed: int) -> tuple[Any, Any]:
    """More features than averaged models are sent for; their sizes fall by the factor 100."""
    rng = np.random.default_rng(seed)
    n, m, p, agents = 1200, 3200, 5, 16
    C = rng.standard_normal((n, m)) * np.geomspace(1, 0.01, n)[:, None] / np.sqrt(m)
    X = np.linalg.qr(rng.standard_normal((n, p)))[0]
    D = X.T @ C + 0.1 / np.sqrt(m) * rng.standard_normal((p, m))
    return olsr.from_data(C.T, D.T, agents), networks.erdos_renyi(agents, prob=0.4, seed=seed)


def logarithms(network: Network) -> Instance:
    """The objective of docs/your-own-objective.md with n = 40, p = 4, and agents of different spread."""

    def value(X: Any, A: Any) -> float:
        return float(-0.5 * np.sum(np.log1p(np.sum((A @ X) ** 2, axis=1))))

    def gradient(X: Any, A: Any) -> Any:
        Y = A @ X
        return -A.T @ (Y / (1 + np.sum(Y**2, axis=1, keepdims=True)))

    def make(seed: int) -> tuple[Any, Any]:
        net, rng = network(seed), np.random.default_rng(seed)
        spread = 0.95 ** np.arange(40)
        silos = [rng.standard_normal((60, 40)) * spread * (1 + i % 4) for i in range(net.agents)]
        return custom.problem(value, gradient, data=silos, shape=(40, 4)), net

    return make


def quartic(seed: int) -> tuple[Any, Any]:
    """tr(N X^T A_i X) / 2 + ||X||_4^4 / 4 with N = diag(1, ..., 5): columns that weigh differently."""
    rng, N = np.random.default_rng(seed), np.arange(1.0, 6)
    matrices = [rng.standard_normal((50, 50)) + np.diag(np.arange(50.0)) for _ in range(16)]

    def value(X: Any, A: Any) -> float:
        return float(np.sum(X * (A @ X + A.T @ X) * N) / 4 + np.sum(X**4) / 4)

    def gradient(X: Any, A: Any) -> Any:
        return (A @ X + A.T @ X) * N / 2 + X**3

    problem = custom.problem(value, gradient, data=matrices, shape=(50, 5))
    return problem, networks.erdos_renyi(16, prob=0.4, seed=seed)


@cache
def digits() -> Any:
    return destiny.datasets.mnist().data[::6]


def mnist(seed: int) -> tuple[Any, Any]:
    """10,000 digits."""
    problem = sdl.from_data(digits(), p=5, agents=32, scale=1 / 255)
    return problem, networks.erdos_renyi(32, prob=0.5, seed=seed)


KNOWN = ("Figure 3, prob .4", "grid 6 x 6", "star, 32 agents", "ring, 32 agents")
KNOWN_REAL = ("OLSR Cora-HA", "OLSR Cora-PL", "OLSR Cora-DS", "SDL MNIST")
NEW: dict[str, Instance] = {
    "SDL, p = 1": dictionary(1, random(0.4)),
    "SDL, p = 3": dictionary(3, random(0.4)),
    "SDL, p = 10": dictionary(10, random(0.4)),
    "SDL, p = 3, grid 6 x 6": dictionary(3, lambda _: networks.grid(6, 6)),
    "SDL, p = 3, star": dictionary(3, lambda _: networks.star(32)),
    "SDL, p = 3, ring": dictionary(3, lambda _: networks.ring(32)),
    "logarithms": logarithms(random(0.4)),
    "logarithms, star": logarithms(lambda _: networks.star(32)),
    "logarithms, ring": logarithms(lambda _: networks.ring(32)),
    "quartic, weighted columns": quartic,
    "OLSR, n = 1200": regression,
}
REAL: dict[str, Instance] = {"SDL MNIST, p = 5": mnist}


def jobs(seeds: list[int], real: bool) -> list[tuple[str, str, int]]:
    """Lighter ones first; momentum, and private messages, on few seeds."""
    known, new = [*KNOWN, *(KNOWN_REAL if real else ())], [*NEW, *(REAL if real else ())]
    few = seeds[:FEW]
    return (
        [(name, "lbfgs", seed) for seed in few for name in [*new, *known]]
        + [(name, "momentum", seed) for seed in few for name in new]
        + [(name, "private", seed) for seed in few for name in NEW]
        + [(name, "lbfgs", seed) for seed in seeds[FEW:] for name in [*new, *known]]
    )


def run(name: str, method: str, seed: int) -> tuple[object, ...]:
    instances = {key: make for key, (make, _) in (others.INSTANCES | others.REAL).items()} | NEW | REAL
    problem, network = instances[name](seed)
    algorithm = DestinyAccelerated() if method == "momentum" else AveragedLBFGS()
    every = max(1, round(10 / algorithm.on(network).rounds_per_step))
    messages = "private" if method == "private" else "plain"
    result = destiny.solve(
        problem,
        network,
        algorithm,
        seed=seed,
        rounds=LIMIT,
        every=every,
        messages=messages,
        progress=False,
    )
    require_done(result.interrupted)
    n, p = problem.shape
    matrices = result.scalars / (2 * len(network.edges) * n * p)
    worst = f"{result.measures.worst:.1e}"
    return result.steps, result.rounds, f"{matrices:.0f}", result.converged, worst


def cell(rows: list[dict[str, str]]) -> tuple[str, float]:
    """Median (least to most) rounds in words, and as a number."""
    rounds = sorted(int(row["rounds"]) if row["converged"] == "True" else 10**9 for row in rows)
    done = [r for r in rounds if r < 10**9]
    if not rounds:
        return "", float("nan")
    if not done:
        worst = statistics.median(float(row["worst"]) for row in rows)
        return f"none of {len(rows)} ({worst:.0e})", float("inf")
    median = statistics.median_high(rounds)
    failed = f", {len(rounds) - len(done)} of {len(rounds)} fail" if len(done) < len(rounds) else ""
    text = f"{median if median < 10**9 else '-'} ({done[0]}-{done[-1]}){failed}"
    return text, median if median < 10**9 else float("inf")


def middle(rows: list[dict[str, str]], column: str) -> str:
    numbers = [float(row[column]) for row in rows if row["converged"] == "True"]
    return f"{statistics.median_high(numbers):.0f}" if numbers else "-"


def table(rows: list[dict[str, str]]) -> str:
    """One line per instance: medians."""
    lines = [
        "| instance | evaluations | rounds | rounds, private | momentum | rounds / momentum | "
        "matrices sent | momentum |",
        "|---|---|---|---|---|---|---|---|",
    ]
    before = [row for row in read(others.BENCHMARK.file) if row["method"] == "momentum"]
    for name in [*KNOWN, *KNOWN_REAL, *NEW, *REAL]:
        ours, private, rival = (
            [row for row in rows if (row["instance"], row["method"]) == (name, method)]
            for method in ("lbfgs", "private", "momentum")
        )
        if not ours:
            continue
        past = rival or [row for row in before if row["instance"] == name]
        (text, median), (theirs, other) = cell(ours), cell(past)
        # Momentum sends two matrices in a round, and three numbers.
        sent = middle(rival, "matrices") if rival else f"{2 * other:.0f}" if other < float("inf") else "-"
        lines.append(
            f"| {name} | {middle(ours, 'steps')} | {text} | {cell(private)[0]} | {theirs} | "
            f"{median / other:.2f} | {middle(ours, 'matrices')} | {sent} |"
        )
    return "\n".join(lines) + "\n"


BENCHMARK = Benchmark(
    "lbfgs", __doc__, DOCS / "averaged-lbfgs.md", COLUMNS, COLUMNS[:3], SEEDS, jobs, run, table
)


if __name__ == "__main__":
    BENCHMARK.main()
