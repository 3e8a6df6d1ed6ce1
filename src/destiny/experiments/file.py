"""Experiment files: problem, network, start, algorithms and stopping in one TOML file."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import Parameter
from pathlib import Path
from typing import Any, Literal

import numpy as np

from destiny import datasets, networks
from destiny.algorithms import ASYNC_KINDS, KINDS, DestinyAsync
from destiny.algorithms.blocks.step_sizes import RULES
from destiny.errors import DestinyError, SettingsError
from destiny.experiments import result_folder
from destiny.experiments.schema import build, check, fits
from destiny.problems import L1, L21, OLSR, PCA, SDL, Centred, Privacy, batched, olsr, pca, regularised, sdl
from destiny.problems.cached import CachedProblem
from destiny.problems.data import files as data
from destiny.problems.data.partition import split_columns
from destiny.problems.regularisers import REGULARISERS
from destiny.protocols import AlgorithmBase, Array, AsyncAlgorithmBase, ProblemBase, TopologyBase
from destiny.run.asynchronous import takes_async
from destiny.run.choice import choose
from destiny.run.messages import PLAIN, Messages
from destiny.run.options import SolveOptions
from destiny.simulation.traces import read_traces
from destiny.simulation.world import World
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
    "samples": Literal["columns", "rows"],
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
    "columns": list[str],
    "index": str | int,
    "target-columns": list[str],
    "target-index": str | int,
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
LAYOUT = (
    "header",
    "sep",
    "decimal",
    "encoding",
)  # of all .csv files; columns and index are of data or of targets alone
CSV_KEYS = (*LAYOUT, "columns", "index", "target-columns", "target-index")
TOP = {
    "problem": dict,
    "network": dict,
    "start": dict,
    "algorithm": list,
    "stop": dict,
    "run": dict,
    "mpi": dict,
    "messages": dict,
    "world": dict,
}
STOP = {"rounds": int, "seconds": float, "tolerance": float, "decentralised": bool}
RUN = {"every": int, "checkpoint": int, "threads": int}
MPI = {"agents-per-rank": int | list[int], "map": list[int]}
START = {"seed": int, "file": str}
MESSAGES = {"private": bool, "bits": int, "clip": int}
Reader = Callable[[dict[str, Any], str, Path], list[Any]]
LABEL = re.compile(r"\w([\w .+=(),-]{0,98}[\w+=(),-])?")  # becomes the name of a folder


@dataclass(frozen=True)
class Experiment:
    """What a file asks for, checked and ready to run; ``image`` is a sample's shape as a picture.

    An algorithm that is None is the one that `solve` chooses; its label is the kind of the choice.
    """

    tables: dict[str, Any]
    problem: ProblemBase
    network: TopologyBase
    start: Array | None
    seed: int
    algorithms: dict[str, AlgorithmBase | AsyncAlgorithmBase | None]
    stop: dict[str, Any]
    every: int
    checkpoint: int
    threads: int | None
    mpi: dict[str, Any]
    image: tuple[int, ...] | None = None
    messages: Messages = PLAIN
    world: World | None = None
    """Where time is simulated."""

    @property
    def options(self) -> SolveOptions:
        """The options of `solve` that the file sets."""
        return SolveOptions(
            start=self.start,
            seed=self.seed,
            **self.stop,
            every=self.every,
            checkpoint_every=self.checkpoint,
            messages=self.messages,
        )


def read(path: str | Path) -> Experiment:
    """Read and check an experiment file; relative paths in it are relative to the file."""
    path = Path(path)
    return make(load_tables(path), path.parent, str(path))


def make(tables: dict[str, Any], folder: Path, where: str, home: Path | None = None) -> Experiment:
    """Check the tables of an experiment; ``home`` is the folder of the known data sets."""
    check(tables, where, TOP, required=("problem", "network"))
    run = check(tables.get("run", {}), "[run]", RUN)
    for key in ("every", "checkpoint"):
        if run.get(key, 0) < 0:
            raise SettingsError(f"[run] {key} must be at least 0; found {run[key]}")
    start = check(tables.get("start", {}), "[start]", START)
    world = read_world(tables["world"], folder) if "world" in tables else None
    problem = read_problem(tables["problem"], folder, home=home)
    network = read_network(tables["network"], problem.agents, folder)
    stop = check(tables.get("stop", {}), "[stop]", STOP)
    tolerance = stop.get("tolerance", SolveOptions.tolerance)
    messages = Messages(**check(tables.get("messages", {}), "[messages]", MESSAGES))

    def chosen() -> AlgorithmBase | AsyncAlgorithmBase:
        if world is not None and takes_async(DestinyAsync(), problem, network, messages):
            return DestinyAsync()
        return choose(problem, network, tolerance, messages).algorithm

    algorithms = read_algorithms(tables.get("algorithm", [{}]), lambda: chosen().kind)
    if world is None:
        require_rounds(algorithms)
    else:
        algorithms = {label: method or chosen() for label, method in algorithms.items()}
    return Experiment(
        tables=tables,
        problem=problem if isinstance(problem, Centred) else CachedProblem(problem),
        network=network,
        start=load_start(folder / start["file"]) if "file" in start else None,
        seed=start.get("seed", SolveOptions.seed),
        algorithms=algorithms,
        stop=stop,
        every=run.get("every", SolveOptions.every),
        checkpoint=run.get("checkpoint", SolveOptions.checkpoint_every),
        threads=run.get("threads"),
        mpi=check(tables.get("mpi", {}), "[mpi]", MPI),
        image=datasets.IMAGES.get(tables["problem"].get("dataset", "")),
        messages=messages,
        world=world,
    )


def read_world(table: Any, folder: Path) -> World:
    """[world]: speeds, delays, losses and crashes of a run in simulated time; traces may be a .csv file."""
    if not isinstance(table, dict):
        raise SettingsError(f"[world] must be a table; found {table!r}")
    if isinstance(traces := table.get("traces"), str):
        table = {**table, "traces": read_traces(folder / traces)}
    return build(World, table, "[world]")


def require_rounds(algorithms: Mapping[str, AlgorithmBase | AsyncAlgorithmBase | None]) -> None:
    """Refuse an asynchronous method where time is not simulated."""
    for label, algorithm in algorithms.items():
        if isinstance(algorithm, AsyncAlgorithmBase):
            raise SettingsError(
                f"[[algorithm]] {label!r} has no rounds: add [world], in which time is simulated, or choose "
                "a method with rounds"
            )


def load_tables(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # editors may begin it with a mark
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, or numbers and nesting beyond reason
        raise SettingsError(f"{path} is not a TOML file: {error}") from error


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
        require_p(table, len(targets), f"{dataset.name} has {len(targets)} classes")
        return olsr.from_data(dataset.data, targets, sizes, **options)
    problem: ProblemBase = PROBLEMS[kind](
        split_columns(dataset.data, sizes, what=dataset.name), table["p"], **options
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
        require_p(table, problem.shape[1], f"targets has {problem.shape[1]} rows")
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
                "the file a name that ends in .csv"
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
    layout = {k: table[k] for k in LAYOUT if k in table and is_csv(table[key])}
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
    return list(split_columns(whole(), table.get("sizes", table["agents"]), what=files, names=names))


def read_network(table: dict[str, Any], agents: int, folder: Path) -> TopologyBase:
    """[network]: any builder, or a weight matrix alone."""
    table = dict(table)
    kind = table.pop("kind", None)
    if kind is None:
        if set(table) != {"weights"}:
            raise SettingsError("[network] needs the key 'kind', or weights = \"W.npy\" alone")
        if not isinstance(table["weights"], str) or table["weights"] in networks.RULES:
            raise SettingsError(
                "[network] needs the key 'kind'; weights alone is the name of a .npy file; "
                f"found {table['weights']!r}"
            )
        kind, table = "weights", {"path": table["weights"]}
    if not isinstance(kind, str):
        raise SettingsError(f"[network] kind must be a text; found {kind!r}")
    if "agents" in table:
        raise SettingsError("[network] has no key 'agents': their number stands in [problem]")
    if isinstance(table.get("path"), str):
        table["path"] = str(folder / table["path"])
    if str(table.get("weights", "")).endswith(".npy"):
        raise SettingsError('[network] weights = "W.npy" stands alone, without kind')
    try:
        return networks.build(kind, agents, **table)
    except DestinyError as error:
        raise SettingsError(f"[network] {error}") from error


def read_algorithms(
    tables: list[Any], chosen: Callable[[], str] | None = None
) -> dict[str, AlgorithmBase | AsyncAlgorithmBase | None]:
    """[[algorithm]], each under its label; None for one without a kind, whose label is ``chosen``."""
    algorithms: dict[str, AlgorithmBase | AsyncAlgorithmBase | None] = {}
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


def is_asynchronous(kind: object) -> bool:
    """Whether this is the kind of an asynchronous method."""
    return isinstance(kind, str) and kind in ASYNC_KINDS


def read_any_algorithm(table: dict[str, Any], where: str) -> Any:
    """One algorithm of a file, synchronous or asynchronous."""
    return read_algorithm(table, where, KINDS | ASYNC_KINDS)


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


def load_start(path: Path) -> Array:
    """[start] file: an n x p matrix, or d x n x p."""
    try:
        X = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise SettingsError(f"[start] file {path} cannot be read as a .npy array of numbers") from error
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "fiu" or X.ndim not in (2, 3):
        raise SettingsError(f"[start] file {path} must hold an n x p matrix of real numbers")
    return X.astype(np.float64)
