"""Performance profiles over random instances, static and changing: ``python -m benchmarks.profiles``.

Each instance of `benchmarks.instances` is solved to 1e-8 within 10,000 rounds by every method, and by one
agent that has all data. Instances that even the one agent does not solve are left out. A profile is the share
of instances that a method solves within a factor 1, 2, 4 of the rounds of the best method, and at all.

Writes a row per run to the CSV file it is given, and goes on with it when started again. The constants of the
accelerated method on changing networks were chosen on seeds 0 to 23 and 100 to 115; the default here is to
check on others.
"""

import argparse
from collections.abc import Callable
from multiprocessing import Pool
from pathlib import Path
from typing import Any

from rich.progress import Progress

import destiny
from benchmarks.instances import draw
from benchmarks.rows import read, write
from destiny.algorithms import DRGTA, Destiny

COLUMNS = ("world", "seed", "instance", "method", "rounds", "converged", "worst")
METHODS: dict[str, Callable[[], Any]] = {"default": lambda: None, "destiny": Destiny, "drgta": DRGTA}
WORLDS = ("static", "changing")
LIMIT = 10_000
FACTORS = (1, 2, 4)
CHECKING = (1000, 1060)


def run(job: tuple[str, int, str]) -> dict[str, str]:
    """One row: a method, or one agent with all data, on the instance of a seed."""
    world, seed, method = job
    instance = draw(seed, changing=world == "changing")
    problem, network = instance.problem, instance.network
    if method == "alone":
        problem, network = destiny.problems.pooled(problem), destiny.networks.ring(1)
    algorithm = METHODS.get(method, lambda: None)()
    result = destiny.solve(problem, network, algorithm, seed=seed, rounds=LIMIT, progress=False)
    values = (
        world,
        seed,
        instance.name,
        method,
        result.rounds,
        result.converged,
        f"{result.measures.worst:.1e}",
    )
    return dict(zip(COLUMNS, map(str, values), strict=True))


def profile(rows: list[dict[str, str]], world: str) -> list[str]:
    """Lines of a table: how each method fares in a world."""
    mine = {(row["seed"], row["method"]): row for row in rows if row["world"] == world}
    rounds = {key: int(row["rounds"]) for key, row in mine.items() if row["converged"] == "True"}
    seeds = [seed for seed, method in mine if method == "alone" and (seed, "alone") in rounds]
    best = {seed: min(rounds.get((seed, m), LIMIT + 1) for m in METHODS) for seed in seeds}
    lines = []
    for method in METHODS:
        within = [sum(rounds.get((s, method), LIMIT * 9) <= f * best[s] for s in seeds) for f in FACTORS]
        solved = sum((s, method) in rounds for s in seeds)
        cells = " | ".join(f"{100 * count / len(seeds):.0f} %" for count in (*within, solved))
        lines.append(f"| {world} | {method} | {cells} |")
    both = [s for s in seeds if (s, "destiny") in rounds]
    ratios = sorted(rounds.get((s, "default"), LIMIT * 9) / rounds[s, "destiny"] for s in both)
    over = sum(ratio > 1.5 for ratio in ratios)
    lines.append(
        f"of {len(seeds)} instances; where destiny converges ({len(both)}) the default takes more than 1.5 "
        f"times its rounds on {over}; largest ratios {', '.join(f'{r:.2f}' for r in ratios[-4:])}"
    )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, nargs=2, default=CHECKING, metavar=("FIRST", "END"))
    parser.add_argument("--worlds", nargs="*", default=WORLDS, choices=WORLDS)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    rows = read(options.file)
    done = {(row["world"], int(row["seed"]), row["method"]) for row in rows}
    jobs = [
        (world, seed, method)
        for seed in range(*options.seeds)
        for world in options.worlds
        for method in ("alone", *METHODS)
        if (world, seed, method) not in done
    ]
    with Progress() as bar, Pool(options.jobs) as pool:
        for row in bar.track(pool.imap(run, jobs), total=len(jobs)):
            rows.append(row)
            write(options.file, COLUMNS, rows)
    print("| network | method | " + " | ".join(f"within {f}" for f in FACTORS) + " | solved |")
    print("|---" * (len(FACTORS) + 3) + "|")
    for world in options.worlds:
        print(*profile(rows, world), sep="\n")


if __name__ == "__main__":
    main()
