"""One HTML file with style, script, plotly and data in it; nothing is fetched from anywhere."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from string import Template

from destiny.errors import MissingExtraError
from destiny.report.charts.curves import AXES, looks
from destiny.report.charts.series import Charts
from destiny.report.html import tables
from destiny.report.html.markup import Html, join, tag
from destiny.report.html.sections import Section
from destiny.report.sources.results import Figure


def render(figures: list[Figure]) -> str:
    """The file's content."""
    charts, known = Charts(), looks(figures)
    if len(figures) == 1:
        title = figures[0].title
        inside = [Section(figures[0], known, charts, 1, 0).html(switch())]
    else:
        title = "Figures, reproduced"
        inside = [contents(figures), switch()]
        for number, figure in enumerate(figures):
            section = Section(figure, known, charts, 2, number).html()
            inside.append(
                tag("section", tag("h2", figure.title), section, id=f"figure-{number}", class_="figure")
            )
    body = [tag("h1", title), *inside]
    script = asset("page.js")
    library = plotly()
    return Template(asset("page.html")).substitute(
        title=tag("title", f"{title} | DESTINY"), style=asset("page.css"), body=join(body),
        data=charts.text(), plotly=library, script=script,
        hashes=" ".join(digest(text) for text in (library, script)),
    )  # fmt: skip


def switch() -> Html:
    """The one control for what all curves are drawn over."""
    names = {"round": "rounds", "scalars": "numbers sent", "seconds": "seconds"}
    radios = [
        tag(
            "label",
            tag("input", type="radio", name="axis", value=axis, checked=axis == "round"),
            tag("span", names[axis]),
        )
        for axis in AXES
    ]
    return tag("fieldset", tag("legend", "Curves over"), *radios, class_="switch", id="axis")


def contents(figures: list[Figure]) -> Html:
    """Where to find which figure, and how its claims fare."""
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
    """A file that comes with the package."""
    return (files("destiny.report") / "assets" / name).read_text(encoding="utf-8")


def plotly() -> str:
    """plotly.js, whole."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingExtraError('a report needs plotly: pip install "destiny-stiefel[report]"') from error
    return str(get_plotlyjs()).replace("\r\n", "\n")


def digest(script: str) -> str:
    """What tells the browser that a script is ours: any other, put in by a file's text, does not run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
