"""A round's messages between ranks: persistent requests on NumPy buffers, receives started before sends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.engines.exchange import rows_of
from destiny.engines.placement import spell
from destiny.engines.ranks.guard import Watch
from destiny.engines.tree_sum import Row
from destiny.protocols import Array, Tree

TAG = 7  # messages between two ranks never overtake each other, so one tag is enough
PLANS = 8  # rounds of different weights whose plans are kept; more than most periods
POLLS, NAP = 20, 20e-6  # where ranks share cores: looks at the requests, then seconds of sleep, in turn
LARGEST = 2**30  # numbers in one message: counts of MPI-3 end at 2^31

Ids = NDArray[np.intp]
Sums: TypeAlias = Callable[[Tree, Sequence[Row]], Sequence[Row]]
"""How sums travel between ranks (`destiny.engines.ranks.tree_sums.TreeSums`)."""


class Plan:
    """Who needs whom with the weights W: for one rank, what it hears, sends and receives."""

    def __init__(self, W: csr_array[Any, Any], owner: Ids, rank: int) -> None:
        self.W = W  # held, so that no other matrix takes its identity
        self.ids = np.flatnonzero(owner == rank)
        self.senders, self.rows = rows_of(W, self.ids)
        whose = owner[self.senders]
        self.receive = {int(q): self.senders[whose == q] for q in np.unique(whose) if q != rank}
        readers = owner[np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))]
        away = (owner[W.indices] == rank) & (readers != rank)
        self.send = {
            int(q): np.unique(W.indices[away & (readers == q)]).astype(np.intp)
            for q in np.unique(readers[away])
        }
        self.own = rows_among(self.senders, self.ids)
        self.channels: dict[tuple[int, ...], Channel] = {}


class Requests:
    """Persistent requests of every round, and of which rank and agents each message received is."""

    def __init__(self) -> None:
        self.receives: list[Any] = []
        self.sends: list[Any] = []
        self.sources: list[tuple[int, Ids]] = []

    def wait(self, MPI: Any, watch: Watch, crowded: bool) -> None:
        """Wait for all that were started."""
        requests = [*self.receives, *self.sends]
        watch.begin(self.missing)
        if crowded:
            wait_politely(MPI, requests)
        else:
            MPI.Request.Waitall(requests)
        watch.end()

    def missing(self) -> str:
        """Whose messages have not come: asked by the watch while the rank waits."""
        late: dict[int, list[Ids]] = {}
        for request, (rank, agents) in zip(self.receives, self.sources, strict=True):
            if not request.Get_status():
                late.setdefault(rank, []).append(agents)
        if not late:
            return "its neighbors to take its messages"
        return " and ".join(f"rank {r} (agents {spell(np.concatenate(a))})" for r, a in late.items())

    def free(self) -> None:
        """Give the requests back."""
        for request in (*self.receives, *self.sends):
            request.Free()


def wait_politely(MPI: Any, requests: Sequence[Any]) -> None:
    """MPI waits by spinning: with more ranks than cores it takes the core from those it waits for."""
    while not any(MPI.Request.Testall(requests) for _ in range(POLLS)):
        time.sleep(NAP)


class Channel(Requests):
    """Buffer and requests of a plan for blocks of certain widths.

    The buffer holds all blocks of the agents heard side by side, a row for each agent: own rows are sent from
    where they are, others' rows received where they belong. Agents with consecutive indices travel in one
    message: with 16 agents per rank it takes half the time of 16 messages up to 50 kB each, and the same time
    beyond.
    """

    def __init__(self, plan: Plan, widths: tuple[int, ...], comm: Any, buffer: Array) -> None:
        ends = np.cumsum(widths)
        self.columns = [slice(int(end - width), int(end)) for end, width in zip(ends, widths, strict=True)]
        super().__init__()
        self.buffer, self.own = buffer, plan.own
        for rank, agents in plan.receive.items():
            for run in _runs(agents, buffer.shape[1]):
                self.receives.append(comm.Recv_init(buffer[rows_among(plan.senders, run)], rank, TAG))
                self.sources.append((rank, run))
        for rank, agents in plan.send.items():
            for run in _runs(agents, buffer.shape[1]):
                self.sends.append(comm.Send_init(buffer[rows_among(plan.senders, run)], rank, TAG))

    def swap(self, blocks: Sequence[Array], MPI: Any, watch: Watch, crowded: bool) -> Array:
        MPI.Prequest.Startall(self.receives)
        for block, columns in zip(blocks, self.columns, strict=True):
            self.buffer[self.own, columns] = block
        MPI.Prequest.Startall(self.sends)
        self.wait(MPI, watch, crowded)
        return self.buffer


class Neighbors:
    """Exchange between ranks (`destiny.engines.exchange.Exchange`)."""

    def __init__(
        self, MPI: Any, comm: Any, owner: Ids, watch: Watch, sums: Sums, crowded: bool = False
    ) -> None:
        self.MPI, self.comm, self.owner, self.watch, self.crowded = MPI, comm, owner, watch, crowded
        self.sums = sums
        self.plans: dict[int, Plan] = {}
        self.buffers: dict[int, Array] = {}

    def adopt(self, W: csr_array[Any, Any]) -> csr_array[Any, Any]:
        """The rows of the agents hosted here, with a column for every agent they hear."""
        known = self.plans.pop(id(W)) if id(W) in self.plans else None
        self.plan = known or Plan(W, self.owner, self.comm.rank)
        self.plans[id(W)] = self.plan  # the last used is the last to go
        while len(self.plans) > PLANS:
            self.forget(next(iter(self.plans)))
        return self.plan.rows

    def swap(self, round: int, blocks: Sequence[Array]) -> Sequence[Array]:  # noqa: ARG002
        if self.comm.size == 1:
            return blocks
        widths = tuple(block.shape[1] for block in blocks)
        channels = self.plan.channels
        if widths not in channels:
            buffer = self.buffer(len(self.plan.senders), sum(widths))
            channels[widths] = Channel(self.plan, widths, self.comm, buffer)
        return [channels[widths].swap(blocks, self.MPI, self.watch, self.crowded)]

    def all_reduce(self, turn: int, tree: Tree, blocks: Sequence[Row]) -> Sequence[Row]:  # noqa: ARG002
        return self.sums(tree, blocks)

    def buffer(self, rows: int, width: int) -> Array:
        """Memory used again from round to round: fresh memory costs more than a copy into it."""
        if width not in self.buffers or len(self.buffers[width]) < rows:
            self.buffers[width] = np.empty((rows, width))
        return self.buffers[width][:rows]

    def forget(self, key: int) -> None:
        for channel in self.plans.pop(key).channels.values():
            channel.free()

    def close(self) -> None:
        for key in list(self.plans):
            self.forget(key)


def _runs(agents: Ids, width: int) -> list[Ids]:
    """Agents cut into runs of consecutive indices, none too long for one message."""
    longest = max(1, LARGEST // max(1, width))
    runs = np.split(agents, np.flatnonzero(np.diff(agents) != 1) + 1)
    return [run[k : k + longest] for run in runs for k in range(0, len(run), longest)]


def rows_among(among: Ids, agents: Ids) -> slice | Ids:
    """Where some agents are among others, as a slice if they lie side by side."""
    places = np.searchsorted(among, agents)
    side_by_side = len(places) > 0 and places[-1] - places[0] == len(places) - 1
    return slice(int(places[0]), int(places[-1]) + 1) if side_by_side else places
