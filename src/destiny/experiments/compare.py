"""Several methods on one problem and network, side by side."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

from destiny import notebook, registry
from destiny.errors import SettingsError
from destiny.experiments.batch import prepare_all, run_all
from destiny.protocols import Algorithm, AlgorithmBase, Method, Objective, Problem, Topology
from destiny.run.interrupt import deliver
from destiny.run.own import as_algorithm
from destiny.run.result import Result, plot_results
from destiny.run.solve import SolveOptions

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table

AnyMethod: TypeAlias = Algorithm[Any] | Method
Column = Callable[[Result], float]
COSTS: dict[str, Column] = {
    "rounds": lambda r: r.rounds,
    "scalars": lambda r: r.scalars,
    "bytes": lambda r: r.bytes,
    "gradients": lambda r: r.gradients,
    "minibatches": lambda r: r.minibatches,
    "passes": lambda r: r.passes,
    "messages": lambda r: r.counts().get("messages", 0),
    "seconds": lambda r: r.seconds,
}
SENT = ("rounds", "scalars", "bytes", "messages")
MEASURES: dict[str, Column] = {
    "stationarity": lambda r: r.measures.stationarity,
    "consensus": lambda r: r.measures.consensus,
    "feasibility": lambda r: r.measures.feasibility,
}
RESIDUAL: dict[str, Column] = {"residual": lambda r: r.measures.worst}  # where there is no room for all three
COUNT = "{:.0f}"
SHOWN = {"rounds": COUNT, "steps": COUNT, "scalars": "{:.1e}", "bytes": "{:.1e}", "seconds": "{:.2f}"}
SHOWN |= {"gradients": COUNT, "minibatches": COUNT, "passes": "{:.1f}", "messages": COUNT}
SHORT = 24  # letters of a label that fit on one line of 80 columns beside all numbers
WIDE = 1000  # columns, more than any table takes
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
        from rich.console import Console

        console = Console(file=io.StringIO(), width=110, color_system=None)
        console.print(table(self.results, self.skipped))
        for line in reasons(self.results, self.skipped):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue().rstrip()

    def plot(
        self,
        path: str | PathLike[str] | None = None,
        x: str | None = None,
        axes: Sequence[Any] | None = None,
    ) -> Any:
        """Draw the three measures of every method over "round", "scalars", "bytes", "passes" or "seconds".

        By default that is rounds, in simulated time seconds. Returns the axes. They are ``axes``, three
        matplotlib Axes, or those of a new figure; with a ``path`` it is written there, without one notebooks
        show it.
        """
        return plot_results(self.results, path, x, axes)

    def _repr_html_(self) -> str:
        columns = costs(self.results) | MEASURES
        marks = best(self.results) if len(self.results) > 1 else {}
        rows: list[list[notebook.Cell]] = []
        for label, r in self.results.items():
            cells: list[notebook.Cell] = [label]
            for name, value in columns.items():
                text = SHOWN.get(name, "{:.1e}").format(value(r))
                cells.append(notebook.Strong(text) if label in marks.get(name, ()) else text)
            rows.append([*cells, r.reason.split(":")[0]])
        rows += [[label, *["-"] * len(columns), "skipped"] for label in self.skipped]
        header = ["", *columns, "stopped"]
        lines = [(line,) for line in reasons(self.results, self.skipped)]
        return notebook.page(
            notebook.table(rows, header, numbers=True), notebook.table(lines) if lines else ""
        )


SINGLE = {"checkpoint", "checkpoint_every", "resume", "label"}


def compare(
    problem: Problem | Sequence[Objective],
    network: Topology,
    methods: Mapping[str, AnyMethod] | Sequence[AnyMethod],
    *,
    world: Any = None,
    **options: Any,
) -> Comparison:
    """Solve one problem with several methods, from the same start and under the same rules.

    Parameters
    ----------
    problem, network
        As in `destiny.solve`.
    methods : mapping from labels to algorithms, or a sequence of algorithms (their kinds are the labels)
        One made for other problems is skipped with its reason.
    world : World, optional
        Run all methods in simulated time, those without rounds and all others, which wait for their
        neighbors in every round; seconds are simulated.
    options
        As in `destiny.solve`, the same for all; checkpoints and resuming are for single runs. A signal
        reaches the caller as there; if its handler returns, methods not begun yet are left out.
    """
    names = {field.name for field in fields(SolveOptions)} - SINGLE
    if unknown := set(options) - names:
        raise SettingsError(
            f"compare has no option {', '.join(sorted(unknown))}; it takes {', '.join(sorted(names))}"
        )
    batch = prepare_all(
        problem,
        network,
        labeled(methods),
        lambda label: SolveOptions(**options, label=label),
        skip=True,
        world=world,
    )
    results = run_all(batch.runs)
    for result in results.values():
        deliver(result.interrupted)
    return Comparison(results, batch.skipped)


def labeled(methods: Mapping[str, AnyMethod] | Sequence[AnyMethod]) -> dict[str, Method]:
    """Methods by label; of a sequence, by kind, numbered where a kind comes twice."""
    if not isinstance(methods, Mapping | Sequence) or len(methods) == 0:
        raise SettingsError(f"methods must be some algorithms, in a list or by label; found {methods!r}")
    if isinstance(methods, Mapping):
        if odd := [label for label in methods if not isinstance(label, str)]:
            raise SettingsError(f"labels of methods must be text; found {odd[0]!r}")
        return {label: _wrapped(method) for label, method in methods.items()}
    algorithms: dict[str, Method] = {}
    for method in map(_wrapped, methods):
        label = kind = method.kind
        count = 1
        while label in algorithms:
            count += 1
            label = f"{kind} {count}"
        algorithms[label] = method
    return algorithms


def _wrapped(method: Any) -> Method:
    known = not isinstance(method, AlgorithmBase | str) and registry.runs_elsewhere(method) is not None
    return method if known else as_algorithm(method)


def costs(results: Mapping[str, Result]) -> dict[str, Column]:
    """What a run costs: rounds, what was sent, gradients, time; steps instead where nobody sends anything."""
    alone = not any(r.rounds for r in results.values())
    shown = {
        "minibatches": any(r.minibatches for r in results.values()),
        "passes": any(r.minibatches for r in results.values()),
        "messages": any("messages" in r.counts() for r in results.values()),
    }
    left_out = {*(SENT if alone else ()), *(name for name, needed in shown.items() if not needed)}
    first: dict[str, Column] = {"steps": lambda r: r.steps} if alone else {}
    return first | {name: value for name, value in COSTS.items() if name not in left_out}


def best(results: Mapping[str, Result]) -> dict[str, set[str]]:
    """The labels to mark in each column: the least among the converged (of measures: among all, if none is).

    Where all are equal, none is marked.
    """
    converged = {label: r for label, r in results.items() if r.converged}
    marks: dict[str, set[str]] = {}
    for columns, among in ((costs(results), converged), (MEASURES | RESIDUAL, converged or results)):
        for name, value in columns.items():
            values = {label: max(v, NOISE) for label, r in among.items() if (v := value(r)) == v}
            least = {label for label, v in values.items() if v == min(values.values())}
            marks[name] = least if len(least) < len(results) else set()
    return marks


class FittingTable:
    """One row per method, with the three measures or, on a narrow terminal, with the largest of them."""

    def __init__(self, results: Mapping[str, Result], skipped: Mapping[str, str]) -> None:
        self.results, self.skipped = results, skipped

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        full = self.with_measures(MEASURES)
        room = console.measure(full, options=options.update(max_width=WIDE)).maximum
        yield full if room <= options.max_width else self.with_measures(RESIDUAL)

    def with_measures(self, measures: Mapping[str, Column]) -> Table:
        """Return the table with these measures; with several methods the best of each column has a star."""
        from rich.markup import escape
        from rich.table import Table

        shown = Table(box=None, pad_edge=False, padding=(0, 1), collapse_padding=True)
        short = max(map(len, [*self.results, *self.skipped]), default=0) <= SHORT
        shown.add_column("", overflow="fold", no_wrap=short)
        columns = costs(self.results) | dict(measures)
        columns.pop("scalars", None)  # no room in 80 columns beside the bytes
        for name in columns:
            shown.add_column(name, justify="right", no_wrap=True)
        shown.add_column("stopped")  # "out of rounds" may take two lines
        marks = best(self.results) if len(self.results) > 1 else {}
        for label, r in self.results.items():
            cells = []
            for name, value in columns.items():
                text = SHOWN.get(name, "{:.1e}").format(value(r))
                marked = label in marks.get(name, ())
                cells.append(f"[bold green]{text}*[/]" if marked else f"{text} ")
            shown.add_row(escape(label), *cells, escape(r.reason.split(":")[0]))
        for label in self.skipped:
            shown.add_row(escape(label), *["- "] * len(columns), "skipped")
        return shown


def table(results: Mapping[str, Result], skipped: Mapping[str, str] | None = None) -> FittingTable:
    """Return the table that ``rich`` prints for people."""
    return FittingTable(results, skipped or {})


def reasons(results: Mapping[str, Result], skipped: Mapping[str, str] | None = None) -> list[str]:
    """What the table has no room for: why a run ended without converging, notes, why one was skipped."""
    lines = []
    for label, r in results.items():
        if not r.converged or len(results) == 1:
            lines.append(f"{label}: {r.reason}")
        if r.choice is not None:
            lines.append(r.choice if r.choice.startswith(label) else f"{label}: {r.choice}")
        lines += [f"{label}: note: {note}" for note in r.notes]
    references = {r.references for r in results.values() if r.references}
    lines += [f"to hold bytes against: {text}" for text in sorted(references)]
    return lines + [f"{label}: skipped, {why}" for label, why in (skipped or {}).items()]
