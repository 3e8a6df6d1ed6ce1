"""A network as a drawing and as facts."""

from __future__ import annotations

from typing import Any

import numpy as np

from destiny.protocols import Array
from destiny.report.html import wording
from destiny.report.html.markup import Html, tag
from destiny.validation import is_number

WIDTH, MARGIN = 320.0, 12.0  # of the drawing, in its own units


def facts(network: dict[str, Any]) -> dict[str, str]:
    """Return the properties of a network as text, by name."""
    values = {
        "agents": wording.whole(network.get("agents")),
        "links": wording.whole(network.get("link_count", len(network.get("links") or ()))),
        "neighbors": neighbors(network),
        "diameter": wording.whole(network.get("diameter")),
        "λ": f"{network['lambda']:.4g}" if is_number(network.get("lambda")) else wording.NONE,
        "weights": str(network.get("weights") or wording.NONE),
    }
    if is_number(network.get("rounds_to_1e-6")):
        values["rounds to average to 10⁻⁶"] = wording.whole(network["rounds_to_1e-6"])
    return {name: value for name, value in values.items() if value != wording.NONE}


def neighbors(network: dict[str, Any]) -> str:
    """Return the range of the agents' numbers of neighbors, as text."""
    least, mean, most = (network.get(f"degree_{which}") for which in ("min", "mean", "max"))
    if least == most or not is_number(mean):
        return wording.whole(least)
    return f"{wording.whole(least)} to {wording.whole(most)}, {mean:.3g} on average"


def layout(network: dict[str, Any]) -> tuple[Array, Any, Any] | None:
    """Return positions ``(d, 2)``, links ``(E, 2)`` and degrees ``(d,)``; None without positions.

    Raises ValueError if positions or links are damaged.
    """
    if not network.get("positions"):
        return None
    where = np.asarray(network["positions"], dtype=np.float64)
    links = np.asarray(network["links"], dtype=np.intp).reshape(-1, 2)
    if where.ndim != 2 or where.shape[1] != 2 or not np.isfinite(where).all():
        raise ValueError("positions must be pairs of numbers")
    if links.size and not (links.min() >= 0 and links.max() < len(where)):
        raise ValueError("links must join agents that have a position")
    return where, links, np.bincount(links.ravel(), minlength=len(where))


def drawing(network: dict[str, Any]) -> Html | None:
    """Return the network as SVG, darker dots for agents with more neighbors; None without positions."""
    content = layout(network)
    if content is None:
        return None
    positions, links, degrees = content
    span = max(float(np.ptp(positions, axis=0).max()), 1e-12)
    xy = MARGIN + (positions - positions.min(axis=0)) / span * (WIDTH - 2 * MARGIN)
    height = float(xy[:, 1].max()) + MARGIN
    faint = float(np.clip(60 / max(1, len(links)), 0.12, 0.55))
    path = "".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for (a, b), (c, d) in xy[links])
    radius = float(np.clip(60 / np.sqrt(len(positions)), 2, 9))
    most, least = int(degrees.max()), int(degrees.min())
    dots = []
    for agent, ((x, y), degree) in enumerate(zip(xy, degrees, strict=True)):
        shade = 0.3 + 0.7 * (degree - least) / (most - least) if most > least else 1
        tooltip = tag("title", f"agent {agent}: {degree} neighbors")
        dots.append(
            tag(
                "g",
                tooltip,
                tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=f"{radius:.1f}", style=f"--shade:{shade:.0%}"),
            )
        )
    return tag(
        "svg",
        tag("path", d=path, class_="links", stroke_opacity=f"{faint:.2f}"),
        tag("g", *dots, class_="agents"),
        viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
        role="img",
        aria_label=sentence(network),
        class_="network",
    )


def sentence(network: dict[str, Any]) -> str:
    """Return a description of the drawing for screen readers."""
    values = facts(network)
    parts = [f"{values[name]} {name}" for name in ("agents", "links") if name in values]
    parts += [f"{name} {values[name]}" for name in ("neighbors", "diameter", "λ") if name in values]
    return f"{network.get('name') or 'network'}: {', '.join(parts)}"


def figure(network: dict[str, Any]) -> Html:
    """Return the drawing with the network's properties below."""
    up = (
        " All links that are ever up are drawn; λ and diameter are with all of them up."
        if network.get("changing")
        else ""
    )
    picture = drawing(network) or tag("p", "The network is too large to be drawn.")
    items = [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts(network).items()]
    differ = network.get("degree_min") != network.get("degree_max")
    color = " The stronger an agent's color, the more neighbors it has." if differ else ""
    caption = f"{network.get('name') or 'Network'}.{up}{color}"
    return tag("figure", picture, tag("figcaption", caption), tag("dl", *items, class_="facts"), class_="net")
