"""A DESTINY step against its bare gradient, and two worker threads against one (paper size)."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

import destiny
from benchmarks.timing import best, report
from destiny.engines import Local


def stepper(problem, network, threads: int, algorithm):
    """A function that takes one step of a running DESTINY."""
    algorithm = algorithm.on(network) if hasattr(algorithm, "on") else algorithm
    team = Local(threads).connect(problem, network)
    parts = team.each(
        algorithm.init, team.split(np.repeat(destiny.stiefel.random_point(300, 10)[None], 32, 0))
    )

    def step():
        nonlocal parts
        parts = team.each(algorithm.step, parts)

    return step


def main() -> None:
    problem = destiny.problems.pca.synthetic(n=300, m=3200, p=10, xi=0.95, agents=32, seed=0)
    network = destiny.networks.erdos_renyi(32, prob=0.4, seed=0)
    rng = np.random.default_rng(0)
    A, Y = rng.standard_normal((32, 300, 100)), rng.standard_normal((32, 300, 10))
    with threadpool_limits(1):
        one = stepper(problem, network, 1, destiny.Destiny())
        tasks = {
            "gradient": lambda: A @ (A.transpose(0, 2, 1) @ Y),
            "one": one,
            "two": stepper(problem, network, 2, destiny.Destiny()),
        }
        seconds = best(
            tasks, repeats=200, calls=1
        )  # many short ones: on a shared machine some are left alone
        accelerated = stepper(problem, network, 1, destiny.DestinyAccelerated())
        both = best({"one": one, "accelerated": accelerated}, calls=20)  # one of them looks at the curvature
    print(f"bare gradient {1e3 * seconds['gradient']:.2f} ms, step {1e3 * seconds['one']:.2f} ms")
    report("step with BB, one thread", seconds["one"] / seconds["gradient"], 1.7, "the batched A_i (A_i^T Y)")
    report("accelerated step, one thread", both["accelerated"] / both["one"], 1.3, "the step with BB")
    report("step, two worker threads", seconds["two"] / seconds["one"], 0.65, "the one-thread step")


if __name__ == "__main__":
    main()
