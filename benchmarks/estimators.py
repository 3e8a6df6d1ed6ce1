"""PCA by agents against scikit-learn of the pooled rows, in seconds of the processor."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

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


def peak() -> float:
    """The most memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    cases = {
        "2000 x 500, p = 20, 10 agents": (dense(2000, 500), 20, 10, "full", 30),
        "60 x 20,000, p = 10, 6 agents": (dense(60, 20_000), 10, 6, "full", 30),
        "sparse 3000 x 50,000, p = 5, 8 agents": (sparse(3000, 50_000), 5, 8, "arpack", 50),
    }
    with threadpool_limits(1):
        for title, (X, p, agents, solver, limit) in cases.items():
            pooled = min(seconds(lambda: PCA(p, svd_solver=solver).fit(X)) for _ in range(3))  # noqa: B023
            pca, before = DecentralizedPCA(p, n_agents=agents, random_state=0), peak()
            own = seconds(lambda: pca.fit(X))  # noqa: B023
            report(title, own / pooled, limit, f"scikit-learn's {solver} PCA, {pca.n_rounds_} rounds")
            data = (X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes) / 2**20
            print(f"     {peak() - before:.0f} MB more than before, for {data:.0f} MB of data")


if __name__ == "__main__":
    main()
