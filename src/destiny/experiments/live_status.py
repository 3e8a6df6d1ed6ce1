"""status.json of a folder whose run is not over: where each method is, for `destiny serve`."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from destiny.errors import DestinyError
from destiny.experiments import description
from destiny.experiments.result_folder import STATUS, write_json
from destiny.run.history import History
from destiny.run.solve import Run

EVERY = 1.0  # seconds; runs that take less leave no trace
POINTS = 400  # of a curve
COLUMNS = (
    *("step", "round", "scalars", "bytes", "passes", "seconds"),
    *("stationarity", "consensus", "feasibility"),
)
logger = logging.getLogger(__name__)


class LiveStatus:
    """Writes status.json every second while runs go on, and removes it in the end.

    A thread reads what the runs have measured, so that a run neither waits for it nor knows of it. A process
    that is killed leaves the file behind, with the time of its last sign of life.

    Parameters
    ----------
    folder : Path, optional
        None writes nothing.
    runs : mapping from labels to Run
        In the order in which they are run.
    """

    def __init__(self, folder: Path | None, runs: Mapping[str, Run]) -> None:
        self.folder, self.runs = folder, runs
        self.done: set[str] = set()
        self.started = datetime.now(UTC)
        self.network: dict[str, Any] | None = None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.keep_writing, daemon=True)

    def __enter__(self) -> LiveStatus:
        if self.folder is not None:
            self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        if self.folder is not None:
            self.thread.join()
            with contextlib.suppress(OSError):
                (self.folder / STATUS).unlink(missing_ok=True)

    def keep_writing(self) -> None:
        """Write until the runs are over; a failure ends the writing, not the run."""
        assert self.folder is not None
        while not self.over.wait(EVERY):
            try:
                write_json(self.folder / STATUS, self.content(), indent=None, allow_nan=False)
            except (DestinyError, OSError, ValueError) as error:
                logger.warning("no more %s: %s", self.folder / STATUS, error)
                return

    def content(self) -> dict[str, Any]:
        """The state of all runs at this moment."""
        if self.network is None:
            first = next(iter(self.runs.values()))
            self.network = finite(description.network_facts(first.plan.network))
            self.problem = first.plan.problem.describe()
        running = next((label for label in self.runs if label not in self.done), None)
        return {
            "started": description.stamp(self.started),
            "updated": datetime.now(UTC).isoformat(timespec="seconds"),
            "every": EVERY,
            "problem": self.problem,
            "network": self.network,
            "methods": [
                {
                    "label": label,
                    "state": "done" if label in self.done else "running" if label == running else "waiting",
                    "rounds": run.options.rounds,
                    "tolerance": run.options.tolerance,
                    "history": {} if label in self.done else columns(newest(run)),
                }
                for label, run in self.runs.items()
            ],
        }


def newest(run: Run) -> History:
    """The history that grows: that of the mirrored start, once a square X is tried from there."""
    history = run.observed.history if run.twin is None else run.twin.observed.history
    return history if len(history) else run.observed.history


def columns(history: History) -> dict[str, list[float | None]]:
    """At most `POINTS` rows of a history that may grow meanwhile, the first and the last among them."""
    rows = list(history.rows)
    few = np.unique(np.linspace(0, max(0, len(rows) - 1), min(len(rows), POINTS)).round().astype(int))
    positions = {name: history.columns.index(name) for name in COLUMNS if name in history.columns}
    return {name: [plain(rows[k][at]) for k in few] for name, at in positions.items()}


def plain(value: float) -> float | None:
    """A number for JSON; None if it is not finite."""
    return float(value) if math.isfinite(value) else None


def finite(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts without numbers that JSON does not know."""
    return {k: v for k, v in facts.items() if not isinstance(v, float) or math.isfinite(v)}
