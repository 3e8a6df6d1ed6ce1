"""Who worked, who waited and who was away in a simulated run, as a drawing with a row for each agent."""

from __future__ import annotations

from typing import Any

import numpy as np

from destiny.protocols import Array
from destiny.report.html.markup import Html, tag

WIDTH, ROW, GAP = 640.0, 10.0, 2.0  # of the drawing and of an agent's row, in its own units
KINDS = ("working", "waiting", "away")
STEPS = 20  # shares are rounded to 5 %, so that equal neighbors join


def figure(label: str, activity: dict[str, Any]) -> Html:
    """Return the drawing of one method with the shares of the time below; ValueError if it is damaged."""
    shares = {kind: np.asarray(activity[kind], dtype=np.float64) for kind in KINDS}
    if any(table.ndim != 2 or table.shape != shares["working"].shape for table in shares.values()):
        raise ValueError("working, waiting and away must be tables of the same shape")
    if not all(np.isfinite(table).all() for table in shares.values()) or not shares["working"].size:
        raise ValueError("working, waiting and away must be numbers")
    total = {kind: 100 * float(table.mean()) for kind, table in shares.items()}
    caption = (
        f"{label}: {float(activity['seconds']):.4g} simulated seconds. A row for each agent, time from left "
        f"to right: working {total['working']:.0f} %, waiting for neighbors (blank) "
        f"{total['waiting']:.0f} %, asleep or crashed {total['away']:.0f} %."
    )
    return tag("figure", drawing(shares, caption), tag("figcaption", caption), class_="activity")


def drawing(shares: dict[str, Array], title: str) -> Html:
    """Return the rows as SVG; a bar's height is the share of the time."""
    agents = len(shares["working"])
    height = agents * ROW
    paths = [
        tag("path", d=bars(shares[kind], top=kind == "away"), class_=kind) for kind in ("working", "away")
    ]
    return tag("svg", *paths, viewBox=f"0 0 {WIDTH:.0f} {height:.0f}", role="img", aria_label=title)


def bars(table: Array, top: bool) -> str:
    """Return the path of all bars, from the top of the row or from its bottom; equal neighbors joined."""
    steps = np.round(table * STEPS).astype(int)
    width, full = WIDTH / steps.shape[1], ROW - GAP
    path = []
    for agent, row in enumerate(steps):
        ends = np.flatnonzero(np.diff(row, append=-1)) + 1
        for begin, end in zip(np.r_[0, ends[:-1]], ends, strict=True):
            if (tall := full * row[begin] / STEPS) > 0:
                x, y = begin * width, agent * ROW + (0 if top else full - tall)
                path.append(f"M{x:.1f} {y:.1f}h{(end - begin) * width:.1f}v{tall:.1f}H{x:.1f}z")
    return "".join(path)
