"""The command line: one function per command, most of them thin."""

from __future__ import annotations

import json
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from threadpoolctl import threadpool_limits

from destiny import engines, networks, report
from destiny._version import __version__
from destiny.cli import agent
from destiny.diagnosis import diagnose, text_report
from destiny.engines.ranks.engine import DEADLINE
from destiny.engines.ranks.guard import guard
from destiny.engines.same_settings import columns_of
from destiny.errors import DestinyError, MismatchError, SettingsError
from destiny.experiments import file as experiment
from destiny.experiments import result_folder
from destiny.experiments.compare import reasons, table
from destiny.experiments.paper import figures
from destiny.experiments.paper import reproduce as reproduction
from destiny.run.result import Result
from destiny.run.solve import Run, prepare

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)
app.command()(agent.agent)
app.command()(agent.certificates)
app.add_typer(agent.many, name="agents")


def version(asked: bool) -> None:
    """Print the version and leave."""
    if asked:
        print(f"destiny {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Decentralised optimisation under orthogonality constraints."""


FILE = Annotated[Path, typer.Argument(help="The experiment, a TOML file (docs/experiment-files.md).")]
RESUME = Annotated[bool, typer.Option("--resume", help="Continue from the checkpoints in --out.")]
THREADS = Annotated[int | None, typer.Option(help="Worker threads; the answer is the same.")]
ENGINE = Annotated[str | None, typer.Option(help="local or mpi; by default mpi under mpiexec or srun.")]
WAIT = Annotated[
    float, typer.Option(help="mpi: seconds to wait for other ranks before giving up; 0 = for ever.")
]


@app.command()
def run(
    file: FILE,
    out: Annotated[Path, typer.Option(help="Folder for the results; made if need be.")],
    resume: RESUME = False,
    threads: THREADS = None,
    engine: ENGINE = None,
    deadline: WAIT = DEADLINE,
) -> None:
    """Run the algorithms of an experiment file and write what came of them."""
    carry_out(file, out, resume, threads, engine, deadline, skip=False)


@app.command()
def compare(
    file: FILE,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; none are written without.")
    ] = None,
    resume: RESUME = False,
    threads: THREADS = None,
    engine: ENGINE = None,
    deadline: WAIT = DEADLINE,
) -> None:
    """Run the algorithms of an experiment file side by side; skip those made for other problems."""
    if resume and out is None:
        raise SettingsError("--resume needs --out, the folder to continue from")
    carry_out(file, out, resume, threads, engine, deadline, skip=True)


def carry_out(
    file: Path, out: Path | None, resume: bool, threads: int | None, engine: str | None, deadline: float,
    skip: bool,
) -> None:  # fmt: skip
    """Read the file and run it where it should run."""
    where = engines.chosen(engine)
    if where == "mpi":
        engines.mpi(deadline=deadline)  # first of all: from here on one rank's failure ends the job
    with threadpool_limits(1):  # data drawn at random have the same bits on any number of cores
        asked = experiment.read(file)
        if where == "mpi":
            spread = {key.replace("-", "_"): value for key, value in asked.mpi.items()}
            execute(asked, engines.mpi(**spread, deadline=deadline), out, resume, skip)
        else:
            workers = threads if threads is not None else asked.threads
            execute(asked, engines.local(workers), out, resume, skip)


