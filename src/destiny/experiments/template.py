"""The text of a new experiment file: working, with comments, from a few answers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from destiny.errors import SettingsError
from destiny.experiments.json_schema import MEANINGS
from destiny.experiments.toml_text import to_toml
from destiny.problems.data import files
from destiny.problems.data.csv import guess_keys
from destiny.run.options import SolveOptions

FILE, SCHEMA = "experiment.toml", "experiment.schema.json"
SIZES: dict[str, dict[str, Any]] = {
    "pca": {"n": 20, "m": 400, "xi": 0.8, "seed": 0},
    "olsr": {"n": 20, "m": 400, "noise": 0.1, "seed": 0},
    "sdl": {"n": 16, "m": 400, "density": 0.1, "seed": 0},
}
"""Random data that are solved in seconds."""
HEAD = """\
#:schema ./{schema}
# Check it:  destiny run {file} --dry
# Run it:    destiny run {file} --out results
# See it:    destiny report results --open
# All keys:  docs/experiment-files.md

"""
MORE = """\
# standardise = true              # also divide each column by its standard deviation: for unequal units
"""
HINTS = {
    "network": """\
# kind = "random-regular"         # more links, fewer rounds; needs: degree = 3, seed = 0

# [[algorithm]]                   # the method is chosen by itself, and the result says why; to choose one,
# kind = "destiny-momentum"       # any of docs/methods.md; of several tables destiny compare shows all
""",
}
OWN_FILES = """\
# data = "silo-{agent}.csv"       # your own files instead of synthetic: one per agent, numbered from 0,
# samples = "rows"                # or a list of names; a line of the file is a sample
"""


@dataclass(frozen=True)
class Answers:
    """What `destiny new` asks for."""

    kind: str = "pca"
    data: Sequence[str] = ()
    targets: Sequence[str] = ()
    p: int = 2
    agents: int = 4
    network: str = "ring"
    center: bool = True
    header: bool | None = None


def make_tables(answers: Answers, folder: Path) -> dict[str, Any]:
    """The tables of the experiment; files are named as seen from ``folder``."""
    a = answers
    problem: dict[str, Any] = {"kind": a.kind}
    if a.data:
        found = guess("--data", a.data[0], a.header)
        targets = guess("--targets", a.targets[0], a.header) if a.targets else {}
        if not (a.targets and "index" in found and "index" in targets) and "columns" in found:
            found.pop("index", None)  # there is nothing to compare row labels with
        problem |= {"data": _names(a.data, folder)} | found
    else:
        problem["synthetic"] = SIZES[a.kind]
    if a.targets:
        problem["targets"] = _names(a.targets, folder)
        problem |= {f"target-{key}": targets[key] for key in ("columns", "index") if key in targets}
    else:
        problem["p"] = a.p
    problem["agents"] = a.agents
    if a.kind != "sdl" and a.data:
        problem["center"] = a.center
    return {
        "problem": problem,
        "network": {"kind": a.network},
        "stop": {"rounds": SolveOptions.rounds, "tolerance": SolveOptions.tolerance},
        "run": {"every": SolveOptions.every, "checkpoint": SolveOptions.checkpoint_every},
    }


def to_text(tables: dict[str, Any]) -> str:
    """The file of an experiment, with comments."""
    hints = dict(HINTS)
    if "synthetic" in tables["problem"]:
        hints["problem"] = OWN_FILES
    elif tables["problem"]["kind"] != "sdl":
        hints["problem"] = MORE
    return HEAD.format(schema=SCHEMA, file=FILE) + to_toml(tables, lambda name: MEANINGS[name], hints)


def guess(option: str, name: str, header: bool | None) -> dict[str, Any]:
    """How files are probably written, from the first of them."""
    path = Path(name.replace("{agent}", "0"))
    if not path.is_file():
        raise SettingsError(f"{option} {name}: there is no file {path}")
    if files.is_csv(path):
        keys = guess_keys(path, header)
        if header is None and not keys.keys() & {"columns", "index"}:
            raise SettingsError(
                f"{option} {name}: the first line of {path} has numbers; say --header if they are names of "
                "columns, --no-header if they are data"
            )
        return keys
    if path.suffix == ".npy":
        shape = files.load(path).shape
        return {"samples": "columns"} if shape[0] < shape[1] else {}
    return {}


def _names(paths: Sequence[str], folder: Path) -> str | list[str]:
    """Paths as the file names them: relative to its folder."""
    names = [Path(os.path.relpath(path, folder)).as_posix() for path in paths]
    return names[0] if len(names) == 1 else names
