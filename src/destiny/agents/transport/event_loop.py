"""An event loop that turns only while its owner waits, and what can end a wait."""

from __future__ import annotations

import asyncio
import errno
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from destiny.errors import DestinyError

TICK = 0.2  # seconds between two looks at the clock and at signals
LONGEST_TICK = 0.5  # seconds; after more this process did not run, for which neighbours cannot help
FULL = (errno.ENOSPC, errno.EDQUOT)
GRACE = 3.0  # seconds an agent that was told to stop still waits for the step to end


class Absent(DestinyError):
    """A neighbour has been away for longer than the deadline; starting again may help."""

    code = 75  # EX_TEMPFAIL


class DiskFull(DestinyError):
    """There is no room on the disk; starting again helps once there is."""

    code = 75  # EX_TEMPFAIL


class Ended(DestinyError):
    """The run is over without an answer."""

    code = 1


class Stopped(DestinyError):
    """A signal came; what was done is saved."""

    def __init__(self, name: str, when: str) -> None:
        super().__init__(f"stopped by {name} {when}; start it again to go on")
        self.code = 128 + signal.Signals[name]  # the shell's convention


@contextmanager
def disk_full_is_temporary() -> Iterator[None]:
    """Turn every error that a full disk or an exhausted quota has caused into `DiskFull`."""
    try:
        yield
    except (DestinyError, OSError) as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, OSError) and cause.errno in FULL:
                raise DiskFull(f"{error}; make room and start it again") from error
            cause = cause.__cause__
        raise


class Waiting:
    """One thread: the method runs, then the loop turns until what the method waits for has come.

    Parameters
    ----------
    deadline : float
        Seconds a wait may last; 0 means for ever.

    Attributes
    ----------
    start : float
        Seconds from the first wait on in which no wait fails: neighbours may be starting too.
    """

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.loop = asyncio.new_event_loop()
        self.interrupted: Callable[[], str | None] = lambda: None
        self.watchers: list[Callable[[], None]] = []  # called at every tick
        self.tasks: set[asyncio.Task[None]] = set()
        self.waiting: asyncio.Future[None] | None = None
        self.over: BaseException | None = None
        self.ready: Callable[[], bool] = lambda: True
        self.waited = self.waited_before = self.looked = self.start = self.told_to_stop = 0.0

    def spawn(self, task: Any) -> asyncio.Task[None]:
        """Run something in the background as long as the hub lives."""
        started: asyncio.Task[None] = self.loop.create_task(task)
        self.tasks.add(started)
        started.add_done_callback(self.finished_task)
        return started

    def finished_task(self, task: asyncio.Task[None]) -> None:
        """A mistake of ours in the background must not go unnoticed."""
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.end(error)

    def wait(self, ready: Callable[[], bool], patient: bool = False) -> bool:
        """Turn the loop until something is the case; whether it is before the deadline, if patient."""
        self.waited_before += self.waited
        self.ready, self.waited, self.looked = ready, 0.0, time.monotonic()
        if self.over is not None:
            raise self.over
        if ready():
            return True
        self.waiting = self.loop.create_future()
        try:
            self.loop.run_until_complete(self.waiting)
        except Absent:
            if not patient:
                raise
            return False
        finally:
            self.waiting = None
        return True

    def wake(self) -> None:
        """Look whether the wait is over."""
        if self.waiting is not None and not self.waiting.done() and self.ready():
            self.waiting.set_result(None)

    def end(self, error: BaseException) -> None:
        """End this wait with an error, and if it is over already, the next one."""
        self.over = error
        self.fail(error)

    def fail(self, error: BaseException) -> None:
        """End the wait with an error."""
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_exception(error)

    @property
    def patience(self) -> float:
        """Seconds this wait has lasted or may last, for messages."""
        return max(self.deadline, int(self.waited))

    def tick(self) -> None:
        """Look at the clock and at signals, and show what is to be shown; again and again, whatever fails."""
        try:
            self.look_at_clock(time.monotonic())
            for watcher in list(self.watchers):
                try:
                    watcher()
                except Exception as error:
                    self.watchers.remove(watcher)
                    self.view_failed(error)
        finally:
            self.loop.call_later(TICK, self.tick)

    def look_at_clock(self, now: float) -> None:
        """End the wait if it has lasted too long, or if a signal came."""
        self.waited += min(now - self.looked, LONGEST_TICK)
        self.looked = now
        if self.deadline and self.waited > self.deadline and self.waited + self.waited_before > self.start:
            self.fail(Absent("the deadline has passed"))
        if (name := self.interrupted()) is not None:
            self.told_to_stop = self.told_to_stop or now
            if now - self.told_to_stop > GRACE:
                self.fail(Stopped(name, "while waiting for neighbours"))

    def view_failed(self, error: Exception) -> None:
        """A view has failed, and is called no more."""
