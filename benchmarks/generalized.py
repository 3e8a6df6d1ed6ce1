"""Rounds to 1e-8 with the constraint X^T M X = I: ``python -m benchmarks.generalized``.

Prints the table of docs/generalized.md. Constants of cdadt were chosen on seeds 0 to 3; these are others.
"""

from typing import Any

import numpy as np

import destiny
from destiny import networks
from destiny.algorithms import CDADT
from destiny.problems import Generalized

SEEDS = range(10, 15)
LIMIT = 4000


def instance(n: int, p: int, agents: int, condition: float, samples: int, network: Any) -> Any:
    """PCA of 20 samples an agent, eigenvalues 0.8^k, and M from ``samples`` of noise at each agent."""

    def make(seed: int) -> tuple[Any, Any]:
        rng = np.random.default_rng(seed)
        problem = destiny.problems.pca.synthetic(n=n, m=20 * agents, p=p, xi=0.8, agents=agents, seed=seed)
        sizes = condition ** (-np.arange(n) / (n - 1) / 2)
        Q = np.linalg.qr(rng.standard_normal((n, n)))[0] * sizes
        noise = [Q @ rng.standard_normal((n, samples)) for _ in range(agents)]
        M = [A @ A.T / (samples * agents) for A in noise]
        return Generalized(problem, M), network(seed)

    return make


INSTANCES = {
    "random, 16 agents, condition 1": instance(
        20, 3, 16, 1, 80, lambda seed: networks.erdos_renyi(16, prob=0.5, seed=seed)
    ),
    "random, 16 agents, condition 10": instance(
        20, 3, 16, 10, 80, lambda seed: networks.erdos_renyi(16, prob=0.5, seed=seed)
    ),
    "the same, singular M_i": instance(
        40, 3, 16, 10, 10, lambda seed: networks.erdos_renyi(16, prob=0.3, seed=seed)
    ),
    "ring, 16 agents, condition 10": instance(20, 3, 16, 10, 80, lambda _: networks.ring(16)),
    "star, 16 agents, condition 10": instance(20, 3, 16, 10, 80, lambda _: networks.star(16)),
}
METHODS = {"`cdadt`": CDADT(), "without momentum": CDADT(momentum=False)}


def cell(make: Any, method: Any) -> str:
    """Median rounds with least and most, and the failures."""
    rounds, worst = [], []
    for seed in SEEDS:
        problem, network = make(seed)
        result = destiny.solve(problem, network, method, rounds=LIMIT, seed=seed, progress=False)
        if result.converged:
            rounds.append(result.rounds)
        else:
            worst.append(result.measures.worst)
    shown = f"{np.median(rounds):.0f} ({min(rounds)}-{max(rounds)})" if rounds else ""
    missed = f"{len(worst)} of {len(SEEDS)} at {max(worst):.0e} or less" if worst else ""
    return ", ".join(filter(None, (shown, missed)))


if __name__ == "__main__":
    print(f"| network, condition of M | {' | '.join(METHODS)} |\n|{'---|' * (1 + len(METHODS))}")
    for name, make in INSTANCES.items():
        print(f"| {name} | {' | '.join(cell(make, method) for method in METHODS.values())} |", flush=True)
