"""The folder in which `solve` keeps the checkpoints of a run."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from destiny.engines.team import Engine
from destiny.errors import SettingsError
from destiny.run.loop import Moment
from destiny.run.plan import Plan
from destiny.storage import checkpoint as checkpoints

logger = logging.getLogger(__name__)


class CheckpointFolder:
    """Where `solve` keeps checkpoints (`destiny.run.driver.Store`).

    Parameters
    ----------
    folder : Path
    every : int
        Steps between two checkpoints; 0 saves only when a signal ends the run.
    plan : Plan
        Its identity must be that of a checkpoint of this run.
    """

    def __init__(self, folder: Path, every: int, plan: Plan) -> None:
        self.folder, self.every, self.plan = folder, every, plan
        # Through JSON, as the saved facts will go: tuples become lists.
        self.identity: dict[str, Any] = json.loads(json.dumps(plan.identity()))
        self.saved: checkpoints.Saved | None = None
        self.notes: list[str] = []

    def refuse_used_folder(self) -> None:
        """Raise SettingsError if the folder is a file or holds checkpoints already."""
        if self.folder.exists() and not self.folder.is_dir():
            raise SettingsError(f"checkpoint must be a folder; {self.folder} is a file")
        if checkpoints.list_checkpoints(self.folder):
            raise SettingsError(
                f"checkpoint folder {self.folder} holds another run: resume it, or choose another folder"
            )

    def load(self, engine: Engine, agents: int) -> None:
        """Load the newest checkpoint, if there is one; raise CheckpointError if it is of another run."""
        saved, self.notes = engine.newest(self.folder, agents)
        if saved is not None:
            there = saved.facts.get("identity", {})
            for part in self.plan.parts:
                part.require_same(saved)
            for name in {**self.identity, **there}:
                if (mine := self.identity.get(name)) != (other := there.get(name)):
                    raise saved.refuse(f"belongs to another run: its {name} is {other}, this run's is {mine}")
        self.saved = saved

    def due(self, step: int, fresh: bool, stop: bool, signal: bool) -> bool:
        """After every so many steps, at the end, and on a signal."""
        regular = fresh and self.every > 0 and step > 0 and (step % self.every == 0 or stop)
        return regular or signal

    def facts(self) -> dict[str, Any]:
        """What a checkpoint must be compared by."""
        return {"identity": self.identity}

    def write(self, moment: Moment, saved: checkpoints.Saved) -> None:
        """Write a checkpoint of all agents, as the engine keeps them."""
        moment.team.save(self.folder, saved)
        if moment.team.leader:
            logger.info("checkpoint of step %d written to %s", moment.step, self.folder)
