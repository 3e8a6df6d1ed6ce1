"""Rounds every method needs on the paper's Figure 3, with its defaults: ``python -m benchmarks.methods``.

Writes docs/methods.csv, from which docs/methods.py makes a table. What the file has already is
not run again: delete the file to start anew.
"""

from pathlib import Path

import destiny
from benchmarks.rows import read, write
from destiny.algorithms import DRGTA, METHODS
from destiny.algorithms.blocks.step_sizes import PlainBB

FILE = Path(__file__).parents[1] / "docs" / "methods.csv"
COLUMNS = ("kind", "prob", "lambda", "rounds", "scalars", "converged", "worst")
ROUNDS = 3000


def main() -> None:
    rows = read(FILE)
    done = {(row["kind"], row["prob"]) for row in rows}
    problem = destiny.problems.pca.synthetic(n=300, m=3200, p=10, xi=0.95, agents=32, seed=0)
    methods = {m.kind: m() for m in METHODS if not {"alone", "star"} & m.about.traits}  # a star: docs/star.md
    methods["drgta, as in the paper"] = DRGTA(alpha=1.0, step_size=PlainBB())
    networks = {
        prob: destiny.networks.erdos_renyi(32, prob=float(prob), seed=0) for prob in ("0.2", "0.4", "0.6")
    }
    for kind, method in methods.items():
        for prob, network in networks.items():
            if (kind, prob) in done:
                continue
            result = destiny.solve(problem, network, method, rounds=ROUNDS, label=f"{kind} {prob}")
            if result.interrupted:
                raise SystemExit(f"interrupted by {result.interrupted}: start again to go on")
            outcome = (result.rounds, result.scalars, result.converged, f"{result.measures.worst:.3e}")
            values = (kind, prob, f"{network.lambda_:.4f}", *outcome)
            rows.append(dict(zip(COLUMNS, map(str, values), strict=True)))
            write(FILE, COLUMNS, rows)
            print(*rows[-1].values(), flush=True)


if __name__ == "__main__":
    main()
