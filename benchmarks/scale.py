"""Many agents: time per step from 1,000 to 10,000, and memory at 100,000."""

from __future__ import annotations

import resource

import numpy as np

import destiny
from benchmarks.timing import best, report
from destiny.engines import Local


def problem(agents: int):
    """PCA with n = 20, p = 2 and 5 samples an agent."""
    return destiny.problems.pca.from_data(
        np.random.default_rng(0).standard_normal((20, 5 * agents)).T, 2, agents
    )


def stepper(network):
    """A function that takes one step."""
    algorithm = destiny.Destiny()
    team = Local(1).connect(problem(network.agents), network)
    X = np.repeat(destiny.stiefel.random_point(20, 2)[None], network.agents, 0)
    parts = team.each(algorithm.init, team.split(X))

    def step():
        nonlocal parts
        parts = team.each(algorithm.step, parts)

    return step


def main() -> None:
    for name, make in {
        "ring": destiny.networks.ring,
        "4-regular": lambda d: destiny.networks.random_regular(d, 4, seed=0),
    }.items():
        seconds = best({str(d): stepper(make(d)) for d in (1000, 10_000)}, repeats=7, calls=5)
        report(f"{name}, 10,000 agents", seconds["10000"] / seconds["1000"], 12, "1,000 agents")
    ring = destiny.networks.ring(100_000)
    result = destiny.solve(problem(100_000), ring, "destiny-accelerated", rounds=40, every=0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    report(f"ring of 100,000 agents, {result.steps} steps: peak memory", peak, 4, "1 GiB")


if __name__ == "__main__":
    main()
