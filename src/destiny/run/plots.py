"""Pictures for people who would rather look than read (extra ``plot``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from destiny.errors import MissingExtraError
from destiny.run.history import History

PANELS = {
    "stationarity": "relative substationarity",
    "consensus": "consensus error",
    "feasibility": "feasibility violation",
}
# Okabe and Ito's colours, told apart by colour-blind readers too; line styles help in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":")


def pyplot() -> Any:
    """matplotlib.figure without touching the user's backend, or a sentence on how to get it."""
    try:
        import matplotlib.figure
    except ImportError as error:
        raise MissingExtraError('pictures need matplotlib: pip install "destiny-stiefel[plot]"') from error
    return matplotlib.figure


def convergence(
    histories: Mapping[str, History], path: str | Path, title: str = "", x: str = "round"
) -> None:
    """The three measures of every run over the rounds (or ``x="scalars"``, ``"seconds"``), log scale."""
    figure = pyplot().Figure(figsize=(12, 3.8), layout="constrained")
    axes = figure.subplots(1, len(PANELS))
    for axis, (column, name) in zip(axes, PANELS.items(), strict=True):
        for k, (label, history) in enumerate(histories.items()):
            y = history[column]
            # A log scale has no zero, and the common start would be a needle at rounding errors.
            shown = (y > 0) & ((history["step"] > 0) | (column == "stationarity"))
            colour, style = COLOURS[k % len(COLOURS)], STYLES[k // len(COLOURS) % len(STYLES)]
            axis.plot(history[x][shown], y[shown], label=label, color=colour, linestyle=style, linewidth=1.6)
        axis.set_yscale("log")
        axis.set_xlabel({"round": "rounds of communication", "scalars": "numbers sent"}.get(x, x))
        axis.set_title(name, fontsize=11)
        axis.grid(True, which="major", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    # Below the panels: within one of them it would cover curves.
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=9)
    if title:
        figure.suptitle(title, fontsize=12)
    figure.savefig(path, dpi=150)
