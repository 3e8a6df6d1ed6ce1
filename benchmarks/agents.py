"""Agents over TLS on 2 cores: a sum against the bare exchange of its bytes, private, and over slow lines."""

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
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import destiny
from benchmarks.timing import report
from destiny import agents
from destiny.agents import scaffold
from destiny.agents.engine import SingleAgentEngine
from destiny.agents.event_log import EventLog
from destiny.agents.exchange import Exchange
from destiny.agents.outbox import Outbox
from destiny.agents.start import open_hiding
from destiny.agents.statements import Notary, Statements
from destiny.agents.transport import tls
from destiny.agents.transport.connections import Connections, Limits

AGENTS, NUMBERS = 8, 2**19  # 4 MB a message
MORE = 1  # word in a private message that counts the agents
BURSTS, CALLS = 6, 4
DELAY, BANDWIDTH = 0.02, 12.5e6  # seconds one way and bytes a second of a slow line: 100 Mbit/s
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
    """One agent that takes part in sums, its own way or barely."""

    def __init__(self, path: Path, numbers: int) -> None:
        settings = agents.read(path)
        self.connections = Connections(
            settings.hello,
            settings.neighbours,
            settings.listen,
            tls.Credentials(settings.files),
            EventLog(settings.name, loud=False),
            60,
            Limits(8 * (numbers + MORE), settings.agents, 10**9),
        )
        folder = path.with_name("checkpoints")
        folder.mkdir()
        hiding = open_hiding(settings, folder)
        links = [n.index for n in settings.neighbours]
        notary = Notary(settings.index, settings.agents, links) if hiding is None else hiding.notary
        statements = Statements(notary, self.connections.neighbours, folder, settings.run)
        engine = SingleAgentEngine(self.connections, settings.index, Outbox(), statements, hiding)
        self.agents = engine.connect(settings.problem, settings.network, settings.messages).agents
        exchange = self.connections.store
        assert isinstance(exchange, Exchange)
        self.block = np.random.default_rng(settings.index).uniform(-1, 1, (1, numbers))
        self.exchange, self.message = exchange, bytes(8 * numbers)
        tree, me = self.agents.tree, settings.index
        self.transports = [
            n.connection.transport
            for n in self.connections.neighbours
            if n.connection is not None and (tree.parents[me] == n.index or tree.parents[n.index] == me)
        ]

    def sum(self) -> None:
        """The engine's."""
        self.agents.all_reduce(self.block, bounds=[float(self.agents.count)])
        self.exchange.outbox.prune(self.exchange.turn)  # as checkpoints do

    def bare(self, calls: int) -> None:
        """The same bytes over the links of the tree, all at once and in both directions, and nothing else."""
        links = [t.get_protocol() for t in self.transports]
        loop, call = self.connections.loop, 0
        future = loop.create_future()

        def done() -> None:  # a neighbour may be one call ahead
            if not future.done() and all(b.count > call for b in barely):
                future.set_result(None)

        barely = [Bare(len(self.message), done) for _ in self.transports]
        for transport, protocol in zip(self.transports, barely, strict=True):
            transport.set_protocol(protocol)
        for call in range(calls):  # noqa: B007
            future = loop.create_future()
            for transport in self.transports:
                transport.write(self.message)
            done()
            loop.run_until_complete(future)
        for transport, connection in zip(self.transports, links, strict=True):
            transport.set_protocol(connection)


def worker(path: str, numbers: int, bursts: int, calls: int, profile: str) -> None:
    """One process: bursts of either kind, all agents together."""
    with threadpool_limits(1):
        before = resident()
        me = Worker(Path(path), numbers)
        watched = cProfile.Profile() if profile else None
        for burst in range(bursts + 1):
            for kind in ("sum", "bare"):
                print("ready", flush=True)
                sys.stdin.readline()
                start, used = time.perf_counter(), time.process_time()
                if kind == "bare":
                    me.bare(calls)
                else:
                    if watched is not None and burst:
                        watched.enable()
                    for _ in range(calls):
                        me.sum()
                    if watched is not None:
                        watched.disable()
                seconds, cpu = time.perf_counter() - start, time.process_time() - used
                told = [kind, burst, seconds / calls, cpu / calls, resident() - before]
                print(json.dumps(told), flush=True)
        print("ready", flush=True)
        sys.stdin.readline()
        if watched is not None:
            watched.dump_stats(profile)
        me.connections.close()


def launch(
    folder: Path, numbers: int, bursts: int = BURSTS, calls: int = CALLS, profile: str = ""
) -> dict[str, list[float]]:
    """By kind of burst, of all agents: the best as its slowest agent saw it, all CPU time, most memory."""
    jobs = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "benchmarks.agents",
                str(path),
                str(numbers),
                str(bursts),
                str(calls),
                profile if path.parent.name == "agent-0" else "",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for path in sorted(folder.glob(f"*/{scaffold.FILE}"))
    ]
    best: dict[str, list[float]] = {}
    for burst in range(bursts + 1):
        for kind in ("sum", "bare"):
            together(jobs)
            times = [json.loads(_line(job)) for job in jobs]
            slowest, cpu = max(t[2] for t in times), sum(t[3] for t in times)
            if burst:  # the first one warms up
                before = best.get(kind, [float("inf")] * 2)
                best[kind] = [min(before[0], slowest), min(before[1], cpu), max(t[4] for t in times)]
    together(jobs)
    for job in jobs:
        job.wait(60)
    return best


