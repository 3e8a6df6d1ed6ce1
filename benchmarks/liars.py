"""Errors of honest agents whose neighbors lie: ``python -m benchmarks.liars``.

Writes docs/liars.csv after every run and the table in docs/byzantine.md at the end. What the file has already
is not run again: delete it to start anew. About ten minutes on one core; ``--seeds 0 1`` are those on which
the default method for clipped messages was chosen.
"""

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

import destiny
from benchmarks.rows import DOCS, Benchmark, require_done
from destiny import networks
from destiny.algorithms import DGD, DestinyAccelerated
from destiny.engines import Local
from destiny.extensions import byzantine
from destiny.extensions.byzantine.attacks import ATTACKS, Byzantine
from destiny.geometry import stiefel

COLUMNS = ("instance", "method", "clip", "attack", "seed", "error", "consensus", "rounds")
SEEDS = (4, 5, 6)
ROUNDS = 500  # errors with clipping do not change any more
NOBODY = "nobody lies"
METHODS: dict[str, Callable[[], Any]] = {
    "dgd": lambda: DGD(direction="landing"),
    "destiny-accelerated": DestinyAccelerated,
}


def pca(agents: int, different: bool) -> Callable[[int], Any]:
    """PCA with 100 samples an agent; different agents see different features larger."""

    def make(seed: int) -> Any:
        A = np.random.default_rng(seed).standard_normal((30, 100 * agents)) * 0.85 ** np.arange(30)[:, None]
        parts = np.split(A, agents, axis=1)
        if different:
            weights = [np.where((np.arange(30) + k) % 3 == 0, 1.5, 0.8) for k in range(agents)]
            parts = [w[:, None] * part for w, part in zip(weights, parts, strict=True)]
        return destiny.problems.PCA([a.T for a in parts], 3)

    return make


# name: (problem, probability of a link, liars)
INSTANCES: dict[str, tuple[Callable[[int], Any], float, tuple[int, ...]]] = {
    "one liar of 16": (pca(16, False), 0.5, (3,)),
    "one liar of 16, agents differ": (pca(16, True), 0.5, (3,)),
    "two liars of 20": (pca(20, False), 0.7, (3, 11)),
}


def connected_enough(agents: int, prob: float, least: int, seed: int) -> Any:
    """The first Erdos-Renyi network from a seed on in which everybody has so many neighbors."""
    for again in range(1000):
        network = networks.erdos_renyi(agents, prob=prob, seed=seed + 1000 * again)
        if np.bincount(network.edges.ravel(), minlength=agents).min() >= least:
            return network
    raise SystemExit(f"no network of {agents} agents with {least} neighbors each was found")


def run(name: str, method: str, clip: int, attack: str, seed: int) -> tuple[object, ...]:
    make, prob, liars = INSTANCES[name]
    problem = make(seed)
    network = connected_enough(problem.agents, prob, 2 * len(liars) + 1, seed)
    result = destiny.solve(
        problem,
        network,
        METHODS[method](),
        seed=seed,
        rounds=ROUNDS,
        every=50,
        engine=Local(1) if attack == NOBODY else Byzantine(liars, attack, seed),
        messages=byzantine.Clipped(len(liars)) if clip and liars else "plain",
        progress=False,
    )
    require_done(result.interrupted)
    honest = np.delete(result.agents, liars, axis=0)
    error = consensus = np.inf
    if np.isfinite(honest).all():
        mean = honest.mean(axis=0)
        known = destiny.problems.pca.solution(problem)
        error = float(stiefel.subspace_distance(stiefel.polar(mean), known))
        consensus = float(np.sqrt(np.mean(stiefel.norm(honest - mean) ** 2)))
    return f"{error:.1e}", f"{consensus:.1e}", result.rounds


def cell(rows: list[dict[str, str]]) -> str:
    """Median and largest error over the seeds; how many runs diverged."""
    errors = [float(row["error"]) for row in rows]
    finite = [e for e in errors if np.isfinite(e)]
    if not errors:
        return ""
    if not finite:
        return "diverges"
    lost = f", {len(errors) - len(finite)} of {len(errors)} diverge" if len(finite) < len(errors) else ""
    return f"{statistics.median(finite):.1g} ({max(finite):.1g}){lost}"


def table(rows: list[dict[str, str]]) -> str:
    """One line per instance, method and kind of mixing."""
    attacks = [NOBODY, *ATTACKS]
    lines = [
        "| instance | method | messages | " + " | ".join(attacks) + " |",
        "|---" * (3 + len(attacks)) + "|",
    ]
    for name in INSTANCES:
        for method in METHODS:
            for clip, how in (("0", "plain"), ("1", f"clip = {len(INSTANCES[name][2])}")):
                mine = [r for r in rows if (r["instance"], r["method"], r["clip"]) == (name, method, clip)]
                cells = [cell([r for r in mine if r["attack"] == attack]) for attack in attacks]
                lines.append(f"| {name} | `{method}` | {how} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def jobs(seeds: list[int], real: bool) -> list[tuple[str, str, int, str, int]]:  # noqa: ARG001
    return [
        (name, method, clip, attack, seed)
        for seed in seeds
        for name in INSTANCES
        for method in METHODS
        for clip in (0, 1)
        for attack in (NOBODY, *ATTACKS)
    ]


BENCHMARK = Benchmark("liars", __doc__, DOCS / "byzantine.md", COLUMNS, COLUMNS[:5], SEEDS, jobs, run, table)


if __name__ == "__main__":
    BENCHMARK.main()
