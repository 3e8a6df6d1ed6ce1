"""The command line: one function per command, which imports what it alone needs."""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from destiny import networks, registry
from destiny._version import __version__
from destiny.cli import agent, new
from destiny.cli.completion import among
from destiny.cli.output import warn
from destiny.engines.ranks.engine import DEADLINE
from destiny.engines.ranks.guard import guard
from destiny.errors import DestinyError, SettingsError

app = typer.Typer(pretty_exceptions_enable=False, no_args_is_help=True)
app.command()(new.new)
app.command("schema")(new.show_schema)
app.command()(agent.agent)
app.command()(agent.certificates)
app.add_typer(agent.many, name="agents")
for path, function in registry.commands().items():
    group, _, name = path.rpartition(" ")
    (agent.many if group == "agents" else app).command(name)(function)


def print_version(flag: bool) -> None:
    """Print the version and exit, if the flag is set."""
    if flag:
        print(f"destiny {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Decentralized optimization under orthogonality constraints."""


FILE = Annotated[Path, typer.Argument(help="The experiment, a TOML file (docs/experiment-files.md).")]
RESUME = Annotated[bool, typer.Option("--resume", help="Continue from the checkpoints in --out.")]
THREADS = Annotated[int | None, typer.Option(help="Worker threads; the answer is the same.")]
ENGINE = Annotated[
    str | None,
    typer.Option(
        help="local or mpi; by default mpi under mpiexec or srun.", autocompletion=among(("local", "mpi"))
    ),
]
WAIT = Annotated[
    float, typer.Option(help="mpi: seconds to wait for other ranks before giving up; 0 = for ever.")
]


@app.command()
def run(
    file: FILE,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; made if need be. Needed without --dry.")
    ] = None,
    resume: RESUME = False,
    threads: THREADS = None,
    engine: ENGINE = None,
    deadline: WAIT = DEADLINE,
    dry: Annotated[
        bool, typer.Option("--dry", help="Check the file and all data, say what will be sent, and stop.")
    ] = False,
) -> None:
    """Run the algorithms of an experiment file and write what came of them."""
    from destiny.cli.run_file import check_file, run_file

    if dry:
        check_file(file, out, resume)
    elif out is None:
        raise SettingsError("--out is missing: the folder for the results; or --dry to check the file only")
    else:
        run_file(file, out, resume, threads, engine, deadline, skip=False)


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
    from destiny.cli.run_file import run_file

    if resume and out is None:
        raise SettingsError("--resume needs --out, the folder to continue from")
    run_file(file, out, resume, threads, engine, deadline, skip=True)


