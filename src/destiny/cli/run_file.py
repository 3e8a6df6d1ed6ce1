"""What ``destiny run`` and ``destiny compare`` do with an experiment file."""

from __future__ import annotations

import signal
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import typer
from threadpoolctl import threadpool_limits

from destiny import engines
from destiny.cli import output
from destiny.engines.ranks.guard import guard
from destiny.engines.same_settings import columns_of
from destiny.errors import DestinyError
from destiny.experiments import result_folder
from destiny.experiments.batch import Batch, prepare_all, run_all
from destiny.experiments.compare import reasons, table
from destiny.experiments.file import Experiment
from destiny.experiments.file import read as read_experiment
from destiny.experiments.live_status import LiveStatus
from destiny.run import forecast
from destiny.run.result import Result
from destiny.run.solve import Run, SolveOptions


def run_file(
    path: Path,
    out: Path | None,
    resume: bool,
    threads: int | None,
    engine: str | None,
    deadline: float,
    skip: bool,
) -> None:
    """Read an experiment file and run it on the engine requested, or on the one that fits the launcher."""
    where = engines.engine_for_command(engine)
    if where == "mpi":
        engines.mpi(deadline=deadline)  # first of all: from here on one rank's failure ends the job
    with threadpool_limits(1):  # data drawn at random have the same bits on any number of cores
        experiment = read_experiment(path)
        if where == "mpi":
            spread = {key.replace("-", "_"): value for key, value in experiment.mpi.items()}
            execute(experiment, engines.mpi(**spread, deadline=deadline), out, resume, skip)
        else:
            workers = threads if threads is not None else experiment.threads
            execute(experiment, engines.local(workers), out, resume, skip)


def check_file(path: Path, out: Path | None, resume: bool) -> None:
    """Read an experiment file and all its data, and print what a run would send; nothing is written."""
    with threadpool_limits(1):
        experiment = read_experiment(path)
        if out is not None:
            result_folder.claim(out, experiment.algorithms, experiment.tables, resume)
        batch = prepare_all(
            experiment.problem,
            experiment.network,
            experiment.algorithms,
            lambda label: replace(experiment.options, label=label),
            skip=False,
            world=experiment.world,
        )
        engines.local().connect(experiment.problem, experiment.network).close()  # reads and checks all data
        print(experiment.problem.describe())
        for what, names in experiment.problem.column_names.items():
            print(f"columns of {what}: {', '.join(names)}")
        links = len(experiment.network.all_edges())
        print(f"network: {experiment.network.facts().get('name', 'of your own')}, {links} links")
        for label, prepared in real(batch).items():
            for sentence in forecast.sentences(prepared):
                print(f"{label}: {sentence}")
        if experiment.world is not None:
            print("time is simulated: nothing is sent")
        for sentence in forecast.disclosure(experiment.problem, experiment.network, experiment.messages):
            print(sentence)
    print("everything can be read and fits together; nothing was written or sent")


def real(batch: Batch) -> dict[str, Run]:
    """The runs whose time is not simulated."""
    return {label: run for label, run in batch.runs.items() if isinstance(run, Run)}


def execute(
    experiment: Experiment, engine: engines.Engine, out: Path | None, resume: bool, skip: bool
) -> None:
    """Check everything, then run one algorithm after the other and write each result when it is complete.

    With several processes, only the leader prints and writes. Raises MismatchError if a method does not fit
    the problem, unless ``skip``; exits with 128 + the signal's number after an interruption.
    """
    engine.require_same(
        {"experiment": experiment.tables, "--resume": resume, "columns": columns_of(experiment.problem)}
    )
    writes = out if engine.leader else None
    if writes is not None:
        result_folder.claim(writes, experiment.algorithms, experiment.tables, resume)
    save = out is not None and experiment.checkpoint > 0

    def options(label: str) -> SolveOptions:
        folder = out / label / "checkpoints" if out is not None and save else None
        return replace(
            experiment.options, checkpoint=folder, resume=resume and save, engine=engine, label=label
        )

    batch = prepare_all(
        experiment.problem,
        experiment.network,
        experiment.algorithms,
        options,
        skip=skip,
        world=experiment.world,
    )
    engine.connect(
        experiment.problem, experiment.network
    ).close()  # reads and checks all data; nothing is written yet
    engine.require_same({})  # all have: a process that refused its data has ended the run by now
    if writes is not None:
        result_folder.begin(writes, experiment.tables)
    started = datetime.now(UTC)

    live = LiveStatus(None if experiment.world else writes, real(batch))

    def keep(label: str, results: dict[str, Result]) -> None:
        if writes is not None:
            result_folder.write(writes, results)
        live.done.add(label)
        if (name := results[label].interrupted) is not None:
            if engine.leader:
                output.warn(f"{label}: {results[label].reason}{'; continue with --resume' if save else ''}")
            guard.agreed = True  # all processes leave with this code
            raise typer.Exit(128 + signal.Signals[name])  # the shell's convention

    with live:
        results = run_all(batch.runs, keep)
    if writes is not None and results:
        write_description(writes, experiment, engine, results, started)
    if engine.leader:
        print_results(writes, results, batch.skipped)


def write_description(
    out: Path,
    experiment: Experiment,
    engine: engines.Engine,
    results: dict[str, Result],
    started: datetime,
) -> None:
    """Write what a report needs besides the results; errors only warn, since the results are written."""
    # On MPI this process holds the data of some agents only, and must not read those of others.
    here = isinstance(engine, engines.Local)
    try:
        result_folder.describe(
            out,
            experiment.problem,
            experiment.network,
            results,
            seed=experiment.seed,
            started=started,
            data=here,
            engine="one process" if here else "MPI",
            image=experiment.image,
        )
    except DestinyError as error:
        output.warn(f"a report will lack the network and more: {error}")


def print_results(out: Path | None, results: dict[str, Result], skipped: dict[str, str]) -> None:
    """Write the picture; print the table and the reasons for stopping."""
    if out is not None and results:
        result_folder.picture(out, results, output.warn)
    console = output.console()
    console.print(table(results, skipped))
    for line in reasons(results, skipped):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
