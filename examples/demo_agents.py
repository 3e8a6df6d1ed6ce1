"""Six organizations, each an agent with data of its own, find their common principal components over TLS.

They choose the method by themselves. What each of them learns are averages over all six, because numbers
travel under masks (docs/privacy.md). One of them is killed in the middle and started again; the answer is the
same to the bit as if all data had been in one process. Everything on this machine, in well under two minutes.
Files go to demo-agents/.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import destiny
from destiny.agents import Outcome, read

OUT = Path("demo-agents")
NAMES = ("Aarhus", "Bergen", "Calais", "Dublin", "Exeter", "Faro")
EDGES = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0], [1, 4]]
VICTIM = 2
N = 1200  # columns of the tables
CHECKPOINT = 2  # steps
EXPERIMENT = f"""
[problem]
kind = "pca"
data = "data-{{agent}}.npy"
p = 4
agents = 6

[network]
kind = "edges"
edges = {EDGES}

[stop]
tolerance = 1e-9

[run]
checkpoint = {CHECKPOINT}
"""
COMMAND = [sys.executable, "-m", "destiny"]
console = Console(highlight=False)


def say(text: str) -> None:
    console.print(text, soft_wrap=True)


def command(*words: object) -> None:
    """Show a command and run it."""
    say(f"[bold]$ destiny {' '.join(map(str, words))}[/bold]")
    subprocess.run([*COMMAND, *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def free_port() -> int:
    """The first of six ports nobody uses."""
    for port in range(7700, 60_000, 10):
        try:
            for k in range(len(NAMES)):
                socket.create_server(("127.0.0.1", port + k)).close()
        except OSError:
            continue
        return port
    raise SystemExit("there are no six free ports on this machine")


def start(name: str) -> subprocess.Popen[str]:
    """An organization starts its agent."""
    with (OUT / name / "said.txt").open("a") as file:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        words = [*COMMAND, "agent", str(OUT / name / "agent.toml")]
        return subprocess.Popen(words, stdout=file, stderr=file, text=True, env=environment)


def steps(name: str) -> int:
    """The step of an agent's newest checkpoint."""
    found = (OUT / name / "results" / "checkpoints").glob("checkpoint-*.npz")
    return max((int(path.stem[-9:]) for path in found), default=0)


def wait(condition, what: str) -> None:
    end = time.monotonic() + 90
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"this should not happen: {what} took more than 90 s; see {OUT}/*/said.txt")
        time.sleep(0.05)


def main() -> None:
    began = time.monotonic()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    (OUT / "experiment.toml").write_text(EXPERIMENT)
    port = free_port()
    hosts = ",".join(f"{name}=127.0.0.1:{port + k}" for k, name in enumerate(NAMES))
    command("agents", "init", OUT / "experiment.toml", "--hosts", hosts, "--out", OUT, "--run", "demo")
    command("certificates", OUT)
    rng = np.random.default_rng(0)
    silos = [rng.standard_normal((200 + 50 * k, N)) * 0.999 ** np.arange(N) for k in range(6)]
    for k, name in enumerate(NAMES):
        np.save(OUT / name / f"data-{k}.npy", silos[k])
    say("\nEach agent has a folder with its file, its key and its data, and nobody else's:")
    say(f"  {OUT / NAMES[0]}: {', '.join(sorted(p.name for p in (OUT / NAMES[0]).iterdir()))}\n")

    agents = {name: start(name) for name in NAMES}
    say(f"Six agents have been started: {', '.join(NAMES)}.")
    first = read(OUT / NAMES[0] / "agent.toml")
    say(f"{NAMES[0]} says: {first.choice}.")
    say(f"{NAMES[0]} says: {first.disclosure}.")
    wait(lambda: steps(NAMES[VICTIM]) >= 6, "six steps")
    agents[NAMES[VICTIM]].send_signal(signal.SIGKILL)
    agents[NAMES[VICTIM]].wait()
    say(f"[red]{NAMES[VICTIM]} was killed[/red] after step {steps(NAMES[VICTIM])} or so (kill -9).")
    time.sleep(1.5)
    before = {name: steps(name) for name in NAMES}
    say(f"The others wait for it, at steps {min(before.values())} to {max(before.values()) + CHECKPOINT}.")
    agents[NAMES[VICTIM]] = start(NAMES[VICTIM])
    say(f"[green]{NAMES[VICTIM]} was started again[/green]: it reads its checkpoint and asks for the rest.")
    for name, agent in agents.items():
        wait(lambda agent=agent: agent.poll() is not None, f"the end of {name}")
        if agent.returncode:
            raise SystemExit(f"{name} ended with {agent.returncode}: {(OUT / name / 'said.txt').read_text()}")

    say(f"What {NAMES[VICTIM - 1]} has in its log about it:")
    for line in (OUT / NAMES[VICTIM - 1] / "results" / "log.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if entry.get("peer") == NAMES[VICTIM] and entry["event"] in ("lost", "connected"):
            rest = {k: v for k, v in entry.items() if k in ("why", "need")}
            say(f"  {entry['time'][11:23]} {entry['event']} {rest}")
    problem = destiny.problems.PCA(silos, p=4)
    network = destiny.networks.from_edges(EDGES, 6)
    engine = destiny.engines.local(1)
    alone = destiny.solve(
        problem,
        network,
        local_stopping=True,
        tolerance=1e-9,
        engine=engine,
        messages="private",
    )
    table = Table("agent", "steps", "explained variance", "the bits of one process", "distance to its answer")
    same = []
    for k, name in enumerate(NAMES):
        settings = read(OUT / name / "agent.toml")
        identity = {"agent": settings.name, "run": settings.run, "settings": settings.common}
        outcome = Outcome.read(settings.out, identity)
        assert outcome is not None
        same.append(np.array_equal(outcome.own, alone.agents[k]) and outcome.steps == alone.steps)
        gap = float(np.abs(outcome.X - alone.X).max())
        shown = f"{100 * (outcome.explained or 0):.8f} %"
        table.add_row(name, str(outcome.steps), shown, "yes" if same[-1] else "NO", f"{gap:.0e}")
    console.print(table)
    angle = destiny.stiefel.subspace_distance(alone.X, destiny.problems.pca.solution(problem))
    say(f"angle to the subspace of the pooled data, by an eigenvalue solver: {angle:.0e}")
    say(f"{time.monotonic() - began:.0f} s in all; files and logs are in {OUT}/")
    if not all(same):
        raise SystemExit("the answer is another one: this should not happen")


if __name__ == "__main__":
    main()
