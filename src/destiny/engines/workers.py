"""Threads that work on tasks at the same time and meet in between.

Handing over a task, a result or the word to go on is one item in a queue written in C. An executor and
`threading.Barrier` do the same with locks in Python, which costs two threads a tenth of a step of 2 ms.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np

S = TypeVar("S")


class MeetingError(Exception):
    """Another worker has failed, and has the error to tell."""


class Meeting:
    """A barrier for workers 0, 1, ... that goes on until one of them fails."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.arrived = 0
        self.lock = threading.Lock()
        self.gates: list[SimpleQueue[bool]] = [SimpleQueue() for _ in range(workers)]

    def wait(self, worker: int) -> None:
        """Wait for all others; `MeetingError` if one of them has failed."""
        with self.lock:
            self.arrived = (self.arrived + 1) % self.workers
            last = self.arrived == 0
        if last:
            self.tell(worker, going_on=True)
        elif not self.gates[worker].get():
            raise MeetingError

    def tell(self, worker: int, going_on: bool) -> None:
        """Let the others go on, or end what they do."""
        for other, gate in enumerate(self.gates):
            if other != worker:
                gate.put(going_on)


class WorkerThreads:
    """One thread for each worker but the first, which is the caller's own."""

    def __init__(self, workers: int) -> None:
        self.meeting = Meeting(workers)
        self.inboxes: list[SimpleQueue[Callable[[], None] | None]] = [
            SimpleQueue() for _ in range(1, workers)
        ]
        self.threads = [threading.Thread(target=_obey, args=(box,), daemon=True) for box in self.inboxes]
        for thread in self.threads:
            thread.start()

    def run(self, tasks: Sequence[Callable[[], S]]) -> list[S]:
        """The result of each worker's task; if one fails the others are ended, and its error is raised."""
        results: list[Any] = [None] * len(tasks)
        ended: SimpleQueue[BaseException | None] = SimpleQueue()

        def attempt(worker: int) -> None:
            try:
                with np.errstate(over="ignore", invalid="ignore"):  # each thread has its own
                    results[worker] = tasks[worker]()
                ended.put(None)
            except BaseException as error:  # raised below, in the caller's thread
                self.meeting.tell(worker, going_on=False)
                ended.put(error)

        for worker, inbox in enumerate(self.inboxes, start=1):
            inbox.put(partial(attempt, worker))
        attempt(0)
        errors = [error for error in (ended.get() for _ in tasks) if error is not None]
        if errors:
            self.meeting = Meeting(self.meeting.workers)
            raise min(errors, key=lambda error: isinstance(error, MeetingError))
        return results

    def close(self) -> None:
        """End the threads."""
        for inbox in self.inboxes:
            inbox.put(None)
        for thread in self.threads:
            thread.join()


def _obey(inbox: SimpleQueue[Callable[[], None] | None]) -> None:
    while (task := inbox.get()) is not None:
        task()
        del task  # or its arrays would live on until the next one
