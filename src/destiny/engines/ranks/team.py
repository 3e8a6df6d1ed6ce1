"""The agents of one MPI rank, and what the ranks do together besides exchanging a round's messages.

Everything here is called by all ranks in the same order. Nothing is pickled: arrays travel as they are, words
as JSON.
"""

from __future__ import annotations

import json
import signal as signals
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from destiny.engines import same_settings
from destiny.engines.cores import allowed_cores
from destiny.engines.hosted import HostedAgents
from destiny.engines.mixers.plain import Messages
from destiny.engines.ranks.exchange import Neighbors
from destiny.engines.ranks.guard import Watch, guard
from destiny.engines.ranks.shared_memory import SharedRows, has_room
from destiny.engines.ranks.tree_sums import TreeSums
from destiny.engines.single_worker import SingleWorkerTeam
from destiny.errors import SettingsError
from destiny.protocols import Array, Problem, TopologyBase
from destiny.storage import checkpoint as checkpoints
from destiny.storage import checkpoint_sets as sets

S = TypeVar("S")
OTHERS = "one of the other ranks"
TALK = 0.25  # seconds between two times at which the ranks ask each other for signals
CORES = 4096  # a host has fewer
COLLECTED = 2**32  # bytes of all agents' iterates that rank 0 may hold in the end: 4 GiB


class Ranks:
    """The ranks of a job, and collective calls among them."""

    def __init__(self, MPI: Any, comm: Any, deadline: float) -> None:
        self.MPI, self.comm = MPI, comm
        self.rank, self.size = comm.rank, comm.size
        self.watch = Watch(comm, deadline)
        self.crowded, self.one_host = crowded(MPI, comm)

    def broadcast(self, value: Any) -> Any:
        """Return rank 0's JSON-serializable ``value`` on every rank."""
        if self.size == 1:
            return value
        text = json.dumps(value).encode() if self.rank == 0 else b""
        length = np.array([len(text)])
        with self.watch.waiting("rank 0"):
            self.comm.Bcast(length)
            buffer = bytearray(text) if self.rank == 0 else bytearray(int(length[0]))
            self.comm.Bcast(buffer)
        return value if self.rank == 0 else json.loads(buffer)

    def allgather(self, value: Any) -> list[Any]:
        """Return the JSON-serializable values of all ranks, by rank."""
        text = np.frombuffer(json.dumps(value).encode(), dtype=np.uint8)
        counts = np.empty(self.size, dtype=np.int64)
        with self.watch.waiting(OTHERS):
            self.comm.Allgather(np.array([len(text)], dtype=np.int64), counts)
            every = np.empty(int(counts.sum()), dtype=np.uint8)
            self.comm.Allgatherv(text, [every, counts])
        return [json.loads(part.tobytes()) for part in np.split(every, np.cumsum(counts)[:-1])]

    def common(self, X: Array) -> Array:
        """Rank 0's array; shapes are equal."""
        X = np.array(X, dtype=np.float64, order="C")
        with self.watch.waiting("rank 0"):
            self.comm.Bcast(X)
        return X

    def wait(self) -> None:
        with self.watch.waiting(OTHERS):
            self.comm.Barrier()

    def require_same(self, facts: Mapping[str, Any]) -> None:
        """Raise SettingsError if ``facts`` differ between ranks, naming the first difference."""
        mine = same_settings.plain(facts)
        digest = same_settings.digest(mine)
        digests = np.empty((self.size, len(digest)), dtype=np.uint8)
        with self.watch.waiting(OTHERS):
            self.comm.Allgather(np.frombuffer(digest, dtype=np.uint8), digests)
        if (digests == digests[0]).all():
            return
        first, *others = self.allgather(mine)
        for rank, other in enumerate(others, 1):
            if (different := same_settings.difference(first, other)) is not None:
                name, here, there = different
                raise SettingsError(
                    f"all ranks must be given the same run: {name} is {here} on rank 0 but {there} on "
                    f"rank {rank}; start all from the same files and the same installation"
                )


def crowded(MPI: Any, comm: Any) -> tuple[bool, bool]:
    """Whether this host has more ranks than cores they may use, together, and whether it has all ranks."""
    here = comm.Split_type(MPI.COMM_TYPE_SHARED)
    usable = np.zeros(CORES, dtype=np.uint8)
    usable[allowed_cores()] = 1
    here.Allreduce(MPI.IN_PLACE, usable, MPI.MAX)
    more, all_here = bool(here.size > usable.sum()), bool(here.size == comm.size)
    here.Free()
    return more, all_here


