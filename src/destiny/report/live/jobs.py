"""What there is to see below a folder: results, runs that are not over, and agents of organizations."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from destiny.experiments.result_folder import STATUS
from destiny.report.sources.folder import is_own_file

DEPTH = 6  # folders below the one that is served
MOST_FOLDERS, MOST_JOBS = 20_000, 1000  # of a folder that is no folder of results, such as a home
MOST_FILES = 20_000  # whose changes are looked for in a folder of results; those of runs have far fewer
QUICK, SHARE = (
    0.05,
    20.0,
)  # seconds of a search that may be repeated at once; else it waits so many times as long
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
        Name of the agent of an organization; empty for other results.
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


class Search:
    """Looks for jobs below a folder; links are not followed.

    Every call looks at the jobs found before. New ones are searched for at once if the last search was quick.
    Otherwise the search waits, so that it takes at most a twentieth of the time in a folder of many files.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.known: list[Path] = []
        self.due = -math.inf

    def jobs(self) -> list[Job]:
        """All jobs, the newest first."""
        if time.monotonic() >= self.due:
            found = self.search()
        else:
            found = [job for path in self.known if (job := look(self.root, path)) is not None]
        return sorted(found, key=lambda job: -job.changed)

    def search(self) -> list[Job]:
        """All jobs, from a walk through the folders."""
        began = time.monotonic()
        found = (job for path in folders(self.root) if (job := look(self.root, path)) is not None)
        jobs = list(itertools.islice(found, MOST_JOBS))
        self.known = [job.path for job in jobs]
        ended = time.monotonic()
        self.due = -math.inf if ended - began < QUICK else ended + SHARE * (ended - began)
        return jobs


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
    there = [file for file in files if is_own_file(file, path)]
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
        if not is_own_file(path, path.parent) or path.stat().st_size > MOST_BYTES:
            return None
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def last_event(path: Path) -> dict[str, Any]:
    """The last line of an agent's log; empty if there is none."""
    if not is_own_file(path / LOG, path):
        return {}
    try:
        with (path / LOG).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            lines = file.read().splitlines()
        event = json.loads(lines[-1])
    except (OSError, ValueError, IndexError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def fingerprint(paths: list[Path]) -> str:
    """Changes when a file below one of these folders is written, added or removed; but for checkpoints.

    Of more than `MOST_FILES` files, the first ones are looked at.
    """
    digest = hashlib.sha256()
    for file in itertools.islice((file for folder in paths for file in files_below(folder)), MOST_FILES):
        with contextlib.suppress(OSError):  # it was replaced just now
            found = file.lstat()
            line = f"{file}\0{found.st_mtime_ns}\0{found.st_size}\n"
            digest.update(line.encode(errors="replace"))
    return digest.hexdigest()[:16]


def files_below(folder: Path) -> Iterator[Path]:
    """The files of a folder of results in a fixed order, without its checkpoints."""
    for name, below, files in os.walk(folder):
        below[:] = sorted(each for each in below if each != "checkpoints" and not each.startswith("."))
        yield from (Path(name) / file for file in sorted(files))
