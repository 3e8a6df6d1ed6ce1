"""All agents in one process, on one or several worker threads, with the same bits for any number of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from threadpoolctl import ThreadpoolController

from destiny.engines.cores import allowed_cores
from destiny.engines.exchange import Exchange
from destiny.engines.hosted import HostedAgents, Traffic
from destiny.engines.mixers.plain import PLAIN, Messages
from destiny.engines.same_settings import spelled_columns
from destiny.engines.team import concatenate, map_arrays
from destiny.engines.tree_sum import Row, tree_sum
from destiny.engines.workers import WorkerThreads
from destiny.errors import SettingsError
from destiny.protocols import Array, Problem, TopologyBase, Tree
from destiny.storage import checkpoint as checkpoints
from destiny.validation import is_whole

S = TypeVar("S")

NARROW = 1024  # numbers of a row below which one worker adds it up faster alone
WORTH_THREADS = (
    20_000  # numbers in one stack (d n p) below which handing work to threads costs more than it saves
)


@dataclass(frozen=True)
class Local:
    """Engine that keeps all agents in this process.

    Parameters
    ----------
    threads : int, optional
        Worker threads, each hosting some agents. By default as many as there are cores when the problem is
        large enough to gain from it. BLAS itself runs on one thread meanwhile, so nothing fights for cores.
    """

    threads: int | None = None
    leader = True

    def __post_init__(self) -> None:
        if self.threads is not None and not (is_whole(self.threads) and self.threads >= 1):
            raise SettingsError(f"threads must be a whole number of at least 1; found {self.threads!r}")

    def connect(self, problem: Problem, network: TopologyBase, messages: Messages = PLAIN) -> LocalTeam:
        """Host all agents of the problem."""
        n, p = problem.shape
        threads = self.threads
        if threads is None:
            large = problem.agents * n * p >= WORTH_THREADS
            threads = len(allowed_cores()) if large else 1
        return LocalTeam(problem, network, messages, min(threads, problem.agents))

    def require_same(self, facts: Mapping[str, Any]) -> None:
        """Nothing to compare: one process."""

    def newest(self, folder: Path, agents: int) -> tuple[checkpoints.Saved | None, list[str]]:  # noqa: ARG002
        """The newest whole checkpoint of a folder."""
        return checkpoints.newest(folder)


class SharedMemory:
    """Neighbor exchange between threads: write own rows, wait for the others, read all rows."""

    def __init__(self, agents: int, threads: WorkerThreads) -> None:
        self.agents = agents
        self.threads = threads
        self.lock = threading.Lock()
        self.buffers: dict[tuple[int, int, int], Array] = {}
        self.shown: dict[int, Sequence[Row]] = {}
        self.totals: dict[int, list[Row]] = {}
        self.result: Any = None

    def exchange(self, worker: int, rows: slice, round: int, blocks: Sequence[Array]) -> list[Array]:
        """One round for the agents ``rows``."""
        # Two sets of buffers in turn: nobody can be two rounds ahead, so none is overwritten while read.
        buffers = [self.buffer(round % 2, k, block.shape[1]) for k, block in enumerate(blocks)]
        for buffer, block in zip(buffers, blocks, strict=True):
            buffer[rows] = block
        self.threads.meeting.wait(worker)
        return buffers

    def all_reduce(self, worker: int, turn: int, tree: Tree, blocks: Sequence[Row]) -> Sequence[Row]:
        """Each worker adds up a part of every row, of all agents and in the order of the tree."""
        self.shown[worker] = blocks
        with self.lock:
            self.totals.pop(turn - 1, None)  # all have it
            totals = self.totals.setdefault(turn, [np.empty_like(block[0]) for block in blocks])
        self.threads.meeting.wait(worker)
        for k, total in enumerate(totals):
            share = self._share(worker, len(total))
            if share.stop > share.start:
                rows = [row[share] for other in sorted(self.shown) for row in self.shown[other][k]]
                total[share] = tree_sum(tree, rows)
        self.threads.meeting.wait(worker)
        del self.shown[worker]
        return totals

    def _share(self, worker: int, width: int) -> slice:
        """The columns that a worker adds up."""
        count = self.threads.meeting.workers
        if width < NARROW:
            return slice(0, width if worker == 0 else 0)
        return slice(worker * width // count, (worker + 1) * width // count)

    def once(self, worker: int, compute: Callable[[], S]) -> S:
        """The first worker computes, the others wait."""
        self.threads.meeting.wait(worker)  # all have read the result before this one
        if worker == 0:
            self.result = compute()
        self.threads.meeting.wait(worker)
        result: S = self.result
        return result

    def buffer(self, turn: int, k: int, width: int) -> Array:
        """The buffer of the k-th array of a message."""
        with self.lock:
            return self.buffers.setdefault((turn, k, width), np.empty((self.agents, width)))


@dataclass(frozen=True)
class Channel:
    """How the agents ``rows`` of one of several workers hear of the others."""

    worker: int
    rows: slice
    memory: SharedMemory

    def adopt(self, W: csr_array[Any, Any]) -> csr_array[Any, Any]:
        """The worker's rows; every agent is heard."""
        return W[self.rows]

    def swap(self, round: int, blocks: Sequence[Array]) -> Sequence[Array]:
        return self.memory.exchange(self.worker, self.rows, round, blocks)

    def all_reduce(self, turn: int, tree: Tree, blocks: Sequence[Row]) -> Sequence[Row]:
        return self.memory.all_reduce(self.worker, turn, tree, blocks)

    def once(self, compute: Callable[[], S]) -> S:
        return self.memory.once(self.worker, compute)


