"""[network] of experiment and agent files: any builder, or a weight matrix alone."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from destiny import networks
from destiny.config.kinds import arguments_table
from destiny.config.tables import Table
from destiny.errors import DestinyError, SettingsError
from destiny.networks.kinds import FILE_TYPES, KINDS, MEANINGS
from destiny.protocols import TopologyBase
from destiny.protocols.link import Link

LINK = tuple(field.name for field in fields(Link))
"""Keys of [network] that say how fast its links are."""


class Speeds(Table, frozen=True, kw_only=True):
    """[network] of an agent that does not know all links.

    delay: seconds that a message takes, for predicted times; 0.02
    bandwidth: megabits a second of a link, for predicted times; 100
    """

    delay: float | None = None
    bandwidth: float | None = None


class Weights(Speeds, frozen=True, kw_only=True):
    """[network] without a kind.

    weights: a .npy file with the mixing matrix
    """

    weights: str


def network_tables(required: bool) -> list[Any]:
    """[network] of every kind, for the schema of files: `networks.build` checks what is read."""
    more = {"loss": float | None, "seed": int | None}  # the seed of the losses, if not of the network
    more |= dict.fromkeys(LINK, float | None)
    made: list[Any] = [Weights] if required else [Weights, Speeds]
    for kind, builder in KINDS.items():
        if kind != "weights":
            table = arguments_table(builder, f"Network_{kind}", {"agents"}, FILE_TYPES, more, kind)
            table.__doc__ = "\n".join(f"{key}: {text}" for key, text in MEANINGS.items())
            made.append(table)
    return made


def read_link(table: dict[str, Any]) -> Link:
    """How fast the links of a table are."""
    try:
        return Link(**{key: value for key, value in table.items() if key in LINK})
    except DestinyError as error:
        raise SettingsError(f"[network] {error}") from error


def read_network(table: dict[str, Any], agents: int, folder: Path) -> TopologyBase:
    """The network of a table; paths are relative to ``folder``."""
    table = {key: value for key, value in table.items() if key not in LINK}
    kind = table.pop("kind", None)
    if kind is None:
        if (
            set(table) != {"weights"}
            or not isinstance(table["weights"], str)
            or table["weights"] in networks.RULES
        ):
            raise SettingsError(
                "[network] needs the key 'kind', or weights alone, the name of a .npy file; found "
                f"{', '.join(f'{key} = {value!r}' for key, value in table.items()) or 'neither'}"
            )
        kind, table = "weights", {"path": table["weights"]}
    if not isinstance(kind, str):
        raise SettingsError(f"[network] kind must be a text; found {kind!r}")
    if "agents" in table:
        raise SettingsError("[network] has no key 'agents': their number stands in [problem]")
    if isinstance(table.get("path"), str):
        table["path"] = str(folder / table["path"])
    if str(table.get("weights", "")).endswith(".npy"):
        raise SettingsError('[network] weights = "W.npy" stands alone, without kind')
    try:
        return networks.build(kind, agents, **table)
    except DestinyError as error:
        raise SettingsError(f"[network] {error}") from error
