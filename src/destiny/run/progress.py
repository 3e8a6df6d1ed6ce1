"""A progress bar with the current residuals and the time left; for whoever looks at a run."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from destiny.run.metrics import Measures

LEAST = 4  # measurements before anything is said
HALF = 2  # the newest half of the measurements counts: early rates do not last


class ProgressBar:
    """Rounds done of those to be expected, or allowed while nothing is known."""

    def __init__(self, label: str, rounds: int, tolerance: float = 0.0) -> None:
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
        """Take it away."""
        self.bar.stop()


@dataclass
class TimeLeft:
    """Rounds and seconds left until the worst residual is below ``tolerance``, at most ``rounds`` in all."""

    tolerance: float
    rounds: int
    seen: list[tuple[int, float, float]] = field(default_factory=list)

    def add(self, round: int, seconds: float, residual: float) -> None:
        """Note the worst residual after some rounds and seconds."""
        if math.isfinite(residual) and residual > 0:
            self.seen.append((round, seconds, math.log(residual)))

    def rounds_left(self) -> int | None:
        """Return the rounds to come; None as long as nothing can be said."""
        recent = self.seen[-max(LEAST, len(self.seen) // HALF) :]
        if len(recent) < LEAST or self.tolerance <= 0:
            return None
        mean_round = sum(r for r, _, _ in recent) / len(recent)
        mean_log = sum(log for _, _, log in recent) / len(recent)
        spread = sum((r - mean_round) ** 2 for r, _, _ in recent)
        slope = sum((r - mean_round) * (log - mean_log) for r, _, log in recent) / (spread or 1.0)
        now, _, log = self.seen[-1]
        if slope >= 0:
            return None
        needed = (math.log(self.tolerance) - log) / slope
        return max(0, min(math.ceil(needed), self.rounds - now))

    def seconds_left(self) -> float | None:
        """Return the seconds to come; None as long as nothing can be said."""
        left = self.rounds_left()
        if left is None:
            return None
        recent = self.seen[-max(LEAST, len(self.seen) // HALF) :]
        (first, start, _), (last, end, _) = recent[0], recent[-1]
        return left * (end - start) / max(1, last - first)


def describe(seconds: float | None) -> str:
    """Return a time in words, such as "about 3 min left"."""
    if seconds is None:
        return "time left unknown"
    if seconds < 60:
        return f"about {math.ceil(seconds)} s left"
    minutes = seconds / 60
    return f"about {minutes:.0f} min left" if minutes < 60 else f"about {minutes / 60:.1f} h left"
