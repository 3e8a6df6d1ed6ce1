"""Objects by the names of their kinds, and tables from the fields of classes and arguments of functions.

A setting of a method is a field of its dataclass, an option of a network or of random data an argument of the
function that makes it: keys, types and defaults are found there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from importlib import import_module
from inspect import signature
from types import MappingProxyType, SimpleNamespace
from typing import Any, Union, get_args, get_type_hints

import msgspec

from destiny.algorithms.blocks.step_sizes import RULES, StepRule
from destiny.config.tables import Table, key_of, read
from destiny.errors import DestinyError, SettingsError
from destiny.validation import did_you_mean

PLUGIN = re.compile(r"[A-Za-z_]\w*(\.\w+)*:[A-Za-z_]\w*")
"""``package.module:Class``, a kind that is not the package's own."""


def resolve(kind: object, kinds: Mapping[str, Any], where: str) -> Any:
    """What a kind of a file stands for: an entry of ``kinds``, or ``package.module:Class``."""
    if isinstance(kind, str) and kind in kinds:
        return kinds[kind]
    if not isinstance(kind, str) or not PLUGIN.fullmatch(kind):
        raise SettingsError(
            f"{where} kind must be one of {', '.join(kinds)}, or package.module:Class; found {kind!r}"
            f"{did_you_mean(kind, kinds)}"
        )
    module, _, name = kind.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"{where} kind {kind!r} cannot be imported: {error}") from error
    if not isinstance(found, type) or not is_dataclass(found):
        raise SettingsError(f"{where} kind {kind!r} must be a dataclass of settings; found {found!r}")
    return found


def _fields_table(kind: type[Any], tag: str | None = None, base: type[Table] = Table) -> Any:
    """The table whose keys are the fields of a dataclass; ``tag`` is the value of its key kind, if any.

    What the network tells a method, in a dataclass of its own, is no setting.
    """
    hints, entries = get_type_hints(kind), []
    for field in fields(kind):
        hint = hints[field.name]
        if hint is StepRule:
            hint = Union[tuple(fields_table(rule, name) for name, rule in RULES.items())]  # noqa: UP007
        elif not field.init or any(map(is_dataclass, get_args(hint))):
            continue
        default = msgspec.NODEFAULT if field.default is MISSING else field.default
        if field.default_factory is not MISSING:
            default = msgspec.field(default_factory=field.default_factory)
        entries.append((field.name, hint, default))
    return _table(kind.__name__, entries, tag, base)


fields_table: Callable[..., Any] = cache(_fields_table)


def arguments_table(
    function: Callable[..., Any],
    name: str,
    without: Collection[str] = (),
    types: Mapping[str, Any] = MappingProxyType({}),
    more: Mapping[str, Any] = MappingProxyType({}),
    tag: str | None = None,
) -> Any:
    """The table whose keys are the arguments of a function, ``without`` some and with ``more``, all optional.

    ``types`` are those of arguments for which files give something else than Python does.
    """
    entries: dict[str, Any] = {}
    for argument, parameter in signature(function).parameters.items():
        if argument not in without:
            alone = SimpleNamespace(__annotations__={argument: parameter.annotation})
            hints = types if argument in types else get_type_hints(alone, function.__globals__)
            default = msgspec.NODEFAULT if parameter.default is parameter.empty else parameter.default
            entries[argument] = (argument, hints[argument], default)
    for argument, hint in more.items():
        entries.setdefault(argument, (argument, hint, None))
    return _table(name, list(entries.values()), tag, Table)


def _table(name: str, entries: list[Any], tag: str | None, base: type[Table]) -> Any:
    tagged: dict[str, Any] = {} if tag is None else {"tag_field": "kind", "tag": tag}
    return msgspec.defstruct(name, entries, bases=(base,), kw_only=True, **tagged)


def make(kind: type[Any], table: Any, where: str) -> Any:
    """A dataclass of settings from its table."""
    given = {}
    for field in fields(kind):
        if hasattr(table, field.name):
            value = getattr(table, field.name)
            if isinstance(value, Table):
                value = make(RULES[str(value.__struct_config__.tag)], value, f"{where} {key_of(field.name)}")
            given[field.name] = tuple(value) if isinstance(value, list) else value
    try:
        return kind(**given)
    except DestinyError as error:
        raise SettingsError(f"{where}: {error}") from error


def build(kind: type[Any], table: object, where: str) -> Any:
    """A dataclass of settings from the table of a file."""
    return make(kind, read(fields_table(kind), table, where), where)
