"""The places of charts, and legends whose buttons hide a line and show it again."""

from __future__ import annotations

from destiny.report.charts.curves import Look
from destiny.report.html.markup import Html, tag

STROKES = {"solid": None, "dash": "7 4", "dashdot": "8 4 2 4", "dot": "2 4"}
FULL, OPEN = "●■◆▲✚✖★", "○□◇△✚✖☆"  # as the charts' markers


def chart(number: int, label: str, kind: str = "") -> Html:
    """The place of a chart; the script draws it there."""
    return tag("div", id=f"chart-{number}", class_=f"chart {kind}".strip(), role="img", aria_label=label)


def legend(group: str, entries: list[tuple[str, Html]]) -> Html:
    """A button for each line of the charts of a group."""
    buttons = []
    for key, swatch in entries:
        known = {"aria_pressed": "true", "data_group": group, "data_key": key}
        buttons.append(tag("button", swatch, tag("span", key), type="button", **known))
    return tag("div", *buttons, class_="legend", role="group", aria_label="Show or hide")


def stroke(look: Look | None) -> Html:
    """A line as it is drawn."""
    name, dash = ("ink", "solid") if look is None else (look.name, look.dash)
    line = tag(
        "line", x1=1, y1=6, x2=31, y2=6, stroke=f"var(--{name})", stroke_width=2.5,
        stroke_dasharray=STROKES[dash],
    )  # fmt: skip
    return tag("svg", line, viewBox="0 0 32 12", class_="swatch", aria_hidden="true")


def symbol(look: Look, shapes: str) -> Html:
    """A mark as it is drawn."""
    shape = shapes[look.number % len(shapes)]
    return tag("span", shape, style=f"color:var(--{look.name})", aria_hidden="true")
