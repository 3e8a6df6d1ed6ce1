"""Runs whose agents learn sums over their neighbours only: what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from destiny.errors import MismatchError, NetworkError
from destiny.protocols import AlgorithmBase, TopologyBase
from destiny.run.own_network import CheckedTopology

SHOWN = 6  # agents of a part that are named
HIDING = 3  # neighbours: with two, a receiver and one of them together know what the other sent


def require_private(algorithm: AlgorithmBase, network: TopologyBase) -> None:
    """Refuse what private sums cannot hide, or have nothing to hide in."""
    about = algorithm.about
    if about is not None and about.alone:
        raise MismatchError(
            f"{about.title} is a method for one agent, which has nobody to hide from: leave private out"
        )
    if (why := exposure(network)) is not None:
        raise NetworkError(why)


def exposure(network: TopologyBase) -> str | None:
    """Why sums over the neighbours would not hide what an agent sends on this network, or None."""
    if network.changes and not isinstance(network, CheckedTopology):  # which is looked at in every round
        return (
            "private sums need a network that stays, as the difference of two sums tells what was sent; "
            "this one changes from round to round: leave private out, or use a fixed network"
        )
    W = network.at(0)
    rows = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))
    others = (rows != W.indices) & (W.data != 0)
    if (W.data[others] < 0).any():
        i, j = (int(a[others][W.data[others] < 0][0]) for a in (rows, W.indices))
        return (
            f"private sums need weights that are not negative; that of agents {i} and {j} is "
            f"{float(W[[i], [j]][0]):g}: use metropolis weights"
        )
    if (alone := np.flatnonzero(np.bincount(rows[others], minlength=W.shape[0]) == 1)).size:
        agent = int(alone[0])
        (other,) = W.indices[others & (rows == agent)]
        return (
            f"private sums need at least two neighbours each, as the sum over one is what it sent; agent "
            f"{agent} has agent {int(other)} only: add a link, or leave private out"
        )
    return cut(network)


def cut(network: TopologyBase) -> str | None:
    """Which agent alone connects parts of the network, whose sums it would learn; None if there is none."""
    import networkx as nx

    W = network.at(0)
    graph = nx.from_scipy_sparse_array(csr_array((np.abs(W.data), W.indices, W.indptr), shape=W.shape))
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    agent = min(nx.articulation_points(graph), default=None)
    if agent is None:
        return None
    graph.remove_node(agent)
    parts = sorted(sorted(part) for part in nx.connected_components(graph))
    named = " and ".join(_named(part) for part in parts)
    return (
        f"private sums need a network that stays connected without any one agent; without agent {agent} this "
        f"one falls into {named}, and agent {agent} would learn the sum over each part: add links between "
        "the parts, or leave private out"
    )


def _named(part: list[Any]) -> str:
    shown = ", ".join(map(str, part[:SHOWN]))
    rest = f" and {len(part) - SHOWN} more" if len(part) > SHOWN else ""
    return f"agents {shown}{rest}" if len(part) > 1 else f"agent {shown}"


def smallest_degree(network: TopologyBase) -> int:
    """Neighbours of the agent that has fewest: so many hide each other."""
    W = network.at(0)
    rows = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))
    return int(np.bincount(rows[(rows != W.indices) & (W.data != 0)], minlength=W.shape[0]).min())
