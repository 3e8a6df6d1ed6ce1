"""The tables of a report: methods, medians, claims, settings, and the numbers behind the curves."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from destiny.report.charts.curves import AXES, MEASURES, Curve
from destiny.report.html import wording
from destiny.report.html.markup import Html, details, join, table, tag
from destiny.report.sources.folder import FolderResults, MethodResults
from destiny.report.sources.results import FigureResults, PanelResults
from destiny.run.result import describe_references
from destiny.validation import is_number

ROWS = 8  # of a curve in the table behind it
HOLDS = {True: ("✓", "holds"), False: ("✗", "does not hold"), None: ("?", "not decided")}


def methods(results: FolderResults) -> Html:
    """Return a table of all methods of one seed, with the reason each stopped."""
    head = ["method", "why it stopped", "steps", "rounds", "sent", "gradients", "time", *MEASURES]
    rows = [method_row(run) for run in results.runs]
    found = table("Methods, what they cost and where they ended", head, rows, class_="wide cards")
    return join([found, references(results)])


def references(results: FolderResults) -> Html | None:
    """Return what bytes and rounds are held against; None if nothing is known."""
    entry = next((run.entry for run in results.runs if is_number(run.entry.get("least_bytes"))), {})
    data = entry.get("data_bytes")
    text = describe_references(data if is_number(data) else None, entry.get("least_bytes", 0))
    lines = [f"To hold bytes against: {text}."] if text else []
    spectrum, diameter = results.extras.get("spectrum"), (results.network or {}).get("diameter")
    products = spectrum.get("products") if isinstance(spectrum, dict) else None
    if is_number(products) and is_number(diameter):
        lines.append(
            f"To hold rounds against: about {wording.whole(products * diameter)}, for methods whose messages "
            "are n x p matrices (diameter times log(n) / sqrt(gap))."
        )
    return tag("p", " ".join(lines), class_="quiet") if lines else None


def method_row(run: MethodResults) -> list[object]:
    entry = run.entry
    kind = entry.get("algorithm") if isinstance(entry.get("algorithm"), str) else ""
    name = [tag("span", run.label)] + (
        [tag("span", kind, class_="quiet")] if kind and kind != run.label else []
    )
    notes = entry.get("notes") or []
    notes = notes if isinstance(notes, list) else [notes]
    reason = [tag("span", why(entry))] + [tag("span", f"Note: {note}", class_="quiet") for note in notes]
    numbers_sent = f"{wording.whole(entry.get('scalars', entry.get('sent')))} numbers"
    sent = [tag("span", wording.size(entry.get("bytes"))), tag("span", numbers_sent, class_="quiet")]
    return [
        join(name),
        join(reason),
        wording.whole(entry.get("steps")),
        wording.whole(entry.get("rounds")),
        join(sent),
        gradients(entry),
        wording.seconds(entry.get("seconds")),
        *(wording.scientific(entry.get(name)) for name in MEASURES),
    ]


def gradients(entry: dict[str, Any]) -> str:
    """Return the gradients each agent evaluated, mini-batches apart; older versions did not write them."""
    full, batches = wording.whole(entry.get("gradients")), entry.get("minibatches")
    if not batches:
        return full
    passes = entry.get("passes")
    text = f"{full} + {wording.whole(batches)} of mini-batches"
    return text if passes is None else f"{text}: {passes:.1f} passes"


def why(entry: dict[str, Any]) -> str:
    """Return the reason for stopping as the run wrote it."""
    return str(entry.get("reason") or "not known: the run is not in summary.json")


def medians(panel: PanelResults) -> Html:
    """Return a table of all methods over the seeds: rounds to some levels, rounds and reasons at the end."""
    unit = wording.unit(panel)
    head = [
        "method",
        *(f"{unit} to {wording.level_name(level)}" for level in wording.LEVELS),
        f"{unit} at the end",
        "why it stopped",
    ]
    rows = []
    for label in panel.labels:
        entries = [run.entry for results in panel.seeds for run in results.runs if run.label == label]
        reasons = Counter(why(entry).split(":")[0] for entry in entries)
        why_stopped = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common())
        ends = np.array([e[unit] for e in entries if isinstance(e.get(unit), int | float)], dtype=float)
        levels = [wording.rounds_per_seed(panel, label, level) for level in wording.LEVELS]
        cells = [wording.spread(values) if len(values) else wording.NONE for values in (*levels, ends)]
        rows.append([label, *cells, why_stopped])
    caption = (
        f"Median over {len(panel.seeds)} seeds (from least to largest) of the {unit} until stationarity, "
        "consensus and feasibility stay below a level; reasons with how often"
    )
    return table(caption, head, rows, class_="wide cards")


def claims(figure: FigureResults) -> Html | None:
    """Return a table of the claims, the verdicts and what was measured; None without claims."""
    if not figure.claims:
        return None
    titles = {panel.name: panel.title for panel in figure.panels}
    rows = []
    for claim in figure.claims:
        sign, word = verdict(claim)
        mark = tag("span", sign, aria_hidden="true")
        verdict_cell = tag("span", mark, " ", word, class_=f"verdict {word.replace(' ', '-')}")
        measured = str(claim.get("measured", ""))
        panels = [str(titles.get(name, name)) for name in claim.get("panels") or []]
        if not all(name in measured for name in panels):  # which most say themselves
            measured = f"{', '.join(panels)}: {measured}"
        lines = [tag("span", part, class_="line") for part in measured.split("; ")]
        rows.append([str(claim.get("claim", "")), verdict_cell, tag("div", *lines)])
    caption = "Claims held against what was measured"
    return table(caption, ["claim", "verdict", "measured"], rows, class_="wide cards claims")


def verdict(claim: dict[str, Any]) -> tuple[str, str]:
    """Return the sign and words for a claim that holds, does not hold, or is not decided."""
    holds = claim.get("holds")
    return HOLDS[holds if isinstance(holds, bool) else None]


def tally(figure: FigureResults) -> str:
    """Return how many claims hold, do not hold and are not decided; empty without claims."""
    if not figure.claims:
        return ""
    count = Counter(verdict(claim)[1] for claim in figure.claims)
    plural = {"holds": "hold", "does not hold": "do not hold", "not decided": "not decided"}
    parts = [
        f"{count[word]} {word if count[word] == 1 else many}" for word, many in plural.items() if count[word]
    ]
    return f"Claims: {', '.join(parts)}"


def settings(tables: dict[str, Any]) -> Html | None:
    """Return settings as a table, one line for each key; None without settings."""
    rows: list[list[object]] = []
    for name, content in tables.items():
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, dict):
                rows += [[f"{name}: {key}", wording.setting(value)] for key, value in part.items()]
            else:
                rows.append([name, wording.setting(part)])
    return table("Settings", ["setting", "value"], rows, class_="settings") if rows else None


def numbers(curves: list[Curve], unit: str) -> Html:
    """Return a few points of every curve as a table that opens on demand."""
    rows = [point_row(curve, k) for curve in curves for k in spaced_indices(len(curve.x["round"]))]
    head = ["method", unit, *(AXES[axis] for axis in ("scalars", "bytes", "seconds")), *MEASURES]
    return details(
        "The curves as a table", table("Some points of every curve", head, rows, class_="wide cards numbers")
    )


def spaced_indices(size: int) -> list[int]:
    """Return up to `ROWS` indices below ``size``, including both ends."""
    return [int(k) for k in np.unique(np.linspace(0, size - 1, ROWS).round())]


def point_row(curve: Curve, k: int) -> list[object]:
    x = {axis: values[k] for axis, values in curve.x.items()}
    measures = [wording.scientific(float(curve.middle[measure][k])) for measure in MEASURES]
    return [
        curve.label,
        wording.whole(x["round"]),
        wording.whole(x["scalars"]),
        wording.whole(x["bytes"]),
        f"{x['seconds']:.3g}",
        *measures,
    ]