def together(jobs: list[Any]) -> None:
    """Let all go on once all have come this far."""
    for job in jobs:
        assert _line(job) == "ready\n"
    for job in jobs:
        job.stdin.write("go\n")
        job.stdin.flush()


def _line(job: Any) -> str:
    line: str = job.stdout.readline()
    assert line, "an agent has died"
    return line


def files(
    folder: Path, network: destiny.networks.Network, host: str, port: int, private: bool = False
) -> None:
    """A set of agents with certificates."""
    folder.mkdir()
    path = folder / "experiment.toml"
    path.write_text(EXPERIMENT.format(agents=network.agents, edges=network.edges.tolist()))
    scaffold.write_agent_files(str(path), f"{host}:{port}", folder / "set", "benchmark", private=private)
    scaffold.write_certificates(folder / "set")


def relay(listen: tuple[str, int], target: tuple[str, int]) -> None:
    """A line of `BANDWIDTH` and `DELAY` in either direction; runs for ever in a thread."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop, free = asyncio.get_running_loop(), 0.0
        while part := await reader.read(2**14):
            free = max(free, loop.time()) + len(part) / BANDWIDTH  # when the line has taken these bytes
            loop.call_at(free + DELAY, writer.write, part)
            await asyncio.sleep(free - loop.time())
        loop.call_at(free + DELAY, writer.close)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(*target)
        except OSError:  # the agent has not started yet
            writer.close()
            return
        await asyncio.gather(pump(reader, back), pump(there, writer))

    async def main() -> None:
        async with await asyncio.start_server(connected, *listen) as server:
            await server.serve_forever()

    asyncio.run(main())


def slow_lines(folder: Path, host: str) -> float:
    """Seconds of a sum of a path of five agents, two levels on either side, over slow lines."""
    port, network = 7800, destiny.networks.path(5)
    files(folder / "slow", network, host, port)
    for k in range(network.agents - 1):  # the lower index calls the higher one
        path = folder / "slow" / "set" / f"agent-{k}" / scaffold.FILE
        path.write_text(path.read_text().replace(f"{host}:{port + k + 1}", f"{host}:{port + 10 + k}"))
        line = ((host, port + 10 + k), (host, port + k + 1))
        threading.Thread(target=relay, args=line, daemon=True).start()
    return launch(folder / "slow" / "set", NUMBERS, bursts=2, calls=2)["sum"][0]


def main() -> None:
    host = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}.{random.randrange(1, 255)}"
    network = destiny.networks.erdos_renyi(AGENTS, prob=0.7, seed=0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files(folder / "plain", network, host, 7700)
        files(folder / "private", network, host, 7750, private=True)
        best = launch(folder / "plain" / "set", NUMBERS)
        hidden = launch(folder / "private" / "set", NUMBERS)["sum"]
        for kind, (seconds, cpu, memory) in {**best, "private": hidden}.items():
            print(
                f"     {kind:8} {1e3 * seconds:8.1f} ms, {1e3 * cpu:8.1f} ms of CPU at all {AGENTS} agents, "
                f"{memory / 2**20:.0f} MB at one"
            )
        title = f"a sum of {AGENTS} agents, {2 * (AGENTS - 1)} messages of 4 MB"
        report(title, best["sum"][0] / best["bare"][0], 1.3, "the bare exchange")
        report("a private sum", hidden[0] / best["sum"][0], 1.3, "a plain one")
        seconds = slow_lines(folder, host)
        expected = 4 * DELAY + 8 * NUMBERS / BANDWIDTH
        print(f"     slow     {1e3 * seconds:8.1f} ms a sum of 5 agents on a path, 4 MB")
        report(
            "a sum over lines of 20 ms and 100 Mbit/s", seconds / expected, 1.5, "delay and size by bandwidth"
        )


def resident() -> int:
    """Bytes that this process has in memory (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def profile() -> None:
    """Where an agent's time goes: ``python -m benchmarks.agents profile``."""
    host = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}.{random.randrange(1, 255)}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files(folder / "eight", destiny.networks.erdos_renyi(AGENTS, prob=0.7, seed=0), host, 7700)
        stats = folder / "stats"
        launch(folder / "eight" / "set", NUMBERS, profile=str(stats))
        profiled = pstats.Stats(str(stats))
        profiled.sort_stats("tottime").print_stats(12)
        shares: dict[str, float] = {}
        for (file, _, function), (_, _, own, *_) in profiled.stats.items():  # type: ignore[attr-defined]
            shares[kind_of(file, function)] = shares.get(kind_of(file, function), 0.0) + own
        for kind, seconds in sorted(shares.items(), key=lambda entry: -entry[1]):
            print(f"     {kind:28} {100 * seconds / sum(shares.values()):4.0f} %")


def kind_of(file: str, function: str) -> str:
    """What a function of a profile is about."""
    if file == "~":
        outside = any(word in function for word in ("_ssl", "_socket", "epoll"))
        return "TLS, sockets and waiting" if outside else "NumPy, SciPy and built-ins"
    if "asyncio" in file or "ssl.py" in file or "selectors" in file:
        return "Python of asyncio"
    return "Python of this package, with copies" if "destiny" in file else "Python of others"


if __name__ == "__main__":
    if sys.argv[1:] == ["profile"]:
        profile()
    elif len(sys.argv) > 1:
        numbers, bursts, calls = map(int, sys.argv[2:5])
        worker(sys.argv[1], numbers, bursts, calls, sys.argv[5])
    else:
        main()
