"""The JSON schema of files, for editors; msgspec makes it from the classes that read them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from destiny.config.algorithm import Method, method_tables
from destiny.config.network import network_tables
from destiny.config.problem import synthetic_table
from destiny.config.tables import Table, complete
from destiny.problems.kinds import KINDS

DRAFT = "http://json-schema.org/draft-07/schema#"  # the one that editors of TOML know


class PluginMethod(Table, frozen=True, forbid_unknown_fields=False):
    """A method that is not the package's own, with any settings."""

    kind: Annotated[str, msgspec.Meta(pattern=":")]


def document(title: str, file: type[Table]) -> dict[str, Any]:
    """The schema of a file."""
    required = {field.name for field in msgspec.structs.fields(file) if field.required}
    by_kind = {
        "network": network_tables(required="network" in required),
        "algorithm": [Method, *method_tables(), PluginMethod],
        "synthetic": [synthetic_table(kind) for kind in KINDS],
    }
    types = [complete(file), *(complete(table) for tables in by_kind.values() for table in tables)]
    refs, components = msgspec.json.schema_components(types, ref_template="#/definitions/{name}")
    choices = iter(refs[1:])
    anything = {key: {"anyOf": [next(choices) for _ in tables]} for key, tables in by_kind.items()}
    whole = _draft_7(components.pop(file.__name__))
    definitions = {name: _draft_7(content) for name, content in components.items()}
    tables = whole["properties"]
    problem = definitions[tables["problem"]["allOf"][0]["$ref"].rpartition("/")[2]]
    for properties, key in ((tables, "network"), (tables, "algorithm"), (problem["properties"], "synthetic")):
        target = properties[key].get("items", properties[key])
        target |= anything[key]
    return {"$schema": DRAFT, **whole, "title": title, "definitions": definitions}


def _draft_7(content: Any) -> Any:
    """The same in the older draft; without null, which TOML does not have."""
    if isinstance(content, list | tuple):
        return [_draft_7(each) for each in content]
    if not isinstance(content, dict):
        return content
    made = {key: _draft_7(value) for key, value in content.items() if key != "discriminator"}
    if "prefixItems" in made:
        made["items"] = made.pop("prefixItems")
    if {"type": "null"} in made.get("anyOf", ()):
        made.pop("default", None)
        options = [option for option in made.pop("anyOf") if option != {"type": "null"}]
        made |= options[0] if len(options) == 1 else {"anyOf": options}
    if "$ref" in made and len(made) > 1:  # whose neighbors the older draft ignores
        made["allOf"] = [{"$ref": made.pop("$ref")}]
    if isinstance(made.get("default"), dict):
        del made["default"]
    return made
