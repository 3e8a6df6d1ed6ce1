"""Check the tables of a settings file: known keys, right types, one sentence that names the key."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from destiny.errors import DestinyError, SettingsError
from destiny.validation import did_you_mean

T = TypeVar("T")

WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
    list: "a list",
    tuple: "a list of numbers",
    Sequence: "a list",
    dict: "a table",
}

OTHER_NAMES = {
    "p": "n-components components rank k",
    "data": "file files path x",
    "targets": "y labels",
    "agents": "n-agents parties nodes",
    "sep": "delimiter separator",
    "index": "index-col",
    "columns": "usecols features names",
    "samples": "orientation axis",
    "precision": "dtype",
    "rounds": "max-iter max-rounds iterations",
    "tolerance": "tol eps",
    "seconds": "timeout",
    "deadline": "timeout",
    "seed": "random-state",
    "kind": "method type name",
    "step": "lr learning-rate step-size",
    "eta": "lr learning-rate step-size",
}
"""Names that other programs have for a key."""


def check(
    table: object, where: str, keys: Mapping[str, Any], required: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The table itself, once every key is known, every value fits and nothing required is missing."""
    if not isinstance(table, dict):
        raise SettingsError(f"{where} must be a table; found {table!r}")
    for key, value in table.items():
        if key not in keys:
            raise SettingsError(f"{where} has no key {key!r}{suggest(key, keys)}; it takes {', '.join(keys)}")
        if keys[key] is list and isinstance(value, dict):
            raise SettingsError(f"{where} {key} must be a list of tables: write [[{key}]], not [{key}]")
        if not fits(value, keys[key]):
            raise SettingsError(
                f"{where} {key} must be {spell(keys[key])}; found {value!r}{near_choice(value, keys[key])}"
            )
    for key in required:
        if key not in table:
            raise SettingsError(f"{where} needs the key {key!r}: {spell(keys[key])}")
    return table


def suggest(key: str, keys: Iterable[str]) -> str:
    """The key that a wrong one probably stands for, in words; empty if there is none."""
    known, wrong = list(keys), key.lower().replace("_", "-")
    for name in known:
        if wrong in OTHER_NAMES.get(name, "").split():
            return f"; did you mean {name!r}?"
    return did_you_mean(wrong, known)


def near_choice(value: object, hint: Any) -> str:
    """The value that a wrong one of several choices probably stands for, in words."""
    return did_you_mean(value, get_args(hint)) if get_origin(hint) is Literal else ""


def build(kind: type[T], table: dict[str, Any], where: str, names: Mapping[str, str] | None = None) -> T:
    """A dataclass of settings from a table whose keys are its fields.

    Keys have hyphens where fields have underscores; ``names`` maps keys that differ further. A value that is
    a dataclass already (a step rule) is taken as it is.
    """
    hints = get_type_hints(kind)
    own = {f.name.strip("_").replace("_", "-"): f.name for f in fields(kind) if f.init}  # type: ignore[arg-type]
    other = {key: name for key, name in (names or {}).items() if name in own.values()}
    known = {k: n for k, n in own.items() if n not in other.values()} | other
    check(table, where, {key: hints[name] for key, name in known.items()})
    try:
        return kind(**{known[key]: tuple(v) if isinstance(v, list) else v for key, v in table.items()})
    except TypeError:  # a field without a default was left out
        optional = {f.name for f in fields(kind) if not f.default is f.default_factory is MISSING}  # type: ignore[arg-type]
        missing = [k for k, n in known.items() if k not in table and n not in optional]
        raise SettingsError(f"{where} needs {' and '.join(missing)}") from None
    except DestinyError as error:
        raise SettingsError(f"{where}: {error}") from error


def fits(value: object, hint: Any) -> bool:
    """Whether a TOML value is of the hinted type; a whole number is a number, but true is not."""
    origin = get_origin(hint)
    if origin is Literal:
        return value in get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, option) for option in get_args(hint) if option is not type(None))
    if origin is tuple:  # a list in the file; settings are frozen
        parts = get_args(hint)
        return isinstance(value, list) and len(value) == len(parts) and all(map(fits, value, parts))
    if hint is Any or is_dataclass(value):
        return True
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, origin or hint)


def spell(hint: Any) -> str:
    """A type in words."""
    if get_origin(hint) is Literal:
        return " or ".join(f'"{option}"' for option in get_args(hint))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(spell(option) for option in get_args(hint) if option is not type(None))
    return WORDS.get(get_origin(hint) or hint, str(hint))
