"""The pages of `destiny serve`: what is there, one result or run, the agents of one run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from destiny.errors import DestinyError
from destiny.report.charts.curves import line_styles
from destiny.report.charts.series import Charts
from destiny.report.html import wording
from destiny.report.html.markup import Html, join, table, tag
from destiny.report.html.page import axis_switch, body_of
from destiny.report.live import agents
from destiny.report.live.jobs import Job, read_list, read_table
from destiny.report.live.times import from_seconds, since
from destiny.report.sources.results import open_folder


@dataclass(frozen=True)
class LivePage:
    """The changing part of a page: its title, its body, and the data of its charts as JSON."""

    title: str
    body: Html
    data: str


def index_page(root: Path, jobs: list[Job]) -> LivePage:
    """Return the list of all jobs: agents, runs that are not over, results."""
    runs = list(dict.fromkeys(job.run for job in jobs if job.agent))
    running = [job for job in jobs if job.running and not job.agent]
    results = [job for job in jobs if not job.running and not job.agent]
    title = root.resolve().name or "Results"
    parts: list[Html | None] = [tag("h1", title)]
    if running:
        head = ["folder", "problem", "method", "round", "stationarity", "last sign of life"]
        rows = [running_row(job) for job in running]
        parts.append(section("Running", table("Runs that are not over", head, rows, class_="wide cards")))
    if runs:
        head = ["run", "agents here", "running", "waiting for others"]
        rows = [agents_row(run, [job for job in jobs if job.agent and job.run == run]) for run in runs]
        parts.append(section("Agents", table("Agents of organizations", head, rows, class_="wide cards")))
    if results:
        head, rows = ["folder", "problem", "outcome", "written"], [result_row(job) for job in results]
        parts.append(section("Results", table("Results, the newest first", head, rows, class_="wide cards")))
    if not jobs:
        parts.append(tag("p", "There are no results here yet. This page shows them as soon as there are."))
    return LivePage(title, join(parts), Charts().text())


def section(title: str, inside: Html) -> Html:
    return tag("section", tag("h2", title), inside)


def link(job: Job) -> Html:
    """Return the link to the page of a job."""
    name = "this folder" if job.key == "." else job.key
    return tag("a", name, href=f"/job/{quote(job.key, safe='')}")


def running_row(job: Job) -> list[object]:
    s = job.status
    found = s.get("methods")
    methods = [m for m in found if isinstance(m, dict)] if isinstance(found, list) else []
    now = next((m for m in methods if m.get("state") == "running"), {})
    history = now.get("history")
    history = history if isinstance(history, dict) else {}
    last = {name: values[-1] for name, values in history.items() if isinstance(values, list) and values}
    place = f"{methods.index(now) + 1} of {len(methods)}" if now and len(methods) > 1 else ""
    label = f"{now.get('label', '')}{f' ({place})' if place else ''}"
    done, most = wording.whole(last.get("round")), wording.whole(now.get("rounds"))
    return [
        link(job),
        str(s.get("problem") or ""),
        label,
        f"{done} of at most {most}",
        wording.scientific(last.get("stationarity")),
        since(s.get("updated"), s.get("every")),
    ]


def result_row(job: Job) -> list[object]:
    figure, about = read_table(job.path / "figure.json"), read_table(job.path / "about.json")
    entries = [entry for entry in read_list(job.path / "summary.json") if isinstance(entry, dict)]
    outcome = ""
    if len(entries) == 1:
        outcome = str(entries[0].get("reason") or "").split(":")[0]
    elif entries:
        outcome = f"{sum(e.get('converged') is True for e in entries)} of {len(entries)} methods converged"
    return [
        link(job),
        str(figure.get("title") or about.get("problem") or ""),
        outcome,
        from_seconds(job.changed),
    ]


def agents_row(run: str, jobs: list[Job]) -> list[object]:
    running = [job for job in jobs if job.running]
    waiting = [f"{job.agent} for {names}" for job in running if (names := agents.waiting(job.status))]
    name = tag("a", run or "without a name", href=f"/agents/{quote(run, safe='')}")
    return [name, str(len(jobs)), str(len(running)), "; ".join(waiting) or "nobody"]


def job_page(job: Job) -> LivePage:
    """Return the report of a folder, as far as its run has come."""
    charts = Charts()
    try:
        figures = open_folder(job.path)
        title, body = body_of(figures, charts, line_styles(figures))
    except DestinyError as error:
        title, body = job.key, join([tag("h1", job.key), axis_switch(), tag("p", str(error))])
    state = None
    if job.running:
        sign = since(job.status.get("updated"), job.status.get("every"))
        state = tag("p", tag("strong", "Running"), "; last sign of life: ", sign, class_="state")
    return LivePage(title, join([back(), state, body]), charts.text())


def run_page(run: str, jobs: list[Job]) -> LivePage:
    """Return the page of the agents of a run."""
    charts = Charts()
    title = f"Agents of {run or 'a run without a name'}"
    content = agents.agents_page(sorted(jobs, key=lambda job: job.agent), charts)
    return LivePage(title, join([back(), tag("h1", title), content]), charts.text())


def back() -> Html:
    return tag("nav", tag("a", "All results", href="/"), aria_label="Back", class_="back")
