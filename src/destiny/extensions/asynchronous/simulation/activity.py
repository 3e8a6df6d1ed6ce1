"""Who worked, who waited, who was away: the timeline of a simulated run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from destiny.protocols import Array

KINDS = ("working", "waiting", "away")
BINS = 120  # of the picture: a few pixels each


@dataclass(frozen=True)
class Activity:
    """Shares of the time of each agent, in bins over the run.

    Attributes
    ----------
    seconds : float
        Simulated seconds of the run.
    working, waiting, away : ndarray (d, bins)
        Share of each bin that an agent spent computing, waiting for neighbors, asleep or crashed.
    """

    seconds: float
    working: Array
    waiting: Array
    away: Array

    def shares(self) -> dict[str, Array]:
        """Share of the whole run by kind, ``(d,)`` each."""
        return {kind: getattr(self, kind).mean(axis=1) for kind in KINDS}

    def as_dict(self) -> dict[str, object]:
        """A table for JSON."""
        return {"seconds": self.seconds, **{kind: getattr(self, kind).round(4).tolist() for kind in KINDS}}


class ActivityLog:
    """Intervals of what agents did, added as the run goes on."""

    def __init__(self, agents: int) -> None:
        self.agents = agents
        self.rows: list[tuple[int, int, float, float]] = []

    def add(self, kind: str, agent: int, begin: float, end: float) -> None:
        """An agent spent the time from ``begin`` to ``end`` like that."""
        self.rows.append((KINDS.index(kind), agent, begin, end))

    def cut(self, agent: int, time: float) -> None:
        """What an agent was to do after ``time`` did not happen."""
        for k in reversed(range(len(self.rows))):
            kind, who, begin, end = self.rows[k]
            if who == agent:
                if end <= time:
                    break
                self.rows[k] = (kind, who, min(begin, time), time)

    def summarize(self, seconds: float, bins: int = BINS) -> Activity:
        """The shares of each bin until ``seconds``; what was not added is waiting."""
        table = np.zeros((len(KINDS), self.agents, bins))
        if self.rows and seconds > 0:
            kind, agent, begin, end = (np.array(column) for column in zip(*self.rows, strict=True))
            edges = np.linspace(0, seconds, bins + 1)
            place = kind * self.agents + agent
            flat = table.reshape(-1, bins)
            for k in range(bins):  # few bins, many intervals
                inside = np.clip(np.minimum(end, edges[k + 1]) - np.maximum(begin, edges[k]), 0, None)
                flat[:, k] = np.bincount(place, inside, len(flat)) * bins / seconds
        away = KINDS.index("away")
        table[0] = np.clip(table[0], 0, 1)
        table[away] = np.clip(table[away], 0, 1 - table[0])
        table[1] = 1 - table[0] - table[away]
        return Activity(seconds, *table)
