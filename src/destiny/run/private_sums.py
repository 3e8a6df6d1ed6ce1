"""Runs whose agents learn sums over their neighbours only: what is refused."""

from __future__ import annotations

import numpy as np

from destiny.errors import MismatchError, NetworkError
from destiny.protocols import AlgorithmBase, TopologyBase
from destiny.run.own_network import CheckedTopology

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
    return None


def smallest_degree(network: TopologyBase) -> int:
    """Neighbours of the agent that has fewest: so many hide each other."""
    W = network.at(0)
    rows = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))
    return int(np.bincount(rows[(rows != W.indices) & (W.data != 0)], minlength=W.shape[0]).min())
