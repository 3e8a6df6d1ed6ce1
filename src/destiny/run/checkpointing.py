"""The folder in which `solve` keeps the checkpoints of a run."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from destiny.engines.mixers import PLAIN
from destiny.engines.team import Engine
from destiny.errors import SettingsError
from destiny.run import privacy
from destiny.run.moment import Moment
from destiny.storage import checkpoint as checkpoints
from destiny.validation import is_whole

logger = logging.getLogger(__name__)


class CheckpointFolder:
    """Where `solve` keeps checkpoints (`destiny.run.driver.Store`).

    Parameters
    ----------
    folder : Path, optional
        None keeps no checkpoints.
    every : int
        Steps between two checkpoints; 0 saves only when a signal ends the run.
    identity : mapping
        What must be equal for a checkpoint to be of this run.
    """

    def __init__(self, folder: Path | None, every: int, identity: Mapping[str, Any]) -> None:
        if not is_whole(every) or every < 0:
            raise SettingsError(f"checkpoint_every must be a whole number >= 0; found {every!r}")
        self.folder, self.every, self.identity = folder, every, identity
        self.saved: checkpoints.Saved | None = None
        self.notes: list[str] = []

    def refuse_used_folder(self) -> None:
        """Raise SettingsError if the folder is a file or holds checkpoints already."""
        if self.folder is None:
            return
        if self.folder.exists() and not self.folder.is_dir():
            raise SettingsError(f"checkpoint must be a folder; {self.folder} is a file")
        if checkpoints.list_checkpoints(self.folder):
            raise SettingsError(
                f"checkpoint folder {self.folder} holds another run: resume it, or choose another folder"
            )

    def load(self, engine: Engine, agents: int) -> None:
        """Load the newest checkpoint, if there is one; raise CheckpointError if it is of another run."""
        if self.folder is None:
            raise SettingsError("resume needs a checkpoint folder to look in: give checkpoint")
        saved, self.notes = engine.newest(self.folder, agents)
        if saved is not None:
            sent, mine = (str(facts.get("messages", PLAIN)) for facts in (saved.facts, self.identity))
            if sent != mine:
                raise saved.refuse(f"belongs to another run: it has {sent}, this run {mine}")
            privacy.require_same_noise(saved, self.identity.get(privacy.IDENTITY, {}))
            # Through JSON, as the saved facts went: tuples become lists.
            for name, mine in json.loads(json.dumps(self.identity)).items():
                if saved.facts.get(name) != mine:
                    raise saved.refuse(
                        f"belongs to another run: its {name} is {saved.facts.get(name)}, this run's is {mine}"
                    )
        self.saved = saved

    def due(self, step: int, fresh: bool, stop: bool, signal: bool) -> bool:
        """After every so many steps, at the end, and on a signal."""
        regular = fresh and self.every > 0 and step > 0 and (step % self.every == 0 or stop)
        return self.folder is not None and (regular or signal)

    def facts(self) -> dict[str, Any]:
        """What a checkpoint must be compared by."""
        return dict(self.identity)

    def write(self, moment: Moment, saved: checkpoints.Saved) -> None:
        """Write a checkpoint of all agents, as the engine keeps them."""
        assert self.folder is not None
        moment.team.save(self.folder, saved)
        if moment.team.leader:
            logger.info("checkpoint of step %d written to %s", moment.step, self.folder)
