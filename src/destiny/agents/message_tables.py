"""[messages] in agent files: whether sums are private, how numbers are sent, and who takes part."""

from __future__ import annotations

from typing import Any

from destiny.agents.transport.neighbour import Neighbour
from destiny.engines.mixers import PLAIN, Messages, Private, from_keys
from destiny.errors import SettingsError
from destiny.experiments import file
from destiny.experiments.schema import check
from destiny.protocols import TopologyBase


def message_types() -> dict[str, Any]:
    """Keys of [messages] and their types."""
    return {**file.message_types(), "participants": list[str]}


def read_messages(table: dict[str, Any], network: TopologyBase) -> tuple[Messages, str]:
    """[messages], and what neighbours learn: private wherever the network allows it, if nothing is said.

    A network that one agent alone connects is refused rather than given plain messages, if nothing is said.
    """
    check(table, "[messages]", message_types())
    asked, setting = from_keys(table), table.get("private")
    if (obstacle := asked.obstacle(network)) is not None:
        raise SettingsError(f"[messages] {obstacle}")
    why = Private().obstacle(network)
    if setting is False or (setting is None and why is not None):
        reason = "" if setting is False else f" ({why})"
        return asked, f"{asked}: each neighbour learns all numbers this agent sends{reason}"
    if asked != PLAIN and setting is None:
        ((key, value),) = asked.keys().items()
        raise SettingsError(
            f"[messages] {key} = {value} cannot go with private messages, which agents use unless they are "
            f"told otherwise: write private = false into [messages] of every agent's file, or leave {key} out"
        )
    return Private(), (
        f"private messages: the other participants learn sums over all {network.agents} agents, who is "
        "linked to whom, and when messages come"
    )


def read_participants(table: dict[str, Any], me: dict[str, Any], neighbours: list[Neighbour]) -> list[str]:
    """participants of [messages]: who may take part, by index."""
    names: list[str] = table.get("participants", [])
    if not names:
        return []
    if len(names) != me["agents"] or len(set(names)) != len(names):
        raise SettingsError(
            f"[messages] participants must be {me['agents']} different names in the order of their index; "
            f"found {len(names)}"
        )
    for name, index in [(me["name"], me["index"]), *((n.name, n.index) for n in neighbours)]:
        if names[index] != name:
            raise SettingsError(
                f"[messages] participants has {names[index]!r} as agent {index}, who is {name!r}: make them "
                "equal"
            )
    return names
