"""Networks by name, for the command line and for files of settings."""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any, Literal

from numpy.typing import ArrayLike

from destiny.errors import NetworkError
from destiny.networks import from_user, graphs
from destiny.networks.network import Network
from destiny.networks.time_varying import LinkLoss, link_loss
from destiny.networks.weights import RULES, Weights
from destiny.validation import check_integer, check_probability, did_you_mean


def build(kind: str, agents: int | None = None, **options: Any) -> Network | LinkLoss:
    """A network by the name of its kind.

    Parameters
    ----------
    kind : str
        "ring", "path", "star", "complete", "grid", "torus", "hypercube", "exponential", "erdos-renyi",
        "random-regular", "random-geometric", "small-world", "edges", "file" or "weights".
    agents : int, optional
        d; not needed for files and lists of links.
    **options
        Those of the builder (``prob``, ``degree``, ``radius``, ``rows``, ``cols``, ``path``, ``weights``...)
        and ``loss``: the probability that a link is down in a round.
    """
    if kind not in KINDS:
        raise NetworkError(
            f"network must be one of {', '.join(KINDS)}; found {kind!r}{did_you_mean(kind, KINDS)}"
        )
    builder, loss, seed = KINDS[kind], options.pop("loss", None), options.get("seed", 0)
    if loss is not None:
        loss = check_probability("loss", loss, certain=False)
    parameters = signature(builder).parameters
    if loss is not None and "seed" not in parameters:
        options.pop("seed", None)  # then it is the seed of the losses alone
    if agents is not None:
        options["agents"] = agents
    _check_options(kind, options, parameters.values())
    network = builder(**options)
    return network if loss is None else link_loss(network, loss, seed)


def options_of(kind: str) -> tuple[str, ...]:
    """Names of the options of `build` for a kind, ``loss`` included."""
    return (*(name for name in signature(KINDS[kind]).parameters if name != "agents"), "loss")


def required_options(kind: str) -> tuple[str, ...]:
    """Names of the options that a kind cannot do without, beside the number of agents."""
    parameters = signature(KINDS[kind]).parameters.values()
    return tuple(p.name for p in parameters if p.default is Parameter.empty and p.name != "agents")


def _check_options(kind: str, options: dict[str, Any], parameters: Any) -> None:
    allowed = [parameter.name for parameter in parameters]
    for name in options:
        if name not in allowed:
            near = did_you_mean(name, [*allowed, "loss"])
            raise NetworkError(
                f"{kind} has no option {name!r}{near}; it takes {', '.join([*allowed, 'loss'])}"
            )
    for parameter in parameters:
        if parameter.default is Parameter.empty and parameter.name not in options:
            raise NetworkError(
                f"{kind} needs the option {parameter.name!r}; found {', '.join(options) or 'none'}: "
                f"it takes {', '.join([*allowed, 'loss'])}"
            )


def _grid(
    agents: int, rows: int | None = None, cols: int | None = None, *, weights: Weights = "metropolis"
) -> Network:
    return graphs.grid(*_rectangle(agents, rows, cols), weights=weights)


def _torus(
    agents: int, rows: int | None = None, cols: int | None = None, *, weights: Weights = "metropolis"
) -> Network:
    return graphs.torus(*_rectangle(agents, rows, cols), weights=weights)


def _rectangle(agents: int, rows: int | None, cols: int | None) -> tuple[int, int]:
    """Rows and columns for d agents, by default as close to a square as possible; raises `NetworkError`."""
    agents = check_integer("agents", agents, 1)
    if rows is None and cols is None:
        rows = next(r for r in range(math.isqrt(agents), 0, -1) if agents % r == 0)
    rows = check_integer("rows", rows, 1) if rows is not None else agents // check_integer("cols", cols, 1)
    cols = check_integer("cols", cols, 1) if cols is not None else agents // max(1, rows)
    if rows * cols != agents:
        raise NetworkError(f"rows * cols must be the number of agents, {agents}; found {rows} x {cols}")
    return rows, cols


def _hypercube(agents: int, *, weights: Weights = "metropolis") -> Network:
    dimension = check_integer("agents", agents, 1).bit_length() - 1
    if agents != 2**dimension:
        raise NetworkError(
            f"hypercube needs a power of two as number of agents; found {agents}: "
            f"use {2**dimension} or {2 ** (dimension + 1)}"
        )
    return graphs.hypercube(dimension, weights=weights)


def _file(path: str, agents: int | None = None, *, weights: Weights = "metropolis") -> Network:
    return _of_size(from_user.from_file(path, weights=weights), agents)


def _weights(path: str, agents: int | None = None) -> Network:
    return _of_size(from_user.from_weights(path), agents)


def _edges(edges: ArrayLike, agents: int | None = None, *, weights: Weights = "metropolis") -> Network:
    return from_user.from_edges(edges, agents, weights=weights)


def _of_size(network: Network, agents: int | None) -> Network:
    if agents is not None and network.agents != agents:
        raise NetworkError(
            f"{network.name} must have {agents} agents; found {network.agents}: leave agents out or change it"
        )
    return network


KINDS: dict[str, Callable[..., Network]] = {
    "ring": graphs.ring,
    "path": graphs.path,
    "star": graphs.star,
    "complete": graphs.complete,
    "grid": _grid,
    "torus": _torus,
    "hypercube": _hypercube,
    "exponential": graphs.exponential,
    "erdos-renyi": graphs.erdos_renyi,
    "random-regular": graphs.random_regular,
    "random-geometric": graphs.random_geometric,
    "small-world": graphs.small_world,
    "edges": _edges,
    "file": _file,
    "weights": _weights,
}
"""Builders by the name they have in experiment files and at the command line."""
PLAIN = tuple(kind for kind in KINDS if not required_options(kind))
"""Kinds that need nothing but the number of agents."""
FILE_TYPES: dict[str, Any] = {"weights": Literal[tuple(RULES)], "edges": list[list[int]]}
"""What files give for arguments that take arrays in Python."""
MEANINGS = {
    "kind": "ring, path, star, complete, grid, erdos-renyi and others: docs/networks.md",
    "prob": "probability of a link",
    "degree": "links per agent",
    "radius": "reach of a link in the unit square",
    "rows": "of a grid or torus",
    "cols": "of a grid or torus",
    "seed": "of a random network, or of links that fail",
    "path": "an edge list, GraphML or .npy",
    "edges": "pairs of agents, numbered from 0",
    "weights": "how agents weigh what they hear; metropolis",
    "loss": "probability that a link is down in a round",
    "delay": "seconds that a message takes, for predicted times; 0.02",
    "bandwidth": "megabits a second of a link, for predicted times; 100",
}
"""What options mean, for the schema of files."""
