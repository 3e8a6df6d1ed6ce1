"""A picture of a network: agents as dots colored by degree."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from destiny.errors import INSTALL, MissingExtraError, NetworkError
from destiny.networks.links import Links
from destiny.protocols import Array

if TYPE_CHECKING:
    import networkx as nx

    from destiny.networks.network import Network

STRESS = 150  # agents; all pairwise distances as springs: the finest picture, a few seconds here
SPRINGS = 1000  # agents; springs along the links only, also some seconds


def draw(network: Network, path: str | PathLike[str]) -> Path:
    """Write the picture to ``path`` and return it. Matplotlib is imported here only."""
    Figure, _ = _matplotlib()
    figure = Figure(figsize=(6, 6), layout="constrained")  # no pyplot: nothing global, no display
    plot(network, figure.add_subplot())
    path = Path(path)
    try:
        figure.savefig(path, dpi=150, format=None if path.suffix else "png")
    except ValueError as error:  # matplotlib knows no such kind of picture
        raise NetworkError(f"cannot draw into {path}: {error}") from error
    return path


def plot(network: Network, axes: Any = None) -> Any:
    """Draw into ``axes``, by default those of a new figure of pyplot, and return them."""
    _, LineCollection = _matplotlib()
    if axes is None:
        import matplotlib.pyplot as plt

        axes = plt.figure(figsize=(6, 6), layout="constrained").add_subplot()
    places = network.layout()
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.add_collection(
        LineCollection(list(places[network.edges]), colors="0.35", linewidths=0.8, alpha=_faint(network))
    )
    x, y = places.T
    dots = axes.scatter(x, y, c=network.degrees, s=_size(network), edgecolors="white", zorder=2)
    axes.margins(0.05)
    axes.set_title(_title(network))
    if network.degrees.min() < network.degrees.max():
        _degree_bar(axes, dots)
    return axes


def to_svg(network: Network, size: int = 240) -> str:
    """Return a small picture as SVG, without matplotlib; empty where it would take seconds to lay out."""
    if network.agents > STRESS:
        return ""
    places = network.layout()
    low, high = places.min(axis=0), places.max(axis=0)
    span = float((high - low).max()) or 1.0
    radius = float(np.clip(60 / network.agents, 1.5, 8))
    spots = (places - (low + high) / 2) / span * (size - 2 * radius - 4) * [1, -1] + size / 2
    lines = "".join(
        f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}"/>'
        for a, b in spots[network.edges]
    )
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>' for x, y in spots)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size}" height="{size}" role="img">'
        f'<g stroke="currentColor" stroke-opacity="{_faint(network):.2f}">{lines}</g>'
        f'<g fill="#0072B2">{dots}</g></svg>'
    )


def _matplotlib() -> tuple[Any, Any]:
    try:
        from matplotlib.collections import LineCollection
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            f"drawing a network needs matplotlib, which is not installed: {INSTALL.format(extra='plot')}"
        ) from error
    return Figure, LineCollection


def _faint(network: Network) -> float:
    """Opacity of a link: many links melt into a gray block unless each is fainter."""
    return float(np.clip(80 / max(1, len(network.edges)), 0.15, 0.6))


def layout(links: Links, agents: int) -> Array:
    """Positions of the agents ``(d, 2)``, deterministic."""
    import networkx as nx

    graph: nx.Graph[int] = nx.empty_graph(agents)
    graph.add_edges_from(links.tolist())
    if agents <= STRESS and nx.is_connected(graph):
        positions = nx.kamada_kawai_layout(graph)  # starts on a circle: rings stay round, grids flat
    elif agents <= SPRINGS:
        positions = nx.spring_layout(graph, seed=0)
    else:
        positions = nx.circular_layout(graph)
    return np.array([positions[agent] for agent in range(agents)])


def _degree_bar(axes: Any, dots: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    whole = MaxNLocator(integer=True, nbins=6)
    axes.figure.colorbar(dots, ax=axes, label="neighbors", shrink=0.6, ticks=whole)


def _size(network: Network) -> float:
    """Area of a dot in square points, such that the dots of a thousand agents do not touch."""
    return float(np.clip(6000 / network.agents, 4, 220))


def _title(network: Network) -> str:
    agents, links = network.agents, len(network.edges)
    return f"{network.name}\n{agents} agents, {links} links, λ = {network.lambda_:.4g}"
