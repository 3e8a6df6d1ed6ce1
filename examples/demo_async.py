"""Eight organizations, one of them twenty times slower, one killed again and again: with and without waits.

The agents find their common principal components over TLS twice: by the synchronous method, in which every
round waits for the slowest, and by the asynchronous one, in which nobody waits. Computing times are made with
pauses. Everything on this machine, in about a minute. Files go to demo-async/.
"""

import shutil
import socket
import subprocess
import sys
import time
from contextlib import redirect_stderr
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import destiny
from destiny import agents
from destiny.agents import Outcome
from destiny.problems.own_problem import as_problem

OUT = Path("demo-async")
NAMES = ("Aarhus", "Bergen", "Calais", "Dublin", "Exeter", "Faro", "Genoa", "Hamburg")
NETWORK = destiny.networks.erdos_renyi(len(NAMES), prob=0.5, seed=0)
EDGES = NETWORK.edges.tolist()
SLOW, VICTIM = "Faro", "Calais"
SECONDS, TIMES = 0.02, 20  # of a gradient, and how many times as long the slow one takes
KILL, MOST_KILLS = 3.0, 5  # seconds after a start until the next kill, and how many there are at most
METHODS = {"synchronous": "destiny-accelerated", "asynchronous": "destiny-async"}
EXPERIMENT = """
[problem]
kind = "pca"
data = "data-{{agent}}.npy"
p = 2
agents = {agents}

[network]
kind = "edges"
edges = {edges}

[[algorithm]]
kind = "{kind}"

[stop]
tolerance = 1e-6
rounds = 100000

[run]
checkpoint = 5

[messages]
private = false
"""
COMMAND = [sys.executable, "-m", "destiny"]
console = Console(highlight=False)


class Paused:
    """A problem whose gradients take some seconds."""

    def __init__(self, problem, seconds: float) -> None:
        self.problem, self.seconds = problem, seconds
        self.shape, self.agents = problem.shape, problem.agents
        self.variance, self.principal_axes = problem.variance, problem.principal_axes

    def host(self, ids):
        """Agents that pause before they compute."""
        return PausedAgents(self.problem.host(ids), self.seconds)


class PausedAgents:
    """What an agent computes, after a pause."""

    def __init__(self, hosted, seconds: float) -> None:
        self.hosted, self.seconds = hosted, seconds
        self.value = hosted.value

    def gradient(self, X):
        """The gradient, late."""
        time.sleep(self.seconds)
        return self.hosted.gradient(X)


def run_agent(folder: Path, name: str) -> None:
    """What ``destiny agent FILE`` does, with slow gradients."""
    seconds = SECONDS * (TIMES if name == SLOW else 1)
    settings = agents.read(folder / name / "agent.toml")
    slowed = replace(settings, problem=as_problem(Paused(settings.problem, seconds)))
    with (folder / name / "said.txt").open("a") as said, redirect_stderr(said):
        agents.run(slowed)


def start(folder: Path, name: str) -> BaseProcess:
    """An organization starts its agent, as a process of its own that has all modules already."""
    process = get_context("fork").Process(target=run_agent, args=(folder, name))
    process.start()
    return process


def free_port() -> int:
    """The first of eight ports nobody uses."""
    for port in range(7800, 60_000, 10):
        try:
            for k in range(len(NAMES)):
                socket.create_server(("127.0.0.1", port + k)).close()
        except OSError:
            continue
        return port
    raise SystemExit("there are no eight free ports on this machine")


def prepare(folder: Path, kind: str, silos: list) -> None:
    """Files, certificates and data of all agents."""
    folder.mkdir(parents=True)
    experiment = folder / "experiment.toml"
    experiment.write_text(EXPERIMENT.format(agents=len(NAMES), edges=EDGES, kind=kind))
    port = free_port()
    hosts = ",".join(f"{name}=127.0.0.1:{port + k}" for k, name in enumerate(NAMES))
    for words in (
        ["agents", "init", experiment, "--hosts", hosts, "--out", folder, "--plain"],
        ["certificates", folder],
    ):
        subprocess.run([*COMMAND, *map(str, words)], check=True, stdout=subprocess.DEVNULL)
    for k, name in enumerate(NAMES):
        np.save(folder / name / f"data-{k}.npy", silos[k])


def meetings(folder: Path, name: str) -> int:
    """How often an agent has met a neighbor."""
    log = folder / name / "results" / "log.jsonl"
    return log.read_text().count('"connected"') if log.exists() else 0


def race(label: str, kind: str, silos: list) -> tuple[float, int, list[Outcome]]:
    """Run all agents to their end; seconds, kills, and everybody's answer."""
    folder = OUT / label
    prepare(folder, kind, silos)
    running = {name: start(folder, name) for name in NAMES}
    while not all(meetings(folder, name) for name in NAMES):
        time.sleep(0.05)
    began, kills = time.monotonic(), 0
    known, back = 0, began  # meetings of the victim before its last start, and when it was back
    while any(process.is_alive() for process in running.values()):
        time.sleep(0.05)
        if meetings(folder, VICTIM) == known:
            back = time.monotonic()
        if time.monotonic() - back > KILL and kills < MOST_KILLS and running[VICTIM].is_alive():
            running[VICTIM].kill()
            running[VICTIM].join()
            known, kills = meetings(folder, VICTIM), kills + 1
            running[VICTIM] = start(folder, VICTIM)
    seconds = time.monotonic() - began
    outcomes = []
    for name in NAMES:
        settings = agents.read(folder / name / "agent.toml")
        identity = {"agent": settings.name, "run": settings.run, "settings": settings.common}
        outcome = Outcome.read(settings.out, identity)
        if outcome is None or not outcome.converged:
            raise SystemExit(f"{name} has no answer: {(folder / name / 'said.txt').read_text()}")
        outcomes.append(outcome)
    return seconds, kills, outcomes


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    rng = np.random.default_rng(0)
    silos = [rng.standard_normal((30, 20)) * 0.77 ** np.arange(20) for _ in NAMES]
    pooled = destiny.problems.pca.solution(destiny.problems.PCA(silos, p=2))
    console.print(
        f"Eight agents over TLS. A gradient takes {SECONDS:g} s, at {SLOW} {TIMES} times as long; {VICTIM} "
        f"is killed (kill -9) {KILL:g} s after each start, {MOST_KILLS} times at most.\n"
    )
    table = Table("agents", "seconds", "kills", "steps, fewest to most", "angle to the pooled answer")
    seconds, angles = {}, []
    for label, kind in METHODS.items():
        seconds[label], kills, outcomes = race(label, kind, silos)
        steps = [outcome.steps for outcome in outcomes]
        angle = max(destiny.stiefel.subspace_distance(outcome.X, pooled) for outcome in outcomes)
        angles.append(angle)
        table.add_row(
            label, f"{seconds[label]:.0f}", str(kills), f"{min(steps)} to {max(steps)}", f"{angle:.0e}"
        )
    console.print(table)
    ratio = seconds["asynchronous"] / seconds["synchronous"]
    console.print(f"Asynchronous agents took {ratio:.2f} of the time; files and logs are in {OUT}/")
    if max(angles) > 1e-4:
        raise SystemExit("an answer is not that of the pooled data: this should not happen")


if __name__ == "__main__":
    main()