class MpiTeam(SingleWorkerTeam):
    """The agents of this rank among those of all ranks (`destiny.engines.team.Team`)."""

    def __init__(
        self,
        problem: Problem,
        network: TopologyBase,
        messages: Messages,
        owner: NDArray[np.intp],
        ranks: Ranks,
    ) -> None:
        self.ranks, self.comm, self.owner = ranks, ranks.comm, owner
        self.ids = np.flatnonzero(owner == ranks.rank)
        self.counts = np.bincount(owner, minlength=ranks.size)
        self.order = np.argsort(owner, kind="stable")  # agents as the ranks send them
        self.limit = threadpool_limits(1)  # as long as the team works: one thread per rank, the same bits
        hosted = problem.host(self.ids.tolist())
        shared = ranks.one_host and ranks.size > 1 and not network.changes
        shared = shared and ranks.broadcast(has_room(len(owner), *problem.shape))
        exchange = SharedRows if shared else Neighbors
        sums = TreeSums(ranks.MPI, ranks.comm, owner, ranks.watch, ranks.crowded)
        self.exchange = exchange(ranks.MPI, ranks.comm, owner, ranks.watch, sums, ranks.crowded)
        mixer = messages.mixer(len(self.ids), len(owner))
        columns = same_settings.spelled_columns(problem)
        super().__init__(HostedAgents(self.ids.tolist(), hosted, network, self.exchange, mixer, columns))
        self.steps_left, self.steps_between, self.talked = 1, 1, time.monotonic()
        self.broadcast = ranks.broadcast

    @property
    def leader(self) -> bool:
        """Rank 0 prints and writes."""
        return bool(self.ranks.rank == 0)

    def each(self, task: Callable[[Any, HostedAgents], S], parts: Sequence[Any]) -> list[S]:
        """Run the task for the agents of this rank."""
        try:
            return super().each(task, parts)
        except SystemExit as error:  # the others are waiting: whatever the code, the job cannot go on
            guard.remember(error.code or 1)
            raise

    def join(self, parts: Sequence[Any]) -> Any:
        """A state whose arrays are fetched from all ranks when they are looked at."""
        return self.gather(parts) if isinstance(parts[0], np.ndarray) else Joined(self, parts[0])

    def gather(self, parts: Sequence[Array]) -> Array:
        """An array of all agents, on every rank."""
        return self._gather(parts[0], None)

    def first(self, parts: Sequence[Array]) -> Array:
        """The row of agent 0, on every rank."""
        return np.asarray(self.gather(parts)[0])

    def collect(self, parts: Sequence[Array]) -> Array:
        """An array of all agents on rank 0, unless too large; elsewhere that of the rank's agents."""
        part = parts[0]
        if len(self.owner) * part[0].nbytes > COLLECTED:
            return part
        stack = self._gather(part, 0)
        return stack if self.leader else part

    def _gather(self, part: Array, root: int | None) -> Array:
        part = np.ascontiguousarray(part)
        shape = (len(self.owner), *part.shape[1:])
        here = root is None or root == self.ranks.rank
        stack = np.empty(shape if here else (0, *shape[1:]))
        counts = self.counts * (part.size // len(part))
        with self.ranks.watch.waiting(OTHERS):
            if root is None:
                self.comm.Allgatherv(part, [stack, counts])
            else:
                self.comm.Gatherv(part, [stack, counts] if here else None, root)
        return self._in_order(stack) if here else stack

    def _in_order(self, stack: Array) -> Array:
        """Rows as the ranks sent them, put in the order of the agents."""
        if (self.order[:-1] < self.order[1:]).all():
            return stack
        ordered = np.empty_like(stack)
        ordered[self.order] = stack
        return ordered

    def mean(self, parts: Sequence[Array]) -> Array:
        """Average over all agents, with the bits of ``stack.mean(axis=0)``.

        Each rank adds a share of the entries for all agents, one agent after the other, so that none needs
        room for everybody's. NumPy adds along axis 0 in that order unless there is one entry only.
        """
        part = np.ascontiguousarray(parts[0])
        width, shape = part.size // len(part), part.shape[1:]
        if width == 1 or self.ranks.size == 1:
            return np.asarray(self.gather(parts).mean(axis=0))
        shares = np.array([len(s) for s in np.array_split(np.arange(width), self.ranks.size)])
        ends = np.cumsum(shares)
        flat = part.reshape(len(part), width)
        out = np.concatenate([flat[:, end - w : end].ravel() for end, w in zip(ends, shares, strict=True)])
        mine = int(shares[self.ranks.rank])
        stack, mean = np.empty((len(self.owner), mine)), np.empty(width)
        with self.ranks.watch.waiting(OTHERS):
            self.comm.Alltoallv([out, shares * len(part)], [stack, self.counts * mine])
            stack = self._in_order(stack)
            total = np.add.accumulate(stack, axis=0)[-1] if mine == 1 else np.add.reduce(stack, axis=0)
            self.comm.Allgatherv(total / len(self.owner), [mean, shares])
        return mean.reshape(shape)

    def gradient(self, X: Array) -> Array:
        """Observer: network average of the gradients at one common X ``(n, p)``."""
        return self.mean(self._observe(X, lambda stack, agents: agents.hosted.gradient(stack)))

    def mass(self, X: Array) -> Array:
        """Observer: M X at one common X ``(n, q)``."""
        return self.mean(self._observe(X, lambda stack, agents: agents.mass(stack)))

    def value(self, X: Array) -> float:
        """Observer: objective f(X) = (1/d) sum f_i(X)."""
        return float(self.values(X).mean())

    def values(self, X: Array) -> Array:
        """Observer: f_i(X) of every agent, ``(d,)``."""
        return self.gather(self._observe(X, lambda stack, agents: agents.hosted.value(stack)))

    def _observe(self, X: Array, task: Callable[[Array, HostedAgents], Array]) -> list[Array]:
        # Rank 0's X: on processors of different kinds it may differ in the last bits.
        X = self.ranks.common(X)
        return self.each(task, [np.broadcast_to(X, (len(self.ids), *X.shape))])

    def any_signal(self, signal: str | None) -> str | None:
        """See `Team.any_signal`; ranks compare about four times a second."""
        if self.ranks.size == 1:
            return signal
        self.steps_left -= 1
        if self.steps_left > 0:
            return None
        number = np.array([0 if signal is None else int(signals.Signals[signal])])
        with self.ranks.watch.waiting(OTHERS):
            self.comm.Allreduce(self.ranks.MPI.IN_PLACE, number, self.ranks.MPI.MAX)
        since = max(time.monotonic() - self.talked, 1e-9)
        fitting = int(min(2.0, TALK / since) * self.steps_between)
        self.steps_left = self.steps_between = self.broadcast(max(1, fitting))
        self.talked = time.monotonic()
        return signals.Signals(int(number[0])).name if number[0] else None

    def require_same(self, facts: Callable[[], Mapping[str, Any]], start: Array) -> Array:
        """Return rank 0's start; raise SettingsError if the ranks were given different runs."""
        one = start.strides[0] == 0 or len(start) == 1
        given = start[:1] if one else start
        self.ranks.require_same({**facts(), "shape of the start": list(given.shape)})
        common = self.ranks.common(given)
        # Processors of different kinds may draw the same random start with other last bits.
        wrong = self.ranks.allgather(not np.allclose(given, common, rtol=0, atol=1e-10))
        if any(wrong):
            raise SettingsError(
                f"all ranks must be given the same run: the start on rank {wrong.index(True)} is not that on "
                "rank 0; make it from the same seed or file"
            )
        return np.broadcast_to(common, start.shape)

    def save(self, folder: Path, saved: checkpoints.Saved) -> None:
        """One file per agent; the set is finished when all are written, and older ones go only then."""
        step = saved.facts["step"]
        place = checkpoints.checkpoint_path(folder, step)
        sets.save_agents(place, step, self.ids, saved.state)
        self.ranks.wait()
        keep: list[str] = []
        if self.leader:
            sets.save_run(place, checkpoints.run_arrays(saved), saved.facts)
            keep = checkpoints.names_to_keep(folder, step)
        checkpoints.prune(folder, self.broadcast(keep), self.ids)
        self.ranks.wait()  # a rank that went ahead would have its next folder pruned by one that lags behind

    def close(self) -> None:
        """Free the requests and restore the number of BLAS threads."""
        self.exchange.close()
        self.limit.restore_original_limits()


class Joined:
    """A state of all agents: each array is fetched from all ranks when it is looked at, and kept."""

    def __init__(self, team: MpiTeam, part: Any) -> None:
        self._team, self._part = team, part

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._part, name)  # raises what the state itself would
        if is_dataclass(value) or isinstance(value, np.ndarray | tuple):
            value = self._team.join([value])
        self.__dict__[name] = value
        return value
