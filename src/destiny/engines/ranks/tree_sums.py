"""Sums along a tree whose agents live on several ranks: a message for every link between two ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from destiny.engines.placement import spell
from destiny.engines.ranks.exchange import Ids, wait_politely
from destiny.engines.ranks.guard import Watch
from destiny.engines.tree_sum import Row, add_row
from destiny.protocols import Tree

CHUNK = 2**17  # numbers of a message: what is above it in the tree adds one chunk while the next one travels


class TreeSums:
    """Sums over the agents of all ranks.

    Agents go from the deepest level of the tree to the root and back, each rank its own in this order: what
    an agent waits for never waits for this agent.
    """

    def __init__(self, MPI: Any, comm: Any, owner: Ids, watch: Watch, crowded: bool) -> None:
        self.MPI, self.comm, self.owner, self.watch, self.crowded = MPI, comm, owner, watch, crowded
        self.ids = np.flatnonzero(owner == comm.rank)
        self.most = int(comm.Get_attr(MPI.TAG_UB))
        self.tree: Tree | None = None
        self.pending: list[Any] = []

    def adopt(self, tree: Tree) -> None:
        """Who is where: the hosted agents by level, their places among the rows, and whose part is away."""
        self.tree = tree
        self.places = {int(agent): place for place, agent in enumerate(self.ids)}
        self.downward = sorted(self.places, key=lambda agent: (tree.levels[agent], agent))
        self.upward = self.downward[::-1]

    def __call__(self, tree: Tree, blocks: Sequence[Row]) -> list[Row]:
        """The sums of the rows of all agents, one for each block."""
        if tree is not self.tree:
            self.adopt(tree)
        totals = [np.empty_like(block[0]) for block in blocks]
        parts = [
            (rows, total, slice(start, start + CHUNK))
            for rows, total in zip(blocks, totals, strict=True)
            for start in range(0, len(total), CHUNK)
        ]
        for rows, total, part in parts:
            self._up(tree, rows, total[part], part)
        for _, total, part in parts:
            self._down(tree, total[part])
        self._settle(self.pending, [])
        self.pending = []
        return totals

    def _up(self, tree: Tree, rows: Row, total: Row, part: slice) -> None:
        """What the hosted agents and those below them add up to; the root's is the total."""
        waiting: dict[int, Row] = {}
        for agent in self.upward:
            whole = rows[self.places[agent]][part]
            if tree.children[agent]:
                whole = whole.copy()
            for child in tree.children[agent]:
                add_row(
                    whole, waiting.pop(child) if child in self.places else self._receive(child, child, whole)
                )
            parent = int(tree.parents[agent])
            if parent < 0:
                total[:] = whole
            elif parent in self.places:
                waiting[agent] = whole
            else:
                self._send(agent, parent, whole)

    def _down(self, tree: Tree, total: Row) -> None:
        """The total from parents elsewhere, and to children elsewhere."""
        for agent in self.downward:
            parent = int(tree.parents[agent])
            if parent >= 0 and parent not in self.places:
                total[:] = self._receive(agent, parent, total)
            for child in tree.children[agent]:
                if child not in self.places:
                    self._send(child, child, total)

    def _send(self, link: int, receiver: int, row: Row) -> None:
        """Begin to send a row over the link of a child, named by it, to the rank of an agent."""
        row = np.ascontiguousarray(row)
        self.pending.append(self.comm.Isend(row.view(np.uint8), int(self.owner[receiver]), link % self.most))

    def _receive(self, link: int, sender: int, like: Row) -> Row:
        row = np.empty(like.shape, like.dtype)
        request = self.comm.Irecv(row.view(np.uint8), int(self.owner[sender]), link % self.most)
        self._settle([request], [sender])
        return row

    def _settle(self, requests: list[Any], senders: list[int]) -> None:
        def missing() -> str:
            if not senders:
                return "its neighbors to take its messages"
            ranks = sorted({int(self.owner[sender]) for sender in senders})
            return " and ".join(
                f"rank {rank} (agents {spell(np.flatnonzero(self.owner == rank))})" for rank in ranks
            )

        self.watch.begin(missing)
        if self.crowded:
            wait_politely(self.MPI, requests)
        else:
            self.MPI.Request.Waitall(requests)
        self.watch.end()
