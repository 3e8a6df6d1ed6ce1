"""[[neighbor]] of agent files: whom this agent talks to."""

from __future__ import annotations

from pathlib import Path

from destiny.agents.transport.neighbor import Neighbor
from destiny.agents.transport.tls import Pin, read_fingerprint
from destiny.config import files
from destiny.errors import SettingsError


def read_neighbors(tables: list[files.Neighbor], me: files.Agent, folder: Path) -> list[Neighbor]:
    """Read [[neighbor]]: by default the agent with the lower index dials."""
    neighbors: list[Neighbor] = []
    for table in tables:
        name, index = table.name, table.index
        if index >= me.agents or index == me.index:
            raise SettingsError(
                f"[[neighbor]] {name!r} index must be that of another of the {me.agents} agents; "
                f"found {index}"
            )
        if any(name == n.name or index == n.index for n in neighbors) or name == me.name:
            raise SettingsError(f"[[neighbor]] {name!r} ({index}) is named twice: names and indices differ")
        host, port = files.parse_address(table.address, f"[[neighbor]] {name!r} address")
        dial = me.index < index if table.dial is None else table.dial
        identity, pin = table.identity or name, read_pin(table, folder)
        around = read_around(table, me)
        degree = None if around is None else len(around)
        n = Neighbor(name, index, host, port, identity, dial, pin, around=around, degree_in_file=degree)
        if not dial:
            n.trouble += ": it must dial this agent, which does not dial it"
        neighbors.append(n)
    return sorted(neighbors, key=lambda n: n.index)


def read_around(table: files.Neighbor, me: files.Agent) -> frozenset[int] | None:
    """Read neighbors of a [[neighbor]]: whom it may say that it hears, None if the file does not tell."""
    if table.neighbors is None:
        return None
    given, count = table.neighbors, me.agents
    around = frozenset(given)
    possible = all(0 <= other < count and other != table.index for other in given)
    if not possible or len(around) < len(given) or me.index not in around:
        raise SettingsError(
            f"[[neighbor]] {table.name!r} neighbors must be the indices, from 0 to {count - 1}, of all "
            f"its neighbors, this agent's {me.index} among them; found {given}"
        )
    return around


def read_pin(table: files.Neighbor, folder: Path) -> Pin:
    """Read authority and fingerprint of a [[neighbor]]."""
    where, given = f"[[neighbor]] {table.name!r} fingerprint", table.fingerprint or []
    texts = [given] if isinstance(given, str) else given
    authority = None if table.authority is None else folder / table.authority
    return Pin(authority, frozenset(read_fingerprint(text, where) for text in texts))
