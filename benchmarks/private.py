"""Private messages against plain ones at the sizes of the paper: rounds, 64-bit words sent, seconds.

    python -m benchmarks.private [FILE]

Each case takes up to a few minutes; with FILE a benchmark that was interrupted goes on where it was.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import destiny
from destiny import networks, problems
from destiny.protocols import Problem, Topology

TOLERANCES = (1e-8, 1e-10)


def pca() -> Problem:
    return problems.pca.synthetic(n=300, m=3200, p=5, xi=0.9, agents=32, seed=4)


def sdl() -> Problem:
    return problems.sdl.from_data(np.random.default_rng(4).standard_normal((30, 600)).T, 2, 8)


def olsr() -> Problem:
    return problems.olsr.synthetic(n=100, m=3200, p=5, agents=32, seed=4)


CASES: dict[str, tuple[Callable[[], Problem], Callable[[], Topology]]] = {
    "PCA, ER .2": (pca, lambda: networks.erdos_renyi(32, prob=0.2, seed=4)),
    "PCA, ER .4": (pca, lambda: networks.erdos_renyi(32, prob=0.4, seed=4)),
    "PCA, ring-32": (pca, lambda: networks.ring(32)),
    "SDL, ring-8": (sdl, lambda: networks.ring(8)),
    "OLSR, ER .4": (olsr, lambda: networks.erdos_renyi(32, prob=0.4, seed=4)),
}
METHODS = {
    "newton": destiny.AveragedModel,
    "quasi-Newton": destiny.AveragedLBFGS,
}


def measure(case: str, method: str, tolerance: float, private: bool) -> dict[str, Any]:
    problem, network = (make() for make in CASES[case])
    found = destiny.solve(
        problem,  # type: ignore[arg-type]
        network,  # type: ignore[arg-type]
        METHODS[method](),
        tolerance=tolerance,
        every=1,
        messages="private" if private else "plain",
    )
    return {
        "rounds": found.rounds,
        "words": found.scalars,
        "seconds": found.seconds,
        "converged": found.converged,
    }


def main(path: Path | None) -> None:
    known: dict[str, Any] = {} if path is None or not path.exists() else json.loads(path.read_text())
    header = f"{'':40}{'rounds':>8}{'private':>9}{'words':>10}{'private':>9}{'ms/round':>10}{'private':>9}"
    print(header)
    for case in CASES:
        for method in METHODS:
            if case.startswith("SDL") and method == "newton":  # for quadratic objectives
                continue
            for tolerance in TOLERANCES:
                results = []
                for private in (False, True):
                    key = f"{case} | {method} | {tolerance:g} | {private}"
                    if key not in known:
                        known[key] = measure(case, method, tolerance, private)
                        if path is not None:
                            path.write_text(json.dumps(known, indent=1))
                    results.append(known[key])
                marks = ["" if r["converged"] else "!" for r in results]
                plain, sums = results
                times = [1000 * r["seconds"] / r["rounds"] for r in results]
                print(
                    f"{case + ', ' + method + f', {tolerance:g}':40}{str(plain['rounds']) + marks[0]:>8}"
                    f"{str(sums['rounds']) + marks[1]:>9}{plain['words']:>10.2e}{sums['words']:>9.2e}"
                    f"{times[0]:>10.2f}{times[1]:>9.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
