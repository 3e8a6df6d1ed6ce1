"""Predicted against measured rounds on the runs of docs/rounds.csv: ``python -m benchmarks.predictions``.

Nothing is run: the instances are made again and looked at as `destiny.diagnose` does, two minutes in all. The
Cora and MNIST instances need DESTINY_DATA, as in `benchmarks.rounds`.
"""

import os
from collections import defaultdict
from typing import Any

import numpy as np

from benchmarks.rounds import FILE, INSTANCES, METHODS, REAL
from benchmarks.rows import read
from destiny.diagnosis.differences import Differences
from destiny.diagnosis.landscape import survey
from destiny.diagnosis.mixing import Mixing
from destiny.diagnosis.prediction import Case, Prediction, predict
from destiny.experiment import Once
from destiny.stiefel import random_point


def case(name: str, seed: int) -> Case:
    problem, network = (INSTANCES | REAL)[name][0](seed)
    problem = Once(problem)
    X = random_point(*problem.shape, seed)
    landscape = survey(problem, X)
    everybody = problem.host(range(problem.agents))
    return Case(landscape, Differences(everybody, problem.agents, X, landscape.X), Mixing.of(network), 1e-8)


def verdict(told: Prediction, row: dict[str, str]) -> tuple[str, float]:
    """Whether a run bore a prediction out, and measured over predicted where both have a number."""
    converged = row["converged"] == "True"
    if told.rounds is None:
        return ("right: fails" if not converged else "wrong: converged"), np.nan
    ratio = int(row["rounds"]) / told.rounds
    if told.high is None:
        return ("right: at least" if ratio >= 0.5 or not converged else "wrong: at least"), ratio
    if not converged:
        return ("right: not in the rounds allowed" if ratio < 1 else "wrong: fails"), np.nan
    return ("within 2" if 0.5 <= ratio <= 2 else "within 3" if 1 / 3 <= ratio <= 3 else "further off"), ratio


def main() -> None:
    real = "DESTINY_DATA" in os.environ
    cases: dict[tuple[str, int], Case] = {}
    found: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for row in read(FILE):
        key = row["instance"], int(row["seed"])
        if row["instance"] in REAL and not real:
            continue
        if key not in cases:
            cases[key] = case(*key)
        method: Any = METHODS[row["method"]]()
        found[row["method"], row["instance"]].append(verdict(predict(method, cases[key]), row))
    totals: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for (method, instance), told in found.items():
        ratios = [ratio for _, ratio in told if ratio == ratio]
        span = f"measured / predicted {min(ratios):.2f} to {max(ratios):.2f}" if ratios else ""
        print(f"{method:14} {instance:22} {', '.join(sorted({text for text, _ in told}))}: {span}")
        for text, _ in told:
            totals[method][text] += 1
    for method, counts in totals.items():
        print(
            f"{method:14} {sum(counts.values())} runs:",
            ", ".join(f"{n} {t}" for t, n in sorted(counts.items())),
        )


if __name__ == "__main__":
    main()
