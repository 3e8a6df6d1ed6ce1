"""One folder of results: its readable content, and a sentence for each file that is missing or damaged."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from destiny.errors import DestinyError
from destiny.experiments.result_folder import STATUS
from destiny.protocols import Array
from destiny.run.history import History
from destiny.storage.npz import DAMAGE

T = TypeVar("T")
P = ParamSpec("P")
NEEDED = ("step", "seconds", "stationarity", "consensus", "feasibility")  # older files may lack the others
FOREIGN = "is a link or not a regular file, and is left out."
# What reading or using a damaged file may raise.
BAD_FILE_ERRORS = (
    DestinyError,
    OSError,
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    csv.Error,
)


@dataclass(frozen=True)
class MethodResults:
    """The results of one method: its entry in summary.json, its history, the path of its solution."""

    label: str
    entry: dict[str, Any]
    history: History | None
    solution: Path | None
    """None if there is none in the folder."""


@dataclass(frozen=True)
class FolderResults:
    """A folder of results.

    Attributes
    ----------
    remarks : list of str
        A sentence for each file that is missing or damaged.
    """

    path: Path
    runs: list[MethodResults]
    network: dict[str, Any]
    about: dict[str, Any]
    extras: dict[str, Any]
    tables: dict[str, Any]
    remarks: list[str] = field(default_factory=list)


def is_linked(path: Path, folder: Path) -> bool:
    """Return whether a path in a folder is reached by a symbolic link; the folder itself may be one."""
    names = path.relative_to(folder).parts
    return any(folder.joinpath(*names[: k + 1]).is_symlink() for k in range(len(names)))


def is_own_file(path: Path, folder: Path) -> bool:
    """Return whether a path is a regular file in a folder.

    A link may show a file from elsewhere, and reading a named pipe would wait for a writer.
    """
    return path.is_file() and not is_linked(path, folder)


def holds_results(folder: Path) -> bool:
    """Return whether a folder has a summary or a history of a run, or the state of one that is not over."""
    files = (folder / "summary.json", folder / STATUS, *folder.glob("*/history.csv"))
    return any(is_own_file(path, folder) for path in files)


def read(folder: Path) -> FolderResults:
    """Return the content of a folder; missing and damaged files become remarks."""
    remarks: list[str] = []
    live = load(folder / STATUS, dict, remarks) or {}
    running = attempt(STATUS, remarks, running_methods, folder, live) or []
    labels = {run.label for run in running}
    runs = [
        read_run(folder, label, entry, remarks)
        for label, entry in entries(folder, remarks, bool(live)).items()
        if label not in labels
    ]
    parts = {name: load(folder / f"{name}.json", dict, remarks) for name in ("network", "about", "extras")}
    if parts["network"] is None and isinstance(live.get("network"), dict):
        parts["network"] = live["network"]
    if parts["about"] is None and live:
        parts["about"] = {"problem": live.get("problem")}
    if parts["network"] is None and not remarks:
        remarks.append(f"{folder.name} has no network.json: the network is not drawn.")
    tables = load(folder / "experiment.json", dict, remarks)
    content = {name: part or {} for name, part in parts.items()}
    return FolderResults(folder, [*runs, *running], **content, tables=tables or {}, remarks=remarks)


def running_methods(folder: Path, live: dict[str, Any]) -> list[MethodResults]:
    """Return the methods of status.json that are not done, as far as they have come."""
    methods = []
    for method in live.get("methods", []):
        label, columns = str(method["label"]), method["history"]
        if method["state"] == "done" or Path(label).name != label:
            continue
        history = None
        if columns and columns["step"]:
            history = History(tuple(columns))
            rows = zip(*columns.values(), strict=True)
            history.rows = [tuple(np.nan if value is None else float(value) for value in row) for row in rows]
        done = 0 if history is None else int(history.last["round"])
        reason = f"running: round {done} of at most {method['rounds']}" if history else "not begun"
        last = {} if history is None else {k: history.last.get(k) for k in (*NEEDED, "scalars")}
        entry = {"reason": reason, "steps": last.pop("step", None), "rounds": done, **last}
        methods.append(MethodResults(label, entry, history, solution_of(folder / label, folder)))
    return methods


def entries(folder: Path, remarks: list[str], live: bool = False) -> dict[str, dict[str, Any]]:
    """Return the entries of summary.json by label, empty ones for histories without an entry."""
    content = load(folder / "summary.json", (list, dict), remarks)
    lines = [content] if isinstance(content, dict) else content or []  # an agent's own folder has one line
    if content is None and not remarks and not live:
        remarks.append(f"{folder.name} has no summary.json: why the runs ended is not known.")
    by_label: dict[str, dict[str, Any]] = {}
    for line in lines:
        label = line.get("label", line.get("agent")) if isinstance(line, dict) else None
        if not isinstance(label, str) or Path(label).name != label:
            remarks.append(f"summary.json holds a line without a proper label ({str(label)[:40]}): left out.")
        else:
            by_label[label] = line
    for path in sorted(folder.glob("*/history.csv")):
        if is_own_file(path, folder):
            by_label.setdefault(path.parent.name, {})
    return by_label


def read_run(folder: Path, label: str, entry: dict[str, Any], remarks: list[str]) -> MethodResults:
    """Return the results of a label; the folder of a single agent has its files at the top."""
    home = folder if "agent" in entry else folder / label
    history = None
    path = home / "history.csv"
    if is_own_file(path, folder):
        history = attempt(f"{label}/history.csv", remarks, read_history, path)
    elif path.exists():
        remarks.append(f"{label}/history.csv {FOREIGN}")
    elif "agent" not in entry:
        remarks.append(f"{label} has no history.csv: its curve is left out.")
    return MethodResults(label, entry, history, solution_of(home, folder))


def solution_of(home: Path, folder: Path) -> Path | None:
    """Return the file of a method's solution; None if there is none in the folder."""
    path = home / "solution.npz"
    return path if is_own_file(path, folder) else None


