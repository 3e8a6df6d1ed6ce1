"""Histories as curves: median and range over the seeds on common rounds, thinned for drawing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from destiny.experiments.paper.claims import reach
from destiny.protocols import Array
from destiny.report.sources.results import FigureResults, PanelResults
from destiny.run.history import History
from destiny.run.plots import COLORS, NAMES, PANELS, SIMULATED, on_log_scale

MEASURES = dict(PANELS)
AXES = {**NAMES, "seconds": "seconds"}
POINTS = 240  # of a curve: about one for each pixel and a half of a small chart
DASHES = ("solid", "dash", "dashdot", "dot")


@dataclass(frozen=True)
class LineStyle:
    """Color (Okabe and Ito's palette) and dashes by number; they repeat after 28."""

    number: int

    @property
    def name(self) -> str:
        """CSS variable of the color, which depends on the color scheme of the page."""
        return f"c{self.number % len(COLORS)}"

    @property
    def color(self) -> str:
        """The color in hexadecimal."""
        return COLORS[self.number % len(COLORS)]

    @property
    def dash(self) -> str:
        """Plotly's name of the dashes."""
        return DASHES[self.number % len(DASHES)]


@dataclass(frozen=True)
class Curve:
    """One method in one panel.

    Attributes
    ----------
    x : dict of ndarray
        Coordinates by axis, all of the same length.
    middle, low, high : dict of ndarray
        Median, minimum and maximum over the seeds, by measure; NaN where a log scale cannot show them.
    seeds : int
        Number of seeds.
    """

    label: str
    style: LineStyle
    x: dict[str, Array]
    middle: dict[str, Array]
    low: dict[str, Array]
    high: dict[str, Array]
    seeds: int


def is_simulated(figure: FigureResults) -> bool:
    """Return whether the seconds of a run of this figure are simulated."""
    return any(
        "activity" in run.entry for panel in figure.panels for results in panel.seeds for run in results.runs
    )


def axis_titles(simulated: bool) -> dict[str, str]:
    """Return the titles of the horizontal axes."""
    return AXES | ({"seconds": SIMULATED} if simulated else {})


def line_styles(figures: list[FigureResults]) -> dict[str, LineStyle]:
    """Return one style per label, the same in all figures."""
    labels = dict.fromkeys(label for figure in figures for panel in figure.panels for label in panel.labels)
    return {label: LineStyle(k) for k, label in enumerate(labels)}


def histories(panel: PanelResults, label: str) -> list[History]:
    """Return the non-empty histories of a method, one per seed."""
    per_seed = (run.history for results in panel.seeds for run in results.runs if run.label == label)
    return [history for history in per_seed if history is not None and len(history)]


def count_column(history: History) -> str:
    """Return "round", or "step" for a run without communication."""
    return "round" if "round" in history.columns and np.any(history["round"] > 0) else "step"


def curve(label: str, seeds: list[History], style: LineStyle) -> Curve:
    """Return the seeds joined by round; a seed that has ended keeps its last value."""
    base = count_column(seeds[0])
    grid = thin(np.unique(np.concatenate([h[base] for h in seeds])))
    at = [np.maximum(0, np.searchsorted(h[base], grid, side="right") - 1) for h in seeds]

    def over(column: str) -> Array:
        values = [
            h[column][k] if column in h.columns else np.full(len(k), np.nan)
            for h, k in zip(seeds, at, strict=True)
        ]
        return np.array(values)

    x = {
        "round": grid,
        **{axis: np.median(over(axis), axis=0) for axis in AXES if axis != "round"},
    }
    after_start = (over("step") > 0).all(axis=0)
    middle: dict[str, Array] = {}
    low: dict[str, Array] = {}
    high: dict[str, Array] = {}
    for measure in MEASURES:
        # NaN counts as the worst value. At the common start consensus and feasibility are rounding errors.
        values = np.where(np.isnan(over(measure)), np.inf, over(measure))
        visible = np.ones(len(grid), bool) if measure == "stationarity" else after_start
        for line, value in (
            (middle, np.median(values, axis=0)),
            (low, values.min(axis=0)),
            (high, values.max(axis=0)),
        ):
            line[measure] = on_log_scale(value, visible)
    return Curve(label, style, x, middle, low, high, len(seeds))


def curves(panel: PanelResults, styles: dict[str, LineStyle]) -> list[Curve]:
    """Return the curves of all methods of a panel that have a history."""
    by_label = {label: histories(panel, label) for label in panel.labels}
    return [curve(label, seeds, styles[label]) for label, seeds in by_label.items() if seeds]


def thin(grid: Array) -> Array:
    """Return at most `POINTS` points of the grid, including both ends."""
    if len(grid) <= POINTS:
        return grid
    few: Array = grid[np.unique(np.linspace(0, len(grid) - 1, POINTS).round().astype(int))]
    return few


def rounds_to_level(history: History, level: float) -> float:
    """Return the rounds until stationarity, consensus and feasibility all stay at most ``level``, or inf."""
    return reach([history], list(MEASURES), level, count_column(history)).rounds[0]
