"""The HTML page: style, scripts and data in one file, with nothing to fetch."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from string import Template

from destiny.report.charts.curves import AXES, LineStyle, axis_titles, is_simulated, line_styles
from destiny.report.charts.series import Charts
from destiny.report.html import tables
from destiny.report.html.markup import Html, join, tag
from destiny.report.html.sections import Section
from destiny.report.sources.results import FigureResults


def render(figures: list[FigureResults]) -> str:
    charts = Charts()
    title, body = body_of(figures, charts, line_styles(figures))
    scripts = [asset("charts.js"), asset("page.js")]
    return Template(asset("page.html")).substitute(
        title=tag("title", f"{title} | DESTINY"),
        style=asset("page.css"),
        body=body,
        data=charts.text(),
        scripts="\n".join(f"<script>{text}</script>" for text in scripts),
        hashes=" ".join(map(csp_hash, scripts)),
    )


def body_of(figures: list[FigureResults], charts: Charts, styles: dict[str, LineStyle]) -> tuple[str, Html]:
    """Return the title and the body of a page; its charts are added to ``charts``."""
    simulated = any(is_simulated(figure) for figure in figures)
    charts.axes, switch = axis_titles(simulated), axis_switch(simulated)
    if len(figures) == 1:
        title = figures[0].title
        inside = [Section(figures[0], styles, charts, 1, 0).html(switch)]
    else:
        title = "Figures, reproduced"
        inside = [contents(figures), switch]
        for number, figure in enumerate(figures):
            section = Section(figure, styles, charts, 2, number).html()
            inside.append(
                tag("section", tag("h2", figure.title), section, id=f"figure-{number}", class_="figure")
            )
    return title, join([tag("h1", title), *inside])


def axis_switch(simulated: bool = False) -> Html:
    """Return the control that chooses the horizontal axis of all curves.

    Rounds, and wakes of methods without rounds, are no common measure: where time is simulated, it
    is the first choice.
    """
    names = {**axis_titles(simulated), "round": "rounds"}
    first = "seconds" if simulated else "round"
    radios = [
        tag(
            "label",
            tag("input", type="radio", name="axis", value=axis, checked=axis == first),
            tag("span", names[axis]),
        )
        for axis in AXES
    ]
    return tag("fieldset", tag("legend", "Curves over"), *radios, class_="switch", id="axis")


def contents(figures: list[FigureResults]) -> Html:
    """Return the list of figures with links and the tally of their claims."""
    lines = [
        tag(
            "li",
            tag("a", figure.title, href=f"#figure-{k}"),
            tag("span", tables.tally(figure), class_="quiet"),
        )
        for k, figure in enumerate(figures)
    ]
    return tag("nav", tag("ol", *lines), aria_label="Figures")


def asset(name: str) -> str:
    """Return a text file of the package's assets."""
    return (files("destiny.report") / "assets" / name).read_text(encoding="utf-8")


def csp_hash(script: str) -> str:
    """Return the hash of a script for the Content-Security-Policy, so that no other script runs."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
