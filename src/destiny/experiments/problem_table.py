"""[problem] of experiment and agent files: data from files, synthetic, or a known data set."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from inspect import Parameter
from pathlib import Path
from typing import Any, Literal

from destiny import datasets
from destiny.errors import DestinyError, SettingsError
from destiny.experiments.schema import build, check, fits
from destiny.problems import L1, L21, OLSR, PCA, SDL, Centred, Privacy, batched, olsr, pca, regularised, sdl
from destiny.problems.data import files as data
from destiny.problems.data.partition import split_rows
from destiny.problems.regularisers import REGULARISERS
from destiny.protocols import ProblemBase
from destiny.validation import did_you_mean

PROBLEMS: dict[str, Any] = {"pca": PCA, "olsr": OLSR, "sdl": SDL}
SYNTHETIC: dict[str, tuple[Any, dict[str, Any]]] = {
    "pca": (pca.synthetic, {"n": int, "m": int, "xi": float, "seed": int}),
    "olsr": (olsr.synthetic, {"n": int, "m": int, "noise": float, "seed": int}),
    "sdl": (sdl.synthetic, {"n": int, "m": int, "density": float, "seed": int}),
}
PROBLEM = {
    "kind": Literal["pca", "olsr", "sdl"],
    "data": str | list[str],
    "synthetic": dict,
    "dataset": str,
    "targets": str | list[str],
    "samples": Literal["rows", "columns"],
    "p": int,
    "agents": int,
    "sizes": list[int],
    "scale": float,
    "precision": Literal["float32", "float64"],
    "center": bool,
    "standardise": bool,
    "regulariser": dict,
    "privacy": dict,
    "batch": int,
    "header": bool,
    "sep": str,
    "decimal": Literal[".", ","],
    "encoding": str,
    "thousands": str,
    "na-values": list[str],
    "skiprows": int,
    "columns": list[str],
    "index": str | int | list[str | int],
    "target-columns": list[str],
    "target-index": str | int | list[str | int],
}
DEFAULTS: dict[str, Any] = {
    "sizes": None,
    "scale": 1.0,
    "precision": "auto",
    "columns": None,
    "target-columns": None,
    "center": False,
    "standardise": False,
    "regulariser": None,
    "privacy": None,
    "batch": None,
}
"""What it means to leave a key of [problem] out; `complete_problem` writes it out."""
LAYOUT = ("header", "sep", "decimal", "encoding", "thousands", "na-values", "skiprows")
"""Of all .csv files; columns and index are of data or of targets alone."""
CSV_KEYS = (*LAYOUT, "columns", "index", "target-columns", "target-index")
Reader = Callable[[dict[str, Any], str, Path], list[Any]]


def read_problem(
    table: dict[str, Any], folder: Path, read: Reader | None = None, home: Path | None = None
) -> ProblemBase:
    """[problem]: data from files, synthetic, or a known data set.

    ``read`` finds the agents' shares (`read_silos`); ``home`` is the folder of the known data sets.
    """
    check(table, "[problem]", PROBLEM, required=("kind", "agents"))
    kind, agents = table["kind"], table["agents"]
    if agents < 1:
        raise SettingsError(f"[problem] agents must be at least 1; found {agents}")
    sizes = table.get("sizes")
    if sizes is not None and (len(sizes) != agents or not all(fits(s, int) and s >= 0 for s in sizes)):
        raise SettingsError(f"[problem] sizes must be {agents} whole numbers, one per agent; found {sizes}")
    if sum(key in table for key in ("data", "synthetic", "dataset")) != 1:
        raise SettingsError("[problem] needs either data, synthetic or dataset, one of the three")
    if sizes is not None and one_each(table.get("data", "")):
        raise SettingsError("[problem] sizes belong to one file for all agents: here each has its own")
    if "samples" in table and "data" not in table:
        raise SettingsError("[problem] samples belong to data: they say how the files keep them")
    if ("targets" in table) != (kind == "olsr" and "data" in table):
        raise SettingsError("[problem] targets belong to olsr with data, and olsr with data needs them")
    check_files(table)
    if "p" not in table and "targets" not in table and not (kind == "olsr" and "dataset" in table):
        raise SettingsError("[problem] needs the key 'p': a whole number")
    if "precision" in table and kind != "sdl":
        raise SettingsError(f"[problem] precision belongs to sdl; found kind {kind!r}")
    if kind == "sdl" and (table.get("center") or table.get("standardise")):
        raise SettingsError("[problem] center and standardise belong to pca and olsr; found kind 'sdl'")
    if table.get("standardise") and not table.get("center", True):
        raise SettingsError("[problem] standardise also subtracts the mean: leave center = false out")
    term = read_regulariser(table["regulariser"]) if "regulariser" in table else None
    privacy = read_privacy(table, folder)
    check_batch(table)
    problem = _as_given(table, folder, read, home)
    if isinstance(problem, PCA | OLSR | SDL) and "batch" in table:
        return batched(problem, table["batch"])
    if isinstance(problem, PCA) and privacy is not None:
        problem = pca.private(problem, privacy)
    if isinstance(problem, PCA | OLSR) and (table.get("center") or table.get("standardise")):
        problem = Centred(problem, table.get("standardise", False))
        return problem if term is None else problem + term
    return problem if term is None else regularised(problem, term)


def check_batch(table: dict[str, Any]) -> None:
    """Refuse batch with what needs all samples at once."""
    if "batch" not in table:
        return
    if table["batch"] < 1:
        raise SettingsError(f"[problem] batch must be at least 1; found {table['batch']}")
    for key in ("center", "standardise", "regulariser", "privacy"):
        if table.get(key):
            raise SettingsError(
                f"[problem] batch does not go with {key}, which needs all samples: leave one of them out"
            )


def read_regulariser(table: dict[str, Any]) -> L1 | L21:
    """regulariser = { kind = ..., weight = ... }."""
    where = "[problem] regulariser"
    rest = dict(table)
    kind = rest.pop("kind", None)
    if not isinstance(kind, str) or kind not in REGULARISERS:
        raise SettingsError(
            f"{where} kind must be one of {', '.join(REGULARISERS)}; found {kind!r}"
            f"{did_you_mean(kind, REGULARISERS)}"
        )
    check(rest, where, {"weight": float}, required=("weight",))
    try:
        return REGULARISERS[kind](**rest)
    except DestinyError as error:
        raise SettingsError(f"{where}: {error}") from error


def read_privacy(table: dict[str, Any], folder: Path) -> Privacy | None:
    """[problem] privacy = { epsilon, delta, bound, ... }, if it is there."""
    if table.get("privacy") is None:
        return None
    if table["kind"] != "pca":
        raise SettingsError(f"[problem] privacy belongs to pca; found kind {table['kind']!r}: leave it out")
    if table.get("standardise"):
        raise SettingsError(
            "[problem] privacy goes with center, not with standardise: divide the columns by publicly known "
            "scales first"
        )
    privacy = build(Privacy, table["privacy"], "[problem] privacy")
    return privacy if privacy.secret is None else replace(privacy, secret=str(folder / privacy.secret))


def _as_given(table: dict[str, Any], folder: Path, read: Reader | None, home: Path | None) -> ProblemBase:
    """The problem of the data as they are."""
    kind = table["kind"]
    if "synthetic" in table:
        return synthetic(table, kind)
    if "dataset" not in table:
        return from_files(table, kind, folder, read)
    if read is not None:  # the loader reads a whole set, and here each process holds its own share only
        raise SettingsError("[problem] dataset is for runs in one place: give each agent its own data")
    return from_dataset(table, kind, home)


def complete_problem(table: dict[str, Any]) -> dict[str, Any]:
    """[problem] with every default written out: tables that mean the same are equal."""
    complete = DEFAULTS | table
    complete["center"] |= complete["standardise"]  # which also subtracts the mean
    if complete["regulariser"] is not None:
        term = read_regulariser(complete["regulariser"])
        complete["regulariser"] = {"kind": term.kind, "weight": term.weight}  # 1 and 1.0 are equal
    if (privacy := read_privacy(table, Path())) is not None:
        complete["privacy"] = privacy.settings
    if "synthetic" in table:
        make, keys = SYNTHETIC[table["kind"]]
        parameters = inspect.signature(make).parameters
        defaults = {
            key: parameters[key].default for key in keys if parameters[key].default is not Parameter.empty
        }
        complete["synthetic"] = defaults | table["synthetic"]
    return complete


def synthetic(table: dict[str, Any], kind: str) -> ProblemBase:
    """The problem's own generator."""
    make, keys = SYNTHETIC[kind]
    given = check(table["synthetic"], "[problem] synthetic", keys, required=("n", "m"))
    if kind == "pca" and "xi" not in given:
        raise SettingsError("[problem] synthetic needs the key 'xi': a number")
    options = {k: table[k] for k in ("p", "agents", "scale") if k in table}
    options["agents"] = table.get("sizes", table["agents"])
    try:
        problem: ProblemBase = make(**given, **options)
    except DestinyError as error:
        raise SettingsError(f"[problem] synthetic: {error}") from error
    return problem


