"""Print what each solver paid in the newest results: ``python benchopt_stiefel/summary.py``.

benchopt goes on where a solver raises an error. With ``--all DATASET`` this ends in an error unless every
exact method of the package has converged on that data set, on one of the networks at least.
"""

import argparse
import sys
from pathlib import Path

import pandas

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # as benchopt does

from benchmark_utils.costs import cheapest_first  # noqa: E402
from destiny.algorithms import METHODS  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--all", metavar="DATASET", help="name of a data set that all exact methods must solve"
    )
    wanted = parser.parse_args().all
    newest = max((HERE / "outputs").glob("*.parquet"), key=lambda path: path.stat().st_mtime)
    solved = set()
    for (data, objective), rows in pandas.read_parquet(newest).groupby(["dataset_name", "objective_name"]):
        print(f"\n{data}, {objective.split('[')[1].rstrip(']')}: rounds, megabytes, seconds")
        for solver, cost in cheapest_first(rows):
            print(f"  {solver:36}" + "".join(f"{cell:>16}" for cell in cost.cells))
            if cost.converged and data.startswith(str(wanted)):
                solved.add(solver)
    exact = {f"destiny[{m.kind}]" for m in METHODS if "inexact" not in m.about and "alone" not in m.about}
    if wanted is not None and (failed := exact - solved):
        raise SystemExit(f"all exact methods must solve {wanted}; {', '.join(sorted(failed))} did not")


if __name__ == "__main__":
    main()
