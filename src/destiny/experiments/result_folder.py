"""The files of a run: summary.json, per label history.csv and solution.npz, and what a report needs besides.

Never half-written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from destiny.errors import DestinyError, MissingExtraError, SettingsError
from destiny.experiments import description
from destiny.problems.own_problem import as_problem
from destiny.protocols import Problem, Topology
from destiny.run.own import as_topology
from destiny.run.result import Result, plot_results

DESCRIBED = ("network.json", "about.json", "extras.json")  # what `describe` writes
STATUS = "status.json"  # of a run that is not over, see live_status.py
FILES = ("summary.json", "convergence.png", "experiment.json", STATUS, *DESCRIBED)
SOLUTION = ("X", "agents", "axes", "mean", "scale", "target_mean")  # in solution.npz, where a result has them
FREE = ("stop", "run", "mpi")  # what may change between a run and its continuation


def claim(folder: Path, labels: Iterable[str], tables: Mapping[str, Any], resume: bool) -> None:
    """Refuse a folder that cannot be used, before anything is computed; nothing is written yet."""
    if folder.exists() and not folder.is_dir():
        raise SettingsError(f"--out {folder} must be a folder; found a file")
    for name in (*labels, *FILES):
        if (folder / name).exists() and (folder / name).is_dir() == (name in FILES):
            raise SettingsError(f"--out {folder} holds {name!r}, which is in the way: choose another folder")
    present = [name for name in FILES if (folder / name).exists()]
    present += [str(path.relative_to(folder)) for path in folder.glob("*/checkpoints")]
    if present and not resume:
        raise SettingsError(
            f"--out {folder} holds another run ({present[0]}): choose another folder, "
            "or continue that run with --resume"
        )
    if present:
        same_experiment(folder, tables)
    parent = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    if not parent.is_dir():
        raise SettingsError(f"--out {folder} cannot be made: {parent} is not a folder")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise SettingsError(f"--out {folder} cannot be written: no permission in {parent}")


def lasting(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of an experiment that make it what it is."""
    return {name: table for name, table in tables.items() if name not in FREE}


def same_experiment(folder: Path, tables: Mapping[str, Any]) -> None:
    """Refuse to continue another experiment than the one in the folder."""
    try:
        before = dict(json.loads((folder / "experiment.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise SettingsError(
            f"--out {folder} cannot be resumed: its experiment.json cannot be read"
        ) from error
    now = lasting(tables)
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            raise SettingsError(
                f"--out {folder} holds another run: its [{name}] is {before.get(name)}, "
                f"this file's is {now.get(name)}; choose another folder"
            )


def begin(folder: Path, tables: Mapping[str, Any]) -> None:
    """Mark the folder as this experiment's."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "experiment.json", lasting(tables))


def write(folder: Path, results: Mapping[str, Result]) -> None:
    """Write what is known so far; the newest result is the last of ``results``."""
    label, result = list(results.items())[-1]
    (folder / label).mkdir(parents=True, exist_ok=True)
    replace(folder / label / "history.csv", result.history.to_csv)
    replace(folder / label / "solution.npz", lambda path: _save_solution(path, result))
    entries = [{"label": name, **r.summary()} for name, r in results.items()]
    write_json(folder / "summary.json", entries, allow_nan=False)


def describe(
    folder: Path,
    problem: Problem,
    network: Topology,
    results: Mapping[str, Result],
    image: Sequence[int] | None = None,
    classes: Sequence[object] | None = None,
    seed: int | None = None,
    engine: str = "local",
    *,
    started: datetime | None = None,
    data: bool = True,
) -> None:
    """network.json, about.json and extras.json: what a report is made from besides the results.

    Parameters
    ----------
    folder : Path
    problem, network
        Those of the results.
    results : mapping from labels to Result
    image : sequence of int, optional
        (height, width) of the pictures that are the columns of the data, (height, width, 3) for colors that
        lie plane after plane.
    classes : sequence, optional
        Names of the rows of OLSR's targets.
    seed : int, optional
    engine : str
        Where the agents lived, in a few words.
    started : datetime, optional
    data : bool
        Whether this process holds the data of all agents, so that a picture of them gives nothing away.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shown = as_problem(problem)
    answers = {label: r.X for label, r in results.items()}
    extras: dict[str, Any] = dict(shown.portrait(answers)) if data else {"kind": shown.kind}
    if image is not None:
        extras["image"] = [int(side) for side in image]
    if classes is not None:
        extras["classes"] = [str(name) for name in classes]
    tables = (
        description.network_facts(as_topology(network)),
        description.about(shown, seed, engine, started),
        extras,
    )
    for name, table in zip(DESCRIBED, tables, strict=True):
        write_json(folder / name, table, indent=None)


def picture(folder: Path, results: Mapping[str, Result], warn: Callable[[str], None]) -> None:
    """convergence.png; without matplotlib, a sentence instead."""
    try:
        replace(folder / "convergence.png", lambda path: plot_results(results, path))
    except MissingExtraError as error:
        warn(f"convergence.png was not drawn: {error}")


def write_json(path: Path, content: object, indent: int | None = 2, allow_nan: bool = True) -> None:
    """A JSON file, made whole; its folder must be there."""
    text = json.dumps(content, indent=indent, allow_nan=allow_nan) + "\n"
    replace(path, lambda aside: aside.write_text(text, encoding="utf-8"))


def replace(path: Path, writer: Callable[[Path], object]) -> None:
    """Write aside, then rename: a reader sees the old file or the new one."""
    aside = path.with_name(f".{path.name}.tmp{path.suffix}")
    try:
        writer(aside)
        aside.replace(path)
    except OSError as error:
        raise DestinyError(f"could not write {path}: {error.strerror or error}") from error
    finally:
        aside.unlink(missing_ok=True)


def _save_solution(path: Path, result: Result) -> None:
    np.savez(path, allow_pickle=False, **result.arrays(SOLUTION))
