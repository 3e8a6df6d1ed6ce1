"""Links as one integer array: a row (i, j) with i < j per link, in lexicographic order."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.errors import NetworkError

Links: TypeAlias = NDArray[np.int64]
"""``(E, 2)``, read-only."""


def tidy(pairs: NDArray[Any], agents: int) -> Links:
    """Links from index pairs ``(E, 2)`` in any order: sorted, without repeats and self loops."""
    low, high = np.sort(np.asarray(pairs, dtype=np.int64).reshape(-1, 2), axis=1).T
    proper = low < high  # an agent has a weight for itself without a self loop
    codes = np.sort(low[proper] * agents + high[proper])  # one integer per link sorts much faster than rows
    codes = codes[np.diff(codes, prepend=-1) > 0]
    links = np.stack(np.divmod(codes, agents), axis=1)
    links.flags.writeable = False
    return links


def adjacency(links: Links, agents: int) -> csr_array[Any, Any]:
    """Symmetric 0/1 matrix ``(d, d)`` of the links."""
    i, j = links.T
    ones = np.ones(2 * len(links))
    return csr_array((ones, (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(agents, agents))


def degrees(links: Links, agents: int) -> NDArray[np.int64]:
    """Number of neighbors of every agent ``(d,)``."""
    return np.bincount(links.ravel(), minlength=agents).astype(np.int64, copy=False)


def is_connected(links: Links, agents: int) -> bool:
    """Whether every agent can reach every other."""
    if len(links) < agents - 1:  # not even a tree
        return False
    return not components(links, agents).any()


def components(links: Links, agents: int) -> NDArray[np.int64]:
    """For every agent the smallest index of those it can reach ``(d,)``.

    Every agent points to one of smaller index, at last to the smallest: links join what their ends point to,
    and pointers are followed, which halves the way each time.
    """
    low = np.arange(agents)
    i, j = links.T
    while (low[i] != low[j]).any():
        a, b = low[i], low[j]
        np.minimum.at(low, np.maximum(a, b), np.minimum(a, b))
        while (low != low[low]).any():
            low = low[low]
    return low


def require_connected(links: Links, agents: int, what: str = "network") -> None:
    """Raise `NetworkError` with two agents that no path connects, unless all are connected."""
    if is_connected(links, agents):
        return
    labels = np.unique(components(links, agents), return_inverse=True)[1]
    sizes = np.bincount(labels)
    lonely, main = (int(np.argmax(labels == pick)) for pick in (sizes.argmin(), sizes.argmax()))
    if lonely == main:  # all components of one size: the first two will do
        main, lonely = 0, int(np.argmax(labels != labels[0]))
    raise NetworkError(
        f"{what} must be connected; found {len(sizes)} components, and no path from agent {lonely} "
        f"to agent {main}: add links between them"
    )
