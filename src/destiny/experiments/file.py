"""Experiment files: problem, network, start, algorithms and stopping in one TOML file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from destiny import datasets, registry
from destiny.config.algorithm import read_algorithm
from destiny.config.extension_keys import add_extension_keys
from destiny.config.files import ExperimentFile
from destiny.config.kinds import make as make_settings
from destiny.config.network import read_link, read_network
from destiny.config.problem import ExperimentProblem, build_problem, problem_options, require_p
from destiny.config.schema import document
from destiny.config.tables import add_key, given, load
from destiny.config.tables import read as read_tables
from destiny.engines.mixers import PLAIN, Messages, from_keys
from destiny.errors import SettingsError
from destiny.experiments import result_folder
from destiny.problems import olsr
from destiny.problems.cached import CachedProblem
from destiny.problems.data.partition import split_rows
from destiny.problems.kinds import KINDS
from destiny.protocols import Array, Method, ProblemBase, TopologyBase
from destiny.protocols.link import INTERNET, Link
from destiny.run.choice import choose
from destiny.run.solve import SolveOptions

LABEL = re.compile(r"\w([\w .+=(),-]{0,98}[\w+=(),-])?")  # becomes the name of a folder
Methods = dict[str, Method | None]

add_key(
    ExperimentProblem, "dataset", Literal[tuple(datasets.NAMES)] | None, "a known data set instead of files"
)


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
    algorithms: Methods
    stop: dict[str, Any]
    every: int
    checkpoint: int
    threads: int | None
    mpi: dict[str, Any]
    image: tuple[int, ...] | None = None
    messages: Messages = PLAIN
    world: Any = None
    """Where time is simulated (`destiny.registry.FileTable`)."""
    link: Link = INTERNET

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
            link=self.link,
        )


def read(path: str | Path) -> Experiment:
    """Read and check an experiment file; relative paths in it are relative to the file."""
    path = Path(path)
    return make(load(path), path.parent, str(path))


def make(tables: dict[str, Any], folder: Path, where: str, home: Path | None = None) -> Experiment:
    """Check the tables of an experiment; ``home`` is the folder of the known data sets."""
    asked = read_file(tables, where)
    world = None if asked.world is None else read_world(asked.world, folder)
    loaded = None if asked.problem.dataset is None else from_dataset(asked.problem, home)
    problem = build_problem(asked.problem, asked.problem.agents, folder, loaded=loaded)
    network, link = read_network(asked.network, problem.agents, folder), read_link(asked.network)
    run = given(asked.run)
    stop = {key.replace("-", "_"): value for key, value in given(asked.stop).items()}  # options of `solve`
    tolerance = stop.get("tolerance", SolveOptions.tolerance)
    messages = from_keys(given(asked.messages))

    def chosen() -> Method:
        added = None if world is None else registry.tables()["world"].choose(problem, network, messages)
        return added or choose(problem, network, tolerance, messages, link=link).algorithm

    algorithms = read_algorithms(asked.algorithm, lambda: chosen().kind)
    if world is None:
        require_rounds(algorithms)
    else:
        algorithms = {label: method or chosen() for label, method in algorithms.items()}
    return Experiment(
        tables=tables,
        problem=CachedProblem(problem),
        network=network,
        start=asked.start.point(folder),
        seed=asked.start.seed,
        algorithms=algorithms,
        stop=stop,
        every=run.get("every", SolveOptions.every),
        checkpoint=run.get("checkpoint", SolveOptions.checkpoint_every),
        threads=run.get("threads"),
        mpi=given(asked.mpi),
        image=datasets.IMAGES.get(asked.problem.dataset or ""),
        messages=messages,
        world=world,
        link=link,
    )


def read_file(tables: dict[str, Any], where: str) -> Any:
    """The tables of an experiment, checked one by one."""
    add_extension_keys()
    return read_tables(ExperimentFile, tables, where, tables=True)


def read_algorithms(tables: list[dict[str, Any]], chosen: Callable[[], str]) -> Methods:
    """[[algorithm]], each under its label; None for one without a kind, whose label is ``chosen``."""
    algorithms: Methods = {}
    for table in tables:
        where = "[[algorithm]]"
        settings = table.keys() - {"label"}
        kind = table.get("kind")
        kind = kind.rpartition(":")[2] if isinstance(kind, str) else kind  # of one's own: its class
        label = table.get("label", kind if settings else chosen())
        algorithm = read_algorithm(table, where) if settings else None
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
    return algorithms


def read_world(table: Any, folder: Path) -> Any:
    """[world]: speeds, delays, losses and crashes of a run in simulated time."""
    world = registry.tables()["world"]
    content = world.read(msgspec.structs.asdict(table), folder)
    return make_settings(world.settings, msgspec.structs.replace(table, **content), "[world]")


def from_dataset(table: Any, home: Path | None = None) -> ProblemBase:
    """A known data set, dealt out to the agents; where targets are fitted, they are its classes."""
    dataset, kind = datasets.load(table.dataset, home), KINDS[table.kind]
    sizes, options = table.sizes or table.agents, problem_options(table)
    shares = split_rows(dataset.data, sizes, what=dataset.name)
    if kind.takes("targets"):
        targets = olsr.one_hot(dataset.labels)
        require_p(table, targets.shape[1], f"{dataset.name} has {targets.shape[1]} classes")
        return kind.make(shares, split_rows(targets, sizes), **options)  # type: ignore[no-any-return]
    return kind.make(shares, p=table.p, **options)  # type: ignore[no-any-return]


def require_rounds(algorithms: Mapping[str, Method | None]) -> None:
    """Refuse a method without rounds where time is not simulated."""
    for label, algorithm in algorithms.items():
        if algorithm is not None and registry.runs_elsewhere(algorithm) is not None:
            raise SettingsError(
                f"[[algorithm]] {label!r} has no rounds: add [world], in which time is simulated, or choose "
                "a method with rounds"
            )


def schema() -> dict[str, Any]:
    """The JSON schema of experiment files, with what was added to them here."""
    add_extension_keys()
    return document("DESTINY experiment", ExperimentFile)
