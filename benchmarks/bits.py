"""Rounds and bytes to 1e-8 with messages of 64, 16 and 8 bits: ``python -m benchmarks.bits``.

Writes docs/bits.csv after every run and the table in docs/howto/small-messages.md at the end. What the file
has already is not run again. Instances and seeds are those of `benchmarks.rounds`; nothing was chosen on
them. The Cora and MNIST instances need DESTINY_DATA.
"""

import statistics
from typing import Any

import destiny
from benchmarks import rounds as others
from benchmarks.rows import DOCS, Benchmark, require_done
from destiny.algorithms import Destiny, DestinyAccelerated

COLUMNS = ("instance", "method", "bits", "seed", "rounds", "bytes", "converged", "worst")
METHODS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "momentum": (DestinyAccelerated, (64, 16, 8)),
    "capped BB": (Destiny, (64, 8)),
}
SEEDS = range(4, 9)
LONG = "OLSR Cora-DS"  # thousands of rounds of momentum: measured every ten, and the other methods left out
UNFIT = {("capped BB", LONG)}

Job = tuple[str, str, int, int]


def jobs(seeds: list[int], real: bool) -> list[Job]:
    """One method and seed after the other, so that whatever is there is a whole table."""
    names = [
        name for name in others.INSTANCES if not name.startswith("prob")
    ]  # the scale of data is no matter
    names += others.REAL if real else []
    return [
        (name, method, bits, seed)
        for method, (_, choices) in METHODS.items()
        for seed in seeds
        for name in names
        for bits in choices
        if (method, name) not in UNFIT
    ]


def run(name: str, method: str, bits: int, seed: int) -> tuple[object, ...]:
    make, limit = (others.INSTANCES | others.REAL)[name]
    problem, network = make(seed)
    result = destiny.solve(
        problem,
        network,
        METHODS[method][0](),
        seed=seed,
        rounds=limit,
        every=10 if name == LONG and method == "momentum" else 1,
        messages="plain" if bits == 64 else destiny.Quantized(bits),
        progress=False,
    )
    require_done(result.interrupted)
    return result.rounds, result.bytes, result.converged, f"{result.measures.worst:.1e}"


def cells(rows: list[dict[str, str]], bits: int) -> list[str]:
    """Rounds and bytes relative to 64 bits, medians over the seeds, and how many runs failed."""
    by_seed = {
        b: {row["seed"]: row for row in rows if row["bits"] == str(b) and row["converged"] == "True"}
        for b in (64, bits)
    }
    tried = sum(row["bits"] == str(bits) for row in rows)
    if not tried:
        return ["", ""]
    done, whole = by_seed[bits], by_seed[64]
    failed = f", {tried - len(done)} of {tried} fail" if len(done) < tried else ""
    if not done:
        return [f"none of {tried}", "-"]
    both = [(done[seed], whole[seed]) for seed in done if seed in whole]
    ratios = [
        f"{statistics.median(int(a[key]) / int(b[key]) for a, b in both):.{digits}f}" if both else "-"
        for key, digits in (("rounds", 2), ("bytes", 3))
    ]
    return [f"{ratios[0]}{failed}", ratios[1]]


def table(rows: list[dict[str, str]]) -> str:
    """One line per method and instance."""
    lines = [
        "| method | instance | 16 bits: rounds / 64 bits | bytes / 64 bits | 8 bits: rounds / 64 bits "
        "| bytes / 64 bits |",
        "|---|---|---|---|---|---|",
    ]
    for method in METHODS:
        for name in dict.fromkeys(row["instance"] for row in rows):
            mine = [row for row in rows if (row["instance"], row["method"]) == (name, method)]
            if mine:
                shown = [*cells(mine, 16), *cells(mine, 8)]
                lines.append(f"| {method} | {name} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


BENCHMARK = Benchmark(
    "bits",
    __doc__,
    DOCS / "howto" / "small-messages.md",
    COLUMNS,
    COLUMNS[:4],
    SEEDS,
    jobs,
    run,
    table,
)


if __name__ == "__main__":
    BENCHMARK.main()
