"""One rank's failure ends the whole job, in words and within seconds; so does waiting beyond the deadline."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, NoReturn

MISSING = 75  # EX_TEMPFAIL: a peer is missing, starting again may help
PATIENCE = 0.5  # seconds the other ranks let rank 0 speak first, as it may have the same to say
LAST_RESORT = 5.0  # seconds after which a process whose MPI cannot even abort leaves by itself


class Guard:
    """The end of a process that is one of several. There is one guard per process, once MPI is in use."""

    def __init__(self) -> None:
        self.comm: Any = None
        self.code = 0
        self.agreed = False

    @property
    def name(self) -> str:
        """Who speaks, where that is not clear: nothing on rank 0."""
        return "" if self.comm is None or self.comm.rank == 0 else f"rank {self.comm.rank}: "

    def install(self, comm: Any) -> None:
        """Watch over exceptions and exits from now on."""
        if self.comm is not None or comm.size == 1:
            return
        self.comm = comm
        self._print, self._exit = sys.excepthook, sys.exit
        sys.excepthook = self.uncaught
        sys.exit = self.exit  # SystemExit does not pass the hook above, and its code is not to be had later
        atexit.register(self.leave)  # runs before MPI's own, which would wait for the other ranks

    def uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """An exception nobody caught: show it, end the job."""
        self.wait_turn()
        self._print(kind, error, trace)
        self.abort(130 if issubclass(kind, KeyboardInterrupt) else 1)

    def exit(self, code: Any = None) -> NoReturn:
        """sys.exit, remembering the code."""
        self.remember(code)
        self._exit(code)

    def remember(self, code: Any) -> None:
        """A SystemExit with this code is under way."""
        self.code = code if isinstance(code, int) else int(code is not None)

    def leave(self) -> None:
        """The process ends: with an error of its own it takes the job along."""
        if self.code and not self.agreed:
            self.abort(self.code)

    def wait_turn(self) -> None:
        """Let rank 0 speak first: if all ranks have the same to say, its word ends the others."""
        if self.comm is not None and self.comm.rank > 0:
            time.sleep(PATIENCE)

    def abort(self, code: int) -> NoReturn:
        """End every rank of the job."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        time.sleep(0.2)  # launchers drop what they have not yet read
        with suppress(
            RuntimeError
        ):  # Python 3.12 starts no thread while it ends; MPI must abort by itself there
            threading.Thread(target=_last_resort, args=(code,), daemon=True).start()
        if _any_thread():
            self.comm.Abort(code)
        os._exit(code)


def _last_resort(code: int) -> None:
    time.sleep(LAST_RESORT)
    os._exit(code)


def _any_thread() -> bool:
    """Whether MPI may be called from the thread that wants to abort."""
    from mpi4py import MPI

    main = threading.current_thread() is threading.main_thread()
    return main or bool(MPI.Query_thread() == MPI.THREAD_MULTIPLE)


guard = Guard()


@contextmanager
def arriving(deadline: float) -> Iterator[None]:
    """Around the start of MPI, which waits for every rank: one that never comes ends the process, too."""
    late = threading.Timer(deadline, _nobody_came, (deadline,))
    late.daemon = True
    if deadline > 0:
        late.start()
    try:
        yield
    finally:
        late.cancel()


def _nobody_came(deadline: float) -> None:
    print(
        f"destiny: the other ranks have not all started within {deadline:g} s: one of them may have failed "
        "before it got there",
        file=sys.stderr,
        flush=True,
    )
    os._exit(MISSING)


class Watch:
    """A thread that ends the job when this rank has waited for others longer than the deadline."""

    def __init__(self, comm: Any, deadline: float) -> None:
        self.rank, self.deadline = comm.rank, deadline
        self.since: float | None = None
        self.whom: Callable[[], str] = str
        if deadline > 0 and comm.size > 1:
            threading.Thread(target=self.look, daemon=True).start()

    def begin(self, whom: Callable[[], str]) -> None:
        """This rank waits from now on."""
        self.whom = whom
        self.since = time.monotonic()

    def end(self) -> None:
        """It got what it waited for."""
        self.since = None

    @contextmanager
    def waiting(self, whom: str) -> Iterator[None]:
        self.begin(lambda: whom)
        try:
            yield
        finally:
            self.end()

    def look(self) -> None:
        while True:
            time.sleep(min(1.0, self.deadline / 10))
            since = self.since
            if since is not None and time.monotonic() - since > self.deadline:
                print(
                    f"destiny: rank {self.rank} has waited {self.deadline:g} s for {self.whom()}; "
                    "the run ends here and can be resumed from its last checkpoint",
                    file=sys.stderr,
                )
                guard.abort(MISSING)
