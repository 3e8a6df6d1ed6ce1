"""A progress bar with the current residuals; silent where nobody is looking."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from destiny.run.metrics import Measures


class ProgressBar:
    """Rounds done of those allowed. ``show=None`` means: only on a terminal."""

    def __init__(self, label: str, rounds: int, show: bool | None = None, leader: bool = True) -> None:
        visible = leader and (sys.stderr.isatty() if show is None else show)
        self.bar: Progress | None = None
        if visible:
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=10),  # leaves room for the residuals on a line of 80
                TextColumn("{task.completed:.0f}/{task.total:.0f}"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[residuals]}"),
                console=Console(stderr=True),
                transient=True,
            )
            self.task = self.bar.add_task(label, total=rounds, residuals="")
            self.bar.start()

    def update(self, round: int, measures: Measures | None) -> None:
        """Move on; show the newest measures if there are any."""
        if self.bar is None:
            return
        self.bar.update(self.task, completed=round)
        if measures is not None:
            m = measures
            shown = f"stat {m.stationarity:.0e} cons {m.consensus:.0e} feas {m.feasibility:.0e}"
            self.bar.update(self.task, residuals=shown)

    def close(self) -> None:
        """Clear the line."""
        if self.bar is not None:
            self.bar.stop()
