"""Several methods on one problem and network, side by side."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from destiny.errors import MismatchError, SettingsError
from destiny.protocols import Algorithm, Objective, Problem, Topology
from destiny.run.interrupt import deliver
from destiny.run.plots import convergence
from destiny.run.result import Result
from destiny.run.solve import prepare

Column = Callable[[Result], float]
COSTS: dict[str, Column] = {
    "rounds": lambda r: r.rounds,
    "scalars": lambda r: r.scalars,
    "gradi-\nents": lambda r: r.gradients,
    "mini-\nbatches": lambda r: r.minibatches,
    "sec-\nonds": lambda r: r.seconds,
}
SENT = ("rounds", "scalars")
MEASURES: dict[str, Column] = {
    "station-\narity": lambda r: r.measures.stationarity,
    "con-\nsensus": lambda r: r.measures.consensus,
    "feasi-\nbility": lambda r: r.measures.feasibility,
}
COUNT = "{:.0f}"
SHOWN = {"rounds": COUNT, "steps": COUNT, "scalars": "{:.1e}", "sec-\nonds": "{:.2f}"}
SHOWN |= {"gradi-\nents": COUNT, "mini-\nbatches": COUNT}
NOISE = 1e-14  # measures below are rounding errors: none of them is better than another


@dataclass(frozen=True)
class Comparison:
    """What came of each method; ``print(comparison)`` is a table with the best of each column marked.

    Attributes
    ----------
    results : dict of Result
        By label.
    skipped : dict of str
        Why a method was not run, by label.
    """

    results: dict[str, Result]
    skipped: dict[str, str]

    def __str__(self) -> str:
        console = Console(file=io.StringIO(), width=110, color_system=None)
        console.print(table(self.results, self.skipped))
        for line in reasons(self.results, self.skipped):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue().rstrip()

    def plot(self, path: str | Path, x: str = "round") -> None:
        """Draw the three measures of every method over rounds, ``"scalars"`` or ``"seconds"``."""
        convergence({label: r.history for label, r in self.results.items()}, path, x=x)


SINGLE = {"problem", "network", "algorithm", "checkpoint", "checkpoint_every", "resume", "label"}


def compare(
    problem: Problem | Sequence[Objective],
    network: Topology,
    methods: Mapping[str, Algorithm[Any]] | Sequence[Algorithm[Any]],
    **options: Any,
) -> Comparison:
    """Solve one problem with several methods, from the same start and under the same rules.

    Parameters
    ----------
    problem, network
        As in `destiny.solve`.
    methods : mapping from labels to algorithms, or a sequence of algorithms (their kinds are the labels)
        One made for other problems is skipped with its reason.
    options
        As in `destiny.solve`, the same for all; checkpoints and resuming are for single runs. A signal
        reaches the caller as there; if its handler returns, methods not begun yet are left out.
    """
    taken = set(inspect.signature(prepare).parameters) - SINGLE
    if unknown := set(options) - taken:
        raise SettingsError(
            f"compare has no option {', '.join(sorted(unknown))}; it takes {', '.join(sorted(taken))}"
        )
    runs, skipped = {}, {}
    for label, algorithm in labelled(methods).items():
        try:
            runs[label] = prepare(problem, network, algorithm, label=label, **options)
        except MismatchError as error:
            skipped[label] = str(error)
    results: dict[str, Result] = {}
    for label, run in runs.items():
        results[label] = run.go()
        if (name := results[label].interrupted) is not None:
            deliver(name)
            break
    return Comparison(results, skipped)


def labelled(methods: Mapping[str, Algorithm[Any]] | Sequence[Algorithm[Any]]) -> dict[str, Algorithm[Any]]:
    """Methods by label; of a sequence, by kind, numbered where a kind comes twice."""
    if not isinstance(methods, Mapping | Sequence) or len(methods) == 0:
        raise SettingsError(f"methods must be some algorithms, in a list or by label; found {methods!r}")
    if isinstance(methods, Mapping):
        if odd := [label for label in methods if not isinstance(label, str)]:
            raise SettingsError(f"labels of methods must be text; found {odd[0]!r}")
        return dict(methods)
    found: dict[str, Algorithm[Any]] = {}
    for method in methods:
        label = kind = str(getattr(method, "kind", type(method).__name__))
        count = 1
        while label in found:
            count += 1
            label = f"{kind} {count}"
        found[label] = method
    return found


def costs(results: Mapping[str, Result]) -> dict[str, Column]:
    """What a run costs: rounds, scalars, gradients and time; steps instead where nobody sends anything."""
    alone = not any(r.rounds for r in results.values())
    batches = any(r.minibatches for r in results.values())
    left_out = {*(SENT if alone else ()), *(() if batches else ("mini-\nbatches",))}
    first: dict[str, Column] = {"steps": lambda r: r.steps} if alone else {}
    return first | {name: value for name, value in COSTS.items() if name not in left_out}


def best(results: Mapping[str, Result]) -> dict[str, set[str]]:
    """The labels to mark in each column: the least among the converged (of measures: among all, if none is).

    Where all are equal, none is marked.
    """
    converged = {label: r for label, r in results.items() if r.converged}
    marks: dict[str, set[str]] = {}
    for columns, among in ((costs(results), converged), (MEASURES, converged or results)):
        for name, value in columns.items():
            found = {label: max(v, NOISE) for label, r in among.items() if (v := value(r)) == v}
            least = {label for label, v in found.items() if v == min(found.values())}
            marks[name] = least if len(least) < len(results) else set()
    return marks


def table(results: Mapping[str, Result], skipped: Mapping[str, str] | None = None) -> Table:
    """One row per method, for people; with several methods the best of each column has a star."""
    shown = Table(box=None, pad_edge=False, padding=(0, 1), collapse_padding=True)
    shown.add_column("", overflow="fold", vertical="bottom")
    columns = costs(results) | MEASURES
    for name in columns:
        shown.add_column(name, justify="right", no_wrap=True, vertical="bottom")
    shown.add_column("stopped", no_wrap=True, vertical="bottom")
    marks = best(results) if len(results) > 1 else {}
    for label, r in results.items():
        cells = []
        for name, value in columns.items():
            text = SHOWN.get(name, "{:.1e}").format(value(r))
            marked = label in marks.get(name, ())
            cells.append(f"[bold green]{text}*[/]" if marked else f"{text} ")
        shown.add_row(escape(label), *cells, escape(r.reason.split(":")[0]))
    for label in skipped or {}:
        shown.add_row(escape(label), *["- "] * len(columns), "skipped")
    return shown


def reasons(results: Mapping[str, Result], skipped: Mapping[str, str] | None = None) -> list[str]:
    """What the table has no room for: why a run ended without converging, notes, why one was skipped."""
    told = []
    for label, r in results.items():
        if not r.converged or len(results) == 1:
            told.append(f"{label}: {r.reason}")
        told += [f"{label}: note: {note}" for note in r.notes]
    return told + [f"{label}: skipped, {why}" for label, why in (skipped or {}).items()]
