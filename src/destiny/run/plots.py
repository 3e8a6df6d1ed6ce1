"""Histories drawn as curves (extra ``plot``), with the colors and names that reports use too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from destiny.errors import INSTALL, MissingExtraError, SettingsError
from destiny.protocols import Array
from destiny.run.history import History

PANELS = {
    "stationarity": "relative substationarity",
    "consensus": "consensus error",
    "feasibility": "feasibility violation",
}
# Okabe and Ito's colors, told apart by color-blind readers too; line styles help in print.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":")
MARGIN = 0.04  # of the horizontal axis, on both sides
DECADES = 1e3  # beyond, ticks between powers of ten tell nothing, and drawing them takes half of the time
FEW = 12  # measurements of a curve up to which each has a marker: a line of one point cannot be seen
ZERO = 1e-17  # where a log scale shows an exact zero, below the rounding of every measure
NAMES = {
    "round": "rounds of communication",
    "scalars": "numbers sent",
    "bytes": "bytes sent",
    "passes": "passes over the data",
}
SIMULATED = "simulated seconds"
"""What runs in simulated time are drawn over: a round takes every method another time there."""


def pyplot() -> Any:
    """matplotlib.figure without touching the user's backend, or a sentence on how to get it."""
    try:
        import matplotlib.figure
    except ImportError as error:
        raise MissingExtraError(f"pictures need matplotlib: {INSTALL.format(extra='plot')}") from error
    return matplotlib.figure


def new_figure(path: object, size: tuple[float, float]) -> Any:
    """Return a new figure: one of pyplot, which notebooks show, or with a ``path`` one for a file alone."""
    if path is not None:
        return pyplot().Figure(figsize=size, layout="constrained")
    pyplot()
    import matplotlib.pyplot as plt

    return plt.figure(figsize=size, layout="constrained")


def convergence(
    histories: Mapping[str, History],
    path: str | PathLike[str] | None = None,
    title: str = "",
    x: str = "round",
    axes: Sequence[Any] | None = None,
) -> Any:
    """Draw the three measures of every run over the rounds (or another column), log scale.

    Parameters
    ----------
    histories : mapping from labels to History
    path : path, optional
        Picture file to write; its suffix chooses the format.
    title : str
        Of a new figure.
    x : {"round", "scalars", "bytes", "passes", "seconds", "simulated seconds"}
    axes : sequence of three matplotlib Axes, optional
        Where to draw; by default in a new figure, which notebooks show if no ``path`` is given.

    Returns
    -------
    axes : ndarray of three matplotlib Axes
    """
    own, abscissa = axes is None, "seconds" if x == SIMULATED else x
    if axes is None:
        axes = new_figure(path, (12, 3.8)).subplots(1, len(PANELS))
    if len(axes) != len(PANELS):
        raise SettingsError(f"axes must be three, for {', '.join(PANELS)}; found {len(axes)}")
    for axis, (column, name) in zip(axes, PANELS.items(), strict=True):
        for k, (label, history) in enumerate(histories.items()):
            # The common start would be a needle at rounding errors.
            y = on_log_scale(history[column], (history["step"] > 0) | (column == "stationarity"))
            color, style = COLORS[k % len(COLORS)], STYLES[k // len(COLORS) % len(STYLES)]
            axis.plot(
                history[abscissa], y, label=label, color=color, linestyle=style, linewidth=1.6, **markers(y)
            )
        axis.set_yscale("log")
        low, high = axis.get_ylim()
        if high > DECADES * low:
            axis.minorticks_off()
        axis.set_xlabel(NAMES.get(x, x))
        axis.set_title(name, fontsize=11)
        axis.grid(True, which="major", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    show_start(axes)
    handles, labels = axes[0].get_legend_handles_labels()
    if own:  # below the panels: within one of them it would cover curves
        figure = axes[0].figure
        figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=9)
        if title:
            figure.suptitle(title, fontsize=12)
    else:
        axes[0].legend(frameon=False, fontsize=9)
    save(axes[0], path)
    return axes


def show_start(axes: Sequence[Any]) -> None:
    """Let all panels show the same range, from zero, also those whose curves leave the start out."""
    last = max((end for axis in axes if np.isfinite(end := axis.dataLim.x1)), default=0.0)
    for axis in axes if last > 0 else ():
        axis.set_xlim(-MARGIN * last, (1 + MARGIN) * last)


def on_log_scale(values: Array, shown: Any = True) -> Array:
    """Return the values as a log scale can show them: exact zeros at `ZERO`, NaN for what is not shown."""
    return np.where(shown & np.isfinite(values) & (values >= 0), np.maximum(values, ZERO), np.nan)


def markers(values: Array) -> dict[str, Any]:
    """Return matplotlib's settings for the markers of a curve, which has them if it has few points."""
    return {"marker": "o", "markersize": 4} if np.isfinite(values).sum() <= FEW else {}


def save(axes: Any, path: str | PathLike[str] | None) -> None:
    """Write the figure of some axes into a picture file, if there is a ``path``."""
    if path is None:
        return
    try:
        axes.figure.savefig(path, dpi=150)
    except ValueError as error:  # matplotlib knows no such kind of picture
        raise SettingsError(f"cannot draw into {path}: {error}") from error
