"""What the page's script draws, as plain data: curves, a spectrum, a class map."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from destiny.protocols import Array
from destiny.report.charts.curves import AXES, MEASURES, Curve, Look

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star")


class Charts:
    """The charts of a page, collected while it is written; a chart knows its place by number."""

    def __init__(self) -> None:
        self.x: list[dict[str, list[float | None]]] = []
        self.charts: list[dict[str, Any]] = []

    def curves(self, some: list[Curve], group: str, unit: str) -> dict[str, int]:
        """A chart for each measure; their numbers. x is kept once for all of them."""
        first = len(self.x)
        self.x += [{axis: numbers(values, 6) for axis, values in curve.x.items()} for curve in some]
        found = {}
        for measure, title in MEASURES.items():
            traces = [trace(curve, measure, first + k) for k, curve in enumerate(some)]
            found[measure] = self.add(group=group, title=title, traces=traces, log=True, unit=unit)
        return found

    def spectrum(
        self, pooled: list[float], found: dict[str, list[float]], known: dict[str, Look], group: str
    ) -> int:
        """Eigenvalues of the pooled data as a line, those each method found as marks on it."""
        traces: list[dict[str, Any]] = []
        if pooled:
            traces.append({
                "key": "pooled data", "colour": "ink", "mode": "lines", "dash": "solid",
                "x": list(range(1, len(pooled) + 1)), "y": numbers(np.array(pooled, float)),
            })  # fmt: skip
        for k, (label, values) in enumerate(found.items()):
            look = known.get(label, Look(len(known)))
            traces.append({
                "key": label, "colour": look.name, "mode": "markers", "symbol": f"{mark(look.number)}-open",
                "size": 7, "x": beside(len(values), k, len(found)), "y": numbers(np.array(values, float)),
            })  # fmt: skip
        return self.add(
            group=group, title="spectrum", traces=traces, log=True, xtitle="component", ytitle="eigenvalue"
        )

    def classes(self, points: dict[str, list[Any]], names: list[str], group: str) -> int:
        """Samples in the plane, one mark per class."""
        x, y, kind = (np.asarray(points[name]) for name in ("x", "y", "class"))
        if not x.shape == y.shape == kind.shape:
            raise ValueError("points must have as many x, y and classes")
        traces = []
        for k, name in enumerate(names):
            mine = kind == k
            look = Look(k)
            traces.append({
                "key": name, "colour": look.name, "mode": "markers", "symbol": mark(k), "small": True,
                "x": numbers(x[mine]), "y": numbers(y[mine]),
            })  # fmt: skip
        return self.add(group=group, title="class map", traces=traces, log=False, even=True)

    def add(self, **chart: Any) -> int:
        """One more; its number."""
        self.charts.append(chart)
        return len(self.charts) - 1

    def text(self) -> str:
        """JSON that may stand inside a script element, whatever it holds."""
        content = {"axes": AXES, "x": self.x, "charts": self.charts}
        text = json.dumps(content, separators=(",", ":"), allow_nan=False)
        return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def beside(size: int, place: int, places: int) -> list[float]:
    """1, 2, ... with room for several marks at each: equal values are the rule, and would hide each other."""
    aside = 0.12 * (place - (places - 1) / 2)
    return [round(k + aside, 2) for k in range(1, size + 1)]


def mark(number: int) -> str:
    """A marker by number."""
    return SYMBOLS[number % len(SYMBOLS)]


def trace(curve: Curve, measure: str, x: int) -> dict[str, Any]:
    """One curve; with several seeds also how far they lie apart."""
    found = {
        "key": curve.label, "colour": curve.look.name, "dash": curve.look.dash, "mode": "lines",
        "shared": x, "y": numbers(curve.middle[measure]),
    }  # fmt: skip
    if curve.seeds > 1:
        found |= {"low": numbers(curve.low[measure]), "high": numbers(curve.high[measure])}
    return found


def numbers(values: Array, digits: int = 4) -> list[float | None]:
    """Rounded for a small file; None where there is nothing to draw."""
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in values]