def execute(
    asked: experiment.Experiment, engine: engines.Engine, out: Path | None, resume: bool, skip: bool
) -> None:
    """Check everything, then run one algorithm after the other, writing each result as it comes.

    Where there are several processes, one of them prints and writes.
    """
    engine.same({"experiment": asked.tables, "--resume": resume, "columns": columns_of(asked.problem)})
    writes = out if engine.leader else None
    if writes is not None:
        result_folder.claim(writes, asked.algorithms, asked.tables, resume)
    runs: dict[str, Run] = {}
    skipped: dict[str, str] = {}
    save = out is not None and asked.checkpoint > 0
    for label, algorithm in asked.algorithms.items():
        try:
            runs[label] = prepare(
                asked.problem, asked.network, algorithm, start=asked.start, seed=asked.seed, **asked.stop,
                every=asked.every, checkpoint=out / label / "checkpoints" if out and save else None,
                checkpoint_every=asked.checkpoint, resume=resume and save, engine=engine, label=label,
            )  # fmt: skip
        except MismatchError as error:
            if not skip:
                raise MismatchError(f"{label}: {error}") from error
            skipped[label] = str(error)
    engine.connect(asked.problem, asked.network).close()  # reads and checks all data; nothing is written yet
    engine.same({})  # all have: a process that refused its data has ended the run by now
    if writes is not None:
        result_folder.begin(writes, asked.tables)
    results: dict[str, Result] = {}
    started = datetime.now(UTC)
    for label, ready in runs.items():
        results[label] = ready.go()
        if writes is not None:
            result_folder.write(writes, results)
        if (name := results[label].interrupted) is not None:
            if engine.leader:
                warn(f"{label}: {results[label].reason}{'; continue with --resume' if save else ''}")
            guard.agreed = True  # all processes leave with this code
            raise typer.Exit(128 + signal.Signals[name])  # the shell's convention
    if writes is not None and results:
        describe(writes, asked, engine, results, started)
    if engine.leader:
        show(writes, results, skipped)


def describe(
    out: Path,
    asked: experiment.Experiment,
    engine: engines.Engine,
    results: dict[str, Result],
    started: datetime,
) -> None:
    """What a report needs besides. The results are safe already: trouble here is no reason to fail."""
    # On MPI this process holds some agents' data only, and asks for no others' to make a picture.
    here = isinstance(engine, engines.Local)
    try:
        result_folder.describe(
            out, asked.problem, asked.network, results, seed=asked.seed, started=started, data=here,
            engine="one process" if here else "MPI", image=asked.image,
        )  # fmt: skip
    except DestinyError as error:
        warn(f"a report will lack the network and more: {error}")


def show(out: Path | None, results: dict[str, Result], skipped: dict[str, str]) -> None:
    """The picture, the table and the reasons."""
    if out is not None and results:
        result_folder.picture(out, results, warn)
    # A pipe has no width: nothing is folded or cut there.
    console = Console() if sys.stdout.isatty() else Console(width=1000)
    console.print(table(results, skipped))
    for line in reasons(results, skipped):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


@app.command()
def doctor(
    file: FILE,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    theory: Annotated[
        bool, typer.Option("--theory", help="Sample the constants of the convergence theorem too.")
    ] = False,
) -> None:
    """Look at an experiment and try a few hundred steps: predict its rounds, say what would help."""
    with threadpool_limits(1), Console(stderr=True).status("reading") as status:
        asked = experiment.read(file)
        stop = {key: value for key, value in asked.stop.items() if key in ("rounds", "tolerance")}
        found = diagnose(
            asked.problem, asked.network, asked.algorithms, start=asked.start, seed=asked.seed, **stop,
            theory=theory, tell=status.update,
        )  # fmt: skip
    if as_json:
        print(json.dumps(found.as_dict(), indent=2))
    else:
        text_report.show(found, Console()) if sys.stdout.isatty() else print(
            text_report.plain(found, width=1000)
        )


