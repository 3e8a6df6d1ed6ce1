"""MPI on 2 cores: a step on 2, 4 and 8 ranks against one process, the exchange alone (paper size)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import destiny
from benchmarks.timing import report

N, P, AGENTS = 300, 10, 32
BURSTS, CALLS = 60, 5  # many short ones: on a shared machine some are left alone
MPIEXEC = Path(sys.executable).parent / "mpiexec"
PYTHON = [sys.executable]


def stepper(engine: destiny.engines.Engine, agents: int = AGENTS) -> Callable[[], object]:
    """A function that takes one step of a running DESTINY."""
    problem = destiny.problems.pca.synthetic(n=N, m=100 * agents, p=P, xi=0.95, agents=agents, seed=0)
    prob = 0.4 * (AGENTS - 1) / (agents - 1)  # as many links per agent, however many agents
    network = destiny.networks.erdos_renyi(agents, prob=min(1.0, prob), seed=0)
    algorithm = destiny.Destiny()
    team = engine.connect(problem, network)
    X = np.broadcast_to(destiny.stiefel.random_point(N, P), (agents, N, P))
    parts = team.each(algorithm.init, team.split(X))

    def step() -> None:
        nonlocal parts
        parts = team.each(algorithm.step, parts)

    return step


def exchange(engine: destiny.engines.Mpi) -> Callable[[], object]:
    """The engine's exchange of one round: two matrices of every agent."""
    network = destiny.networks.erdos_renyi(AGENTS, prob=0.4, seed=0)
    problem = destiny.problems.pca.synthetic(n=N, m=N, p=P, xi=0.95, agents=AGENTS, seed=0)
    team = engine.connect(problem, network)
    team.exchange.adopt(network.W)
    blocks = [np.ones((len(team.ids), N * P))] * 2
    return lambda: team.exchange.swap(0, blocks)


def by_hand(engine: destiny.engines.Mpi) -> Callable[[], object]:
    """The same messages written by hand: put two matrices per agent into one buffer, start, wait."""
    MPI, comm = engine.ranks.MPI, engine.ranks.comm
    other, half = 1 - comm.rank, AGENTS // 2  # on this network every agent has a neighbor on the other rank
    send, receive = np.ones((half, 2 * N * P)), np.empty((half, 2 * N * P))
    X, D = np.ones((half, N * P)), np.ones((half, N * P))
    requests = [comm.Recv_init(receive, other, 1), comm.Send_init(send, other, 1)]

    def round() -> None:
        send[:, : N * P], send[:, N * P :] = X, D  # a message that stays the same would never leave the cache
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)

    return round


def seconds(tasks: dict[str, Callable[[], object]], wait: Callable[[], object]) -> dict[str, float]:
    """Best burst of each task; all ranks start a burst together."""
    best = dict.fromkeys(tasks, float("inf"))
    for burst in range(BURSTS + 1):
        for name, task in tasks.items():
            wait()
            start = time.perf_counter()
            for _ in range(CALLS):
                task()
            if burst:  # the first one warms up
                best[name] = min(best[name], (time.perf_counter() - start) / CALLS)
    return best


def worker(what: str) -> None:
    """One rank: time something and let rank 0 print it."""
    with threadpool_limits(1):
        if what == "local":
            print(json.dumps(seconds({"step": stepper(destiny.engines.local(1))}, lambda: None)))
            return
        engine = destiny.engines.mpi(deadline=60)
        tasks: dict[str, Callable[[], object]] = {}
        if what == "exchange":
            tasks = {"engine": exchange(engine), "by hand": by_hand(engine)}
        elif what == "weak":
            tasks = {"step": stepper(engine, 16 * engine.ranks.size)}
        else:
            tasks = {"step": stepper(engine)}
        times = seconds(tasks, engine.ranks.wait)
        if engine.leader:
            print(json.dumps(times))


def launch(what: str, ranks: int = 0) -> dict[str, float]:
    """Run a worker on so many ranks, 0 meaning without MPI."""
    command = [*PYTHON, "-m", "benchmarks.mpi", what]
    if ranks:
        command = [str(MPIEXEC), "-n", str(ranks), *command]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=600)
    times: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return times


def main(repeats: int = 5) -> None:
    if not MPIEXEC.exists():
        print(f"skipped: {MPIEXEC} is not there; pip install mpi4py mpich")
        return
    jobs = [("local", 0), ("strong", 1), ("strong", 2), ("strong", 4), ("strong", 8)]
    jobs += [("weak", 1), ("weak", 2), ("exchange", 2)]
    best: dict[tuple[str, int, str], float] = {}
    for _ in range(repeats):  # in turn, so that noise hits all alike
        for what, ranks in jobs:
            for name, value in launch(what, ranks).items():
                key = (what, ranks, name)
                best[key] = min(best.get(key, float("inf")), value)
    for (what, ranks, name), value in best.items():
        print(f"     {what:8} {ranks} ranks  {name:8} {1e3 * value:8.3f} ms")
    step = {ranks: best["strong", ranks, "step"] for ranks in (1, 2, 4, 8)}
    report("step on 2 ranks", step[2] / best["local", 0, "step"], 0.65, "one process, one thread")
    report("step on 4 ranks", step[4] / step[2], 1.3, "2 ranks")
    report("step on 8 ranks", step[8] / step[2], 2, "2 ranks")
    ratio = best["exchange", 2, "engine"] / best["exchange", 2, "by hand"]
    report("exchange alone, 2 ranks x 16 agents", ratio, 1.3, "persistent requests by hand")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        worker(sys.argv[1])
    else:
        main()
