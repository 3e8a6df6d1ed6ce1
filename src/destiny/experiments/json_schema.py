"""The JSON schema of experiment files, for editors; made from the keys that `file.py` checks."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from destiny import datasets, registry
from destiny.algorithms import KINDS
from destiny.algorithms.blocks.step_sizes import RULES
from destiny.experiments import file, problem_table
from destiny.networks import RULES as WEIGHTS
from destiny.networks import kinds as networks
from destiny.problems import Privacy
from destiny.problems.regularisers import REGULARISERS
from destiny.registry import FileTable

DRAFT = "http://json-schema.org/draft-07/schema#"  # the one that editors of TOML know
PLAIN = {int: "integer", float: "number", str: "string", bool: "boolean", dict: "object", list: "array"}
NETWORK: dict[str, Any] = {
    "prob": float,
    "degree": int,
    "radius": float,
    "rows": int,
    "cols": int,
    "seed": int,
    "path": str,
    "edges": list[list[int]],
    "weights": Literal[tuple(WEIGHTS)],
    "loss": float,
}
"""Types of the options of all kinds of networks, as files give them."""
MEANINGS: dict[str, dict[str, str]] = {
    "": {
        "problem": "what is solved, and where the data are",
        "network": "who talks to whom",
        "start": "where all agents begin",
        "algorithm": "the method, or several to compare; chosen by the problem and the network if left out",
        "stop": "when a run ends",
        "run": "how often to measure and to save",
        "mpi": "which rank hosts which agents",
        "messages": "how messages travel and what neighbours learn",
    },
    "problem": {
        "kind": "pca, olsr (least squares, orthonormal columns) or sdl (dictionary)",
        "data": "a file, a name with {agent}, or a list with a file per agent; relative to this file",
        "synthetic": "random data instead of files",
        "dataset": "a known data set instead of files",
        "targets": "of olsr: files like those of data",
        "samples": "whether a sample is a column or a row of the files",
        "p": "number of components: columns of the answer",
        "agents": "how many parties there are",
        "sizes": "number of samples of each agent, if one file is not to be shared evenly",
        "scale": "data are multiplied by it",
        "precision": "of sdl: float32 is faster",
        "center": "subtract the mean of everybody's samples, found by averaging",
        "standardise": "also divide each column by its standard deviation",
        "batch": "samples in a mini-batch, for methods that take them",
        "regulariser": "a term that makes answers sparse",
        "privacy": "noise that hides single samples of pca",
        "header": "whether .csv files begin with names of columns",
        "sep": "what stands between the fields of .csv files",
        "decimal": "the decimal sign of .csv files",
        "encoding": "of letters in .csv files: utf-8, or cp1252 of many Windows programs",
        "thousands": "the sign between groups of three digits in .csv files",
        "na-values": "texts that stand for a missing field of .csv files, which is refused",
        "skiprows": "number of lines above the table in .csv files",
        "columns": "the columns to read, by name, in this order",
        "index": "columns with row labels, by name or by number from 0",
        "target-columns": "the same as columns, for targets",
        "target-index": "the same as index, for targets",
    },
    "network": {
        "kind": "ring, path, star, complete, grid, erdos-renyi and others: docs/networks.md",
        "prob": "probability of a link",
        "degree": "links per agent",
        "radius": "reach of a link in the unit square",
        "rows": "of a grid or torus",
        "cols": "of a grid or torus",
        "seed": "of a random network, or of links that fail",
        "path": "an edge list, GraphML or .npy",
        "edges": "pairs of agents, numbered from 0",
        "weights": "how agents weigh what they hear; metropolis",
        "loss": "probability that a link is down in a round",
    },
    "start": {"seed": "of a random start", "file": "an n x p matrix in a .npy file"},
    "algorithm": {"kind": "any of docs/methods.md", "label": "names the results"},
    "stop": {
        "rounds": "at most so many messages to each neighbour",
        "seconds": "at most so long",
        "tolerance": "converged when stationarity, consensus and feasibility are all below it; 0 = never",
        "decentralised": "the agents find out and agree by themselves",
    },
    "run": {
        "every": "measure every so many steps",
        "checkpoint": "save every so many steps; 0 = never",
        "threads": "worker threads; the answer is the same",
    },
    "mpi": {"agents-per-rank": "a number, or a list with one for each rank", "map": "the rank of each agent"},
    "messages": {
        "private": "whether neighbours learn sums, not what one agent sends",
        "bits": "of a number in a message: 8, 16 or 64",
    },
}
"""What each key means, in a few words: editors show it, and `destiny new` writes it into files."""


def schema() -> dict[str, Any]:
    """The schema of experiment files."""
    algorithm = any_of(algorithm_tables())
    tables = {
        "problem": problem_schema(),
        "network": network_table(),
        "start": table(file.START, MEANINGS["start"]),
        "algorithm": {"type": "array", "minItems": 1, "items": algorithm},
        "stop": table(file.STOP, MEANINGS["stop"]),
        "run": table(file.RUN, MEANINGS["run"]),
        "mpi": table(file.MPI, MEANINGS["mpi"]),
        "messages": table(file.message_types(), meanings("messages")),
    }
    added = registry.tables()
    about = MEANINGS[""] | {name: one.meaning for name, one in added.items()}
    tables |= {name: added_table(one) for name, one in added.items()}
    return document("DESTINY experiment", tables, about, ("problem", "network"))


def meanings(name: str) -> dict[str, str]:
    """What the keys of a table of an experiment file mean, with those that extensions add."""
    added = registry.message_keys() if name == "messages" else {}
    return MEANINGS.get(name, {}) | {key: content.meaning for key, content in added.items()}


def document(
    title: str, tables: Mapping[str, Any], about: Mapping[str, str], required: Iterable[str]
) -> dict[str, Any]:
    """A whole schema from those of its tables."""
    described = {name: {"description": about[name], **content} for name, content in tables.items()}
    return {"$schema": DRAFT, "title": title, **_object(described, required)}


def table(
    keys: Mapping[str, Any], about: Mapping[str, str] | None = None, required: Iterable[str] = ()
) -> dict[str, Any]:
    """The schema of a table with these keys and types."""
    about = about or {}
    properties = {
        key: value(hint) | ({"description": about[key]} if key in about else {}) for key, hint in keys.items()
    }
    return _object(properties, required)


def _object(properties: Mapping[str, Any], required: Iterable[str] = ()) -> dict[str, Any]:
    content = {"type": "object", "additionalProperties": False, "properties": dict(properties)}
    return content | ({"required": list(required)} if required else {})


def value(hint: Any) -> dict[str, Any]:
    """The schema of a value of a type."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (Union, types.UnionType):
        return any_of(value(part) for part in parts if part is not type(None))
    if origin is tuple:
        return {"type": "array", "items": value(parts[0]), "minItems": len(parts), "maxItems": len(parts)}
    if origin in (list, Sequence):
        return {"type": "array", "items": value(parts[0])}
    name = PLAIN.get(origin or hint)
    return {} if name is None else {"type": name}


