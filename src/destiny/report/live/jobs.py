"""What there is to see below a folder: results, runs that are not over, and agents of organisations."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from destiny.experiments.result_folder import STATUS

DEPTH = 6  # folders below the one that is served
MOST_FOLDERS, MOST_JOBS = 20_000, 1000  # of a folder that is no folder of results, such as a home
MOST_BYTES = 4_000_000  # of a JSON file; those of runs are far smaller
SUMMARY, FIGURE, LOG = "summary.json", "figure.json", "log.jsonl"
TAIL = 4000  # bytes of a log that are read for its last line


@dataclass(frozen=True)
class Job:
    """A folder with something to see.

    Attributes
    ----------
    key : str
        The folder as seen from the one that is served, with slashes; its name in addresses.
    status : dict
        status.json of what is not over; empty if it is.
    agent : str
        Name of the agent of an organisation; empty for other results.
    run : str
        Name of the agent's run.
    changed : float
        When something was last written (seconds since 1970).
    """

    path: Path
    key: str
    changed: float
    status: dict[str, Any] = field(default_factory=dict)
    agent: str = ""
    run: str = ""

    @property
    def running(self) -> bool:
        """Whether it is not over, or was killed."""
        return bool(self.status)


def find(root: Path) -> list[Job]:
    """All jobs below a folder, the newest first; links to other folders are not followed."""
    jobs = []
    for path in folders(root):
        job = look(root, path)
        if job is not None:
            jobs.append(job)
        if len(jobs) == MOST_JOBS:
            break
    return sorted(jobs, key=lambda job: -job.changed)


def folders(root: Path) -> Iterator[Path]:
    """The folders to look into: none below one that is a job, none whose name begins with a dot."""
    for count, (name, below, files) in enumerate(os.walk(root)):
        path = Path(name)
        yield path
        deep = len(path.relative_to(root).parts) >= DEPTH
        if deep or count >= MOST_FOLDERS or {SUMMARY, FIGURE, STATUS} & set(files):
            below.clear()
        below[:] = sorted(folder for folder in below if not folder.startswith("."))


def look(root: Path, path: Path) -> Job | None:
    """The job that a folder is; None if it is none."""
    files = [path / name for name in (SUMMARY, FIGURE, STATUS)]
    there = [file for file in files if file.is_file()]
    if not there:
        return None
    try:
        changed = max(file.stat().st_mtime for file in there)
    except OSError:  # a run has just ended
        return None
    status = read_table(path / STATUS)
    summary = status if "agent" in status else read_table(path / SUMMARY)
    return Job(
        path,
        path.relative_to(root).as_posix(),
        changed,
        status,
        str(summary.get("agent") or ""),
        str(summary.get("run") or ""),
    )


def read_table(path: Path) -> dict[str, Any]:
    """A JSON object; empty if the file is missing, damaged, too large or something else."""
    content = read_json(path)
    return content if isinstance(content, dict) else {}


def read_list(path: Path) -> list[Any]:
    """A JSON list; empty if the file is missing, damaged, too large or something else."""
    content = read_json(path)
    return content if isinstance(content, list) else []


def read_json(path: Path) -> Any:
    """The content of a JSON file; None if it cannot be had."""
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.stat().st_size <= MOST_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None


def last_event(path: Path) -> dict[str, Any]:
    """The last line of an agent's log; empty if there is none."""
    try:
        with (path / LOG).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            lines = file.read().splitlines()
        event = json.loads(lines[-1])
    except (OSError, ValueError, IndexError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def fingerprint(paths: list[Path]) -> str:
    """Changes when a file below one of these folders is written, added or removed; but for checkpoints."""
    digest = hashlib.sha256()
    for folder in paths:
        for name, below, files in os.walk(folder):
            below[:] = sorted(each for each in below if each != "checkpoints" and not each.startswith("."))
            for file in sorted(files):
                with contextlib.suppress(OSError):  # it was replaced just now
                    found = (Path(name) / file).stat()
                    line = f"{name}/{file}\0{found.st_mtime_ns}\0{found.st_size}\n"
                    digest.update(line.encode(errors="replace"))
    return digest.hexdigest()[:16]
