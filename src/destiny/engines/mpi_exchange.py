"""A round's messages between ranks: persistent requests on NumPy buffers, receives started before sends."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.engines.mpi_guard import Watch
from destiny.engines.placement import spell
from destiny.types import Array

TAG = 7  # messages between two ranks never overtake each other, so one tag is enough
PLANS = 8  # rounds of different weights whose plans are kept; more than most periods
SLICES = 16  # copies of consecutive rows; beyond, one copy of scattered rows is faster
LARGEST = 2**30  # numbers in one message: counts of MPI-3 end at 2^31

Ids = NDArray[np.intp]


class Plan:
    """Who needs whom with the weights W: for one rank, what it hears, sends and receives."""

    def __init__(self, W: csr_array[Any, Any], owner: Ids, rank: int) -> None:
        self.W = W  # held, so that no other matrix takes its identity
        self.ids = np.flatnonzero(owner == rank)
        rows = W[self.ids]
        self.heard = np.union1d(rows.indices, self.ids)
        columns = np.searchsorted(self.heard, rows.indices)  # keeps the order of the agents' indices
        self.rows: csr_array[Any, Any] = csr_array(
            (rows.data, columns, rows.indptr), shape=(len(self.ids), len(self.heard))
        )
        whose = owner[self.heard]
        self.foreign = self.heard[whose != rank]
        self.receive = {int(q): self.heard[whose == q] for q in np.unique(whose) if q != rank}
        readers = owner[np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))]
        away = (owner[W.indices] == rank) & (readers != rank)
        self.send = {
            int(q): np.unique(W.indices[away & (readers == q)]).astype(np.intp)
            for q in np.unique(readers[away])
        }
        self.export = np.unique(np.concatenate([*self.send.values(), np.empty(0, np.intp)]))
        self.channels: dict[tuple[int, ...], Channel] = {}


class Channel:
    """Buffers and requests of a plan for blocks of certain widths. A message holds all blocks of its agents.

    Agents with consecutive indices travel in one message: with 16 agents per rank it takes half the time of
    16 messages up to 50 kB each, and the same time beyond.
    """

    def __init__(self, plan: Plan, widths: tuple[int, ...], comm: Any, buffers: Buffers) -> None:
        total = sum(widths)
        ends = np.cumsum(widths)
        self.columns = [slice(int(end - width), int(end)) for end, width in zip(ends, widths, strict=True)]
        self.outbox = buffers.take("out", 0, len(plan.export), total)
        self.inbox = buffers.take("in", 0, len(plan.foreign), total)
        self.heard = [buffers.take("heard", k, len(plan.heard), width) for k, width in enumerate(widths)]
        self.packing = _pieces(np.searchsorted(plan.ids, plan.export))
        self.own = _pieces(np.searchsorted(plan.heard, plan.ids))
        self.unpacking = _pieces(np.searchsorted(plan.heard, plan.foreign))
        self.sources: list[tuple[int, Ids]] = []
        self.receives, self.sends = [], []
        for rank, agents in plan.receive.items():
            for run in _runs(agents, total):
                rows = _slice(np.searchsorted(plan.foreign, run))
                self.receives.append(comm.Recv_init(self.inbox[rows], rank, TAG))
                self.sources.append((rank, run))
        for rank, agents in plan.send.items():
            for run in _runs(agents, total):
                rows = _slice(np.searchsorted(plan.export, run))
                self.sends.append(comm.Send_init(self.outbox[rows], rank, TAG))
        self.requests = [*self.receives, *self.sends]

    def swap(self, blocks: Sequence[Array], MPI: Any, watch: Watch) -> list[Array]:
        """One round."""
        MPI.Prequest.Startall(self.receives)
        for block, columns in zip(blocks, self.columns, strict=True):
            for here, there in self.packing:
                self.outbox[here, columns] = block[there]
        MPI.Prequest.Startall(self.sends)
        for block, heard in zip(blocks, self.heard, strict=True):
            for here, there in self.own:
                heard[there] = block[here]
        watch.begin(self.missing)
        MPI.Request.Waitall(self.requests)
        watch.end()
        for columns, heard in zip(self.columns, self.heard, strict=True):
            for here, there in self.unpacking:
                heard[there] = self.inbox[here, columns]
        return self.heard

    def missing(self) -> str:
        """Whose messages have not come: asked by the watch while the rank waits."""
        late: dict[int, list[Ids]] = {}
        for request, (rank, agents) in zip(self.receives, self.sources, strict=True):
            if not request.Get_status():
                late.setdefault(rank, []).append(agents)
        if not late:
            return "its neighbours to take its messages"
        return " and ".join(f"rank {r} (agents {spell(np.concatenate(a))})" for r, a in late.items())

    def free(self) -> None:
        """Give the requests back."""
        for request in self.requests:
            request.Free()


class Buffers:
    """Memory for messages, used again from round to round: fresh memory costs more than the copy into it."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, int, int], Array] = {}

    def take(self, name: str, number: int, rows: int, width: int) -> Array:
        """At least so many rows; channels of different rounds share them, one at a time."""
        key = (name, number, width)
        if key not in self.held or len(self.held[key]) < rows:
            self.held[key] = np.empty((rows, width))
        return self.held[key][:rows]


class Neighbours:
    """Exchange between ranks (`destiny.engines.base.Exchange`)."""

    def __init__(self, MPI: Any, comm: Any, owner: Ids, watch: Watch) -> None:
        self.MPI, self.comm, self.owner, self.watch = MPI, comm, owner, watch
        self.plans: dict[int, Plan] = {}
        self.buffers = Buffers()

    def adopt(self, W: csr_array[Any, Any]) -> csr_array[Any, Any]:
        """The rows of the agents hosted here, with a column for every agent they hear."""
        known = self.plans.pop(id(W)) if id(W) in self.plans else None
        self.plan = known or Plan(W, self.owner, self.comm.rank)
        self.plans[id(W)] = self.plan  # the last used is the last to go
        while len(self.plans) > PLANS:
            self.forget(next(iter(self.plans)))
        return self.plan.rows

    def swap(self, round: int, blocks: Sequence[Array]) -> Sequence[Array]:  # noqa: ARG002
        """One round."""
        if self.comm.size == 1:
            return blocks
        widths = tuple(block.shape[1] for block in blocks)
        channels = self.plan.channels
        if widths not in channels:
            channels[widths] = Channel(self.plan, widths, self.comm, self.buffers)
        return channels[widths].swap(blocks, self.MPI, self.watch)

    def forget(self, key: int) -> None:
        """Let go of a plan."""
        for channel in self.plans.pop(key).channels.values():
            channel.free()

    def close(self) -> None:
        """Let go of all."""
        for key in list(self.plans):
            self.forget(key)


def _runs(agents: Ids, width: int) -> list[Ids]:
    """Agents cut into runs of consecutive indices, none too long for one message."""
    longest = max(1, LARGEST // max(1, width))
    runs = np.split(agents, np.flatnonzero(np.diff(agents) != 1) + 1)
    return [run[k : k + longest] for run in runs for k in range(0, len(run), longest)]


def _pieces(places: Ids) -> list[tuple[slice, slice | Ids]]:
    """Rows k of one array that are rows ``places[k]`` of another, as pairs of slices where those are few."""
    cuts = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(places)]
    if len(cuts) > SLICES:
        return [(slice(None), places)]
    return [(slice(a, b), _slice(places[a:b])) for a, b in itertools.pairwise(cuts) if b > a]


def _slice(places: Ids) -> slice:
    return slice(int(places[0]), int(places[-1]) + 1)
