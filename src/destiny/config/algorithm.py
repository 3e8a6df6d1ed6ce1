"""[[algorithm]] of experiment files and [algorithm] of agent files: methods by name, with their settings."""

from __future__ import annotations

from typing import Any

from destiny import registry
from destiny.algorithms import KINDS
from destiny.config.kinds import fields_table, make, resolve
from destiny.config.tables import Table, read
from destiny.errors import SettingsError


class Method(Table, frozen=True):
    """What the table of every method has beside its settings; alone it asks for a method to be chosen.

    label: names the results
    """

    label: str | None = None


def method_kinds() -> dict[str, type[Any]]:
    """Methods by name, those of extensions too."""
    return KINDS | registry.methods()


def method_tables() -> list[Any]:
    """The tables of all methods, for the schema of files."""
    return [fields_table(method, kind, Method) for kind, method in method_kinds().items()]


def read_algorithm(table: object, where: str) -> Any:
    """One method of a file, from its kind and its settings."""
    if not isinstance(table, dict):
        raise SettingsError(f"{where} must be a table; found {table!r}")
    kind = table.get("kind")
    method = resolve(kind, method_kinds(), where)
    where = f"{where} {table.get('label', kind)!r}"
    return make(method, read(fields_table(method, kind, Method), table, where), where)
