"""The columns of the data by name, with their weights in the answer."""

from __future__ import annotations

import numpy as np

from destiny.protocols import Array
from destiny.report.charts.atoms import best_run
from destiny.report.html.markup import Html, table, tag
from destiny.report.sources.folder import read_solution
from destiny.report.sources.results import FigureResults

COMPONENTS, ROWS = 6, 60  # more do not fit on a page


def columns_section(figure: FigureResults) -> Html | None:
    """Return the names of the columns and their weights in the answer; None where files had no names."""
    if not figure.panels:
        return None
    panel = figure.panels[0]
    columns = panel.first.about.get("columns")
    names = columns.get("data") if isinstance(columns, dict) else None
    if not isinstance(names, list) or not names:
        return None
    best = best_run(panel)
    axes = None if best is None else read_solution(best[0], "axes")
    X = axes if axes is not None else None if best is None else best[1]
    parts = [
        weights([str(name) for name in names], X, best[0].label)
        if best is not None and X is not None and len(X) == len(names)
        else tag("p", ", ".join(map(str, names)))
    ]
    targets = columns.get("targets") if isinstance(columns, dict) else None
    if isinstance(targets, list) and targets:
        parts.append(tag("p", f"Columns of the targets: {', '.join(map(str, targets))}."))
    return tag("div", *parts)


def weights(names: list[str], X: Array, label: str) -> Html:
    """Return the rows of X ``(n, p)`` by name, the columns with the largest weights if there are many."""
    p = min(X.shape[1], COMPONENTS)
    largest = np.sort(np.argsort(-np.abs(X[:, :p]).max(axis=1), kind="stable")[:ROWS])
    head = ["column", *(f"component {k + 1}" for k in range(p))]
    rows = [[names[k], *(f"{value:+.3f}" for value in X[k, :p])] for k in largest]
    which = "Columns of the data" if len(names) <= ROWS else f"{ROWS} of {len(names)} columns of the data"
    more = f", of which the first {p} of {X.shape[1]} are shown" if X.shape[1] > p else ""
    return table(f"{which} and their weights in the components found by {label}{more}", head, rows)
