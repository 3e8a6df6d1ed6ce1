"""Placeholders of charts, and legends whose buttons show and hide a line."""

from __future__ import annotations

from destiny.report.charts.curves import LineStyle
from destiny.report.html.markup import Html, tag

STROKES = {"solid": None, "dash": "7 4", "dashdot": "8 4 2 4", "dot": "2 4"}
FULL, OPEN = "●■◆▲✚✖★", "○□◇△✚✖☆"  # in the order of the charts' markers


def chart(number: int, label: str, kind: str = "") -> Html:
    """Return the placeholder of a chart, which the page's script fills."""
    return tag("div", id=f"chart-{number}", class_=f"chart {kind}".strip(), role="img", aria_label=label)


def legend(group: str, entries: list[tuple[str, Html]]) -> Html:
    """Return a button for each line of the charts of a group."""
    buttons = []
    for key, swatch in entries:
        attributes = {"aria_pressed": "true", "data_group": group, "data_key": key}
        buttons.append(tag("button", swatch, tag("span", key), type="button", **attributes))
    return tag("div", *buttons, class_="legend", role="group", aria_label="Show or hide")


def stroke(style: LineStyle | None) -> Html:
    """Return a sample of a line."""
    name, dash = ("ink", "solid") if style is None else (style.name, style.dash)
    color, dashes = f"var(--{name})", STROKES[dash]
    line = tag("line", x1=1, y1=6, x2=31, y2=6, stroke=color, stroke_width=2.5, stroke_dasharray=dashes)
    return tag("svg", line, viewBox="0 0 32 12", class_="swatch", aria_hidden="true")


def symbol(style: LineStyle, shapes: str) -> Html:
    """Return a sample of a marker."""
    shape = shapes[style.number % len(shapes)]
    return tag("span", shape, style=f"color:var(--{style.name})", aria_hidden="true")
