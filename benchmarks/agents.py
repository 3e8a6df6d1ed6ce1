"""Agents over TLS: a sum against the bare exchange of its bytes, private, and over slow lines."""

from __future__ import annotations

import asyncio
import cProfile
import json
import pstats
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import destiny
from benchmarks.slow_line import BANDWIDTH, DELAY
from benchmarks.timing import report
from destiny import agents
from destiny.agents import scaffold
from destiny.agents.engine import SingleAgentEngine
from destiny.agents.event_log import EventLog
from destiny.agents.exchange import Exchange
from destiny.agents.outbox import Outbox
from destiny.agents.start import open_hiding
from destiny.agents.statements import Statements
from destiny.agents.transport import tls
from destiny.agents.transport.connections import Connections, Limits
from destiny.engines.mixers.plain import Mixer

AGENTS, NUMBERS = 8, 2**19  # 4 MB a message
MORE = 1  # word in a private message that counts the agents
BURSTS, CALLS = 11, 4
SLOW_BURSTS, SLOW_CALLS = 5, 2  # a sum takes half a second
KINDS = ("plain", "bare", "private")  # first a sum: it has read all that agents say when they meet
EXPERIMENT = """
[problem]
kind = "pca"
synthetic = {{ n = 20, m = 200, xi = 0.9, seed = 0 }}
p = 2
agents = {agents}
[network]
kind = "edges"
edges = {edges}
"""


class Bare(asyncio.BufferedProtocol):
    """Takes so many bytes and says so: what any program has to do."""

    def __init__(self, size: int, done: Callable[[], None]) -> None:
        self.memory = memoryview(bytearray(size))
        self.have, self.count, self.done = 0, 0, done

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self.memory[self.have :]

    def buffer_updated(self, nbytes: int) -> None:
        self.have += nbytes
        if self.have == len(self.memory):
            self.have, self.count = 0, self.count + 1
            self.done()


class Worker:
    """One agent that takes part in sums, its own way, privately or barely."""

    def __init__(self, path: Path) -> None:
        settings = agents.read(path)
        self.connections = Connections(
            settings.hello,
            settings.neighbors,
            settings.listen,
            tls.Credentials(settings.files),
            EventLog(settings.name, loud=False),
            60,
            Limits(8 * (NUMBERS + MORE), settings.agents, 10**9),
        )
        folder = path.with_name("checkpoints")
        folder.mkdir()
        hiding = open_hiding(settings, folder)
        assert hiding is not None
        statements = Statements(hiding.notary, self.connections.neighbors, folder, settings.run)
        engine = SingleAgentEngine(self.connections, settings.index, Outbox(), statements, hiding)
        self.agents = engine.connect(settings.problem, settings.network, settings.messages).agents
        self.mixers = {"private": self.agents.mixer, "plain": Mixer()}
        assert isinstance(self.connections.store, Exchange)
        self.exchange = self.connections.store
        self.block = np.random.default_rng(settings.index).uniform(-1, 1, (1, NUMBERS))
        tree, me = self.agents.tree, settings.index
        self.transports = [
            n.connection.transport
            for n in self.connections.neighbors
            if n.connection is not None and (tree.parents[me] == n.index or tree.parents[n.index] == me)
        ]

    def run(self, kind: str, calls: int) -> None:
        """Take part in so many sums, or in the exchange of their bytes."""
        if kind == "bare":
            self.bare(calls)
            return
        self.agents.mixer = self.mixers[kind]
        for _ in range(calls):
            self.agents.all_reduce(self.block, bounds=[float(self.agents.count)])
            self.exchange.outbox.prune(self.exchange.turn)  # as checkpoints do

    def bare(self, calls: int) -> None:
        """The same bytes over the links of the tree, all at once and in both directions, and nothing else."""
        message = bytes(8 * NUMBERS)
        links = [t.get_protocol() for t in self.transports]
        loop, call = self.connections.loop, 0
        future = loop.create_future()

        def done() -> None:  # a neighbor may be one call ahead
            if not future.done() and all(b.count > call for b in barely):
                future.set_result(None)

        barely = [Bare(len(message), done) for _ in self.transports]
        for transport, protocol in zip(self.transports, barely, strict=True):
            transport.set_protocol(protocol)
        for call in range(calls):  # noqa: B007
            future = loop.create_future()
            for transport in self.transports:
                transport.write(message)
            done()
            loop.run_until_complete(future)
        for transport, connection in zip(self.transports, links, strict=True):
            transport.set_protocol(connection)


def worker(path: str, profile: str) -> None:
    """One process: does what it is told, all agents together, and tells seconds, CPU seconds and memory."""
    with threadpool_limits(1):
        before, me = resident(), Worker(Path(path))
        watched = cProfile.Profile()
        print("ready", flush=True)
        while order := sys.stdin.readline().split():
            kind, calls = order[0], int(order[1])
            start, used = time.perf_counter(), time.process_time()
            if kind == profile:
                watched.enable()
            me.run(kind, calls)
            watched.disable()
            seconds, cpu = time.perf_counter() - start, time.process_time() - used
            print(json.dumps([seconds / calls, cpu / calls, resident() - before]), flush=True)
        if profile:
            watched.dump_stats(Path(path).with_name("profile"))
        me.connections.close()


