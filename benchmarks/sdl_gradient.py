"""Time of an SDL gradient, as a multiple of one pass over the same data, all in one run.

The unit is ``B.T @ x`` in float32: a gradient cannot do without reading the data, and this does nothing else.
Repetitions are interleaved, so that whatever else the machine does falls on all contestants alike.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from destiny.problems import sdl
from destiny.protocols import Array


def contestants(n: int, m: int, p: int, agents: int) -> dict[str, Callable[[], object]]:
    """The pass, and the gradients of all agents by dtype of data and arithmetic."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (m, n), dtype=np.uint8)
    floats = images.astype(np.float32)
    X = np.linalg.qr(rng.standard_normal((n, p)))[0]
    stack: Array = np.repeat(X[None], agents, axis=0)
    x32 = X.astype(np.float32)

    def gradient(data: NDArray[Any], precision: sdl.Precision) -> Callable[[], object]:
        hosted = sdl.from_data(data, p, agents, precision=precision).host(range(agents))
        return lambda: hosted.gradient(stack)

    return {
        "one pass B.T @ x, float32": lambda: floats @ x32,
        "gradient, float32 data, float32 arithmetic": gradient(floats, "float32"),
        "gradient, float32 data, float64 arithmetic": gradient(floats, "float64"),
        "gradient, uint8 data, float32 arithmetic": gradient(images, "float32"),
        "gradient, uint8 data, float64 arithmetic": gradient(images, "float64"),
    }


def race(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, Array]:
    """Seconds of every repetition, the calls taking turns; one turn before to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return {name: np.array(values) for name, values in seconds.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table; the defaults are the size of CIFAR-10 over 32 agents."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=3072, help="features")
    parser.add_argument("--m", type=int, default=50000, help="samples")
    parser.add_argument("--p", type=int, default=1, help="columns of X")
    parser.add_argument("--agents", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=15)
    size = parser.parse_args(arguments)
    with threadpool_limits(1):
        seconds = race(contestants(size.n, size.m, size.p, size.agents), size.repeats)
    unit = next(iter(seconds.values()))
    print(f"SDL gradient: n = {size.n}, m = {size.m}, p = {size.p}, {size.agents} agents, one BLAS thread")
    print(f"{'':44}{'median':>10}{'best':>10}   x the pass: median, best")
    for name, values in seconds.items():
        median, best = np.median(values), values.min()
        print(
            f"{name:44}{1e3 * median:7.1f} ms{1e3 * best:7.1f} ms"
            f"{median / np.median(unit):22.2f}{best / unit.min():6.2f}"
        )


if __name__ == "__main__":
    main()
