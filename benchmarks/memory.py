"""Memory of fits to large data, as a multiple of the data: at most 1.5, and far below 1 for files.

    python -m benchmarks.memory

Every case runs in a process of its own, whose anonymous memory is read from outside every few milliseconds;
pages of a mapped file are the system's to drop and do not count. ``rounds`` is how many rounds a fit may
take: memory does not depend on it.
"""

import json
import selectors
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

TARGET = 1.5


@dataclass(frozen=True)
class Case:
    """Rows of each agent and how they are kept."""

    rows: int
    columns: int
    p: int
    agents: int
    kind: str  # "sparse", "array" or "file"
    dtype: str = "float64"
    entries: int = 0  # in each sparse row
    rounds: int = 40

    @property
    def title(self) -> str:
        kept = f"sparse, {self.entries} entries a row" if self.kind == "sparse" else self.kind
        return f"{self.agents * self.rows:,} x {self.columns:,}, p = {self.p}, {kept}, {self.dtype}"


CASES = {
    "sparse": Case(500_000, 20_000, 50, 2, "sparse", "float32", 100, 20),
    "wide": Case(3_000, 20_000, 50, 2, "array", "float64", rounds=24),
    "single": Case(250_000, 200, 10, 4, "array", "float32"),
    "file": Case(250_000, 200, 10, 4, "file", "float32"),
}


def table(case: Case, agent: int, folder: Path) -> Any:
    """The rows of one agent: noise and three strong directions, made some rows at a time."""
    rng = np.random.default_rng(agent)
    m, n = case.rows, case.columns
    if case.kind == "sparse":
        columns = rng.integers(0, n, (m, case.entries), dtype=np.int32)
        columns.sort(axis=1)
        data = rng.random(m * case.entries, dtype=np.float32) * (1 + 3 * (columns.ravel() < 50))
        ends = np.arange(0, m * case.entries + 1, case.entries, dtype=np.int32)
        return csr_array((data.astype(case.dtype), columns.ravel(), ends), shape=(m, n))
    if case.kind == "file":
        path = folder / f"{agent}.npy"
        out: Any = np.lib.format.open_memmap(path, "w+", case.dtype, (m, n))
    else:
        out = np.empty((m, n), case.dtype)
    for start in range(0, m, 1000):
        block = rng.standard_normal((min(1000, m - start), n), dtype=np.float32)
        block[:, :3] *= [9, 7, 5]
        out[start : start + 1000] = block + 2
    if case.kind == "file":
        out.flush()
        return path
    return out


def fit(name: str, folder: Path) -> None:
    """What the process of a case does; it says when, and how large its data are."""
    import destiny
    from destiny.estimators import DecentralizedPCA

    warnings.simplefilter("ignore")  # that it did not converge in these rounds
    case = CASES[name]
    say("start")
    silos = destiny.Silos([table(case, agent, folder) for agent in range(case.agents)])
    size = sum(
        part.data.nbytes + part.indices.nbytes + part.indptr.nbytes if case.kind == "sparse" else part.nbytes
        for part in silos
    )
    time.sleep(0.1)  # what making the data took has been read and is forgotten
    say("ready", size=size)
    started = time.perf_counter()
    pca = DecentralizedPCA(n_components=case.p, network="complete", max_rounds=case.rounds, random_state=0)
    pca.fit(silos)
    say("done", seconds=time.perf_counter() - started, variance=float(pca.explained_variance_[0]))
    sys.stdin.readline()


def say(event: str, **facts: float) -> None:
    print(json.dumps({"event": event, **facts}), flush=True)


def anonymous(pid: int) -> int:
    """Bytes of anonymous memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


def measure(name: str, folder: Path, watch: Callable[[int], int] = anonymous) -> tuple[float, float, float]:
    """Bytes of the data, the peak of a fit (the data in memory included) and its seconds."""
    command = [sys.executable, "-m", "benchmarks.memory", name, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        baseline = peak = 0
        facts: dict[str, float] = {}
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                now = watch(process.pid)
                peak = max(peak, now)
                if not selector.select(timeout=0.004):
                    continue
                line = process.stdout.readline()
                if not line:
                    raise RuntimeError(f"the case {name} failed")
                event = json.loads(line)
                facts |= event
                if event["event"] == "start":
                    baseline = watch(process.pid)
                elif event["event"] == "ready":
                    peak = watch(process.pid)
                else:
                    break
        process.stdin.write("\n")
        process.stdin.flush()
    return facts["size"], peak - baseline, facts["seconds"]


def main() -> None:
    print(f"{'':58}{'data MB':>9}{'peak MB':>9}{'ratio':>7}{'aim':>6}{'seconds':>9}")
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            size, peak, seconds = measure(name, Path(folder))
        print(
            f"{case.title:58}{size / 1e6:9.0f}{peak / 1e6:9.0f}{peak / size:7.2f}{TARGET:6.1f}{seconds:9.0f}"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        fit(sys.argv[1], Path(sys.argv[2]))
    else:
        main()