@app.command()
def network(
    kind: Annotated[str, typer.Argument(help=", ".join(networks.KINDS))],
    agents: Annotated[int | None, typer.Option(help="Number of agents.")] = None,
    prob: Annotated[float | None, typer.Option(help="Probability of a link.")] = None,
    degree: Annotated[int | None, typer.Option(help="Links per agent.")] = None,
    radius: Annotated[float | None, typer.Option(help="Reach of a link in the unit square.")] = None,
    rows: Annotated[int | None, typer.Option(help="Rows of a grid or torus.")] = None,
    cols: Annotated[int | None, typer.Option(help="Columns of a grid or torus.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of a random network.")] = None,
    weights: Annotated[str | None, typer.Option(help=", ".join(networks.RULES))] = None,
    path: Annotated[
        str | None, typer.Option(help="Edge list, GraphML or .npy, for kinds file and weights.")
    ] = None,
    loss: Annotated[float | None, typer.Option(help="Probability that a link is down in a round.")] = None,
    draw: Annotated[Path | None, typer.Option(help="Draw the network into this PNG.")] = None,
) -> None:
    """Build a network, tell how well it mixes, and draw it."""
    given = {
        "prob": prob, "degree": degree, "radius": radius, "rows": rows, "cols": cols, "seed": seed,
        "weights": weights, "path": path, "loss": loss,
    }  # fmt: skip
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    built = networks.build(kind, agents, **options)
    print(built)
    if draw is not None:
        print(f"drawn: {getattr(built, 'network', built).draw(draw)}")


@app.command()
def reproduce(
    which: Annotated[str, typer.Argument(help="figure1 to figure5, or all.")],
    out: Annotated[Path, typer.Option(help="Folder for the results; what is there is not run again.")],
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of the data sets; by default DESTINY_DATA, or the user's cache."),
    ] = None,
    small: Annotated[
        bool, typer.Option("--small", help="Small twins that need no data, in seconds.")
    ] = False,
    seeds: Annotated[int, typer.Option(help="Runs of everything, with seeds 0, 1, ...")] = 3,
    threads: THREADS = None,
) -> None:
    """Run the paper's experiments and hold its claims against them; interrupted, the same command goes on."""
    names = figures.NAMES if which == "all" else (which,)
    try:
        found = reproduction.reproduce(names, out, seeds, small, data, threads=threads)
    except reproduction.Interrupted as signal_name:
        warn(f"interrupted by {signal_name}: the same command goes on where it was")
        raise typer.Exit(128 + signal.Signals[str(signal_name)]) from None
    console = Console() if sys.stdout.isatty() else Console(width=1000)
    for name, verdicts in found.items():
        twin = ", a small twin on other data and sizes" if small else ""
        console.print(f"\n[bold]{name}[/]: {figures.read(name).title}{twin}")
        for verdict in verdicts:
            console.print(f"  {verdict.word}: {verdict.claim}", highlight=False, markup=False)
            console.print(f"    {verdict.measured}", highlight=False, markup=False)
        times = json.loads((out / name / "figure.json").read_text(encoding="utf-8"))["seconds"]
        console.print(f"  {times['total']:.0f} s, of which {times['measuring']:.0f} s went into measuring")
    console.print(
        f"\nwritten to {out}; destiny report {out} makes a page of it", highlight=False, soft_wrap=True
    )


@app.command("report")
def make_report(
    folder: Annotated[Path, typer.Argument(help="Folder of results: --out of run, compare or reproduce.")],
    out: Annotated[
        Path | None,
        typer.Option(help="The HTML file (DIR/report.html), or the folder of pictures (DIR/figures)."),
    ] = None,
    format: Annotated[str, typer.Option(help="html, or for papers png, pdf, svg.")] = "html",
    open_it: Annotated[bool, typer.Option("--open", help="Show the page in the browser.")] = False,
) -> None:
    """Make one HTML page, or pictures for papers, from result files alone."""
    written = report.report(folder, out, format)
    for path in written:
        print(f"written: {path}")
    if open_it and format == "html":
        typer.launch(str(written[0]))


def warn(sentence: str) -> None:
    """One line on standard error."""
    print(f"destiny: {guard.name}{sentence}", file=sys.stderr)


def main() -> None:
    """Entry point: whatever a user can cause ends in one line and an exit code, mostly 2."""
    try:
        app()
    except DestinyError as error:
        guard.wait_turn()
        warn(" ".join(str(error).split()))
        sys.exit(error.code)
    except (OSError, MemoryError) as error:
        guard.wait_turn()
        warn(f"{type(error).__name__}: {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        warn("interrupted")
        sys.exit(130)


if __name__ == "__main__":
    main()
