"""How a figure was made: settings, seeds, versions, times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from destiny.report.html import tables, wording
from destiny.report.html.markup import Html, details, join, table, tag
from destiny.report.sources.results import Figure


def made(figure: Figure) -> Html | None:
    """Facts first, then settings and versions on demand."""
    if not figure.panels:
        return None
    about = figure.panels[0].first.about
    known = facts(figure, about)
    listed = [tag("div", tag("dt", name), tag("dd", value)) for name, value in known.items()]
    parts: list[Html | None] = [tag("dl", *listed, class_="facts") if listed else None]
    for title, content in settings(figure).items():
        shown = tables.settings(content)
        parts.append(details(title, shown) if shown else None)
    versions = about.get("versions")
    if isinstance(versions, dict):
        rows = [[str(name), str(value)] for name, value in versions.items()]
        parts.append(details("Versions", table("Versions", ["software", "version"], rows, class_="settings")))
    return join(parts) or None


def facts(figure: Figure, about: dict[str, Any]) -> dict[str, str]:
    """Seeds, where and when."""
    seeds = figure.facts.get("seeds")
    shown = {
        "seeds" if isinstance(seeds, list) else "seed": wording.setting(
            seeds if seeds is not None else about.get("seed", "")
        ),
        "engine": str(about.get("engine") or ""),
        "started": when(about.get("started")),
        "finished": when(about.get("finished")),
    }
    times = figure.facts.get("seconds")
    if isinstance(times, dict):
        shown |= {f"time, {name}": wording.seconds(value) for name, value in times.items()}
    return {name: value for name, value in shown.items() if value and value != "None"}


def when(stamp: Any) -> str:
    """A time stamp for people."""
    try:
        return datetime.fromisoformat(stamp).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC") if stamp else ""
    except (TypeError, ValueError):
        return str(stamp)


def settings(figure: Figure) -> dict[str, dict[str, Any]]:
    """Tables of settings by title: the figure's, or the run's own and those the methods ended up with."""
    given = figure.facts.get("settings")
    if isinstance(given, dict):
        return {"Settings": given}
    first = figure.panels[0].first
    used = {
        run.label: run.entry["settings"] for run in first.runs if isinstance(run.entry.get("settings"), dict)
    }
    return {"Settings of the experiment": first.tables, "Settings of the methods": used}
