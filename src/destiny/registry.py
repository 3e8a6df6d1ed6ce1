"""What extensions add to the package, and the one list of those that come with it.

Nothing else in the package names an extension. They are imported when a file, a command or a report first
asks what there is; `solve` never does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

BUILT_IN = (
    "destiny.extensions.asynchronous.registration",
    "destiny.extensions.byzantine",
)
"""Modules whose ``EXTENSION`` is registered."""


@dataclass(frozen=True)
class Key:
    """A key that an extension adds to a table of files."""

    type: Any
    meaning: str
    read: Callable[[Any], Any] | None = None
    """In [messages]: the messages that a value asks for."""
    refusal: str = ""
    """In agent files: why other methods refuse it."""


class FileTable:
    """A table that an extension adds to experiment files: its methods run in other surroundings then."""

    settings: type[Any]
    """The dataclass whose fields are the keys of the table."""
    meaning: str
    types: Mapping[str, Any]
    """Further types of keys for which files may give something else."""

    def read(self, table: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:  # noqa: ARG002
        """The table as ``settings`` takes it; paths are relative to the folder."""
        return table

    def choose(self, problem: Any, network: Any, messages: Any) -> Any:  # noqa: ARG002
        """The method of a file that names none; None if `destiny.run.choice` is to choose."""
        return None

    def prepare(self, problem: Any, network: Any, method: Any, options: Any, settings: Any) -> Any:
        """A run that has been checked and has ``go``, as of `destiny.run.solve.prepare`."""
        raise NotImplementedError


class Extension:
    """What an extension adds to the package; by default nothing. A method imports what it needs by itself."""

    def methods(self) -> Mapping[str, type[Any]]:
        """Methods that `solve` does not run, by their names in files."""
        return {}

    def runs_elsewhere(self, method: object) -> str | None:  # noqa: ARG002
        """Why `solve` does not run a method of this extension, and who does; None of all others."""
        return None

    def message_keys(self) -> Mapping[str, Key]:
        """Keys of [messages]."""
        return {}

    def agent_keys(self) -> Mapping[str, Mapping[str, Key]]:
        """Keys of agent files by table, for the methods of this extension."""
        return {}

    def tables(self) -> Mapping[str, FileTable]:
        """Tables of experiment files."""
        return {}

    def agent_kind(self, method: object) -> Any:  # noqa: ARG002
        """The agents of a method (`destiny.agents.agent_kinds.AgentKind`), or None."""
        return None

    def commands(self) -> Mapping[str, Callable[..., None]]:
        """Commands by name, as "replay" or "agents leave"."""
        return {}

    def drawing(self, label: str, entry: Mapping[str, Any]) -> Any:  # noqa: ARG002
        """What a report shows of a run besides its curves, from its entry in summary.json; None if nothing.

        ValueError if the entry is damaged.
        """
        return None


@cache
def extensions() -> tuple[Extension, ...]:
    """All extensions."""
    return tuple(import_module(name).EXTENSION for name in BUILT_IN)


def methods() -> dict[str, type[Any]]:
    """Methods that `solve` does not run, by their names in files."""
    return _merged(extension.methods() for extension in extensions())


def runs_elsewhere(method: object) -> str | None:
    """Why `solve` does not run a method, if an extension does."""
    return next(filter(None, (extension.runs_elsewhere(method) for extension in extensions())), None)


def message_keys() -> dict[str, Key]:
    """Keys of [messages] that extensions add."""
    return _merged(extension.message_keys() for extension in extensions())


def agent_keys(table: str) -> dict[str, Key]:
    """Keys of a table of agent files that extensions add."""
    return _merged(extension.agent_keys().get(table, {}) for extension in extensions())


def tables() -> dict[str, FileTable]:
    """Tables of experiment files that extensions add."""
    return _merged(extension.tables() for extension in extensions())


def commands() -> dict[str, Callable[..., None]]:
    """Commands that extensions add."""
    return _merged(extension.commands() for extension in extensions())


def _merged(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: value for part in parts for name, value in part.items()}
