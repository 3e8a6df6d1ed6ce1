"""Whether processes were told the same: settings as one flat table, and the first difference in words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from destiny.engines.words import Columns
from destiny.protocols import Problem, ProblemBase

EXACT = 2**53  # every whole number below it is a float too


def plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as JSON carries them, nested tables as one with dotted names; 10 and 10.0 are one number."""
    return _flat(json.loads(json.dumps(facts, default=repr), parse_float=_number))


def digest(facts: Mapping[str, Any]) -> bytes:
    """Equal for equal settings, and only for those."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).digest()


def difference(here: Mapping[str, Any], there: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """The first setting that differs, by name: its name and both values as JSON; tables may be nested."""
    here, there = _flat(here), _flat(there)
    for name in sorted({*here, *there}):
        mine, other = (json.dumps(known.get(name)) for known in (here, there))
        if mine != other:
            return name, mine, other
    return None


def columns_of(problem: ProblemBase) -> dict[str, dict[str, Any]]:
    """What to compare of the columns of a problem's data: their number and digests, not their names."""
    return {
        what: {
            "count": len(names),
            "names (digest)": digest({"names": sorted(names)}).hex()[:16],
            "order of names (digest)": digest({"names": names}).hex()[:16],
        }
        for what, names in problem.column_names.items()
    }


def spelled_columns(problem: Problem) -> Columns:
    """What errors call the features and targets of a problem: by name, or by number from 0."""
    names = getattr(problem, "column_names", {})
    targets = [f"target {name!r}" for name in names.get("targets", ())]
    return [f"column {name!r}" for name in names.get("data", ()) or range(problem.shape[0])], targets


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < EXACT else value


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in table.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat
