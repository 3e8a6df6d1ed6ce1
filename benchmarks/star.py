"""Rounds to 1e-8 on a star with a coordinator: ``python -m benchmarks.star``.

Prints the table of docs/star.md. Constants of faps were chosen on seeds 0 to 3; these are others.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_wine

import destiny
from destiny.algorithms import FAPS, AveragedModel, DestinyAccelerated
from destiny.algorithms.blocks.star import Star
from destiny.geometry.stiefel import qr
from destiny.protocols import AlgorithmBase, Array

SEEDS = range(4, 9)
LIMIT = 5000


@dataclass(frozen=True)
class PowerState:
    X: Array


@dataclass(frozen=True)
class PowerMethod(AlgorithmBase):
    """X+ = qf(mean of C_i X), one round to the center and one back."""

    star: Star | None = None
    kind = "power method"

    def on(self, network: Any) -> "PowerMethod":
        return replace(self, star=Star.of(network, self.kind))

    def init(self, X: Array, agents: Any) -> PowerState:  # noqa: ARG002
        return PowerState(X)

    def step(self, s: PowerState, agents: Any) -> PowerState:
        assert self.star is not None
        mean = self.star.mean(agents, -agents.gradient(s.X))
        return PowerState(qr(self.star.broadcast(agents, mean)))


def synthetic(n: int, m: int, p: int, xi: float, d: int) -> Any:
    return lambda seed: destiny.problems.pca.synthetic(n=n, m=m, p=p, xi=xi, agents=d, seed=seed)


def table(load: Any, p: int) -> Any:
    """Standardized data over eight agents, shuffled."""

    def make(seed: int) -> Any:
        X = load().data
        X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
        order = np.random.default_rng(seed).permutation(len(X))
        return destiny.problems.pca.from_data(X[order], p, 8)

    return make


INSTANCES = {
    "n = 30, 40 samples each, xi 0.8, 8 agents": synthetic(30, 320, 3, 0.8, 8),
    "n = 100, 100 samples each, xi 0.9, 16 agents": synthetic(100, 1600, 5, 0.9, 16),
    "n = 100, 200 samples each, xi 0.95, 16 agents": synthetic(100, 3200, 5, 0.95, 16),
    "n = 150, 50 samples each, xi 0.9, 32 agents": synthetic(150, 1600, 5, 0.9, 32),
    "n = 50, 10 samples each, xi 0.8, 16 agents": synthetic(50, 160, 3, 0.8, 16),
    "wine, p = 3, 8 agents": table(load_wine, 3),
    "digits, p = 5, 8 agents": table(load_digits, 5),
}
METHODS = {
    "`faps`": FAPS(),
    "power method": PowerMethod(),
    "`averaged-model`": AveragedModel(),
    "`destiny-accelerated`": DestinyAccelerated(),
}


def cell(make: Any, method: Any) -> str:
    """Median rounds with least and most, and the failures."""
    rounds, failures = [], 0
    for seed in SEEDS:
        problem = make(seed)
        network = destiny.networks.star(problem.agents)
        result = destiny.solve(problem, network, method, rounds=LIMIT, seed=seed, every=1, progress=False)
        rounds += [result.rounds] * result.converged
        failures += not result.converged
    shown = f"{np.median(rounds):.0f} ({min(rounds)}-{max(rounds)})" if rounds else ""
    return shown + (f" {failures} of {len(SEEDS)} not in {LIMIT}" if failures else "")


if __name__ == "__main__":
    print(f"| instance | {' | '.join(METHODS)} |\n|{'---|' * (1 + len(METHODS))}")
    for name, make in INSTANCES.items():
        print(f"| {name} | {' | '.join(cell(make, method) for method in METHODS.values())} |", flush=True)
