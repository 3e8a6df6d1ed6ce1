"""Ctrl-C and SIGTERM end a run after the step in progress, so that nothing is lost."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """While this is open the first signal only raises a flag; a second one interrupts at once.

    A signal that the process ignores (nohup, a background job of a shell script) stays ignored.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.name: str | None = None
        self.before: dict[signal.Signals, Any] = {}
        self.wakeup = -1

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():  # others cannot set handlers
            heeded = [s for s in self.SIGNALS if signal.getsignal(s) is not signal.SIG_IGN]
            self.before = {s: signal.signal(s, self.handle) for s in heeded}
            # An event loop around the run reads signals from here as well, and would handle them twice.
            self.wakeup = signal.set_wakeup_fd(-1)
        return self

    def handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Note the signal; the second time, stop where we are."""
        if self.name is not None:
            raise KeyboardInterrupt
        self.name = signal.Signals(number).name

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self.before.items():
            # A handler set outside Python reads as None and cannot be set again; the default is nearest.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if self.wakeup != -1:
            signal.set_wakeup_fd(self.wakeup)


def deliver(name: str | None) -> None:
    """Send this process the signal that ended a run, after the handlers from before the run are back."""
    if name is not None:
        signal.raise_signal(signal.Signals[name])
