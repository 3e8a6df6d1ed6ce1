"""Decentralized PCA on 32 agents: four kinds of DESTINY against DRGTA, DeEPCA and ADSA.

Everything in one process, offline, in under two minutes. Results go to demo/; demo/report.html shows them.
"""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

import destiny
from destiny.algorithms import ADSA, DRGTA, DeEPCA
from destiny.algorithms.blocks.step_sizes import PlainBB
from destiny.experiments import result_folder
from destiny.experiments.compare import reasons, table
from destiny.report import report

OUT = Path("demo")


def main() -> None:
    console = Console(highlight=False)
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    problem = destiny.problems.pca.synthetic(n=300, m=3200, p=10, xi=0.95, agents=32, seed=0)
    network = destiny.networks.erdos_renyi(32, prob=0.4, seed=0)
    console.print(f"{problem.describe()}\n{network}\n", markup=False)
    network.draw(OUT / "network.png")

    methods: dict[str, Any] = {
        "DESTINY": destiny.Destiny(),
        "accelerated": destiny.DestinyAccelerated(),  # DESTINY with momentum
        "averaged": destiny.AveragedModel(),  # with averaged models; solve would choose it here
        "Krylov": destiny.AveragedKrylov(),  # Krylov spaces, for PCA with any n
        "DRGTA": DRGTA(),
        "DRGTA, paper": DRGTA(alpha=1.0, step_size=PlainBB()),  # no bound on steps: it cycles
        "DeEPCA": DeEPCA(),
        "ADSA": ADSA(),
    }
    results = {}
    started = datetime.now(UTC)
    for label, method in methods.items():
        results[label] = destiny.solve(problem, network, method, rounds=2000, label=label)
        result_folder.write(OUT, results)
    result_folder.picture(OUT, results, console.print)
    result_folder.describe(OUT, problem, network, results, seed=0, started=started)
    (page,) = report(OUT)

    console.print(table(results))
    for line in reasons(results):
        console.print(line, markup=False, soft_wrap=True)
    exact = destiny.problems.pca.solution(problem)
    console.print()
    ours = ("DESTINY", "accelerated", "averaged", "Krylov")
    for label in ours:
        angle = destiny.stiefel.subspace_distance(results[label].X, exact)
        cost = f"{results[label].rounds} rounds, {results[label].sent} sent over all links"
        console.print(
            f"{label}: {cost}; angle between its subspace and the SVD of the pooled data {angle:.1e}",
            soft_wrap=True,
        )
    console.print(
        f"written: {', '.join(sorted(str(p) for p in OUT.iterdir()))}", markup=False, soft_wrap=True
    )
    console.print(f"open {page} in a browser", markup=False, soft_wrap=True)
    if not all(results[label].converged for label in ours):
        raise SystemExit("DESTINY did not converge: this should not happen")


if __name__ == "__main__":
    main()
