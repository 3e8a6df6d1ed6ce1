"""Agents of separate organisations: each beside its own data, talking to its neighbours over mutual TLS."""

from destiny.agents.agent import run
from destiny.agents.outcome import Outcome
from destiny.agents.settings import Settings, read

__all__ = ["Outcome", "Settings", "read", "run"]
