"""Provenance of a figure: settings, seeds, versions, times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from destiny.report.html import tables, wording
from destiny.report.html.markup import Html, details, join, table, tag
from destiny.report.sources.results import FigureResults


def provenance_section(figure: FigureResults) -> Html | None:
    """Return facts, and settings and versions that open on demand; None without results."""
    if not figure.panels:
        return None
    about = figure.panels[0].first.about
    items = [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts(figure, about).items()]
    parts: list[Html | None] = [tag("dl", *items, class_="facts") if items else None]
    for title, content in settings(figure).items():
        rows_of_settings = tables.settings(content)
        parts.append(details(title, rows_of_settings) if rows_of_settings else None)
    versions = about.get("versions")
    if isinstance(versions, dict):
        rows = [[str(name), str(value)] for name, value in versions.items()]
        parts.append(details("Versions", table("Versions", ["software", "version"], rows, class_="settings")))
    return join(parts) or None


def facts(figure: FigureResults, about: dict[str, Any]) -> dict[str, str]:
    """Return seeds, engine and times as text, by name."""
    seeds = figure.facts.get("seeds")
    values = {
        "seeds" if isinstance(seeds, list) else "seed": wording.setting(
            seeds if seeds is not None else about.get("seed", "")
        ),
        "engine": str(about.get("engine") or ""),
        "started": format_time(about.get("started")),
        "finished": format_time(about.get("finished")),
    }
    times = figure.facts.get("seconds")
    if isinstance(times, dict):
        values |= {f"time, {name}": wording.seconds(value) for name, value in times.items()}
    return {name: value for name, value in values.items() if value and value != "None"}


def format_time(stamp: Any) -> str:
    """Return an ISO time stamp as date and time in UTC; other text as it is."""
    try:
        return datetime.fromisoformat(stamp).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC") if stamp else ""
    except (TypeError, ValueError):
        return str(stamp)


def settings(figure: FigureResults) -> dict[str, dict[str, Any]]:
    """Return tables of settings by title: the figure's, or those of the experiment and of the methods."""
    of_figure = figure.facts.get("settings")
    if isinstance(of_figure, dict):
        return {"Settings": of_figure}
    first = figure.panels[0].first
    of_methods = {
        run.label: run.entry["settings"] for run in first.runs if isinstance(run.entry.get("settings"), dict)
    }
    return {"Settings of the experiment": first.tables, "Settings of the methods": of_methods}