@app.command()
def doctor(
    file: FILE,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Look at an experiment and try a few hundred steps: predict its rounds, say what would help."""
    from rich.console import Console
    from threadpoolctl import threadpool_limits

    from destiny.diagnosis import diagnose, text_report
    from destiny.diagnosis.findings import Finding
    from destiny.experiments.file import read as read_experiment

    with threadpool_limits(1), Console(stderr=True).status("reading") as status:
        experiment = read_experiment(file)
        stop = {key: value for key, value in experiment.stop.items() if key in ("rounds", "tolerance")}
        diagnosis = diagnose(
            experiment.problem,
            experiment.network,
            experiment.algorithms,
            start=experiment.start,
            seed=experiment.seed,
            **stop,
            messages=experiment.messages,
            tell=status.update,
        )
    if experiment.world is not None:
        words = "rounds are predicted for a run that is not in [world]: destiny compare has its seconds"
        diagnosis = replace(diagnosis, findings=(*diagnosis.findings, Finding("world", "look", words)))
    if as_json:
        print(json.dumps(diagnosis.as_dict(), indent=2))
    elif sys.stdout.isatty():
        text_report.print_report(diagnosis, Console())
    else:
        print(text_report.to_text(diagnosis, width=1000))


@app.command()
def network(
    kind: Annotated[
        str, typer.Argument(help=", ".join(networks.KINDS), autocompletion=among(networks.KINDS))
    ],
    agents: Annotated[int | None, typer.Option(help="Number of agents.")] = None,
    prob: Annotated[float | None, typer.Option(help="Probability of a link.")] = None,
    degree: Annotated[int | None, typer.Option(help="Links per agent.")] = None,
    radius: Annotated[float | None, typer.Option(help="Reach of a link in the unit square.")] = None,
    rows: Annotated[int | None, typer.Option(help="Rows of a grid or torus.")] = None,
    cols: Annotated[int | None, typer.Option(help="Columns of a grid or torus.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of a random network.")] = None,
    weights: Annotated[
        str | None, typer.Option(help=", ".join(networks.RULES), autocompletion=among(networks.RULES))
    ] = None,
    path: Annotated[
        str | None, typer.Option(help="Edge list, GraphML or .npy, for kinds file and weights.")
    ] = None,
    loss: Annotated[float | None, typer.Option(help="Probability that a link is down in a round.")] = None,
    draw: Annotated[Path | None, typer.Option(help="Draw the network into this PNG.")] = None,
) -> None:
    """Build a network, tell how well it mixes, and draw it."""
    values = {
        "prob": prob,
        "degree": degree,
        "radius": radius,
        "rows": rows,
        "cols": cols,
        "seed": seed,
        "weights": weights,
        "path": path,
        "loss": loss,
    }
    options: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    topology = networks.build(kind, agents, **options)
    print(topology)
    if draw is not None:
        print(f"drawn: {topology.draw(draw)}")


@app.command()
def reproduce(
    which: Annotated[
        str,
        typer.Argument(
            help="figure1 to figure5, or all.",
            autocompletion=among((*(f"figure{k}" for k in range(1, 6)), "all")),
        ),
    ],
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
    from destiny.cli import output
    from destiny.experiments.paper import figures
    from destiny.experiments.paper import reproduce as reproduction

    names = figures.NAMES if which == "all" else (which,)
    try:
        verdicts_by_figure = reproduction.reproduce(names, out, seeds, small, data, threads=threads)
    except reproduction.Interrupted as signal_name:
        warn(f"interrupted by {signal_name}: the same command goes on where it was")
        raise typer.Exit(128 + signal.Signals[str(signal_name)]) from None
    console = output.console()
    for name, verdicts in verdicts_by_figure.items():
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


@app.command()
def serve(
    folder: Annotated[Path, typer.Argument(help="Folder with results, running jobs or agents below.")],
    port: Annotated[int, typer.Option(help="On this machine; 0 takes any that is free.")] = 8765,
    open_it: Annotated[bool, typer.Option("--open", help="Show the page in the browser.")] = False,
) -> None:
    """Show results and running jobs of a folder in the browser, live; on this machine only, read-only."""
    from destiny.report.live.server import open_server

    server = open_server(folder, port)
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    print(f"{address} shows {folder}; Ctrl-C ends it", flush=True)
    if open_it:
        typer.launch(address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


@app.command("report")
def make_report(
    folder: Annotated[Path, typer.Argument(help="Folder of results: --out of run, compare or reproduce.")],
    out: Annotated[
        Path | None,
        typer.Option(help="The HTML file (DIR/report.html), or the folder of pictures (DIR/figures)."),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            help="html, or for papers png, pdf, svg.", autocompletion=among(("html", "png", "pdf", "svg"))
        ),
    ] = "html",
    open_it: Annotated[bool, typer.Option("--open", help="Show the page in the browser.")] = False,
) -> None:
    """Make one HTML page, or pictures for papers, from result files alone."""
    from destiny import report

    written = report.report(folder, out, format)
    for path in written:
        print(f"written: {path}")
    if open_it and format == "html":
        typer.launch(str(written[0]))


def main() -> None:
    """Entry point: errors a user can cause end in one line on standard error and an exit code, mostly 2."""
    warnings.showwarning = _show_warning
    try:
        app()
    except DestinyError as error:
        guard.wait_turn()
        warn(" ".join(str(error).split()))
        sys.exit(error.code)
    except (OSError, MemoryError) as error:
        guard.wait_turn()
        warn(_one_sentence(error))
        sys.exit(2)
    except KeyboardInterrupt:
        warn("interrupted")
        sys.exit(130)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as one line, without the place in the source."""
    warn(str(message))


def _one_sentence(error: OSError | MemoryError) -> str:
    """What the system refused, in words."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        return f"cannot read or write {os.fspath(error.filename)}: {error.strerror.lower()}"
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
