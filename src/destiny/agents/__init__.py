"""Agents of separate organizations: each beside its own data, talking to its neighbors over mutual TLS."""

from pathlib import Path

from destiny.agents.agent import run
from destiny.agents.outcome import Outcome
from destiny.agents.settings import Settings

__all__ = ["Outcome", "Settings", "read", "run"]


def read(path: str | Path) -> Settings:
    """Read and check an agent file; relative paths in it are relative to the file."""
    from destiny.agents.agent_file import read  # and with it what reads files, which a run does not need

    return read(path)