def any_of(options: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """A value that fits one of several schemas."""
    several = list(options)
    return several[0] if len(several) == 1 else {"anyOf": several}


def problem_schema(without: Iterable[str] = ()) -> dict[str, Any]:
    """[problem], ``without`` some keys."""
    keys = {key: hint for key, hint in problem_table.PROBLEM.items() if key not in without}
    content = table(keys, MEANINGS["problem"], [key for key in ("kind", "agents") if key in keys])
    properties = content["properties"]
    properties["synthetic"] |= any_of(
        table(options, required=("n", "m")) for _, options in problem_table.SYNTHETIC.values()
    )
    if "dataset" in properties:
        properties["dataset"] |= {"enum": list(datasets.NAMES)}
    kinds = {"kind": Literal[tuple(REGULARISERS)], "weight": float}
    properties["regulariser"] |= table(kinds, required=kinds)
    properties["privacy"] |= settings(Privacy)
    return content


def added_table(added: FileTable) -> dict[str, Any]:
    """A table of an extension."""
    content = settings(added.settings)
    for key, hint in added.types.items():
        content["properties"][key] = any_of([content["properties"][key], value(hint)])
    return content


def network_table() -> dict[str, Any]:
    """[network]: a table for each kind, or weights alone."""
    options = [table({"weights": str}, {"weights": "a .npy file with the mixing matrix"}, ("weights",))]
    for kind in networks.KINDS:
        if kind != "weights":
            names = dict.fromkeys(
                [*networks.options_of(kind), "seed"]
            )  # of the losses, if not of the network
            keys = {"kind": Literal[kind]} | {name: NETWORK[name] for name in names}
            options.append(table(keys, MEANINGS["network"], ["kind", *networks.required_options(kind)]))
    return any_of(options)


def algorithm_tables(label: bool = True) -> list[dict[str, Any]]:
    """[[algorithm]]: a table for each kind, with its settings."""
    about = MEANINGS["algorithm"]
    named = {"label": {"type": "string", "description": about["label"]}} if label else {}
    tables = []
    for kind, method in (KINDS | registry.methods()).items():
        content = settings(method, {"step_size": "step"})
        properties = content["properties"]
        if "step" in properties:
            properties["step"] = any_of(_with_kind(name, settings(rule)) for name, rule in RULES.items())
        content["properties"] = named | properties
        tables.append(_with_kind(kind, content))
    return tables


def _with_kind(kind: str, content: dict[str, Any]) -> dict[str, Any]:
    properties = {"kind": {"const": kind}} | content["properties"]
    return content | {"properties": properties, "required": ["kind", *content.get("required", [])]}


def settings(kind: type, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The schema of a dataclass as `destiny.experiments.schema.build` reads it."""
    hints = get_type_hints(kind)
    keys, required = {}, []
    for f in fields(kind):
        if f.init:
            key = (names or {}).get(f.name, f.name.strip("_").replace("_", "-"))
            keys[key] = hints[f.name]
            if f.default is MISSING and f.default_factory is MISSING:
                required.append(key)
    return table(keys, required=required)
