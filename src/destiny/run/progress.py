"""A progress bar with the current residuals and the time left; silent where nobody is looking."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from destiny.run.metrics import Measures
from destiny.run.time_left import TimeLeft, describe

if TYPE_CHECKING:
    from rich.progress import Progress


class ProgressBar:
    """Rounds done of those to be expected, or allowed while nothing is known.

    ``show=None`` means: only on a terminal.
    """

    def __init__(
        self,
        label: str,
        rounds: int,
        show: bool | None = None,
        leader: bool = True,
        tolerance: float = 0.0,
    ) -> None:
        visible = leader and (sys.stderr.isatty() if show is None else show)
        self.bar: Progress | None = None
        if visible:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=10),  # leaves room for the residuals on a line of 80
                TextColumn("{task.completed:.0f}/{task.total:.0f}"),
                TextColumn("{task.fields[left]}"),
                TextColumn("{task.fields[residuals]}"),
                console=Console(stderr=True),
                transient=True,
            )
            self.task = self.bar.add_task(label, total=rounds, residuals="", left="")
            self.forecast = TimeLeft(tolerance, rounds)
            self.shown: Measures | None = None
            self.bar.start()

    def update(self, round: int, measures: Measures | None) -> None:
        """Move on; show the newest measures if there are any."""
        if self.bar is None:
            return
        self.bar.update(self.task, completed=round)
        if measures is None or measures is self.shown:
            return
        self.shown = m = measures
        self.forecast.add(round, time.perf_counter(), m.worst)
        ahead = self.forecast.rounds_left()
        self.bar.update(
            self.task,
            residuals=f"stat {m.stationarity:.0e} cons {m.consensus:.0e} feas {m.feasibility:.0e}",
            left=describe(self.forecast.seconds_left()),
            total=self.forecast.rounds if ahead is None else round + ahead,
        )

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
