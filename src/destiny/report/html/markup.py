"""Markup in which every text is escaped unless it is markup already."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, /, *inside: object, **attributes: object) -> Html:
    """An element. ``class_`` is the attribute class, underscores are hyphens, None and False are left out."""
    told = ""
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        told += f" {key}" if value is True else f' {key}="{html.escape(str(value))}"'
    if name in ("img", "input", "line", "circle", "path"):
        return Html(f"<{name}{told}>" if name in ("img", "input") else f"<{name}{told}/>")
    return Html(f"<{name}{told}>{join(inside)}</{name}>")


def join(parts: Iterable[object]) -> Html:
    """Parts one after the other; None is nothing."""
    return Html("".join(p if isinstance(p, Html) else html.escape(str(p)) for p in parts if p is not None))


def table(
    caption: str, head: Sequence[object], rows: Iterable[Sequence[object]], **attributes: object
) -> Html:
    """A table whose first column names the row.

    Roles are given although a table has them: on a phone the rows are laid out as cards, which takes them
    away in some browsers. Each cell carries its column's name for the cards.
    """
    header = tag("tr", *(tag("th", name, scope="col", role="columnheader") for name in head), role="row")
    body = []
    for first, *rest in rows:
        cells = [
            tag("td", cell, role="cell", data_name=name) for cell, name in zip(rest, head[1:], strict=True)
        ]
        body.append(tag("tr", tag("th", first, scope="row", role="rowheader"), *cells, role="row"))
    return tag(
        "table",
        tag("caption", caption),
        tag("thead", header, role="rowgroup"),
        tag("tbody", *body, role="rowgroup"),
        role="table",
        **attributes,
    )


def details(summary: str, *inside: object, **attributes: object) -> Html:
    """Something that is there on demand."""
    return tag("details", tag("summary", summary), *inside, **attributes)
