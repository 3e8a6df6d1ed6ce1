"""What the process of an agent has in common for all methods."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any

from destiny.agents.checkpoints import AgentCheckpoints
from destiny.agents.event_log import EventLog
from destiny.agents.observation import View
from destiny.agents.outcome import Outcome
from destiny.agents.settings import NOISE, Settings
from destiny.agents.start import check_start
from destiny.agents.transport.connections import Connections, Limits
from destiny.agents.transport.tls import Credentials
from destiny.errors import CheckpointError

SECRETS = ("private-sums.key", NOISE)  # in the folder of the checkpoints
MORE_ROUNDS = 1_000_000  # than the file allows for: opening, last step and averaging take far fewer


class AgentProcess(ABC):
    """One agent of a run, from its files to its answer."""

    def __init__(self, settings: Settings, checkpoints: AgentCheckpoints) -> None:
        self.settings, self.checkpoints = settings, checkpoints
        self.saved = checkpoints.saved
        self.outcome = Outcome.read(settings.out, identity(settings))
        self.credentials = (
            Credentials(settings.files, settings.authorities) if self.is_closed else check_start(settings)
        )
        self.outbox, self.need = checkpoints.load_outbox(finished=self.outcome is not None)

    def connect(self, loud: bool, largest: int) -> None:
        """Open the log and prepare the connections; nobody is called yet.

        ``largest`` is the number of bytes of the largest message.
        """
        s = self.settings
        neighbors = copy.deepcopy(s.neighbors)  # a file may be run again
        for n in neighbors:
            n.next_in = self.need
            n.degree = None if self.saved is None else self.saved.facts["degrees"][n.name]
        self.event_log = EventLog(s.name, s.out / "log.jsonl", loud)
        self.event_log.report("messages", s.name, s.disclosure)
        if s.choice is not None:
            self.event_log.report("method", s.name, str(s.choice))
        limits = Limits(largest, s.agents, s.rounds + MORE_ROUNDS)
        self.connections = Connections(
            s.hello, neighbors, s.listen, self.credentials, self.event_log, s.deadline, limits
        )
        self.view = View(s, self.connections, self.event_log)

    @property
    def is_closed(self) -> bool:
        """Whether an earlier process has ended the run, and all neighbors have their answers."""
        return self.outcome is not None and self.outcome.closed

    def erase_keys(self) -> None:
        """Remove the secrets of this run: nobody needs them again, and with them old messages can be read."""
        for name in SECRETS:
            erase(self.checkpoints.folder / name)

    @abstractmethod
    def go(self) -> Outcome:
        """Run from the start or the last checkpoint to the answer."""

    @abstractmethod
    def serve(self) -> None:
        """Listen and call, to repeat what was sent: this agent has its answer."""

    def serve_until_neighbors_done(self, outcome: Outcome) -> Outcome:
        """Answer requests until all neighbors have their answers, as they may need messages again."""
        self.view.phase = "done, waiting for neighbors"
        connections = self.connections
        if not connections.is_open:
            self.serve()
        connections.finish()
        members = [n for n in connections.neighbors if n.takes_part]
        if not connections.wait(lambda: all(n.done for n in members), patient=True):
            late = ", ".join(n.name for n in members if not n.done)
            self.event_log.report("left", late, f"has its answer and left before {late} had one")
            return outcome
        closed = replace(outcome, closed=True)
        closed.write(self.settings.out, identity(self.settings))
        return closed

    def close(self) -> None:
        """Close connections and files."""
        self.connections.close()
        self.event_log.close()


def erase(path: Path) -> None:
    """Overwrite and remove a file, if it is there."""
    try:
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
    except FileNotFoundError:
        return
    except OSError as error:
        raise CheckpointError(
            f"{path} is not needed any more and could not be erased: {error.strerror}; remove it"
        ) from error


def identity(settings: Settings) -> dict[str, Any]:
    """What must be equal for files to be this run's."""
    return {"agent": settings.name, "run": settings.run, "settings": settings.common}
