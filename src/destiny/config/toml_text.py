"""Settings files as text: tables in TOML, with a comment on what each key means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from destiny.config.tables import Table, meanings
from destiny.networks.kinds import MEANINGS

COLUMN = 34  # where comments begin, if the value is not longer


def to_toml(tables: Mapping[str, Any], file: type[Table], hints: Mapping[str, str] | None = None) -> str:
    """Tables and lists of tables of a ``file``, with what keys mean; ``hints``: lines to put below a table.

    Of a list of tables the first alone has comments.
    """
    told = meanings(file) | {"network": MEANINGS}
    lines: list[str] = []
    for name, value in tables.items():
        for number, table in enumerate(value if isinstance(value, list) else [value]):
            about = told.get(name, {}) if number == 0 else {}
            lines.append(f"[[{name}]]" if isinstance(value, list) else f"[{name}]")
            lines += [line(key, entry, about.get(key, "")) for key, entry in table.items()]
            lines += [(hints or {}).get(name, "").rstrip("\n"), ""] if name in (hints or {}) else [""]
    return "\n".join(lines)


def line(key: str, value: Any, meaning: str = "") -> str:
    """A key with its value, and what it means."""
    text = f"{key} = {to_value(value)}"
    return (
        f"{text:<{COLUMN}}# {meaning}"
        if meaning and len(text) < COLUMN
        else text + (f"  # {meaning}" if meaning else "")
    )


def to_value(entry: Any) -> str:
    """A value in TOML, tables inline."""
    if isinstance(entry, dict):
        return "{ " + ", ".join(f"{key} = {to_value(inner)}" for key, inner in entry.items()) + " }"
    return json.dumps(entry, ensure_ascii=False)  # the same in TOML: texts, numbers, true, false and lists
