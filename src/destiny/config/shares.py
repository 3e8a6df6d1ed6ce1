"""The agents' shares of the data files that a file of settings names."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from destiny.config.tables import key_of
from destiny.errors import DestinyError, SettingsError
from destiny.problems.data import files
from destiny.problems.data.partition import split_rows

if TYPE_CHECKING:
    from destiny.config.problem import ProblemTable

OF_EACH = ("columns", "index")  # keys of .csv files that data and targets have apart
LAYOUT = tuple(f.name for f in fields(files.Csv) if f.name not in (*OF_EACH, "gaps", "labels", "prefix"))
"""Keys of all .csv files: the settings of `Csv`."""


def is_csv(names: str | list[str] | None) -> bool:
    """Whether there is a .csv file among them."""
    return any(files.is_csv(name) for name in ([names] if isinstance(names, str) else names or []))


def one_each(names: str | list[str]) -> bool:
    """Whether every agent has a file of its own, not all one together."""
    return isinstance(names, list) or "{agent" in names


def file_options(table: ProblemTable, key: str) -> dict[str, Any]:
    """How to read the files of ``key``, as `data.File` and `data.silos` take it."""
    prefix = "target_" if key == "targets" else ""
    layout = {k: getattr(table, k) for k in LAYOUT if is_csv(getattr(table, key))}
    layout |= {k: getattr(table, prefix + k) for k in ("columns", "index")}
    layout = {k: value for k, value in layout.items() if value is not None}
    try:
        return {
            "samples": table.samples,
            "csv": files.Csv(**layout, prefix=key_of(prefix) + "-" * bool(prefix)),
        }
    except DestinyError as error:
        raise SettingsError(f"[problem] {error}") from error


def read_shares(table: ProblemTable, key: str, agents: int, folder: Path) -> list[Any]:
    """The agents' shares of the file or files a key names."""
    names, options = getattr(table, key), file_options(table, key)
    if isinstance(names, list):
        return list(files.silos([folder / name for name in names], agents, **options))
    if one_each(names) or (files.WRONG_FIELD.search(names) and not (folder / names).exists()):
        # Braces in the folder's own name are not ours to fill in.
        home = str(folder).replace("{", "{{").replace("}", "}}")
        return list(files.silos(Path(home) / names, agents, **options))
    whole = files.File(str(folder / names), **options)
    columns = whole.feature_names()
    return list(split_rows(whole(), table.sizes or agents, what=names, names=columns, ids=whole.row_ids()))
