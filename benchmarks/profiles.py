"""Performance profiles over random instances, static and changing: ``python -m benchmarks.profiles``.

Each instance of `benchmarks.instances` is solved to 1e-8 within 10,000 rounds by every method, and by one
agent that has all data. Instances that even the one agent does not solve are left out. A profile is the share
of instances that a method solves within a factor of the rounds of the best method, and at all.

Writes docs/profiles.csv after every run and the tables in docs/profiles.md at the end. What the file has
already is not run again: delete it, or rows of it, first. The constants of the accelerated method on changing
networks were chosen on seeds 0 to 23, 100 to 115 and 1000 to 1015; the file has others.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import Pool
from pathlib import Path
from typing import Any

from rich.progress import Progress

import destiny
from benchmarks.instances import draw
from benchmarks.rows import read, write
from destiny.algorithms import DRGTA, Destiny, DestinyAccelerated

COLUMNS = ("world", "seed", "instance", "method", "rounds", "converged", "worst")
DOCS = Path(__file__).parents[1] / "docs"
FILE, PAGE = DOCS / "profiles.csv", DOCS / "profiles.md"
ALONE = "alone"
ACCELERATED = DestinyAccelerated.kind
ONE_ROUND = f"{ACCELERATED}, rounds = 1"  # what it did on changing networks before
METHODS: dict[str, Callable[[], Any]] = {
    ALONE: DestinyAccelerated,
    ACCELERATED: DestinyAccelerated,
    ONE_ROUND: lambda: DestinyAccelerated(rounds=1),
    Destiny.kind: Destiny,
    DRGTA.kind: DRGTA,
}
COMPARED = {
    "static": (ACCELERATED, Destiny.kind, DRGTA.kind),
    "changing": (ACCELERATED, ONE_ROUND, Destiny.kind, DRGTA.kind),
}
LIMIT = 10_000
FACTORS = (1, 2, 4)
CHECKING = (2000, 2040)


def run(job: tuple[str, int, str]) -> dict[str, str]:
    """One row: a method, or one agent with all data, on the instance of a seed."""
    world, seed, method = job
    instance = draw(seed, changing=world == "changing")
    problem, network = instance.problem, instance.network
    if method == ALONE:
        problem, network = destiny.problems.pooled(problem), destiny.networks.ring(1)
    result = destiny.solve(problem, network, METHODS[method](), seed=seed, rounds=LIMIT, progress=False)
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


@dataclass(frozen=True)
class Profile:
    """Rounds of all methods on the instances of one world that one agent alone solves."""

    world: str
    seeds: list[str]
    rounds: dict[tuple[str, str], int]
    """By seed and method; runs that did not converge are left out."""

    @classmethod
    def of(cls, rows: list[dict[str, str]], world: str) -> Profile:
        """The profile of the rows of a world."""
        rounds = {
            (row["seed"], row["method"]): int(row["rounds"])
            for row in rows
            if row["world"] == world and row["converged"] == "True"
        }
        return cls(world, [seed for seed, method in rounds if method == ALONE], rounds)

    def ratios(self, method: str, others: Sequence[str] | None = None) -> list[float]:
        """Rounds of a method over those of the best of the others, sorted; infinite where it fails."""
        found = []
        for seed in self.seeds:
            best = [self.rounds[seed, m] for m in others or COMPARED[self.world] if (seed, m) in self.rounds]
            if best:
                found.append(self.rounds.get((seed, method), math.inf) / min(best))
        return sorted(found)

    def share(self, method: str, factor: float = math.inf) -> float:
        """Share of all instances that a method solves within a factor of the best."""
        within = [ratio for ratio in self.ratios(method) if ratio < math.inf and ratio <= factor]
        return len(within) / len(self.seeds)

    def lines(self) -> list[str]:
        """Lines of a table, one for each method."""
        lines = []
        for method in COMPARED[self.world]:
            shares = [self.share(method, factor) for factor in (*FACTORS, math.inf)]
            cells = " | ".join(f"{100 * share:.0f} %" for share in shares)
            lines.append(f"| {self.world} | `{method}` | {cells} |")
        return lines

    def against_destiny(self) -> str:
        """How the accelerated method fares where DESTINY converges."""
        ratios = self.ratios(ACCELERATED, [Destiny.kind])
        over = sum(ratio > 1.5 for ratio in ratios)
        return (
            f"{self.world.capitalize()}: `{Destiny.kind}` solves {len(ratios)} of {len(self.seeds)} "
            f"instances. On {over} of these `{ACCELERATED}` takes more than 1.5 times its rounds; the "
            "largest ratios are "
            + ", ".join("infinite" if ratio == math.inf else f"{ratio:.1f}" for ratio in ratios[-4:])
            + "."
        )


def tables(rows: list[dict[str, str]], worlds: Sequence[str] = tuple(COMPARED)) -> str:
    """The tables of docs/profiles.md."""
    profiles = [Profile.of(rows, world) for world in worlds]
    head = "| network | method | " + " | ".join(f"within {f}" for f in FACTORS) + " | solved |"
    lines = [line for profile in profiles for line in profile.lines()]
    words = "\n\n".join(profile.against_destiny() for profile in profiles)
    return "\n".join([head, "|---" * (len(FACTORS) + 3) + "|", *lines]) + f"\n\n{words}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--file", type=Path, help="another file; its tables are printed")
    parser.add_argument("--seeds", type=int, nargs=2, default=CHECKING, metavar=("FIRST", "END"))
    parser.add_argument("--worlds", nargs="*", default=list(COMPARED), choices=list(COMPARED))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    file = options.file or FILE
    rows = read(file)
    done = {(row["world"], int(row["seed"]), row["method"]) for row in rows}
    jobs = [
        (world, seed, method)
        for seed in range(*options.seeds)
        for world in options.worlds
        for method in (ALONE, *COMPARED[world])
        if (world, seed, method) not in done
    ]
    with Progress() as bar, Pool(options.jobs) as pool:
        for row in bar.track(pool.imap(run, jobs), total=len(jobs)):
            rows.append(row)
            write(file, COLUMNS, rows)
    if options.file:
        print(tables(rows, options.worlds))
        return
    head, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- profiles -->\n")
    tail = rest.partition("<!-- end -->")[2]
    PAGE.write_text(f"{head}<!-- profiles -->\n{tables(rows)}<!-- end -->{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
