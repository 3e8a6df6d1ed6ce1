"""The report's figures for papers, by matplotlib: one file each, fonts embedded."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from destiny.errors import SettingsError
from destiny.experiments.result_folder import replace
from destiny.report.charts import atoms, network_drawing
from destiny.report.charts.curves import AXES, MEASURES, Curve, Look, curves, looks
from destiny.report.charts.series import beside
from destiny.report.html import wording
from destiny.report.sources.folder import attempt
from destiny.report.sources.results import Figure, Panel
from destiny.run.plots import pyplot

FORMATS = ("png", "pdf", "svg")
"""Suffixes of the pictures a report can be drawn as."""
LINES = {"solid": "-", "dash": "--", "dashdot": "-.", "dot": ":"}
MARKS = ("o", "s", "D", "^", "P", "X", "*")
FONTS: Any = {
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "path",
    "font.size": 9,
}  # 42: TrueType, embedded


def draw(figures: list[Figure], folder: Path, kind: str) -> list[Path]:
    """Every figure into a file of its own; the files."""
    pyplot()  # says what is missing
    import matplotlib

    if folder.exists() and not folder.is_dir():
        raise SettingsError(f"pictures need a folder; found a file: {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    written, known = [], looks(figures)
    with matplotlib.rc_context(FONTS):
        for figure in figures:
            for panel in figure.panels:
                before = [figure.path.name] * (len(figures) > 1) + [panel.name] * bool(panel.name)
                for name, sketch in pictures(panel, known).items():
                    made = attempt(name, figure.remarks, sketch)
                    if made is not None:
                        path = folder / f"{'-'.join([*map(plain, before), name])}.{kind}"
                        replace(path, lambda aside, made=made: made.savefig(aside, dpi=200))  # type: ignore[misc]
                        written.append(path)
    return written


def pictures(panel: Panel, known: dict[str, Look]) -> dict[str, Callable[[], Any]]:
    """What to draw of a panel, by name."""
    return {
        "convergence": lambda: convergence(curves(panel, known), wording.counts(panel)),
        "network": lambda: net(panel.first.network),
        "spectrum": lambda: spectrum(panel.first.extras.get("spectrum"), known),
        "classes": lambda: classes(panel.first.extras),
        "atoms": lambda: dictionary(panel),
    }


def convergence(found: list[Curve], unit: str) -> Any:
    """The three measures side by side."""
    if not found:
        return None
    sheet = pyplot().Figure(figsize=(7.2, 2.6), layout="constrained")
    axes = sheet.subplots(1, len(MEASURES))
    for axis, (measure, title) in zip(axes, MEASURES.items(), strict=True):
        for curve in found:
            colour, x = curve.look.colour, curve.x["round"]
            axis.plot(
                x,
                curve.middle[measure],
                LINES[curve.look.dash],
                color=colour,
                label=curve.label,
                linewidth=1.3,
            )
            if curve.seeds > 1:
                axis.fill_between(
                    x, curve.low[measure], curve.high[measure], color=colour, alpha=0.18, linewidth=0
                )
        axis.set_yscale("log")
        axis.set_title(title, fontsize=9)
        axis.set_xlabel(AXES["round"] if unit == "rounds" else unit)
        tidy(axis)
    handles, labels = axes[0].get_legend_handles_labels()
    sheet.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return sheet


def net(facts: dict[str, Any]) -> Any:
    """The network."""
    found = network_drawing.places(facts)
    if found is None:
        return None
    from matplotlib.collections import LineCollection

    where, links, degrees = found
    sheet = pyplot().Figure(figsize=(3.4, 3.6), layout="constrained")
    axis = sheet.add_subplot()
    axis.set_axis_off()
    axis.set_aspect("equal")
    faint = float(np.clip(60 / max(1, len(links)), 0.12, 0.55))
    axis.add_collection(LineCollection(list(where[links]), colors="0.3", linewidths=0.7, alpha=faint))
    size = float(np.clip(2500 / len(where), 4, 120))
    axis.scatter(
        *where.T, c=degrees, cmap="Blues", vmin=-float(degrees.max()), s=size, edgecolors="white", zorder=2
    )
    axis.invert_yaxis()  # as on the page, where y points down
    axis.margins(0.05)
    known = network_drawing.facts(facts)
    axis.set_title(
        ", ".join(f"{name} {known[name]}" for name in ("agents", "links", "λ") if name in known), fontsize=9
    )
    return sheet


def spectrum(found: dict[str, Any] | None, known: dict[str, Look]) -> Any:
    """Eigenvalues of the pooled data and those found."""
    if not found:
        return None
    sheet = pyplot().Figure(figsize=(3.6, 3.4), layout="constrained")
    axis = sheet.add_subplot()
    pooled = found.get("pooled") or []
    axis.plot(range(1, len(pooled) + 1), pooled, color="0.2", linewidth=1, label="pooled data")
    for k, (label, values) in enumerate((found.get("found") or {}).items()):
        look = known.get(label, Look(len(known)))
        mark, places = MARKS[look.number % len(MARKS)], beside(len(values), k, len(found["found"]))
        axis.plot(places, values, mark, color=look.colour, markersize=3.5, fillstyle="none", label=label)
    axis.set_yscale("log")
    axis.set(xlabel="component", ylabel="eigenvalue")
    sheet.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    tidy(axis)
    return sheet


def classes(extras: dict[str, Any]) -> Any:
    """The class map."""
    points = extras.get("points")
    if not points:
        return None
    sheet = pyplot().Figure(figsize=(3.6, 3.6), layout="constrained")
    axis = sheet.add_subplot()
    x, y, kind = (np.asarray(points[name]) for name in ("x", "y", "class"))
    for k, name in enumerate(extras.get("classes") or sorted(set(points["class"]))):
        look = Look(k)
        axis.scatter(
            x[kind == k],
            y[kind == k],
            s=7,
            marker=MARKS[k % len(MARKS)],
            color=look.colour,
            alpha=0.7,
            linewidths=0,
            label=str(name),
        )
    axis.set_xticks([])
    axis.set_yticks([])
    sheet.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    return sheet


def dictionary(panel: Panel) -> Any:
    """The atoms."""
    best = atoms.chosen(panel) if panel.first.extras.get("kind") == "sdl" else None
    shape = None if best is None else atoms.picture_shape(best[1].shape[0], panel.first.extras.get("image"))
    if best is None or shape is None:
        return None
    pixels = atoms.sheet(best[1], shape)
    height, width, _ = pixels.shape
    sheet = pyplot().Figure(figsize=(7.2, 7.2 * height / width), layout="constrained")
    axis = sheet.add_subplot()
    axis.set_axis_off()
    axis.imshow(pixels, interpolation="nearest")
    return sheet


def tidy(axis: Any) -> None:
    """Less ink."""
    axis.grid(True, which="major", alpha=0.3, linewidth=0.5)
    axis.spines[["top", "right"]].set_visible(False)


def plain(name: str) -> str:
    """A name for a file."""
    return re.sub(r"[^\w.=+-]+", "_", name)