def from_dataset(table: dict[str, Any], kind: str, home: Path | None = None) -> ProblemBase:
    """A known data set, dealt out to the agents; olsr fits the indicators of its classes."""
    dataset = datasets.load(table["dataset"], home)
    options = {k: table[k] for k in ("scale", "precision") if k in table}
    sizes = table.get("sizes", table["agents"])
    if kind == "olsr":
        targets = olsr.one_hot(dataset.labels)
        require_p(table, targets.shape[1], f"{dataset.name} has {targets.shape[1]} classes")
        return olsr.from_data(dataset.data, targets, sizes, **options)
    problem: ProblemBase = PROBLEMS[kind](
        split_rows(dataset.data, sizes, what=dataset.name), table["p"], **options
    )
    return problem


def require_p(table: dict[str, Any], targets: int, why: str) -> None:
    """Refuse a p that is not the number of targets."""
    if table.get("p", targets) != targets:
        raise SettingsError(f"[problem] p is {table['p']} but {why}: make them equal")


def from_files(table: dict[str, Any], kind: str, folder: Path, read: Reader | None = None) -> ProblemBase:
    """One file for all agents, or one per agent where the name holds ``{agent}``."""
    read = read or read_silos
    options = {k: table[k] for k in ("scale", "precision") if k in table}
    silos = read(table, "data", folder)
    if kind == "olsr":
        targets = read(table, "targets", folder)
        problem = OLSR(silos, targets, **options)
        require_p(table, problem.shape[1], f"targets has {problem.shape[1]} columns")
        return problem
    built: ProblemBase = PROBLEMS[kind](silos, table["p"], **options)
    return built


