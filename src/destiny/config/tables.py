"""Tables of files as typed classes, read by msgspec: known keys, right types, one sentence for a mistake."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import msgspec
from msgspec import inspect

from destiny.errors import DestinyError, SettingsError
from destiny.validation import did_you_mean

T = TypeVar("T")
PATH = re.compile(r" - at `\$([^`]*)`$")
STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
FIELD = re.compile(r"required field `([^`]*)`")
MEANING = re.compile(r"^ *([a-z-]+): (.*)$", re.MULTILINE)
FEW = 3  # choices that are spelled out with "or"
WORDS: dict[type, str] = {
    inspect.FloatType: "a number",
    inspect.StrType: "a text",
    inspect.BoolType: "true or false",
    inspect.StructType: "a table",
    inspect.DictType: "a table",
}
PLURALS: dict[type, str] = {
    inspect.IntType: "whole numbers",
    inspect.FloatType: "numbers",
    inspect.StrType: "texts",
    inspect.StructType: "tables",
    inspect.DictType: "tables",
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


def key_of(field: str) -> str:
    """The key of a field: hyphens for underscores, and none at the ends."""
    return "step" if field == "step_size" else field.strip("_").replace("_", "-")


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename=key_of):
    """Base of the tables of files; None stands for a key that is not there.

    Lines ``key: meaning`` of the docstring are what editors show and what `toml_text` writes beside a key. A
    class may check its keys together in ``__post_init__``: a `SettingsError` that begins with a verb, as the
    name of the table is put before it.
    """


Whole = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
_ADDED: dict[type, dict[str, tuple[Any, Any, str]]] = {}


def add_key(table: type[Table], name: str, kind: Any, meaning: str = "", default: Any = None) -> None:
    """Let a table have one key more, or one of another type: how extensions and registries enter files.

    The value is an attribute of what `read` returns, though not of the class that type checkers know.
    """
    _ADDED.setdefault(table, {})[name] = (kind, default, meaning)


def complete(table: type[Any]) -> Any:
    """The table with the keys that were added to it and to the tables in it, and with what keys mean."""
    meanings = {
        key: text for base in reversed(table.__mro__) for key, text in MEANING.findall(base.__doc__ or "")
    }
    hints, entries = get_type_hints(table, include_extras=True), {}
    for field in msgspec.structs.fields(table):
        kind, default = hints[field.name], field.default
        if isinstance(kind, type) and issubclass(kind, Table):
            kind = complete(kind)
            default = msgspec.NODEFAULT if field.required else kind()
        elif field.default_factory is not msgspec.NODEFAULT:
            default = msgspec.field(default_factory=field.default_factory)
        entries[field.name] = (kind, default)
    for base in reversed(table.__mro__):
        for name, (kind, default, meaning) in _ADDED.get(base, {}).items():
            entries[name] = (kind, default)
            meanings |= {key_of(name): meaning} if meaning else {}
    fields: list[Any] = []
    for name, (kind, default) in entries.items():
        meaning = meanings.get(key_of(name), "")
        fields.append(
            (name, Annotated[kind, msgspec.Meta(description=meaning)] if meaning else kind, default)
        )
    return msgspec.defstruct(table.__name__, fields, bases=(table,), kw_only=True)


def load(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file, unchecked."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))  # editors may begin it with a mark
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, or numbers and nesting beyond reason
        raise SettingsError(f"{path} is not a TOML file: {error}") from error


def read(kind: type[T], value: object, where: str, tables: bool = False) -> T:
    """A value of a file as an object of a class or type; SettingsError names the key and what was found.

    ``where`` is what the file calls it, such as [stop]; or the name of a whole file, with ``tables``.
    """
    kind = complete(kind) if isinstance(kind, type) and issubclass(kind, Table) else kind
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise SettingsError(_sentence(error, kind, value, where, tables)) from None


def _sentence(error: msgspec.ValidationError, kind: Any, value: Any, where: str, tables: bool) -> str:
    """What is wrong, in one sentence."""
    text, found = str(error), PATH.search(str(error))
    if isinstance(value, dict) and any("`" in key for key in value):
        found = None  # an unknown key that may look like a path
    path = [name or int(number) for name, number in STEP.findall(found[1])] if found else []
    table = text.startswith("Object ") or isinstance(
        error.__cause__, DestinyError
    )  # a table, not a value, is wrong
    while path and isinstance(path[-1], int) and not table:
        path.pop()  # a list is told as a whole
    values, kinds = [value], [inspect.type_info(kind)]
    for step in path:
        values.append(values[-1][step])
        kinds.append(_inside(kinds[-1], step))
    names = [step for step in path if isinstance(step, str)]
    if tables and names and (table or len(names) > 1):
        names[0] = f"[[{names[0]}]]" if isinstance(value[names[0]], list) else f"[{names[0]}]"
    here = " ".join([where, *names])
    if isinstance(error.__cause__, DestinyError):
        return f"{here} {error.__cause__}"
    if table:
        return f"{here} {_wrong_key(text, kinds[-1], values[-1])}"
    expected = spell(kinds[-1])
    write = f": write [[{names[-1]}]]" if "list" in expected and "table" in expected else ""
    choices = [choice for option in _options(kinds[-1]) for choice in getattr(option, "values", ())]
    near = did_you_mean(values[-1], choices) if isinstance(values[-1], str) else ""
    meaning = (getattr(kinds[-1], "extra_json_schema", None) or {}).get("description")
    return f"{here} must be {expected}{write}; found {values[-1]!r}{near or f' ({meaning})' * bool(meaning)}"


def _wrong_key(text: str, kind: Any, table: dict[str, Any]) -> str:
    """Which key of a table is not known, or missing."""
    keys = [field.encode_name for option in _options(kind) for field in getattr(option, "fields", ())]
    keys = list(dict.fromkeys([*_tags(kind), *keys]))
    if missing := FIELD.search(text):
        return f"needs the key {missing[1]!r}: {spell(_inside(kind, missing[1]))}"
    wrong = next(key for key in table if key not in keys)
    return f"has no key {wrong!r}{suggest(wrong, keys)}; it takes {', '.join(keys)}"


def suggest(key: str, keys: Iterable[str]) -> str:
    """The key that a wrong one probably stands for, in words; empty if there is none."""
    known, wrong = list(keys), key.lower().replace("_", "-")
    for name in known:
        if wrong in OTHER_NAMES.get(name, "").split():
            return f"; did you mean {name!r}?"
    return did_you_mean(wrong, known)


def _options(kind: Any) -> list[Any]:
    """The types that a value may have, None apart."""
    if isinstance(kind, inspect.Metadata):
        return _options(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [option for each in kind.types for option in _options(each)]
    return [] if isinstance(kind, inspect.NoneType) else [kind]


def _tags(kind: Any) -> dict[str, list[Any]]:
    """The key that tells tables of several kinds apart, with its values."""
    tags: dict[str, list[Any]] = {}
    for option in _options(kind):
        if getattr(option, "tag_field", None) is not None:
            tags.setdefault(option.tag_field, []).append(option.tag)
    return tags


def _inside(kind: Any, step: str | int) -> Any:
    """The type below a key or at a place of a list."""
    if step in (tags := _tags(kind)):
        return inspect.LiteralType(tuple(tags[str(step)]))
    for option in _options(kind):
        for field in getattr(option, "fields", ()):
            if field.encode_name == step:
                return field.type
        if isinstance(step, int) and hasattr(option, "item_type"):
            return option.item_type
        if isinstance(step, int) and hasattr(option, "item_types"):
            return option.item_types[step]
    return inspect.AnyType()


def spell(kind: Any) -> str:
    """A type in words."""
    return " or ".join(dict.fromkeys(map(_spelled, _options(kind))))


def _spelled(kind: Any) -> str:
    if isinstance(kind, inspect.LiteralType):
        if len(kind.values) > FEW:
            return f"one of {', '.join(map(str, kind.values))}"
        return " or ".join(f'"{value}"' for value in kind.values)
    if isinstance(kind, inspect.IntType):
        low, high = kind.ge, kind.le
        limits = (
            f" from {low} to {high}" if high is not None else f" of at least {low}" if low is not None else ""
        )
        return f"a whole number{limits}"
    if isinstance(kind, inspect.TupleType):
        return f"a list of {len(kind.item_types)}"
    inner = getattr(kind, "item_type", None)
    if inner is None:
        return WORDS.get(type(kind), "something else")
    if kind.min_length:
        return f"a list of at least one {_spelled(_options(inner)[0]).removeprefix('a ')}"
    return f"a list of {' or '.join(PLURALS.get(type(option), 'lists') for option in _options(inner))}"


def meanings(file: type[Table]) -> dict[str, dict[str, str]]:
    """What the keys of the tables of a file mean."""
    found = {}
    for name, kind in _meant(inspect.type_info(complete(file))):
        inner = getattr(_options(kind)[0], "item_type", kind)
        found[name] = {key: meaning.extra_json_schema["description"] for key, meaning in _meant(inner)}
    return found


def _meant(kind: Any) -> list[tuple[str, Any]]:
    """The keys of a table that say what they mean, with their types."""
    fields = getattr(_options(kind)[0], "fields", ())
    return [(field.encode_name, field.type) for field in fields if isinstance(field.type, inspect.Metadata)]


def given(table: Table) -> dict[str, Any]:
    """The keys of a table that the file has, or that have a default other than None."""
    return {key: value for key, value in msgspec.to_builtins(table).items() if value is not None}
