"""The event loop of an agent, which runs only while the agent waits; and what can end a wait."""

from __future__ import annotations

import asyncio
import errno
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from destiny.errors import DestinyError

TICK = 0.2  # seconds between two checks of the clock and of signals
MAX_TICK = 0.5  # seconds a tick counts at most: if more have passed, this process itself stood still
TOO_MANY_FILES = (
    "this process or machine has too many files and connections open: raise the limit (ulimit -n)"
)
MAX_TURNS = (
    100  # of the loop, to read what is there before anything else is done: a slow agent has much to read
)
GRACE = 3.0  # seconds for the step in progress to end after a signal


class Absent(DestinyError):
    """A neighbor has been away for longer than the deadline; starting again may help."""

    code = 75  # EX_TEMPFAIL


class Shortage(DestinyError):
    """The disk is full, or too many files are open; starting again helps once that is mended."""

    code = 75  # EX_TEMPFAIL


class RunEnded(DestinyError):
    """The run has ended without an answer."""

    code = 1


class StoppedBySignal(DestinyError):
    """A signal came; the last checkpoint is kept."""

    def __init__(self, name: str, when: str) -> None:
        super().__init__(f"stopped by {name} {when}; start it again to go on")
        self.code = 128 + signal.Signals[name]  # the shell's convention


@contextmanager
def shortage_is_temporary() -> Iterator[None]:
    """Turn every error caused by a full disk, an exhausted quota or too many open files into `Shortage`."""
    try:
        yield
    except (DestinyError, OSError) as error:
        cause: BaseException | None = error
        while cause is not None:
            number = cause.errno if isinstance(cause, OSError) else None
            if number in (errno.ENOSPC, errno.EDQUOT):
                raise Shortage(f"{error}; make room and start it again") from error
            if number in (errno.EMFILE, errno.ENFILE):  # whatever was to be opened is not at fault
                raise Shortage(f"{TOO_MANY_FILES} and start it again") from error
            cause = cause.__cause__
        raise


class EventLoop:
    """An asyncio loop in the thread of the method: it runs inside `wait`, and at no other time.

    Parameters
    ----------
    deadline : float
        Seconds a wait may last; 0 means for ever.

    Attributes
    ----------
    startup_grace : float
        Seconds of waiting, counted from the first wait, before the deadline applies: neighbors may be
        starting too.
    pending_signal : callable
        Returns the name of the signal that came, or None.
    watchers : list of callables
        Called at every tick; one that raises is removed.
    fatal : exception or None
        Raised by the current wait and by every later one.
    """

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.startup_grace = 0.0
        self.loop = asyncio.new_event_loop()
        self.pending_signal: Callable[[], str | None] = lambda: None
        self.watchers: list[Callable[[], None]] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.fatal: BaseException | None = None
        self.ready: Callable[[], bool] = lambda: True
        self.wait_future: asyncio.Future[None] | None = None  # of the wait in progress
        self.wait_seconds = 0.0  # of this wait, or the last one
        self.earlier_wait_seconds = 0.0  # of all waits before it
        self.last_tick = 0.0
        self.signal_time: float | None = None

    def spawn(self, coroutine: Any) -> asyncio.Task[None]:
        """Run a coroutine in the background until the loop is closed."""
        task: asyncio.Task[None] = self.loop.create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.on_task_done)
        return task

    def on_task_done(self, task: asyncio.Task[None]) -> None:
        """An exception in a background task is a mistake in this package: raise it where the agent waits."""
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.abort_all(error)

    def wait(self, ready: Callable[[], bool], patient: bool = False) -> bool:
        """Run the event loop until ``ready()`` is true; it is asked again at every `wake`.

        At the deadline raise `Absent`, or return False if ``patient``.
        """
        self.earlier_wait_seconds += self.wait_seconds
        self.ready, self.wait_seconds, self.last_tick = ready, 0.0, time.monotonic()
        if self.fatal is not None:
            raise self.fatal
        if ready():
            return True
        self.wait_future = self.loop.create_future()
        try:
            self.loop.run_until_complete(self.wait_future)
        except Absent:
            if not patient:
                raise
            return False
        finally:
            self.wait_future = None
        return True

    def listen(self, ready: Callable[[], bool], seconds: float) -> None:
        """Read and write what can be now, then wait until ``ready()`` is true, some seconds at most."""
        for _ in range(MAX_TURNS):
            before = self.progress()
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()  # one turn, as it is told to stop
            if self.progress() == before:
                break
        end = time.monotonic() + seconds
        timer = self.loop.call_later(seconds, self.wake)
        self.wait(lambda: ready() or time.monotonic() >= end)
        timer.cancel()

    def progress(self) -> int:
        """A number that changes when a turn of the loop has read something."""
        return 0

    def wake(self) -> None:
        """End the wait if what it waits for has come."""
        if self.wait_future is not None and not self.wait_future.done() and self.ready():
            self.wait_future.set_result(None)

    def abort_wait(self, error: BaseException) -> None:
        """Raise an error from the wait in progress, if there is one."""
        if self.wait_future is not None and not self.wait_future.done():
            self.wait_future.set_exception(error)

    def abort_all(self, error: BaseException) -> None:
        """Raise an error from the wait in progress, and from every later one."""
        self.fatal = error
        self.abort_wait(error)

    @property
    def wait_limit(self) -> float:
        """Seconds this wait has lasted or may last, for messages."""
        return max(self.deadline, int(self.wait_seconds))

    def tick(self) -> None:
        """Check clock and signals, call the watchers, and schedule the next tick."""
        try:
            self.check_clock(time.monotonic())
            for watcher in list(self.watchers):
                try:
                    watcher()
                except Exception as error:
                    self.watchers.remove(watcher)
                    self.on_view_error(error)
        finally:
            self.loop.call_later(TICK, self.tick)

    def check_clock(self, now: float) -> None:
        """Abort the wait if the deadline has passed, or a signal came `GRACE` seconds ago."""
        self.wait_seconds += min(now - self.last_tick, MAX_TICK)
        self.last_tick = now
        started = self.wait_seconds + self.earlier_wait_seconds > self.startup_grace
        if self.deadline and self.wait_seconds > self.deadline and started:
            self.abort_wait(Absent("the deadline has passed"))
        if (name := self.pending_signal()) is not None:
            if self.signal_time is None:
                self.signal_time = now
            if now - self.signal_time > GRACE:
                self.abort_wait(StoppedBySignal(name, "while waiting for neighbors"))

    def on_view_error(self, error: Exception) -> None:
        """Called when a watcher has raised."""
