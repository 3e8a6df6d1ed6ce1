"""A round between ranks of one host: rows in memory that all of them see, and a word when they are there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from destiny.engines.ranks.exchange import TAG, Ids, Requests, Sums, rows_among
from destiny.engines.ranks.guard import Watch
from destiny.engines.tree_sum import Row
from destiny.protocols import Array, Tree

SYSTEM = Path("/dev/shm")  # where MPI has the system keep memory of several processes


def has_room(agents: int, n: int, p: int) -> bool:
    """Whether the system has twice the shared memory that a run may take; containers often have little.

    That is two sets of messages with, in all, 16 matrices like X and two like X X^T for each agent: more than
    any method here sends in messages of different widths. Beyond what there is, writing ends the process.
    """
    if not SYSTEM.is_dir():
        return False
    system = os.statvfs(SYSTEM)
    return 2 * 2 * 8 * agents * (16 * n * p + 2 * n * n) <= system.f_bavail * system.f_frsize


class Window:
    """Blocks of certain widths of all agents, in memory of rank 0 that all ranks see; two sets of them."""

    def __init__(self, MPI: Any, comm: Any, agents: int, widths: Sequence[int]) -> None:
        size = 2 * 8 * agents * sum(widths)
        self.memory = MPI.Win.Allocate_shared(size if comm.rank == 0 else 0, 8, comm=comm)
        self.memory.Lock_all()  # how MPI is told that everybody may read and write at any time
        numbers = np.frombuffer(self.memory.Shared_query(0)[0], dtype=np.float64)
        parts = np.split(numbers, agents * np.cumsum([*widths, *widths])[:-1])
        blocks = [part.reshape(agents, -1) for part in parts]
        self.sets = blocks[: len(widths)], blocks[len(widths) :]

    def free(self) -> None:
        self.memory.Unlock_all()
        self.memory.Free()


class Signals(Requests):
    """Empty messages to and from the ranks with neighbors of the agents ``ids``."""

    def __init__(self, W: csr_array[Any, Any], owner: Ids, comm: Any) -> None:
        super().__init__()
        readers = owner[np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))]
        whose = owner[W.indices]
        near = np.union1d(whose[readers == comm.rank], readers[whose == comm.rank])
        for rank in near[near != comm.rank].tolist():
            self.receives.append(comm.Recv_init(bytearray(), rank, TAG))
            self.sends.append(comm.Send_init(b"", rank, TAG))
            self.sources.append((rank, np.flatnonzero(owner == rank)))


class SharedRows:
    """Exchange between ranks of one host (`destiny.engines.exchange.Exchange`), on a network that stays.

    A rank writes its rows and tells its neighbors. When all of them have told it the same, it reads theirs.
    It writes to the same set again two rounds later: by then it has heard of the round between, which each
    neighbor began after it had read.
    """

    def __init__(self, MPI: Any, comm: Any, owner: Ids, watch: Watch, sums: Sums, crowded: bool) -> None:
        self.MPI, self.comm, self.owner, self.watch, self.crowded = MPI, comm, owner, watch, crowded
        self.sums = sums
        self.ids = np.flatnonzero(owner == comm.rank)
        self.own = rows_among(np.arange(len(owner)), self.ids)
        self.windows: dict[tuple[int, ...], Window] = {}
        self.signals: Signals | None = None
        self.turn, self.closed = 0, False
        self._free_closed()
        _every.append(self)

    def adopt(self, W: csr_array[Any, Any]) -> csr_array[Any, Any]:
        """The rows of the agents hosted here; every agent has a column."""
        if self.signals is not None:
            self.signals.free()
        self.signals = Signals(W, self.owner, self.comm)
        return W[self.ids]

    def swap(self, round: int, blocks: Sequence[Array]) -> Sequence[Array]:  # noqa: ARG002
        assert self.signals is not None
        window = self._window(tuple(block.shape[1] for block in blocks))
        every, self.turn = window.sets[self.turn], 1 - self.turn
        for rows, block in zip(every, blocks, strict=True):
            rows[self.own] = block
        window.memory.Sync()
        self.MPI.Prequest.Startall([*self.signals.receives, *self.signals.sends])
        self.signals.wait(self.MPI, self.watch, self.crowded)
        window.memory.Sync()
        return every

    def all_reduce(self, turn: int, tree: Tree, blocks: Sequence[Row]) -> Sequence[Row]:  # noqa: ARG002
        return self.sums(tree, blocks)

    def _window(self, widths: tuple[int, ...]) -> Window:
        if widths not in self.windows:  # all ranks come here in the same round
            with self.watch.waiting("the other ranks"):
                self.windows[widths] = Window(self.MPI, self.comm, len(self.owner), widths)
        return self.windows[widths]

    def close(self) -> None:
        """The memory is kept: all ranks must free it together, and another may not come here."""
        self.closed = True
        if self.signals is not None:
            self.signals.free()

    def _free_closed(self) -> None:
        """Free the memory of runs that have ended on all ranks; all ranks begin a run together."""
        closed = np.array([exchange.closed for exchange in _every], dtype=np.uint8)
        with self.watch.waiting("the other ranks"):
            self.comm.Allreduce(self.MPI.IN_PLACE, closed, self.MPI.MIN)
            for exchange in [exchange for exchange, all_have in zip(_every, closed, strict=True) if all_have]:
                for window in exchange.windows.values():
                    window.free()
                _every.remove(exchange)


_every: list[SharedRows] = []  # the same on all ranks
