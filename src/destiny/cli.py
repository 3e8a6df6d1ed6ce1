"""The command line: ``destiny run``, ``destiny network``."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from threadpoolctl import threadpool_limits

import destiny
from destiny import engines, experiment, networks, output
from destiny.engines.mpi import DEADLINE
from destiny.engines.mpi_guard import guard
from destiny.errors import DestinyError
from destiny.result import Result
from destiny.run import prepare

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)


def version(asked: bool) -> None:
    """Print the version and leave."""
    if asked:
        print(f"destiny {destiny.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Decentralised optimisation under orthogonality constraints."""


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="The experiment, a TOML file (docs/experiment-files.md).")],
    out: Annotated[Path, typer.Option(help="Folder for the results; made if need be.")],
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoints in --out.")] = False,
    threads: Annotated[int | None, typer.Option(help="Worker threads; the answer is the same.")] = None,
    engine: Annotated[
        str | None, typer.Option(help="local or mpi; by default mpi under mpiexec or srun.")
    ] = None,
    deadline: Annotated[
        float, typer.Option(help="mpi: seconds to wait for other ranks before giving up; 0 = for ever.")
    ] = DEADLINE,
) -> None:
    """Run the algorithms of an experiment file and write what came of them."""
    where = engines.chosen(engine)
    if where == "mpi":
        engines.mpi(deadline=deadline)  # first of all: from here on one rank's failure ends the job
    with threadpool_limits(1):  # data drawn at random have the same bits on any number of cores
        asked = experiment.read(file)
        if where == "mpi":
            spread = {key.replace("-", "_"): value for key, value in asked.mpi.items()}
            execute(asked, engines.mpi(**spread, deadline=deadline), out, resume)
        else:
            execute(asked, engines.local(threads if threads is not None else asked.threads), out, resume)


def execute(asked: experiment.Experiment, engine: engines.Engine, out: Path, resume: bool) -> None:
    """Run what was asked for; where there are several processes, one of them prints and writes."""
    engine.same({"experiment": asked.tables, "--resume": resume})
    if engine.leader:
        output.claim(out, asked.algorithms, asked.tables, resume)
    runs = {
        label: prepare(
            asked.problem, asked.network, algorithm, start=asked.start, seed=asked.seed, **asked.stop,
            every=asked.every, checkpoint=out / label / "checkpoints" if asked.checkpoint else None,
            checkpoint_every=asked.checkpoint, resume=resume and asked.checkpoint > 0,
            engine=engine, label=label,
        )
        for label, algorithm in asked.algorithms.items()
    }  # fmt: skip
    engine.connect(asked.problem, asked.network).close()  # reads and checks all data; nothing is written yet
    if engine.leader:
        output.begin(out, asked.tables)
    results: dict[str, Result] = {}
    for label, ready in runs.items():
        results[label] = ready.go()
        if engine.leader:
            output.write(out, results)
        if (name := results[label].interrupted) is not None:
            if engine.leader:
                hint = "; continue with --resume" if asked.checkpoint else ""
                warn(f"{label}: {results[label].reason}{hint}")
            guard.agreed = True  # all processes leave with this code
            raise typer.Exit(128 + signal.Signals[name])  # the shell's convention
    if engine.leader:
        show(out, results)


def show(out: Path, results: dict[str, Result]) -> None:
    """The picture, the table and the reasons."""
    output.picture(out, results, warn)
    console = Console()
    console.print(table(results))
    for label, result in results.items():
        console.print(f"{label}: {result.reason}", markup=False, highlight=False, soft_wrap=True)


def table(results: dict[str, Result]) -> Table:
    """One row per run, for people."""
    shown = Table(box=None, pad_edge=False)
    for name in ("", "rounds", "sent", "seconds", "stationarity", "consensus", "feasibility"):
        shown.add_column(name, justify="left" if not name else "right")
    for label, r in results.items():
        m = r.measures
        shown.add_row(
            escape(label), str(r.rounds), r.sent, f"{r.seconds:.2f}", f"{m.stationarity:.1e}",
            f"{m.consensus:.1e}", f"{m.feasibility:.1e}",
        )  # fmt: skip
    return shown


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


def warn(sentence: str) -> None:
    """One line on standard error."""
    print(f"destiny: {guard.name}{sentence}", file=sys.stderr)


def main() -> None:
    """Entry point: whatever a user can cause ends in one line and exit code 2."""
    try:
        app()
    except DestinyError as error:
        guard.wait_turn()
        warn(" ".join(str(error).split()))
        sys.exit(2)
    except (OSError, MemoryError) as error:
        guard.wait_turn()
        warn(f"{type(error).__name__}: {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        warn("interrupted")
        sys.exit(130)


if __name__ == "__main__":
    main()