def read_history(path: Path) -> History:
    """Return a history; raise DestinyError if a column that the report draws is missing."""
    history = History.from_csv(path)
    missing = [name for name in NEEDED if name not in history.columns]
    if missing:
        raise DestinyError(f"expected a column {missing[0]!r}")
    return history


def read_solution(run: MethodResults, name: str = "X") -> Array | None:
    """Return X ``(n, p)``, or the axes; None if the file is missing or damaged, or they are not finite."""
    if run.solution is None:
        return None
    try:
        with run.solution.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            X = np.asarray(file[name], dtype=np.float64)
    except DAMAGE:
        return None
    return X if X.ndim == 2 and np.isfinite(X).all() else None


def load(path: Path, kind: type | tuple[type, ...], remarks: list[str]) -> Any:
    """Return the content of a JSON file; None if there is no such file or it is damaged."""
    if is_own_file(path, path.parent):
        return attempt(path.name, remarks, parse, path, kind)
    if path.exists():
        remarks.append(f"{path.name} {FOREIGN}")
    return None


def parse(path: Path, kind: type | tuple[type, ...]) -> Any:
    """Return the content of a JSON file; raise ValueError if it is not of the type ``kind``."""
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, kind):
        raise ValueError(f"its content is a {type(content).__name__}, expected another kind")
    return content


def attempt(
    file: str, remarks: list[str], make: Callable[P, T], *args: P.args, **options: P.kwargs
) -> T | None:
    """Return ``make(*args, **options)``; if the file turns out damaged, add a remark and return None."""
    try:
        return make(*args, **options)
    except BAD_FILE_ERRORS as error:
        why = " ".join(str(error).split())[:120]
        remarks.append(f"{file} could not be used and is left out: {why or type(error).__name__}.")
        return None
