"""[[algorithm]] of experiment and agent files: methods, their settings and step sizes, under labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from destiny import registry
from destiny.algorithms import KINDS
from destiny.algorithms.blocks.step_sizes import RULES
from destiny.errors import SettingsError
from destiny.experiments import result_folder
from destiny.experiments.schema import build
from destiny.protocols import Method
from destiny.validation import did_you_mean

LABEL = re.compile(r"\w([\w .+=(),-]{0,98}[\w+=(),-])?")  # becomes the name of a folder


def read_algorithms(tables: list[Any], chosen: Callable[[], str] | None = None) -> dict[str, Method | None]:
    """[[algorithm]], each under its label; None for one without a kind, whose label is ``chosen``."""
    algorithms: dict[str, Method | None] = {}
    for table in tables:
        where = "[[algorithm]]"
        if not isinstance(table, dict):
            raise SettingsError(f"{where} must be a table; found {table!r}")
        rest = dict(table)
        label = rest.pop("label", table.get("kind"))
        if label is None and not rest and chosen is not None:
            label = chosen()
        algorithm = read_any_algorithm(table, where) if rest else None
        if not isinstance(label, str) or not LABEL.fullmatch(label) or label in result_folder.FILES:
            raise SettingsError(
                f"{where} label must be a name for a folder, at most 100 letters, digits, spaces and .+=(),- "
                f"and none of {', '.join(result_folder.FILES)}; found {label!r}"
            )
        if label in algorithms:
            raise SettingsError(
                f"{where} {label!r} label {label!r} is used twice: give each algorithm its own"
            )
        algorithms[label] = algorithm
    if not algorithms:
        raise SettingsError("algorithm is an empty list: leave it out, or name at least one")
    return algorithms


def read_algorithm(table: dict[str, Any], where: str, kinds: Mapping[str, type[Any]] = KINDS) -> Any:
    """One algorithm of a file: its kind, its settings, and possibly a label for messages."""
    rest = dict(table)
    kind = rest.pop("kind", None)
    if not isinstance(kind, str) or kind not in kinds:
        raise SettingsError(
            f"{where} kind must be one of {', '.join(kinds)}; found {kind!r}{did_you_mean(kind, kinds)}"
        )
    where = f"{where} {rest.pop('label', kind)!r}"
    if "step" in rest:
        rest["step"] = read_step(rest["step"], where)
    return build(kinds[kind], rest, where, names={"step": "step_size"})


def read_any_algorithm(table: dict[str, Any], where: str) -> Any:
    """One algorithm of a file, of the package or of an extension."""
    return read_algorithm(table, where, KINDS | registry.methods())


def read_step(table: Any, where: str) -> Any:
    """step = { kind = ..., ... }."""
    where = f"{where} step"
    if not isinstance(table, dict):
        raise SettingsError(f'{where} must be a table such as {{ kind = "bb" }}; found {table!r}')
    rest = dict(table)
    kind = rest.pop("kind", None)
    if not isinstance(kind, str) or kind not in RULES:
        raise SettingsError(
            f"{where} kind must be one of {', '.join(RULES)}; found {kind!r}{did_you_mean(kind, RULES)}"
        )
    return build(RULES[kind], rest, where)
