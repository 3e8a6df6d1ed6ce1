"""Run the paper's figures: every panel, seed and method, each kept as it comes, and the claims at the end."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from threadpoolctl import threadpool_limits

from destiny import datasets, engines
from destiny.errors import DestinyError, SettingsError
from destiny.experiments import file, result_folder
from destiny.experiments.batch import prepare_all, run_all
from destiny.experiments.paper import claims, figures
from destiny.experiments.paper.figures import Figure, Panel
from destiny.run.history import COLUMNS, UNCOUNTED, History
from destiny.run.result import Result
from destiny.run.solve import SolveOptions
from destiny.run.stopping import RunStatus, Stop


class Interrupted(Exception):
    """A signal ended a run; what is done is kept."""


@dataclass
class Watch:
    """A rule that stops nothing: it tells the progress bar where a run is."""

    bar: Progress
    task: TaskID
    title: str
    before: float
    cost: float

    def check(self, status: RunStatus) -> Stop | None:
        self.bar.update(self.task, description=self.title, completed=self.before + self.cost * status.round)
        return None


def unit(out: Path, figure: Figure, panel: Panel, seed: int) -> Path:
    """The folder of one panel and seed: a result folder like those of ``destiny run``."""
    return out / figure.name / panel.name / f"seed-{seed}"


def done(folder: Path, panel: Panel) -> bool:
    """Whether all its methods have been run."""
    try:
        entries = _json(folder / "summary.json")
        return [entry["label"] for entry in entries] == panel.labels and (folder / "times.json").exists()
    except (OSError, ValueError, KeyError, TypeError):
        return False


def reproduce(
    names: Sequence[str],
    out: Path,
    seeds: int = 3,
    small: bool = False,
    data: Path | None = None,
    progress: bool | None = None,
    threads: int | None = None,
) -> dict[str, list[claims.Verdict]]:
    """Run some figures, or what is missing of them, and judge their claims.

    Parameters
    ----------
    names : sequence of str
        Of `destiny.figures.NAMES`.
    out : Path
        Every figure gets a folder in it; what is there already is not run again.
    seeds : int
        Each panel is run with the seeds 0, 1, ..., seeds - 1.
    small : bool
        The small twins, without data files, in seconds.
    data : Path, optional
        The folder of the data sets, as in `destiny.datasets`.

    Returns
    -------
    dict of lists of Verdict
        By figure.

    Raises
    ------
    Interrupted
        On Ctrl-C and SIGTERM; the same call goes on where it was.
    """
    if seeds < 1:
        raise SettingsError(f"--seeds must be at least 1; found {seeds}")
    selected = [figures.read(name, small) for name in names]
    units = [(figure, panel, seed) for figure in selected for seed in range(seeds) for panel in figure.panels]
    engine = engines.local(threads)
    for figure, panel, seed in units:  # refuse now what would be refused in an hour
        result_folder.claim(unit(out, figure, panel, seed), panel.labels, panel.seeded(seed), resume=True)
    todo = [(f, p, s) for f, p, s in units if not done(unit(out, f, p, s), p)]
    for name in dict.fromkeys(panel.tables["problem"].get("dataset") for _, panel, _ in todo):
        if name in datasets.locations.FILES:
            datasets.locations.find(name, data)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, disable=progress is False, transient=True) as bar:
        task = bar.add_task("", total=sum(_cost(panel) * len(panel.labels) for _, panel, _ in todo))
        before = 0.0
        for figure, panel, seed in todo:
            _run(unit(out, figure, panel, seed), figure, panel, seed, data, engine, bar, task, before)
            before += _cost(panel) * len(panel.labels)
    return {figure.name: conclude(out, figure, seeds) for figure in selected}


def _cost(panel: Panel) -> float:
    """What one method may take at most, in milliseconds."""
    return panel.cost * float(panel.tables["stop"]["rounds"])


def _run(
    folder: Path,
    figure: Figure,
    panel: Panel,
    seed: int,
    data: Path | None,
    engine: engines.Engine,
    bar: Progress,
    task: TaskID,
    before: float,
) -> None:
    """All methods of one panel and seed."""
    tables = panel.seeded(seed)
    with threadpool_limits(1):  # data drawn at random have the same bits on any number of cores
        experiment = file.make(tables, Path(), f"{figure.name} {panel.name}", data)
    result_folder.begin(folder, tables)
    started = datetime.now(UTC)
    times: dict[str, dict[str, float]] = {}
    done = {label: before + k * _cost(panel) for k, label in enumerate(experiment.algorithms)}

    def options(label: str) -> SolveOptions:
        title = f"{figure.name} {panel.title}, seed {seed}, {label}"
        return replace(
            experiment.options,
            checkpoint=folder / label / "checkpoints",
            resume=True,
            engine=engine,
            progress=False,
            label=label,
            rules=[Watch(bar, task, title, done[label], panel.cost)],
        )

    clock = time.perf_counter()

    def keep(label: str, results: dict[str, Result]) -> None:
        nonlocal clock
        result = results[label]
        if result.interrupted is not None:
            raise Interrupted(result.interrupted)
        spent, clock = time.perf_counter() - clock, time.perf_counter()
        times[label] = {"running": result.seconds, "measuring": result.measuring, "all": spent}
        result_folder.write(folder, results)

    batch = prepare_all(experiment.problem, experiment.network, experiment.algorithms, options, skip=False)
    results = run_all(batch.runs, keep)
    result_folder.describe(
        folder,
        experiment.problem,
        experiment.network,
        results,
        image=experiment.image,
        seed=seed,
        started=started,
        engine="one process",
    )
    for label in results:  # they have done their duty
        shutil.rmtree(folder / label / "checkpoints", ignore_errors=True)
    result_folder.write_json(folder / "times.json", times)


def histories(out: Path, figure: Figure, seeds: int) -> dict[str, dict[str, list[History]]]:
    """Of every panel and method, one per seed."""
    return {
        panel.name: {
            label: [_history(unit(out, figure, panel, seed), label) for seed in range(seeds)]
            for label in panel.labels
        }
        for panel in figure.panels
    }


def _history(folder: Path, label: str) -> History:
    """Of one run that is done."""
    try:
        history = History.from_csv(folder / label / "history.csv")
    except DestinyError as error:
        raise DestinyError(f"{error}; delete {folder} and give the same command again") from error
    entries = {entry["label"]: entry for entry in _json(folder / "summary.json")}
    least = COLUMNS[:UNCOUNTED]  # older runs have no more
    whole = history.columns[:UNCOUNTED] == least and len(history) > 0
    if not whole or history["round"][-1] != entries[label]["rounds"]:
        raise DestinyError(
            f"{folder / label / 'history.csv'} must hold the whole run, in the columns {', '.join(least)}; "
            f"found less; delete {folder} and give the same command again"
        )
    return history


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def conclude(out: Path, figure: Figure, seeds: int) -> list[claims.Verdict]:
    """Judge the claims and write figure.json and claims.json, from the files of the runs alone."""
    runs = histories(out, figure, seeds)
    titles = {panel.name: panel.title for panel in figure.panels}
    verdicts = [claims.judge(claim, runs, titles) for claim in figure.claims]
    folder = out / figure.name
    result_folder.write_json(
        folder / "figure.json",
        {
            "name": figure.name,
            "title": figure.title,
            "about": figure.about,
            "paper": figure.paper,
            "panels": [{"name": panel.name, "title": panel.title} for panel in figure.panels],
            "seeds": list(range(seeds)),
            "settings": figure.settings,
            "seconds": _seconds(out, figure, seeds),
            "small": figure.small,
        },
    )
    result_folder.write_json(folder / "claims.json", [verdict.as_dict() for verdict in verdicts])
    return verdicts


def _seconds(out: Path, figure: Figure, seeds: int) -> dict[str, float]:
    """What the figure took, and the parts of it that methods and measurements took."""
    total = {"all": 0.0, "running": 0.0, "measuring": 0.0}
    for panel in figure.panels:
        for seed in range(seeds):
            times = _json(unit(out, figure, panel, seed) / "times.json")
            for part in total:
                total[part] += sum(entry[part] for entry in times.values())
    return {"total": round(total.pop("all"), 1), **{part: round(value, 1) for part, value in total.items()}}
