"""Compare things within one run: machines are shared and noisy, so only ratios mean anything."""

from __future__ import annotations

import time
from collections.abc import Callable


def best(tasks: dict[str, Callable[[], object]], repeats: int = 15, calls: int = 10) -> dict[str, float]:
    """Seconds per call of each task: the best of interleaved bursts, so that noise hits all alike."""
    for task in tasks.values():
        task()
    seconds = dict.fromkeys(tasks, float("inf"))
    for _ in range(repeats):
        for name, task in tasks.items():
            start = time.perf_counter()
            for _ in range(calls):
                task()
            seconds[name] = min(seconds[name], (time.perf_counter() - start) / calls)
    return seconds


def report(title: str, ratio: float, limit: float, compared: str) -> None:
    """One line: what, how many times, of what, and the limit we hold ourselves to."""
    verdict = "ok  " if ratio <= limit else "OVER"
    print(f"{verdict} {title}: {ratio:.2f} x {compared} (limit {limit:g})", flush=True)
