"""HTML elements; text is escaped unless it is `Html` already."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


class Html(str):
    """Text that is markup and is not escaped again."""

    __slots__ = ()


def tag(name: str, /, *inside: object, **attributes: object) -> Html:
    """Return an element.

    ``class_`` is the attribute class, underscores become hyphens; attributes that are None or False are left
    out.
    """
    text = ""
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        text += f" {key}" if value is True else f' {key}="{html.escape(str(value))}"'
    if name in ("img", "input", "line", "circle", "path"):
        return Html(f"<{name}{text}>" if name in ("img", "input") else f"<{name}{text}/>")
    return Html(f"<{name}{text}>{join(inside)}</{name}>")


def join(parts: Iterable[object]) -> Html:
    """Return the parts joined; None is skipped."""
    return Html("".join(p if isinstance(p, Html) else html.escape(str(p)) for p in parts if p is not None))


def table(
    caption: str, head: Sequence[object], rows: Iterable[Sequence[object]], **attributes: object
) -> Html:
    """Return a table whose first column names the row.

    Roles are explicit because on a phone rows are laid out as cards, and some browsers then drop the roles of
    a table. Each cell carries its column's name for the cards.
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
    """Return content that opens on demand."""
    return tag("details", tag("summary", summary), *inside, **attributes)
