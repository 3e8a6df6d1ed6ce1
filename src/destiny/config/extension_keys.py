"""Keys and tables of files that extensions add."""

from __future__ import annotations

from functools import cache
from typing import get_type_hints

from destiny import registry
from destiny.config.files import Agent, AgentRun, ExperimentFile, Messages
from destiny.config.kinds import fields_table
from destiny.config.tables import Table, add_key, complete


@cache
def add_extension_keys() -> None:
    """Let files have what extensions add: to be called before they are read, or their schema is made."""
    added: dict[type[Table], dict[str, registry.Key]] = {
        Messages: registry.message_keys(),
        Agent: registry.agent_keys("agent"),
        AgentRun: registry.agent_keys("run"),
    }
    for table, keys in added.items():
        for name, key in keys.items():
            add_key(table, name, key.type | None, key.meaning)
    for name, one in registry.tables().items():
        settings = fields_table(one.settings)
        hints = get_type_hints(settings)
        for field, kind in one.types.items():
            add_key(settings, field, kind | hints[field])
        add_key(ExperimentFile, name, complete(settings) | None, one.meaning)
