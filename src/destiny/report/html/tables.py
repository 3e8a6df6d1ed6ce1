"""The tables of a report: methods, medians, claims, settings, and the numbers behind the curves."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from destiny.report.charts.curves import AXES, MEASURES, Curve
from destiny.report.html import wording
from destiny.report.html.markup import Html, details, join, table, tag
from destiny.report.sources.folder import Results, Run
from destiny.report.sources.results import Figure, Panel

ROWS = 8  # of a curve in the table behind it
HOLDS = {True: ("✓", "holds"), False: ("✗", "does not hold"), None: ("?", "not decided")}


def methods(results: Results) -> Html:
    """Every method of one seed, and why it stopped."""
    head = ["method", "why it stopped", "steps", "rounds", "numbers sent", "gradients", "time", *MEASURES]
    rows = [method(run) for run in results.runs]
    return table("Methods, what they cost and where they ended", head, rows, class_="wide cards")


def method(run: Run) -> list[object]:
    """A line of `methods`."""
    entry = run.entry
    kind = entry.get("algorithm") if isinstance(entry.get("algorithm"), str) else ""
    name = [tag("span", run.label)] + (
        [tag("span", kind, class_="quiet")] if kind and kind != run.label else []
    )
    notes = entry.get("notes") or []
    notes = notes if isinstance(notes, list) else [notes]
    told = [tag("span", why(entry))] + [tag("span", f"Note: {note}", class_="quiet") for note in notes]
    sent = entry.get("scalars", entry.get("sent"))
    return [
        join(name), join(told), wording.whole(entry.get("steps")), wording.whole(entry.get("rounds")),
        wording.whole(sent), gradients(entry), wording.seconds(entry.get("seconds")),
        *(wording.scientific(entry.get(name)) for name in MEASURES),
    ]  # fmt: skip


def gradients(entry: dict[str, Any]) -> str:
    """Gradients each agent evaluated, those of mini-batches apart; runs of old versions do not say."""
    full, batches = wording.whole(entry.get("gradients")), entry.get("minibatches")
    return f"{full} + {wording.whole(batches)} of mini-batches" if batches else full


def why(entry: dict[str, Any]) -> str:
    """The reason for stopping, in the words of the run."""
    return str(entry.get("reason") or "not known: the run is not in summary.json")


def medians(panel: Panel) -> Html:
    """Every method over the seeds: rounds to some levels, the end, and why."""
    unit = wording.counts(panel)
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
        told = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common())
        ends = np.array([e[unit] for e in entries if isinstance(e.get(unit), int | float)], dtype=float)
        levels = [wording.reaching(panel, label, level) for level in wording.LEVELS]
        rows.append([
            label, *(wording.spread(needed) if len(needed) else wording.NONE for needed in levels),
            wording.spread(ends) if len(ends) else wording.NONE, told,
        ])  # fmt: skip
    return table(
        f"Median over {len(panel.seeds)} seeds (from least to largest) of the {unit} until stationarity, "
        "consensus and feasibility stay below a level; reasons with how often",
        head, rows, class_="wide cards",
    )  # fmt: skip


def claims(figure: Figure) -> Html | None:
    """What was claimed, what was measured, and whether the one fits the other."""
    if not figure.claims:
        return None
    titles = {panel.name: panel.title for panel in figure.panels}
    rows = []
    for claim in figure.claims:
        sign, word = verdict(claim)
        mark = tag("span", sign, aria_hidden="true")
        told = tag("span", mark, " ", word, class_=f"verdict {word.replace(' ', '-')}")
        measured = str(claim.get("measured", ""))
        named = [str(titles.get(name, name)) for name in claim.get("panels") or []]
        if not all(name in measured for name in named):  # which most say themselves
            measured = f"{', '.join(named)}: {measured}"
        lines = [tag("span", part, class_="line") for part in measured.split("; ")]
        rows.append([str(claim.get("claim", "")), told, tag("div", *lines)])
    caption = "Claims held against what was measured"
    return table(caption, ["claim", "verdict", "measured"], rows, class_="wide cards claims")


def verdict(claim: dict[str, Any]) -> tuple[str, str]:
    """A sign and words; only true and false decide."""
    holds = claim.get("holds")
    return HOLDS[holds if isinstance(holds, bool) else None]


def tally(figure: Figure) -> str:
    """How the claims fare, in a few words."""
    if not figure.claims:
        return ""
    count = Counter(verdict(claim)[1] for claim in figure.claims)
    plural = {"holds": "hold", "does not hold": "do not hold", "not decided": "not decided"}
    told = [
        f"{count[word]} {word if count[word] == 1 else many}" for word, many in plural.items() if count[word]
    ]
    return f"Claims: {', '.join(told)}"


def settings(tables: dict[str, Any]) -> Html | None:
    """Tables of settings, one line for each key."""
    rows: list[list[object]] = []
    for name, content in tables.items():
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, dict):
                rows += [[f"{name}: {key}", wording.setting(value)] for key, value in part.items()]
            else:
                rows.append([name, wording.setting(part)])
    return table("Settings", ["setting", "value"], rows, class_="settings") if rows else None


def numbers(curves: list[Curve], unit: str) -> Html:
    """A few points of every curve, for who would rather read than look."""
    rows = [point(curve, k) for curve in curves for k in few(len(curve.x["round"]))]
    head = ["method", unit, AXES["scalars"], AXES["seconds"], *MEASURES]
    return details(
        "The curves as a table", table("Some points of every curve", head, rows, class_="wide cards numbers")
    )


def few(size: int) -> list[int]:
    """A few places among so many, the ends among them."""
    return [int(k) for k in np.unique(np.linspace(0, size - 1, ROWS).round())]


def point(curve: Curve, k: int) -> list[object]:
    """A line of `numbers`."""
    x = {axis: values[k] for axis, values in curve.x.items()}
    measures = [wording.scientific(float(curve.middle[measure][k])) for measure in MEASURES]
    return [
        curve.label,
        wording.whole(x["round"]),
        wording.whole(x["scalars"]),
        f"{x['seconds']:.3g}",
        *measures,
    ]
