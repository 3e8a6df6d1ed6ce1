"""How long a run will take, from the rate at which its residuals have fallen so far."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

LEAST = 4  # measurements before anything is said
HALF = 2  # the newest half of the measurements counts: early rates do not last


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
