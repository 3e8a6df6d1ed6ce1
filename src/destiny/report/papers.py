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
from destiny.report.charts.curves import (
    AXES,
    MEASURES,
    Curve,
    LineStyle,
    curves,
    is_simulated,
    line_styles,
)
from destiny.report.charts.series import mark_positions
from destiny.report.html import wording
from destiny.report.sources.folder import attempt
from destiny.report.sources.results import FigureResults, PanelResults
from destiny.run.plots import SIMULATED, markers, pyplot, show_start

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


def draw(figures: list[FigureResults], folder: Path, kind: str) -> list[Path]:
    """Write every chart into a file of its own; return the files.

    Raises MissingExtraError without matplotlib, SettingsError if ``folder`` is a file.
    """
    pyplot()  # raises if matplotlib is missing
    import matplotlib

    if folder.exists() and not folder.is_dir():
        raise SettingsError(f"pictures need a folder; found a file: {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    written, styles = [], line_styles(figures)
    with matplotlib.rc_context(FONTS):
        for figure in figures:
            for panel in figure.panels:
                before = [figure.path.name] * (len(figures) > 1) + [panel.name] * bool(panel.name)
                simulated = is_simulated(figure)
                for name, draw_chart in chart_functions(panel, styles, simulated).items():
                    sheet = attempt(name, figure.remarks, draw_chart)
                    if sheet is not None:
                        path = folder / f"{'-'.join([*map(file_name, before), name])}.{kind}"
                        replace(path, lambda aside, sheet=sheet: sheet.savefig(aside, dpi=200))  # type: ignore[misc]
                        written.append(path)
    return written


def chart_functions(
    panel: PanelResults, styles: dict[str, LineStyle], simulated: bool
) -> dict[str, Callable[[], Any]]:
    """Return the functions that draw the charts of a panel, by name; each returns None if it has no data."""
    return {
        "convergence": lambda: draw_convergence(curves(panel, styles), wording.unit(panel), simulated),
        "network": lambda: draw_network(panel.first.network),
        "spectrum": lambda: draw_spectrum(panel.first.extras.get("spectrum"), styles),
        "classes": lambda: draw_classes(panel.first.extras),
        "atoms": lambda: draw_atoms(panel),
    }


def draw_convergence(lines: list[Curve], unit: str, simulated: bool) -> Any:
    """Return the three measures side by side, over rounds or simulated seconds."""
    if not lines:
        return None
    column, title = ("seconds", SIMULATED) if simulated else ("round", AXES["round"])
    sheet = pyplot().Figure(figsize=(7.2, 2.6), layout="constrained")
    axes = sheet.subplots(1, len(MEASURES))
    for axis, (measure, name) in zip(axes, MEASURES.items(), strict=True):
        for curve in lines:
            color, x = curve.style.color, curve.x[column]
            axis.plot(
                x,
                curve.middle[measure],
                LINES[curve.style.dash],
                color=color,
                label=curve.label,
                linewidth=1.3,
                **markers(curve.middle[measure]),
            )
            if curve.seeds > 1:
                axis.fill_between(
                    x, curve.low[measure], curve.high[measure], color=color, alpha=0.18, linewidth=0
                )
        axis.set_yscale("log")
        axis.set_title(name, fontsize=9)
        axis.set_xlabel(title if simulated or unit == "rounds" else unit)
        tidy(axis)
    show_start(axes)
    handles, labels = axes[0].get_legend_handles_labels()
    sheet.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return sheet


def draw_network(network: dict[str, Any]) -> Any:
    """Return the drawing of a network, darker dots for agents with more neighbors."""
    layout = network_drawing.layout(network)
    if layout is None:
        return None
    from matplotlib.collections import LineCollection

    positions, links, degrees = layout
    sheet = pyplot().Figure(figsize=(3.4, 3.6), layout="constrained")
    axis = sheet.add_subplot()
    axis.set_axis_off()
    axis.set_aspect("equal")
    faint = float(np.clip(60 / max(1, len(links)), 0.12, 0.55))
    axis.add_collection(LineCollection(list(positions[links]), colors="0.3", linewidths=0.7, alpha=faint))
    size = float(np.clip(2500 / len(positions), 4, 120))
    axis.scatter(
        *positions.T,
        c=degrees,
        cmap="Blues",
        vmin=-float(degrees.max()),
        s=size,
        edgecolors="white",
        zorder=2,
    )
    axis.invert_yaxis()  # as on the page, where y points down
    axis.margins(0.05)
    facts = network_drawing.facts(network)
    title = ", ".join(f"{name} {facts[name]}" for name in ("agents", "links", "λ") if name in facts)
    axis.set_title(title, fontsize=9)
    return sheet


def draw_spectrum(spectrum: dict[str, Any] | None, styles: dict[str, LineStyle]) -> Any:
    """Return the eigenvalues of the pooled data as a line, those of each method as marks."""
    if not spectrum:
        return None
    sheet = pyplot().Figure(figsize=(3.6, 3.4), layout="constrained")
    axis = sheet.add_subplot()
    pooled, by_method = spectrum.get("pooled") or [], spectrum.get("found") or {}
    axis.plot(range(1, len(pooled) + 1), pooled, color="0.2", linewidth=1, label="pooled data")
    for k, (label, values) in enumerate(by_method.items()):
        style = styles.get(label, LineStyle(len(styles)))
        mark, places = MARKS[style.number % len(MARKS)], mark_positions(len(values), k, len(by_method))
        axis.plot(places, values, mark, color=style.color, markersize=3.5, fillstyle="none", label=label)
    axis.set_yscale("log")
    axis.set(xlabel="component", ylabel="eigenvalue")
    sheet.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    tidy(axis)
    return sheet


def draw_classes(extras: dict[str, Any]) -> Any:
    """Return the samples in the plane, one marker per class."""
    points = extras.get("points")
    if not points:
        return None
    sheet = pyplot().Figure(figsize=(3.6, 3.6), layout="constrained")
    axis = sheet.add_subplot()
    x, y, kind = (np.asarray(points[name]) for name in ("x", "y", "class"))
    for k, name in enumerate(extras.get("classes") or sorted(set(points["class"]))):
        style = LineStyle(k)
        axis.scatter(
            x[kind == k],
            y[kind == k],
            s=7,
            marker=MARKS[k % len(MARKS)],
            color=style.color,
            alpha=0.7,
            linewidths=0,
            label=str(name),
        )
    axis.set_xticks([])
    axis.set_yticks([])
    sheet.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    return sheet


def draw_atoms(panel: PanelResults) -> Any:
    """Return the atoms of a dictionary as pictures."""
    best = atoms.best_run(panel) if panel.first.extras.get("kind") == "sdl" else None
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
    """Set a light grid and remove the upper and right frame."""
    axis.grid(True, which="major", alpha=0.3, linewidth=0.5)
    axis.spines[["top", "right"]].set_visible(False)


def file_name(name: str) -> str:
    """Return ``name`` with every character unsafe in file names replaced by an underscore."""
    return re.sub(r"[^\w.=+-]+", "_", name)