def check_files(table: dict[str, Any]) -> None:
    """Refuse lists without a name per agent, and keys of .csv files where there are none."""
    for key in ("data", "targets"):
        files = table.get(key)
        if isinstance(files, list) and (
            not all(fits(name, str) for name in files) or len(files) != table["agents"]
        ):
            raise SettingsError(
                f"[problem] {key} must name a different file for each of the {table['agents']} agents; "
                f"found {files}"
            )
    for key in CSV_KEYS:
        whose = ("targets",) if key.startswith("target-") else ("data", "targets")[: 1 + (key in LAYOUT)]
        if key in table and not any(is_csv(table[name]) for name in whose if name in table):
            raise SettingsError(
                f"[problem] {key} belongs to {' or '.join(whose)} in .csv files: leave it out, or give "
                "the file a name that ends in .csv, .tsv or .txt"
            )


def is_csv(files: str | list[str]) -> bool:
    """Whether there is a .csv file among them."""
    return any(data.is_csv(name) for name in ([files] if isinstance(files, str) else files))


def one_each(files: str | list[str]) -> bool:
    """Whether every agent has a file of its own, not all one together."""
    return isinstance(files, list) or "{agent" in files


def file_options(table: dict[str, Any], key: str) -> dict[str, Any]:
    """How to read the files of ``key``, as `data.File` and `data.silos` take it."""
    prefix = "target-" if key == "targets" else ""
    layout = {k.replace("-", "_"): table[k] for k in LAYOUT if k in table and is_csv(table[key])}
    layout |= {k: table[prefix + k] for k in ("columns", "index") if prefix + k in table}
    try:
        return {"samples": table.get("samples"), "csv": data.Csv(**layout, prefix=prefix)}
    except DestinyError as error:
        raise SettingsError(f"[problem] {error}") from error


def read_silos(table: dict[str, Any], key: str, folder: Path) -> list[Any]:
    """The agents' shares of the file or files a key names."""
    files, options = table[key], file_options(table, key)
    if isinstance(files, list):
        return list(data.silos([folder / name for name in files], table["agents"], **options))
    if one_each(files) or (data.WRONG_FIELD.search(files) and not (folder / files).exists()):
        # Braces in the folder's own name are not ours to fill in.
        home = str(folder).replace("{", "{{").replace("}", "}}")
        return list(data.silos(Path(home) / files, table["agents"], **options))
    whole = data.File(str(folder / files), **options)
    names = whole.feature_names()
    sizes = table.get("sizes", table["agents"])
    return list(split_rows(whole(), sizes, what=files, names=names, ids=whole.row_ids()))
