"""What an engine adds to `HostedAgents`: how messages get from one agent to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.engines.tree_sum import Row
from destiny.protocols import Array, Tree

S = TypeVar("S")


class Exchange(Protocol):
    """How a round's blocks travel between processes or threads."""

    def adopt(self, W: csr_array[Any, Any]) -> csr_array[Any, Any]:
        """Use W from now on; its rows of the hosted agents, with a column for every agent heard."""

    def swap(self, round: int, blocks: Sequence[Array]) -> Sequence[Array]:
        """Blocks of the hosted agents ``(hosted, k)`` -> the same blocks of all agents heard ``(heard, k)``.

        They come as they were given or side by side in one array, with the agents in the order of their
        index, and are valid until the next round. Of messages of few bits
        (`destiny.engines.mixers.quantized`) the first block holds integers: its bits arrive as they are.
        """

    def all_reduce(self, turn: int, tree: Tree, blocks: Sequence[Row]) -> Sequence[Row]:
        """Blocks of the hosted agents, a row each -> the sums over all agents, one row (`Row`).

        Along the tree: an agent adds what its children send to its own row, in the order of their index, and
        sends the sum to its parent and to nobody else; the root's total is passed on from parent to child.
        """


@runtime_checkable
class DirectExchange(Exchange, Protocol):
    """An exchange between workers that can read each other's memory."""

    def once(self, compute: Callable[[], S]) -> S:
        """What one of the workers computes, for all of them."""


def rows_of(W: csr_array[Any, Any], ids: NDArray[np.intp]) -> tuple[NDArray[np.intp], csr_array[Any, Any]]:
    """The agents that some agents hear, themselves included, and their rows of W with a column for each."""
    rows = W[ids]
    senders = np.union1d(rows.indices, ids)
    columns = np.searchsorted(senders, rows.indices)  # keeps the order of the agents' indices
    return senders, csr_array((rows.data, columns, rows.indptr), shape=(len(ids), len(senders)))
