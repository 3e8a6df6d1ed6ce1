"""What an engine adds to `HostedAgents`: how messages get from one agent to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from scipy.sparse import csr_array

from destiny.engines import fixed_point
from destiny.engines.fixed_point import Integers, Slot
from destiny.engines.totals import Rows, Words
from destiny.protocols import Array, Tree

S = TypeVar("S")


class Exchange(Protocol):
    """How a round's blocks travel between processes or threads."""

    def adopt(self, W: csr_array[Any, Any]) -> csr_array[Any, Any]:
        """Use W from now on; its rows of the hosted agents, with a column for every agent heard."""

    def swap(self, round: int, blocks: Sequence[Array]) -> Sequence[Array]:
        """Blocks of the hosted agents ``(hosted, k)`` -> the same blocks of all agents heard ``(heard, k)``.

        They come as they were given or side by side in one array, with the agents in the order of their
        index, and are valid until the next round. Of messages of few bits (`destiny.engines.quantisation`)
        the first block holds integers: its bits arrive as they are.
        """

    def all_reduce(self, turn: int, tree: Tree, blocks: Sequence[Array]) -> Sequence[Array]:
        """Blocks of the hosted agents ``(hosted, k)`` -> the sums over all agents ``(k,)``.

        Along the tree: an agent adds what its children send to its own row, in the order of their index, and
        sends the sum to its parent and to nobody else; the root's total is passed on from parent to child.
        """


@runtime_checkable
class DirectExchange(Exchange, Protocol):
    """An exchange between workers that can read each other's memory."""

    def show(self, round: int, blocks: Sequence[Rows]) -> Sequence[Rows]:
        """`swap` without copies: blocks have a row for each hosted agent and stay until the next round."""

    def once(self, compute: Callable[[], S]) -> S:
        """What one of the workers computes, for all of them."""


class SumExchange(Exchange, Protocol):
    """An exchange between agents of which none may know another's numbers."""

    def sum(
        self, round: int, slot: Slot, known: fixed_point.Exponents, numbers: Array, rider: float | None
    ) -> tuple[Array, float]:
        """What the neighbours' numbers add up to ``(width,)``, and the largest rider of all.

        ``numbers (width,)`` and ``rider`` are the agent's own; ``known`` has its exponents, which are
        replaced by those that it chooses in this round.
        """

    def mask_links(self, words: Words, round: int, exponents: Integers) -> None:
        """Add masks to words, in place, that cancel in the total over all agents and in nothing less."""
