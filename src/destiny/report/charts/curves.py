"""Histories as curves: median and spread over the seeds on common rounds, thinned to what an eye can see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from destiny.experiments.paper.claims import reach
from destiny.protocols import Array
from destiny.report.sources.results import Figure, Panel
from destiny.run.history import History
from destiny.run.plots import COLOURS, PANELS

MEASURES = dict(PANELS)
AXES = {"round": "rounds of communication", "scalars": "numbers sent", "seconds": "seconds"}
POINTS = 240  # of a curve: about one for each pixel and a half of a small chart
DASHES = ("solid", "dash", "dashdot", "dot")


@dataclass(frozen=True)
class Look:
    """Colour (Okabe and Ito's) and dashes; 28 pairs before one comes again."""

    number: int

    @property
    def name(self) -> str:
        """The colour's name on the page, where it depends on whether the page is dark."""
        return f"c{self.number % len(COLOURS)}"

    @property
    def colour(self) -> str:
        """Hexadecimal."""
        return COLOURS[self.number % len(COLOURS)]

    @property
    def dash(self) -> str:
        """Plotly's name."""
        return DASHES[self.number % len(DASHES)]


@dataclass(frozen=True)
class Curve:
    """One method in one panel.

    Attributes
    ----------
    x : dict of ndarray
        By axis, equally long.
    middle, low, high : dict of ndarray
        Median, least and largest over the seeds, by measure; NaN where a log scale has nothing to draw.
    seeds : int
        How many seeds are in it.
    """

    label: str
    look: Look
    x: dict[str, Array]
    middle: dict[str, Array]
    low: dict[str, Array]
    high: dict[str, Array]
    seeds: int


def looks(figures: list[Figure]) -> dict[str, Look]:
    """The same look for a label wherever it appears."""
    labels = dict.fromkeys(label for figure in figures for panel in figure.panels for label in panel.labels)
    return {label: Look(k) for k, label in enumerate(labels)}


def histories(panel: Panel, label: str) -> list[History]:
    """What the seeds have of a method, empty ones aside."""
    found = (run.history for results in panel.seeds for run in results.runs if run.label == label)
    return [history for history in found if history is not None and len(history)]


def counted(history: History) -> str:
    """What the rows are counted in: rounds, or steps where nobody sends anything."""
    return "round" if "round" in history.columns and np.any(history["round"] > 0) else "step"


def curve(label: str, found: list[History], look: Look) -> Curve:
    """Seeds brought together by round; one that has ended keeps its last value."""
    base = counted(found[0])
    grid = thin(np.unique(np.concatenate([h[base] for h in found])))
    at = [np.maximum(0, np.searchsorted(h[base], grid, side="right") - 1) for h in found]

    def over(column: str) -> Array:
        values = [
            h[column][k] if column in h.columns else np.full(len(k), np.nan)
            for h, k in zip(found, at, strict=True)
        ]
        return np.array(values)

    x = {
        "round": grid,
        "scalars": np.median(over("scalars"), axis=0),
        "seconds": np.median(over("seconds"), axis=0),
    }
    begun = (over("step") > 0).all(axis=0)
    middle: dict[str, Array] = {}
    low: dict[str, Array] = {}
    high: dict[str, Array] = {}
    for measure in MEASURES:
        # A value that is no number is worse than any; a needle at the common start says nothing.
        values = np.where(np.isnan(over(measure)), np.inf, over(measure))
        shown = np.ones(len(grid), bool) if measure == "stationarity" else begun
        for kept, value in (
            (middle, np.median(values, axis=0)), (low, values.min(axis=0)), (high, values.max(axis=0))
        ):  # fmt: skip
            kept[measure] = np.where(shown & (value > 0) & np.isfinite(value), value, np.nan)
    return Curve(label, look, x, middle, low, high, len(found))


def curves(panel: Panel, known: dict[str, Look]) -> list[Curve]:
    """Every method of a panel that has something to draw."""
    found = {label: histories(panel, label) for label in panel.labels}
    return [curve(label, some, known[label]) for label, some in found.items() if some]


def thin(grid: Array) -> Array:
    """At most `POINTS` of them, the ends among them."""
    if len(grid) <= POINTS:
        return grid
    few: Array = grid[np.unique(np.linspace(0, len(grid) - 1, POINTS).round().astype(int))]
    return few


def reached(history: History, level: float) -> float:
    """Rounds until stationarity, consensus and feasibility all stay at most ``level``; inf if never."""
    return reach([history], list(MEASURES), level, counted(history)).rounds[0]
