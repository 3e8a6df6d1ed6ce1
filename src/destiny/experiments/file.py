"""Experiment files: problem, network, start, algorithms and stopping in one TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from destiny import datasets, networks, registry
from destiny.engines.mixers import PLAIN, Messages, from_keys
from destiny.errors import DestinyError, SettingsError
from destiny.experiments.algorithm_tables import read_algorithms
from destiny.experiments.problem_table import read_problem
from destiny.experiments.schema import build, check
from destiny.problems import Centred
from destiny.problems.cached import CachedProblem
from destiny.protocols import Array, Method, ProblemBase, TopologyBase
from destiny.run.choice import choose
from destiny.run.solve import SolveOptions

TOP = {
    "problem": dict,
    "network": dict,
    "start": dict,
    "algorithm": list,
    "stop": dict,
    "run": dict,
    "mpi": dict,
    "messages": dict,
}
STOP = {"rounds": int, "seconds": float, "tolerance": float, "decentralised": bool}
RUN = {"every": int, "checkpoint": int, "threads": int}
MPI = {"agents-per-rank": int | list[int], "map": list[int]}
START = {"seed": int, "file": str}
MESSAGES = {"private": bool, "bits": int}


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
    algorithms: dict[str, Method | None]
    stop: dict[str, Any]
    every: int
    checkpoint: int
    threads: int | None
    mpi: dict[str, Any]
    image: tuple[int, ...] | None = None
    messages: Messages = PLAIN
    world: Any = None
    """Where time is simulated (`destiny.registry.FileTable`)."""

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
    check(tables, where, TOP | dict.fromkeys(registry.tables(), dict), required=("problem", "network"))
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
    messages = from_keys(check(tables.get("messages", {}), "[messages]", message_types()))

    def chosen() -> Method:
        added = None if world is None else registry.tables()["world"].choose(problem, network, messages)
        return added or choose(problem, network, tolerance, messages).algorithm

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


def message_types() -> dict[str, Any]:
    """Keys of [messages] and their types, with those that extensions add."""
    return MESSAGES | {name: key.type for name, key in registry.message_keys().items()}


def read_world(table: Any, folder: Path) -> Any:
    """[world]: speeds, delays, losses and crashes of a run in simulated time."""
    if not isinstance(table, dict):
        raise SettingsError(f"[world] must be a table; found {table!r}")
    world = registry.tables()["world"]
    return build(world.settings, dict(world.read(table, folder)), "[world]")


def require_rounds(algorithms: Mapping[str, Method | None]) -> None:
    """Refuse a method without rounds where time is not simulated."""
    for label, algorithm in algorithms.items():
        if algorithm is not None and registry.runs_elsewhere(algorithm) is not None:
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


def load_start(path: Path) -> Array:
    """[start] file: an n x p matrix, or d x n x p."""
    try:
        X = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise SettingsError(f"[start] file {path} cannot be read as a .npy array of numbers") from error
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "fiu" or X.ndim not in (2, 3):
        raise SettingsError(f"[start] file {path} must hold an n x p matrix of real numbers")
    return X.astype(np.float64)
