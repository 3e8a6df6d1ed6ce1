"""Predicted against measured rounds: ``python -m benchmarks.predictions``.

Two sets: the runs of docs/rounds.csv, whose instances are rebuilt and examined as `destiny.diagnose`
does; and PCA of scikit-learn's tables on small networks, run here, from the start the doctor tried and from
another one. An hour on one core; ``--tables`` or ``--seeds 4`` takes a part. The Cora and MNIST instances
need DESTINY_DATA, as in `benchmarks.rounds`. The constants of `destiny.diagnosis.trial` were chosen on these
tables from starts 0 to 19; here are other starts, and in docs/rounds.csv other problems.
"""

import argparse
import os
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn import datasets
from threadpoolctl import threadpool_limits

import destiny
from benchmarks.rounds import BENCHMARK, INSTANCES, METHODS, REAL
from benchmarks.rows import read
from destiny import networks
from destiny.algorithms import DeEPCA, Destiny, DestinyAccelerated
from destiny.diagnosis.differences import Differences
from destiny.diagnosis.landscape import descend_and_probe
from destiny.diagnosis.network_options import Mixing
from destiny.diagnosis.prediction import Case, Prediction
from destiny.diagnosis.trial import Trials
from destiny.geometry.stiefel import random_point
from destiny.problems.cached import CachedProblem

TOLERANCE = 1e-8
LIMIT = 3000  # rounds of a run on a table
TABLES = ("iris", "wine", "breast_cancer", "digits")
NETWORKS = {
    "ring of 8": networks.ring(8),
    "random of 10": networks.erdos_renyi(10, prob=0.5, seed=3),
    "path of 6": networks.path(6),
    "star of 8": networks.star(8),
    "complete of 5": networks.complete(5),
    "grid 3 x 4": networks.grid(3, 4),
}
Row = tuple[str, str, str, Prediction, int | None]
"""Set, method, instance, the prediction, and the rounds measured (None if the run did not converge)."""


def trials_on(problem: Any, network: Any, seed: int) -> Trials:
    problem = CachedProblem(problem)
    n, p = problem.shape
    X = random_point(n, p, seed)
    landscape = descend_and_probe(problem, X)
    differences = Differences(problem.host(range(problem.agents)), problem.agents, X, landscape.X)
    case = Case(landscape, differences, Mixing.of(network), TOLERANCE)
    return Trials(problem, network, np.broadcast_to(X, (problem.agents, *X.shape)), case)


def of_file(seeds: list[int] | None) -> Iterator[Row]:
    """The runs of docs/rounds.csv."""
    trials: dict[tuple[str, int], Trials] = {}
    for row in read(BENCHMARK.file):
        name, seed = row["instance"], int(row["seed"])
        if (name in REAL and "DESTINY_DATA" not in os.environ) or (seeds and seed not in seeds):
            continue
        if (name, seed) not in trials:
            trials[name, seed] = trials_on(*(INSTANCES | REAL)[name][0](seed), seed)
        predicted = trials[name, seed].predict(METHODS[row["method"]]())
        yield (
            BENCHMARK.file.name,
            row["method"],
            name,
            predicted,
            int(row["rounds"]) if row["converged"] == "True" else None,
        )


def of_tables() -> Iterator[Row]:
    """PCA of real tables, rows shuffled or sorted by class, columns as they are or of equal spread."""
    for number, (table, ordered, scaled) in enumerate(
        (t, o, s) for t in TABLES for o in (False, True) for s in (False, True)
    ):
        data, labels = getattr(datasets, f"load_{table}")(return_X_y=True)
        rows = (
            np.argsort(labels, kind="stable")
            if ordered
            else np.random.default_rng(0).permutation(len(labels))
        )
        A = data[rows] - data.mean(axis=0)
        A /= np.where((spread := A.std(axis=0)) > 0, spread, 1.0) if scaled else 1.0
        for k in range(2):
            label, network = list(NETWORKS.items())[(number + k) % len(NETWORKS)]
            problem = CachedProblem(destiny.problems.pca.from_data(A, 2, network.agents))
            trials = trials_on(problem, network, seed=200 + number)
            name = f"{table}{', sorted' * ordered}{', scaled' * scaled}, {label}"
            for method in (DestinyAccelerated(), Destiny(), DeEPCA()):
                predicted = trials.predict(method)
                for start, seed in (("same start", 200 + number), ("another start", 300 + number)):
                    rounds = measured(problem, network, method, seed, predicted)
                    yield f"tables, {start}", method.kind, name, predicted, rounds


def measured(problem: Any, network: Any, method: Any, seed: int, predicted: Prediction) -> int | None:
    """Rounds of a run; there is none where nothing was predicted."""
    if predicted.rounds is None and predicted.outlook != "hopeless":
        return None
    result = destiny.solve(problem, network, method, seed=seed, rounds=LIMIT, progress=False)
    return result.rounds if result.converged else None


def verdict(predicted: Prediction, rounds: int | None) -> str:
    """Whether a run bore a prediction out."""
    if predicted.rounds is None:
        if predicted.outlook != "hopeless":
            return "cannot tell"
        return "failure foretold" if rounds is None else "WRONG"
    if rounds is None:  # not in the rounds allowed
        return "cannot be checked" if predicted.rounds > LIMIT / 2 else "WRONG"
    return "within 2" if predicted.rounds / 2 <= rounds <= 2 * predicted.rounds else "WRONG"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.predictions", description=__doc__)
    parser.add_argument("--tables", action="store_true", help="scikit-learn's tables only")
    parser.add_argument("--seeds", type=int, nargs="+", help="of docs/rounds.csv only, these seeds")
    options = parser.parse_args()
    totals: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    with threadpool_limits(1):
        for source in (
            () if options.tables else of_file(options.seeds),
            () if options.seeds else of_tables(),
        ):
            for group, method, name, predicted, rounds in source:
                word = verdict(predicted, rounds)
                totals[group, method][word] += 1
                ends = "-" if rounds is None else rounds
                print(f"{group:14} {method:16} {name:40} {predicted.rounds} {ends} {word}", flush=True)
    for (group, method), counts in totals.items():
        runs = sum(counts.values())
        shares = ", ".join(f"{n} {word} ({n / runs:.0%})" for word, n in sorted(counts.items()))
        print(f"{group}, {method}: {runs} runs, {shares}")


if __name__ == "__main__":
    main()