class NoChannel:
    """One worker hosts all agents and hears them directly."""

    def adopt(self, W: csr_array[Any, Any]) -> csr_array[Any, Any]:
        return W

    def swap(self, round: int, blocks: Sequence[Array]) -> Sequence[Array]:  # noqa: ARG002
        return blocks

    def all_reduce(self, turn: int, tree: Tree, blocks: Sequence[Row]) -> Sequence[Row]:  # noqa: ARG002
        return [tree_sum(tree, list(block)) for block in blocks]

    def once(self, compute: Callable[[], S]) -> S:
        return compute()


class LocalTeam:
    """The workers of a run (`destiny.engines.team.Team`)."""

    leader = True

    def __init__(
        self,
        problem: Problem,
        network: TopologyBase,
        messages: Messages,
        workers: int,
        alone: Exchange | None = None,
    ) -> None:
        """``alone`` is the exchange of a single worker, by default `NoChannel`."""
        d = problem.agents
        self.slices = [slice(int(c[0]), int(c[-1]) + 1) for c in np.array_split(np.arange(d), workers)]
        self.threads = WorkerThreads(workers) if workers > 1 else None
        self.blas = ThreadpoolController()
        memory = SharedMemory(d, self.threads) if self.threads else None
        channels: list[Exchange] = [alone or NoChannel()]
        if memory is not None:
            channels = [Channel(k, rows, memory) for k, rows in enumerate(self.slices)]
        columns = spelled_columns(problem)
        with self.blas.limit(limits=1):  # the same bits of what is computed from the data, on any machine
            self.workers = [
                HostedAgents(ids, problem.host(ids), network, channel, messages.mixer(len(ids), d), columns)
                for ids, channel in zip([range(d)[rows] for rows in self.slices], channels, strict=True)
            ]

    @property
    def hosts(self) -> list[NDArray[np.intp]]:
        """Which agents each worker hosts."""
        return [w.ids for w in self.workers]

    @property
    def traffic(self) -> Traffic:
        """What the run has cost so far; every worker counts the whole network."""
        return self.workers[0].traffic

    def rewind(self, traffic: Traffic) -> None:
        """Count on from ``traffic``."""
        for worker in self.workers:
            worker.rewind(traffic)

    def each(self, task: Callable[[Any, HostedAgents], S], parts: Sequence[Any]) -> list[S]:
        """Run ``task(part, agents)`` for every worker at the same time, with one BLAS thread each."""
        # A diverging iterate overflows on its way out; the run reports it in words.
        with self.blas.limit(limits=1), np.errstate(over="ignore", invalid="ignore"):
            if self.threads is None:
                return [task(parts[0], self.workers[0])]
            pairs = zip(parts, self.workers, strict=True)
            return self.threads.run([partial(task, part, worker) for part, worker in pairs])

    def split(self, stack: Array) -> list[Array]:
        """An array of all agents, cut along axis 0 for the workers."""
        return [np.ascontiguousarray(stack[rows]) for rows in self.slices]

    def join(self, parts: Sequence[S]) -> S:
        """The workers' states as one; no copy if there is one worker."""
        if len(parts) == 1:
            return parts[0]
        joined: S = map_arrays(concatenate, *parts)
        return joined

    own = collect = gather = join  # one process hosts all agents

    def first(self, parts: Sequence[Array]) -> Array:
        """The row of agent 0."""
        return np.asarray(parts[0][0])

    def mean(self, parts: Sequence[Array]) -> Array:
        """Average over all agents."""
        return np.asarray(self.join(parts).mean(axis=0))

    def set_flood(self, parts: Sequence[Array] | None) -> None:
        """Start a new max-consensus among the agents, or end it with None."""
        for k, worker in enumerate(self.workers):
            worker.set_flood(None if parts is None else parts[k])

    @property
    def flood(self) -> Array:
        """What every agent has heard as the largest value so far, ``(d,)``."""
        return np.concatenate([w.flood for w in self.workers if w.flood is not None])

    def gradient(self, X: Array) -> Array:
        """Observer: network average of the gradients at one common X ``(n, p)``."""
        return np.asarray(self.observe(X, lambda stack, w: w.hosted.gradient(stack)).mean(axis=0))

    def mass(self, X: Array) -> Array:
        """Observer: M X at one common X ``(n, q)``."""
        return np.asarray(self.observe(X, lambda stack, w: w.mass(stack)).mean(axis=0))

    def value(self, X: Array) -> float:
        """Observer: objective f(X) = (1/d) sum f_i(X)."""
        return float(self.observe(X, lambda stack, w: w.hosted.value(stack)).mean())

    def values(self, X: Array) -> Array:
        """Observer: f_i(X) of every agent, ``(d,)``."""
        return self.observe(X, lambda stack, w: w.hosted.value(stack))

    def observe(self, X: Array, task: Callable[[Array, HostedAgents], Array]) -> Array:
        """Evaluate something of all agents at one common X."""
        stacks = [np.broadcast_to(X, (len(w.ids), *X.shape)) for w in self.workers]
        return np.concatenate(self.each(task, stacks))

    def broadcast(self, value: Any) -> Any:
        return value

    def any_signal(self, signal: str | None) -> str | None:
        return signal

    def require_same(self, facts: Callable[[], Mapping[str, Any]], start: Array) -> Array:  # noqa: ARG002
        return start

    def save(self, folder: Path, saved: checkpoints.Saved) -> None:
        """All agents in one file."""
        checkpoints.save(folder, saved)

    def close(self) -> None:
        """Stop the threads."""
        if self.threads is not None:
            self.threads.close()
