"""One folder of results as it lies on disk: what can be read, and a sentence for each part that cannot."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from destiny.errors import DestinyError
from destiny.protocols import Array
from destiny.run.history import History
from destiny.storage.npz import DAMAGE

T = TypeVar("T")
P = ParamSpec("P")
NEEDED = ("step", "seconds", "stationarity", "consensus", "feasibility")  # older files may lack the others
# What comes of a file that is not what it should be, read or used.
WRONG = (
    DestinyError, OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError,
    RecursionError, csv.Error,
)  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What one method left: its line of summary.json, its history, where its solution lies."""

    label: str
    entry: dict[str, Any]
    history: History | None
    solution: Path


@dataclass(frozen=True)
class Results:
    """A folder of results.

    Attributes
    ----------
    remarks : list of str
        A sentence for each file that is missing or damaged.
    """

    path: Path
    runs: list[Run]
    network: dict[str, Any]
    about: dict[str, Any]
    extras: dict[str, Any]
    tables: dict[str, Any]
    remarks: list[str] = field(default_factory=list)


def holds_results(folder: Path) -> bool:
    """Whether a folder looks like one that a run has written."""
    return (folder / "summary.json").is_file() or any(folder.glob("*/history.csv"))


def read(folder: Path) -> Results:
    """Read what is there; nothing that is wrong with a part keeps the others from being read."""
    remarks: list[str] = []
    runs = [read_run(folder, label, entry, remarks) for label, entry in entries(folder, remarks).items()]
    parts = {name: load(folder / f"{name}.json", dict, remarks) for name in ("network", "about", "extras")}
    if parts["network"] is None and not remarks:
        remarks.append(f"{folder.name} has no network.json: the network is not drawn.")
    tables = load(folder / "experiment.json", dict, remarks)
    found = {name: part or {} for name, part in parts.items()}
    return Results(folder, runs, **found, tables=tables or {}, remarks=remarks)


def entries(folder: Path, remarks: list[str]) -> dict[str, dict[str, Any]]:
    """Lines of summary.json by label, and labels it does not know."""
    content = load(folder / "summary.json", (list, dict), remarks)
    lines = [content] if isinstance(content, dict) else content or []  # an agent's own folder has one line
    if content is None and not remarks:
        remarks.append(f"{folder.name} has no summary.json: why the runs ended is not known.")
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        label = line.get("label", line.get("agent")) if isinstance(line, dict) else None
        if not isinstance(label, str) or Path(label).name != label:
            remarks.append(f"summary.json holds a line without a proper label ({str(label)[:40]}): left out.")
        else:
            found[label] = line
    for path in sorted(folder.glob("*/history.csv")):
        found.setdefault(path.parent.name, {})
    return found


def read_run(folder: Path, label: str, entry: dict[str, Any], remarks: list[str]) -> Run:
    """A label's files; an agent's own folder has them at the top."""
    home = folder if "agent" in entry else folder / label
    history = None
    if (home / "history.csv").is_file():
        history = attempt(f"{label}/history.csv", remarks, read_history, home / "history.csv")
    elif "agent" not in entry:
        remarks.append(f"{label} has no history.csv: its curve is left out.")
    return Run(label, entry, history, home / "solution.npz")


def read_history(path: Path) -> History:
    """A history with the columns a report draws, in rising order."""
    history = History.from_csv(path)
    lacking = [name for name in NEEDED if name not in history.columns]
    if lacking:
        raise DestinyError(f"expected a column {lacking[0]!r}")
    return history


def read_solution(run: Run) -> Array | None:
    """X ``(n, p)``, if its file is whole and its numbers are."""
    try:
        with run.solution.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            X = np.asarray(file["X"], dtype=np.float64)
    except DAMAGE:
        return None
    return X if X.ndim == 2 and np.isfinite(X).all() else None


def load(path: Path, kind: type | tuple[type, ...], remarks: list[str]) -> Any:
    """Content of a JSON file, None if there is no such file or it is damaged."""
    return attempt(path.name, remarks, parse, path, kind) if path.is_file() else None


def parse(path: Path, kind: type | tuple[type, ...]) -> Any:
    """Content of a JSON file of the kind expected."""
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, kind):
        raise ValueError(f"its content is a {type(content).__name__}, expected another kind")
    return content


def attempt(
    file: str, remarks: list[str], make: Callable[P, T], *args: P.args, **options: P.kwargs
) -> T | None:
    """What ``make`` makes of a file, or None and a remark that it did not hold what it should."""
    try:
        return make(*args, **options)
    except WRONG as error:
        why = " ".join(str(error).split())[:120]
        remarks.append(f"{file} could not be used and is left out: {why or type(error).__name__}.")
        return None
