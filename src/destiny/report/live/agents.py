"""Agents of organizations: where each is, who waits for whom."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from destiny.report.charts.curves import LineStyle
from destiny.report.charts.legend import chart, legend, stroke
from destiny.report.charts.series import Charts, numbers
from destiny.report.html import wording
from destiny.report.html.markup import Html, join, table, tag
from destiny.report.live.jobs import Job, last_event, read_table
from destiny.report.live.times import since
from destiny.validation import is_number

SIZE, RADIUS, DOT = 420.0, 150.0, 9.0  # of the drawing, in its own units
MOST_DRAWN = 60  # agents; more names cannot be read
SHOWN = 40  # letters of a name in the drawing


def agents_page(jobs: list[Job], charts: Charts) -> Html:
    """Return the table of the agents of a run, the drawing of who waits, and their residuals."""
    parts: list[Html | None] = [
        tag("section", tag("h2", "Who waits for whom"), drawing(jobs)),
        tag("section", tag("h2", "Agents"), overview(jobs)),
        residuals(jobs, charts),
    ]
    parts += [neighbors(job) for job in jobs if job.running]
    return join(parts)


def overview(jobs: list[Job]) -> Html:
    """Return a row for each agent of which this folder has files."""
    head = ["agent", "state", "waits for", "step", "round", "residual", "rounds a second", "last sign"]
    return table("Agents whose files are in this folder", head, map(row, jobs), class_="wide cards")


def row(job: Job) -> list[object]:
    s = job.status
    if not s:
        summary = read_table(job.path / "summary.json")
        event = last_event(job.path)
        reason = summary.get("reason") or (event.get("why") if event.get("event") == "end" else None)
        steps, rounds = wording.whole(summary.get("steps")), wording.whole(summary.get("rounds"))
        measured = wording.scientific(summary.get("stationarity"))
        ended = str(event.get("time") or "")
        return [job.agent, str(reason or "not running"), "", steps, rounds, measured, "", since(ended, 0)]
    return [
        job.agent,
        str(s.get("phase") or ""),
        waiting(s) or "nobody",
        wording.whole(s.get("step")),
        wording.whole(s.get("round")),
        wording.scientific(s.get("residual")),
        f"{s['rate']:.3g}" if is_number(s.get("rate")) else wording.NONE,
        since(s.get("updated"), s.get("every")),
    ]


def late(status: dict[str, Any]) -> list[str]:
    """Return the neighbors whose messages an agent lacks in its round."""
    return [str(n.get("name")) for n in neighbor_list(status) if n.get("late") is True]


def waiting(status: dict[str, Any]) -> str:
    """Return the neighbors an agent waits for and how long it has waited; empty if for nobody."""
    names, seconds = ", ".join(late(status)), status.get("waiting")
    return f"{names}, for {seconds:.0f} s" if names and is_number(seconds) else names


def neighbor_list(status: dict[str, Any]) -> list[dict[str, Any]]:
    found = status.get("neighbors")
    return [n for n in found if isinstance(n, dict)] if isinstance(found, list) else []


def neighbors(job: Job) -> Html:
    """Return the connections of a running agent."""
    rows = [
        [
            str(n.get("name")),
            str(n.get("state") or ""),
            wording.whole(n.get("round")),
            "yes" if n.get("late") is True else "no",
            wording.whole(n.get("received")),
            wording.whole(n.get("sent")),
        ]
        for n in neighbor_list(job.status)
    ]
    head = ["neighbor", "state", "its last round", "waited for", "bytes received", "bytes sent"]
    content = table(f"Neighbors of {job.agent}", head, rows, class_="wide cards")
    return tag("section", tag("h2", f"Neighbors of {job.agent}"), content)


def residuals(jobs: list[Job], charts: Charts) -> Html | None:
    """Return the chart of the local residuals of agents that run; None if none does."""
    traces, swatches, ends = [], [], []
    for number, job in enumerate(jobs):
        points = [p for p in job.status.get("history") or [] if isinstance(p, list) and len(p) == 3]
        points = [p for p in points if all(map(is_number, p)) and p[1] > 0]
        if points:
            style = LineStyle(number)
            x, y, _ = np.array(points, dtype=float).T
            line = {"key": job.agent, "color": style.name, "dash": style.dash, "mode": "lines"}
            traces.append(line | {"x": numbers(x, 6), "y": numbers(y)})
            swatches.append((job.agent, stroke(style)))
            ends.append(f"{job.agent} {wording.scientific(y[-1])}")
    if not traces:
        return None
    place = charts.add(
        group="agents", title="residual", traces=traces, log=True, xtitle="rounds", ytitle="local residual"
    )
    words = f"Local residuals over the rounds, log scale. At the moment: {', '.join(ends)}."
    figure = tag("figure", legend("agents", swatches), chart(place, words), tag("figcaption", words))
    return tag("section", tag("h2", "Residuals"), tag("div", figure, class_="extras"))


def drawing(jobs: list[Job]) -> Html:
    """Return agents in a circle, with a line for each link and an arrow from whoever waits."""
    known = {job.agent: job for job in jobs}
    names = list(known)
    links: dict[frozenset[str], None] = {}
    arrows = []
    for job in jobs:
        for n in neighbor_list(job.status):
            other = str(n.get("name"))
            names += [other] if other not in names else []
            links[frozenset((job.agent, other))] = None
            arrows += [(job.agent, other)] if n.get("late") is True else []
    words = "; ".join(f"{one} waits for {other}" for one, other in arrows) or "Nobody waits for anybody"
    if len(names) > MOST_DRAWN:
        return tag("p", f"{words}.")
    place = {}
    for k, name in enumerate(names):
        angle = 2 * math.pi * k / len(names) - math.pi / 2
        place[name] = (SIZE / 2 + RADIUS * math.cos(angle), SIZE / 2 + RADIUS * math.sin(angle))
    top = min(y for _, y in place.values()) - 40
    bottom = max(y for _, y in place.values()) + 40
    path = "".join(
        "M{:.1f} {:.1f}L{:.1f} {:.1f}".format(*place[a], *place[b])
        for a, b in (sorted(link) for link in links if len(link) == 2)
    )
    dots = []
    for name, (x, y) in place.items():
        shade = "100%" if name in known and known[name].running else "35%"
        side = "middle" if abs(x - SIZE / 2) < 1 else "start" if x > SIZE / 2 else "end"
        shift = {"start": DOT + 6, "end": -DOT - 6, "middle": 0}[side]
        above = (-DOT - 8 if y < SIZE / 2 else DOT + 20) if side == "middle" else 5
        dot = tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=DOT, style=f"--shade:{shade}")
        label = tag("text", name[:SHOWN], x=f"{x + shift:.1f}", y=f"{y + above:.1f}", text_anchor=side)
        dots.append(tag("g", dot, label))
    svg = tag(
        "svg",
        tag("path", d=path, class_="links", stroke_opacity=0.5),
        *(tag("path", d=arrow(place[a], place[b]), class_="waits") for a, b in arrows if a != b),
        tag("g", *dots, class_="agents"),
        viewBox=f"-80 {top:.0f} {SIZE + 160:.0f} {bottom - top:.0f}",
        role="img",
        aria_label=f"Network of {len(names)} agents. {words}.",
        class_="network waiting",
    )
    caption = f"{words}. Pale agents are not running here, or have no files in this folder."
    return tag("figure", svg, tag("figcaption", caption))


def arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Return an arrow between two dots, a little aside, so that two in opposite directions are both seen."""
    (x0, y0), (x1, y1) = start, end
    length = math.hypot(x1 - x0, y1 - y0) or 1.0
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    ox, oy = -uy * 5, ux * 5
    ax, ay = x0 + ux * (DOT + 3) + ox, y0 + uy * (DOT + 3) + oy
    bx, by = x1 - ux * (DOT + 3) + ox, y1 - uy * (DOT + 3) + oy
    left = (bx - 9 * ux - 5 * uy, by - 9 * uy + 5 * ux)
    right = (bx - 9 * ux + 5 * uy, by - 9 * uy - 5 * ux)
    points = [(ax, ay), (bx, by), left, (bx, by), right]
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
