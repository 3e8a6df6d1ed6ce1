"""PCA by agents against scikit-learn of the pooled rows, in seconds of the processor."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array, random_array
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from benchmarks.timing import report
from destiny.estimators import DecentralizedPCA


def dense(m: int, n: int):
    """Rows whose standard deviations fall slowly from column to column."""
    return np.random.default_rng(0).standard_normal((m, n)) / np.sqrt(1 + np.arange(n) / 20)


def sparse(m: int, n: int):
    """Rows with one entry in a hundred, larger in the first columns."""
    X = csr_array(random_array((m, n), density=0.01, rng=np.random.default_rng(0)))
    X.data *= 1 + 5 / (1 + X.indices * (50 / n))
    return X


def seconds(task: Callable[[], object]) -> float:
    start = time.process_time()
    task()
    return time.process_time() - start


def anonymous() -> float:
    """Anonymous memory of this process, in MB."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


def most_memory(task: Callable[[], object]) -> float:
    """The most memory in use during a task beyond that before it, in MB, looked at every 4 ms."""
    before, done, seen = anonymous(), threading.Event(), [0.0]

    def look() -> None:
        while not done.wait(0.004):
            seen.append(anonymous() - before)

    watch = threading.Thread(target=look)
    watch.start()
    task()
    done.set()
    watch.join()
    return max(seen)


def main() -> None:
    cases = {
        "2000 x 500, p = 20, 10 agents": (dense(2000, 500), 20, 10, "full", 30),
        "60 x 20,000, p = 10, 6 agents": (dense(60, 20_000), 10, 6, "full", 30),
        "sparse 3000 x 50,000, p = 5, 8 agents": (sparse(3000, 50_000), 5, 8, "arpack", 50),
    }
    with threadpool_limits(1):
        for title, (X, p, agents, solver, limit) in cases.items():
            pca = DecentralizedPCA(p, n_agents=agents, random_state=0)
            more = most_memory(lambda: pca.fit(X))  # noqa: B023
            pooled = min(seconds(lambda: PCA(p, svd_solver=solver).fit(X)) for _ in range(3))  # noqa: B023
            own = seconds(lambda: pca.fit(X))  # noqa: B023
            report(title, own / pooled, limit, f"scikit-learn's {solver} PCA, {pca.n_rounds_} rounds")
            data = (X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes) / 2**20
            print(f"     {more:.0f} MB more than before, for {data:.0f} MB of data: {more / data:.1f} times")


if __name__ == "__main__":
    main()
