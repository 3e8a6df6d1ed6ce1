"""A picture of a network: agents as dots coloured by degree."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from destiny.errors import MissingExtraError, NetworkError
from destiny.networks.links import Links
from destiny.protocols import Array

if TYPE_CHECKING:
    from destiny.networks.network import Network

STRESS = 150  # agents; all pairwise distances as springs: the finest picture, a few seconds here
SPRINGS = 1000  # agents; springs along the links only, also some seconds


def draw(network: Network, path: str | PathLike[str]) -> Path:
    """Write the picture; matplotlib is imported here and nowhere else."""
    try:
        from matplotlib.collections import LineCollection
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            'drawing a network needs matplotlib, which is not installed: pip install "destiny-stiefel[plot]"'
        ) from error

    places = network.layout()
    figure = Figure(figsize=(6, 6), layout="constrained")  # no pyplot: nothing global, no display
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_aspect("equal")
    # many links melt into a grey block unless each is fainter
    faint = float(np.clip(80 / max(1, len(network.edges)), 0.15, 0.6))
    axes.add_collection(
        LineCollection(list(places[network.edges]), colors="0.35", linewidths=0.8, alpha=faint)
    )
    x, y = places.T
    dots = axes.scatter(x, y, c=network.degrees, s=_size(network), edgecolors="white", zorder=2)
    axes.margins(0.05)
    axes.set_title(_title(network))
    if network.degrees.min() < network.degrees.max():
        _degree_bar(figure, dots)
    path = Path(path)
    try:
        figure.savefig(path, dpi=150, format=None if path.suffix else "png")
    except ValueError as error:  # matplotlib knows no such kind of picture
        raise NetworkError(f"cannot draw into {path}: {error}") from error
    return path


def layout(links: Links, agents: int) -> Array:
    """Positions ``(d, 2)``, the same every time."""
    graph: nx.Graph[int] = nx.empty_graph(agents)
    graph.add_edges_from(links.tolist())
    if agents <= STRESS and nx.is_connected(graph):
        found = nx.kamada_kawai_layout(graph)  # starts on a circle: rings stay round, grids flat
    elif agents <= SPRINGS:
        found = nx.spring_layout(graph, seed=0)
    else:
        found = nx.circular_layout(graph)
    return np.array([found[agent] for agent in range(agents)])


def _degree_bar(figure: Any, dots: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    whole = MaxNLocator(integer=True, nbins=6)
    figure.colorbar(dots, label="neighbours", shrink=0.6, ticks=whole)


def _size(network: Network) -> float:
    """Area of a dot: generous for a few agents, still apart for a thousand."""
    return float(np.clip(6000 / network.agents, 4, 220))


def _title(network: Network) -> str:
    agents, links = network.agents, len(network.edges)
    return f"{network.name}\n{agents} agents, {links} links, λ = {network.lambda_:.4g}"