def measure(folder: Path, bursts: int, calls: int, profile: str = "") -> dict[str, Any]:
    """By kind, arrays ``(bursts, agents, 3)`` of seconds, CPU seconds and bytes of memory per call."""
    jobs = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.agents", str(path), profile],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for path in sorted(folder.glob(f"*/{scaffold.FILE}"))
    ]
    for job in jobs:
        assert _line(job) == "ready\n"
    told: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    for _ in range(bursts + 1):
        for kind in KINDS:
            for job in jobs:
                job.stdin.write(f"{kind} {calls}\n")  # type: ignore[union-attr]
                job.stdin.flush()  # type: ignore[union-attr]
            told[kind].append([json.loads(_line(job)) for job in jobs])
    for job in jobs:
        job.communicate(timeout=60)
    return {kind: np.array(burst[1:]) for kind, burst in told.items()}  # the first one warms up


def _line(job: Any) -> str:
    line: str = job.stdout.readline()
    assert line, "an agent has died"
    return line


def show(told: dict[str, Any]) -> dict[str, Any]:
    """A line for each kind; the seconds of each burst, as its slowest agent saw it."""
    for kind, numbers in told.items():
        seconds, cpu = numbers[:, :, 0].max(axis=1), np.median(numbers[:, :, 1], axis=0)
        print(
            f"     {kind:8} {spread(1e3 * seconds, 1)} ms; CPU of an agent {1e3 * cpu.mean():.1f} ms, "
            f"of the busiest {1e3 * cpu.max():.1f} ms; {numbers[:, :, 2].max() / 2**20:.0f} MB at one"
        )
    return {kind: numbers[:, :, 0].max(axis=1) for kind, numbers in told.items()}


def spread(numbers: Any, digits: int = 2) -> str:
    """Median and quartiles."""
    low, middle, high = np.percentile(numbers, [25, 50, 75])
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def compare(title: str, ratios: Any, limit: float, compared: str) -> None:
    """The median of the ratios of bursts that follow each other, and their quartiles."""
    report(f"{title}, bursts {spread(ratios)}", float(np.median(ratios)), limit, compared)


def files(folder: Path, network: destiny.networks.Network, host: str, port: int) -> Path:
    """A set of agents with certificates."""
    folder.mkdir()
    path = folder / "experiment.toml"
    path.write_text(EXPERIMENT.format(agents=network.agents, edges=network.edges.tolist()))
    scaffold.write_agent_files(str(path), f"{host}:{port}", folder / "set", "benchmark", private=True)
    scaffold.write_certificates(folder / "set")
    return folder / "set"


def slow_lines(folder: Path, host: str) -> dict[str, Any]:
    """Sums of a path of five agents, two levels on either side, over slow lines."""
    port, network = 7800, destiny.networks.path(5)
    made = files(folder / "slow", network, host, port)
    with ExitStack() as lines:
        for k in range(network.agents - 1):  # the lower index calls the higher one
            path, target, line = made / f"agent-{k}" / scaffold.FILE, port + k + 1, port + 10 + k
            path.write_text(path.read_text().replace(f"{host}:{target}", f"{host}:{line}"))
            command = [sys.executable, "-m", "benchmarks.slow_line", host, str(line), str(target)]
            lines.callback(subprocess.Popen(command).kill)
        return measure(made, SLOW_BURSTS, SLOW_CALLS)


def main() -> None:
    host = a_host()
    network = destiny.networks.erdos_renyi(AGENTS, prob=0.7, seed=0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        told = measure(files(folder / "eight", network, host, 7700), BURSTS, CALLS)
        seconds = show(told)
        title = f"a sum of {AGENTS} agents, {2 * (AGENTS - 1)} messages of 4 MB"
        compare(title, seconds["plain"] / seconds["bare"], 1.3, "the bare exchange")
        compare("a private sum", seconds["private"] / seconds["plain"], 1.3, "a plain one")
        # Where each agent has a core, the busiest one decides; a busy machine does not change CPU time much.
        cpu = {kind: numbers[:, :, 1].max(axis=1) for kind, numbers in told.items()}
        compare("CPU of the busiest agent in a sum", cpu["plain"] / cpu["bare"], 1.3, "the bare exchange")
        compare(
            "CPU of the busiest agent in a private sum", cpu["private"] / cpu["plain"], 1.3, "a plain one"
        )
        seconds = show(slow_lines(folder, host))
        line = 8 * NUMBERS / BANDWIDTH
        what = "delay and size by bandwidth"
        compare("4 MB over a line of 20 ms and 100 Mbit/s", seconds["bare"] / (DELAY + line), 1.1, what)
        compare("a sum over a path of 4 such lines", seconds["plain"] / (4 * DELAY + line), 1.5, what)
        compare("a private sum over them", seconds["private"] / seconds["plain"], 1.3, "a plain one")


def a_host() -> str:
    """An address of this machine that nobody else is likely to use."""
    return f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}.{random.randrange(1, 255)}"


def resident() -> int:
    """Bytes that this process has in memory (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def profile(kind: str) -> None:
    """Where the time of the root goes: ``python -m benchmarks.agents profile plain`` (or private)."""
    with tempfile.TemporaryDirectory() as name:
        network = destiny.networks.erdos_renyi(AGENTS, prob=0.7, seed=0)
        made = files(Path(name) / "eight", network, a_host(), 7700)
        measure(made, BURSTS, CALLS, kind)
        stats = pstats.Stats(str(made / "agent-0" / "profile"))
        stats.sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    if sys.argv[1:2] == ["profile"]:
        profile(sys.argv[2])
    elif len(sys.argv) > 1:
        worker(*sys.argv[1:])
    else:
        main()
