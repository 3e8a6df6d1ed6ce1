"""The data that the page's script draws: curves, a spectrum, a class map."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from destiny.protocols import Array
from destiny.report.charts.curves import AXES, MEASURES, Curve, LineStyle
from destiny.run.plots import markers

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star")


class Charts:
    """The charts of a page, collected while it is written; methods return numbers of placeholders."""

    def __init__(self) -> None:
        self.axes = AXES
        self.x: list[dict[str, list[float | None]]] = []
        self.charts: list[dict[str, Any]] = []

    def curves(self, curves: list[Curve], group: str, unit: str) -> dict[str, int]:
        """Add a chart for each measure; return their numbers by measure. x is stored once for all three."""
        first = len(self.x)
        self.x += [{axis: numbers(values, 6) for axis, values in curve.x.items()} for curve in curves]
        numbers_by_measure = {}
        for measure, title in MEASURES.items():
            traces = [trace(curve, measure, first + k) for k, curve in enumerate(curves)]
            numbers_by_measure[measure] = self.add(
                group=group, title=title, traces=traces, log=True, unit=unit
            )
        return numbers_by_measure

    def spectrum(
        self, pooled: list[float], by_method: dict[str, list[float]], styles: dict[str, LineStyle], group: str
    ) -> int:
        """Add a chart with the eigenvalues of the pooled data as a line, those of each method as marks."""
        traces: list[dict[str, Any]] = []
        if pooled:
            line = {"key": "pooled data", "color": "ink", "mode": "lines", "dash": "solid"}
            traces.append(
                line | {"x": list(range(1, len(pooled) + 1)), "y": numbers(np.array(pooled, float))}
            )
        for k, (label, values) in enumerate(by_method.items()):
            style = styles.get(label, LineStyle(len(styles)))
            symbol = f"{mark(style.number)}-open"
            marks = {"key": label, "color": style.name, "mode": "markers", "symbol": symbol, "size": 7}
            x = mark_positions(len(values), k, len(by_method))
            traces.append(marks | {"x": x, "y": numbers(np.array(values, float))})
        return self.add(
            group=group, title="spectrum", traces=traces, log=True, xtitle="component", ytitle="eigenvalue"
        )

    def classes(self, points: dict[str, list[Any]], names: list[str], group: str) -> int:
        """Add a chart of samples in the plane, one marker per class; raise ValueError if lengths differ."""
        x, y, kind = (np.asarray(points[name]) for name in ("x", "y", "class"))
        if not x.shape == y.shape == kind.shape:
            raise ValueError("points must have as many x, y and classes")
        traces = []
        for k, name in enumerate(names):
            members = kind == k
            marks = {
                "key": name,
                "color": LineStyle(k).name,
                "mode": "markers",
                "symbol": mark(k),
                "small": True,
            }
            traces.append(marks | {"x": numbers(x[members]), "y": numbers(y[members])})
        return self.add(group=group, title="class map", traces=traces, log=False, even=True)

    def add(self, **chart: Any) -> int:
        """Add a chart and return its number."""
        self.charts.append(chart)
        return len(self.charts) - 1

    def text(self) -> str:
        """Return all charts as JSON, escaped for a script element."""
        content = {"axes": self.axes, "x": self.x, "charts": self.charts}
        text = json.dumps(content, separators=(",", ":"), allow_nan=False)
        return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def mark_positions(size: int, place: int, places: int) -> list[float]:
    """Return 1, 2, ..., size, shifted a little by method: equal values would hide each other."""
    aside = 0.12 * (place - (places - 1) / 2)
    return [round(k + aside, 2) for k in range(1, size + 1)]


def mark(number: int) -> str:
    return SYMBOLS[number % len(SYMBOLS)]


def trace(curve: Curve, measure: str, x: int) -> dict[str, Any]:
    """Return one curve as data, with its range if there are several seeds."""
    line = {
        "key": curve.label,
        "color": curve.style.name,
        "dash": curve.style.dash,
        "mode": "lines",
        "shared": x,
        "y": numbers(curve.middle[measure]),
    }
    if markers(curve.middle[measure]):
        line["symbol"] = "circle"
    if curve.seeds > 1:
        line |= {"low": numbers(curve.low[measure]), "high": numbers(curve.high[measure])}
    return line


def numbers(values: Array, digits: int = 4) -> list[float | None]:
    """Return the values rounded to ``digits`` digits, for a small file; None for those not finite."""
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in values]
