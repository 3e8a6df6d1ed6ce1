"""[[neighbour]] in agent files, and the names and addresses in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from destiny.agents.transport.neighbour import Neighbour
from destiny.agents.transport.tls import Pin, read_fingerprint
from destiny.errors import SettingsError
from destiny.experiments.schema import check

NEIGHBOUR = {
    "name": str,
    "index": int,
    "address": str,
    "identity": str,
    "dial": bool,
    "authority": str,
    "fingerprint": str | list[str],
    "neighbours": list[int],
}
REQUIRED = ("name", "index", "address")


def read_neighbours(tables: list[Any], me: dict[str, Any], folder: Path) -> list[Neighbour]:
    """Read [[neighbour]]: by default the agent with the lower index dials."""
    neighbours: list[Neighbour] = []
    for table in tables:
        check(table, "[[neighbour]]", NEIGHBOUR, required=REQUIRED)
        name, index = table["name"], table["index"]
        if not 0 <= index < me["agents"] or index == me["index"]:
            raise SettingsError(
                f"[[neighbour]] {name!r} index must be that of another of the {me['agents']} agents; "
                f"found {index}"
            )
        if any(name == n.name or index == n.index for n in neighbours) or name == me["name"]:
            raise SettingsError(f"[[neighbour]] {name!r} ({index}) is named twice: names and indices differ")
        host, port = parse_address(table["address"], f"[[neighbour]] {name!r} address")
        dial = table.get("dial", me["index"] < index)
        identity, pin = table.get("identity", name), read_pin(table, folder)
        around = read_around(table, me)
        degree = None if around is None else len(around)
        n = Neighbour(name, index, host, port, identity, dial, pin, around=around, degree_in_file=degree)
        if not dial:
            n.trouble += ": it must dial this agent, which does not dial it"
        neighbours.append(n)
    if not neighbours:
        raise SettingsError("an agent needs at least one [[neighbour]]")
    return sorted(neighbours, key=lambda n: n.index)


def read_around(table: dict[str, Any], me: dict[str, Any]) -> frozenset[int] | None:
    """Read neighbours of a [[neighbour]]: whom it may say that it hears, None if the file does not tell."""
    if "neighbours" not in table:
        return None
    given, count = table["neighbours"], me["agents"]
    around = frozenset(given)
    possible = all(0 <= other < count and other != table["index"] for other in given)
    if not possible or len(around) < len(given) or me["index"] not in around:
        raise SettingsError(
            f"[[neighbour]] {table['name']!r} neighbours must be the indices, from 0 to {count - 1}, of all "
            f"its neighbours, this agent's {me['index']} among them; found {given}"
        )
    return around


def read_pin(table: dict[str, Any], folder: Path) -> Pin:
    """Read authority and fingerprint of a [[neighbour]]."""
    where, given = f"[[neighbour]] {table['name']!r} fingerprint", table.get("fingerprint", [])
    texts = [given] if isinstance(given, str) else given
    if not all(isinstance(text, str) for text in texts):
        raise SettingsError(f"{where} must be a text or a list of texts; found {given!r}")
    authority = folder / table["authority"] if "authority" in table else None
    return Pin(authority, frozenset(read_fingerprint(text, where) for text in texts))


def parse_address(text: str, where: str) -> tuple[str, int]:
    """Host and port of HOST:PORT; an IPv6 address is in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 <= int(port) < 2**16:
        raise SettingsError(f"{where} must be HOST:PORT; found {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def check_name(name: str, where: str) -> None:
    """`SettingsError` if an agent's name cannot be the name of a folder."""
    check_letters(name, where)
    if name.startswith(".") or "/" in name or "\\" in name:
        raise SettingsError(f"{where} must not start with a dot nor contain / or \\; found {name!r}")


def check_letters(text: str, where: str) -> None:
    """`SettingsError` unless a text has 1 to 100 printable characters."""
    if not 0 < len(text) <= 100 or not text.isprintable():
        raise SettingsError(f"{where} must have 1 to 100 printable letters; found {text!r}")
