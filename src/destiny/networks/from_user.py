"""Networks of the user's own: links, a networkx graph, a file, or mixing weights."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from destiny.errors import NetworkError
from destiny.networks import checks
from destiny.networks.network import Network, make
from destiny.networks.weights import Weights
from destiny.validation import check_integer

if TYPE_CHECKING:
    import networkx as nx


def from_edges(
    edges: ArrayLike,
    agents: int | None = None,
    *,
    weights: Weights = "metropolis",
    name: str = "edges",
    connected: bool = True,
) -> Network:
    """Network on a list of links.

    Parameters
    ----------
    edges : array_like of int (E, 2)
        Pairs of agent indices from 0; direction, repeats and self loops do not matter.
    agents : int, optional
        d; by default the largest index + 1.
    weights : str or matrix (d, d)
    name : str
    connected : bool
        False allows a network in pieces, for use within `periodic` or `sequence`.
    """
    pairs = _as_pairs(edges)
    largest = int(pairs.max(initial=0))
    agents = largest + 1 if agents is None else check_integer("agents", agents, 1)
    if pairs.min(initial=0) < 0 or largest >= agents:
        wrong = pairs[((pairs < 0) | (pairs >= agents)).any(axis=1)][0]
        raise NetworkError(
            f"edges must join agents 0 to {agents - 1}; found ({wrong[0]}, {wrong[1]}): count agents from 0"
        )
    return make(pairs, agents, weights, name, connected=connected)


def from_graph(graph: nx.Graph[Any], *, weights: Weights = "metropolis", name: str | None = None) -> Network:
    """Network on an undirected networkx graph.

    Parameters
    ----------
    graph : networkx.Graph
        Labels become 0..d-1 in sorted order, or in the graph's own order when they cannot be sorted.
        Self loops are dropped; link attributes are not used.
    weights : str or matrix (d, d)
    name : str, optional
        By default the graph's name.
    """
    if graph.is_directed():
        raise NetworkError(
            "network must be undirected; found a directed graph: "
            "if its links work both ways, use graph.to_undirected()"
        )
    if graph.is_multigraph():
        raise NetworkError("network must be a simple graph; found a multigraph: use networkx.Graph(graph)")
    if len(graph) == 0:
        raise NetworkError("network must have at least 1 agent; found an empty graph: add its nodes")
    try:
        labels = sorted(graph)
    except TypeError:
        labels = list(graph)
    agent = {label: k for k, label in enumerate(labels)}
    pairs = np.array([(agent[i], agent[j]) for i, j in graph.edges], dtype=np.int64)
    return make(pairs, len(labels), weights, name or graph.name or "graph")


def from_file(path: str | PathLike[str], *, weights: Weights = "metropolis") -> Network:
    """Network from a file.

    Parameters
    ----------
    path : path
        ``.graphml``, or text with a link per line: two labels and whatever follows, separated by blanks
        (by commas in ``.csv``), ``#`` for comments. Labels are ordered as in `from_graph`, whole
        numbers by value.
    weights : str or matrix (d, d)
    """
    import networkx as nx

    path = _existing(path)
    try:
        if path.suffix == ".graphml":
            graph = nx.read_graphml(path)
        else:
            graph = nx.read_edgelist(path, delimiter="," if path.suffix == ".csv" else None, data=False)
    except Exception as error:  # networkx and the XML parser raise a dozen kinds
        raise NetworkError(
            f"{path} must be GraphML or a link per line; reading it failed: {error}"
        ) from error
    if all(str(label).strip().isdecimal() for label in graph):
        graph = nx.relabel_nodes(graph, int)
    return from_graph(graph, weights=weights, name=path.name)


def from_weights(
    W: Weights | PathLike[str],
    *,
    name: str | None = None,
    connected: bool = True,
) -> Network:
    """Network of a mixing matrix: agents are linked where it is not 0.

    Parameters
    ----------
    W : array_like or sparse (d, d), or path of a .npy file
        Symmetric, rows sum to 1, lambda = ||W - 11^T/d||_2 < 1; negative weights are allowed. Errors
        below 1e-10 are taken for rounding and evened out.
    name : str, optional
    connected : bool
        False allows a network in pieces, for use within `periodic` or `sequence`.
    """
    if isinstance(W, str | PathLike):
        name = name or Path(W).name
        W = _load(_existing(W))
    mixing = checks.as_mixing(W)
    return make(
        checks.weighted_links(mixing), mixing.shape[0], mixing, name or "given weights", connected=connected
    )


def _as_pairs(edges: ArrayLike) -> NDArray[np.int64]:
    try:
        pairs = np.asarray(edges)
    except ValueError:  # rows of unequal length
        pairs = np.empty(0, dtype=object)
    if pairs.size == 0 and pairs.dtype != object:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.dtype.kind not in "iu" or pairs.ndim != 2 or pairs.shape[1] != 2:
        raise NetworkError(
            "edges must be pairs of agent indices, shape (E, 2) of integers; "
            f"found shape {pairs.shape} of {pairs.dtype}: give [(0, 1), (1, 2), ...]"
        )
    return pairs.astype(np.int64)


def _load(path: Path) -> NDArray[Any]:
    try:
        loaded = np.load(path, allow_pickle=False)
        if not isinstance(loaded, np.ndarray):
            loaded.close()
            raise ValueError("it holds several arrays")
        return loaded
    except (ValueError, EOFError, OSError) as error:
        raise NetworkError(f"{path} must be a .npy file of numbers; reading it failed: {error}") from error


def _existing(path: str | PathLike[str]) -> Path:
    if not isinstance(path, str | PathLike):
        raise NetworkError(f"path must be the name of a file; found {path!r}")
    path = Path(path)
    if not path.is_file():
        raise NetworkError(f"network file must exist; found none at {path}: check the path")
    return path
