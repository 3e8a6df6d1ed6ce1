"""status.json of a running agent: where it is and whom it waits for, for `destiny serve`."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from destiny.agents.exchange import Exchange
from destiny.agents.observation import WAITING, View
from destiny.agents.status import last_round, state
from destiny.experiments.result_folder import STATUS, replace

EVERY = 1.0  # seconds
LONG = 1.0  # seconds: every round waits a little, and nobody wants to know
SILENT = 5.0  # seconds after which a neighbor without rounds is worth a look
POINTS = 400  # of the curve; then every second one is dropped


class StatusFile:
    """A watcher (`destiny.agents.run`) that writes status.json every second, readable by its owner alone."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.path: Path = view.settings.out / STATUS
        self.written = -math.inf
        self.points: list[tuple[int, float, float]] = []  # round, residual, feasibility

    def __call__(self) -> None:
        """Write the file if it is old; called several times a second."""
        view, now = self.view, time.monotonic()
        if math.isfinite(view.residual) and (not self.points or self.points[-1][0] != view.round):
            self.points.append((view.round, view.residual, view.feasibility))
            if len(self.points) > POINTS:
                del self.points[1:-1:2]
        if now - self.written >= EVERY:
            self.written = now
            text = json.dumps(self.content(), allow_nan=False) + "\n"
            replace(self.path, lambda aside: write_private(aside, text))

    def remove(self) -> None:
        """The agent has ended: its summary or its log says how."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    def content(self) -> dict[str, Any]:
        """The state of the agent at this moment."""
        view, s = self.view, self.view.settings
        view.refresh()
        store = view.connections.store if view.connections.is_open else None
        awaited = store.awaited if isinstance(store, Exchange) else []
        met = view.phase != WAITING  # before the first round agents wait until they have met
        waits = view.connections.wait_seconds >= LONG
        return {
            "agent": s.name,
            "index": s.index,
            "agents": s.agents,
            "members": list(range(s.agents)) if view.members is None else view.members,
            "run": s.run,
            "updated": datetime.now(UTC).isoformat(timespec="seconds"),
            "every": EVERY,
            "phase": view.phase,
            "waiting": round_number(view.connections.wait_seconds if waits else 0.0),
            "step": view.step,
            "round": view.round,
            "rounds": s.rounds,
            "rate": round_number(view.rate),
            "residual": round_number(view.residual),
            "feasibility": round_number(view.feasibility),
            "tolerance": s.tolerance,
            "neighbors": [
                {
                    "name": n.name,
                    "index": n.index,
                    "state": state(n),
                    "round": last_round(n),
                    "late": n.takes_part
                    and not n.done
                    and (
                        n.silent >= SILENT
                        or (waits and ((n in awaited and not n.inbox) if met else n.connection is None))
                    ),
                    "received": n.bytes_in,
                    "sent": n.bytes_out,
                }
                for n in view.connections.neighbors
            ],
            "history": self.points,
        }


def round_number(value: float) -> float | None:
    """Four digits; None if the number is not finite."""
    return float(f"{value:.4g}") if math.isfinite(value) else None


def write_private(path: Path, text: str) -> None:
    """Write a file that its owner alone can read."""
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(number, "w", encoding="utf-8") as file:
        file.write(text)
