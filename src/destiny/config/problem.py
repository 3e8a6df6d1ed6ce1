"""[problem] of experiment and agent files: its keys, and the problem they describe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Union, get_type_hints

import msgspec

from destiny.config.kinds import arguments_table, fields_table, make
from destiny.config.shares import LAYOUT, OF_EACH, is_csv, one_each, read_shares
from destiny.config.tables import Positive, Table, Whole, add_key, key_of, read
from destiny.errors import DestinyError, SettingsError
from destiny.problems import Centered, Privacy, batched, regularized
from destiny.problems.data.files import Csv
from destiny.problems.kinds import KINDS, Kind
from destiny.problems.regularizers import REGULARIZERS

OF_CSV = (*LAYOUT, *OF_EACH, *(f"target_{key}" for key in OF_EACH))
LOCAL = frozenset({"data", "targets", "samples", "index", "target-index", *map(key_of, LAYOUT)})
"""Keys of [problem] that may differ between agents; all others are compared, those of later versions too.

``data`` and ``targets`` say where an agent keeps its own files. The rest says how those files are written:
samples in rows or columns, separator and decimal sign, a header line, a column of row labels. Two hospitals
may export differently; once read, the numbers mean the same. Whatever changes what the numbers mean, or what
is computed from them, does not belong here.
"""
NOT_SYNTHETIC = frozenset({"p", "agents", "scale"})  # arguments of random data that are keys of all problems
Shares = Callable[["ProblemTable", str, int, Path], list[Any]]
"""The agents' shares of the files that a key names: data or targets."""


def _those(have: Callable[[Kind], object]) -> str:
    """The kinds of problems that have something, by name."""
    return " and ".join(name for name, kind in KINDS.items() if have(kind))


class ProblemTable(Table, frozen=True):
    """[problem] of both kinds of files; keys whose types are found elsewhere are added below.

    kind: pca, olsr (least squares, orthonormal columns) or sdl (dictionary)
    data: a file, a name with {agent}, or a list with a file per agent; relative to this file
    targets: of olsr: files like those of data
    synthetic: random data instead of files
    samples: whether a sample is a row (the default, except for .csv) or a column of the files
    p: number of components: columns of the answer
    sizes: number of samples of each agent, if one file is not to be shared evenly
    scale: data are multiplied by it
    precision: of sdl: float32 is faster
    center: subtract the mean of everybody's samples, found by averaging
    standardize: also divide each column by its standard deviation
    regularizer: a term that makes answers sparse
    privacy: noise that hides single samples of pca
    batch: samples in a mini-batch, for methods that take them
    header: whether .csv files begin with names of columns
    sep: what stands between the fields of .csv files
    decimal: the decimal sign of .csv files
    encoding: of letters in .csv files: utf-8, or cp1252 of many Windows programs
    thousands: the sign between groups of three digits in .csv files
    na-values: texts that stand for a missing field of .csv files, which is refused
    skiprows: number of lines above the table in .csv files
    columns: the columns to read, by name, in this order
    index: columns with row labels, by name or by number from 0
    target-columns: the same as columns, for targets
    target-index: the same as index, for targets
    """

    kind: str
    data: Any = None
    targets: Any = None
    synthetic: dict[str, Any] | None = None
    samples: Literal["rows", "columns"] | None = None
    p: int | None = None
    sizes: list[Whole] | None = None
    scale: float = 1.0
    precision: Literal["auto", "float32", "float64"] = "auto"
    center: bool | None = None
    standardize: bool = False
    regularizer: Any = None
    privacy: Any = None
    batch: Positive | None = None

    def __post_init__(self) -> None:
        kind, source = KINDS[self.kind], self.source
        if self.samples is not None and self.data is None:
            raise SettingsError("samples belong to data: they say how the files keep them")
        if (self.targets is not None) != (kind.takes("targets") and self.data is not None):
            having = _those(lambda k: k.takes("targets"))
            raise SettingsError(f"targets belong to {having} with data, and {having} with data needs them")
        self._check_csv()
        if self.p is None and not (kind.takes("targets") and source != "synthetic"):
            raise SettingsError("needs the key 'p': a whole number")
        if self.precision != "auto" and not kind.takes("precision"):
            raise SettingsError(
                f"precision belongs to {_those(lambda k: k.takes('precision'))}; found kind {self.kind!r}"
            )
        if not kind.centered and (self.center or self.standardize):
            having = _those(lambda k: k.centered)
            raise SettingsError(f"center and standardize belong to {having}; found kind {self.kind!r}")
        if self.standardize and self.center is False:
            raise SettingsError("standardize also subtracts the mean: leave center = false out")
        for key in ("center", "standardize", "regularizer", "privacy"):
            if self.batch is not None and getattr(self, key):
                raise SettingsError(
                    f"batch does not go with {key}, which needs all samples: leave one of them out"
                )
        if self.privacy is not None and kind.private is None:
            raise SettingsError(
                f"privacy belongs to {_those(lambda k: k.private)}; found kind {self.kind!r}: leave it out"
            )
        if self.privacy is not None and self.standardize:
            raise SettingsError(
                "privacy goes with center, not with standardize: divide the columns by publicly known scales "
                "first"
            )

    @property
    def source(self) -> str:
        """Where the data come from: the one of data, synthetic and what else was added that the file has."""
        sources = [name for name in ("data", "synthetic", "dataset") if hasattr(self, name)]
        given = [name for name in sources if getattr(self, name) is not None]
        if len(given) != 1:
            raise SettingsError(f"needs one of {', '.join(sources)}; found {' and '.join(given) or 'none'}")
        return given[0]

    def _check_csv(self) -> None:
        """Refuse keys of .csv files where there are none."""
        for key in OF_CSV:
            whose = ("targets",) if key.startswith("target_") else ("data", "targets")[: 1 + (key in LAYOUT)]
            if getattr(self, key) is not None and not any(is_csv(getattr(self, name)) for name in whose):
                raise SettingsError(
                    f"{key_of(key)} belongs to {' or '.join(whose)} in .csv files: leave it out, or give the "
                    "file a name that ends in .csv, .tsv or .txt"
                )


class ExperimentProblem(ProblemTable, frozen=True, kw_only=True):
    """[problem] of experiment files, which have the data of all agents.

    agents: how many parties there are
    """

    agents: Positive
    data: str | list[str] | None = None
    targets: str | list[str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sizes is not None and len(self.sizes) != self.agents:
            raise SettingsError(
                f"sizes must be {self.agents} whole numbers, one per agent; found {self.sizes}"
            )
        if self.sizes is not None and self.data is not None and one_each(self.data):
            raise SettingsError("sizes belong to one file for all agents: here each has its own")
        for key in ("data", "targets"):
            names = getattr(self, key)
            if isinstance(names, list) and len(names) != self.agents:
                raise SettingsError(
                    f"{key} must name a different file for each of the {self.agents} agents; found {names}"
                )


class AgentProblem(ProblemTable, frozen=True):
    """[problem] of agent files, which have the data of one agent.

    data: the agent's own file, relative to this file
    targets: of olsr: a file like that of data
    """

    data: str | None = None
    targets: str | None = None


_TERMS: Any = Union[tuple(fields_table(term, name) for name, term in REGULARIZERS.items())]  # noqa: UP007
_CSV = get_type_hints(Csv)
add_key(ProblemTable, "kind", Literal[tuple(KINDS)], default=msgspec.NODEFAULT)
add_key(ProblemTable, "regularizer", _TERMS | None)
add_key(ProblemTable, "privacy", fields_table(Privacy) | None)
for _key in OF_CSV:
    add_key(ProblemTable, _key, _CSV[_key.removeprefix("target_")] | None)


def build_problem(
    table: ProblemTable, agents: int, folder: Path, shares: Shares | None = None, loaded: Any = None
) -> Any:
    """The problem of a table.

    ``shares`` finds the agents' shares of files (`read_shares`); ``loaded`` is the problem itself, where its
    data come from elsewhere.
    """
    problem = _of_data(table, agents, folder, shares or read_shares) if loaded is None else loaded
    kind = KINDS[table.kind]
    if table.batch is not None:
        return batched(problem, table.batch)
    if (privacy := read_privacy(table, folder)) is not None and kind.private is not None:
        problem = kind.private(problem, privacy)
    term = read_regularizer(table)
    if table.center or table.standardize:
        problem = Centered(problem, table.standardize)
        return problem if term is None else problem + term
    return problem if term is None else regularized(problem, term)


def _of_data(table: ProblemTable, agents: int, folder: Path, shares: Shares) -> Any:
    """The problem of the data as they are."""
    kind, options = KINDS[table.kind], problem_options(table)
    if table.synthetic is not None:
        where = "[problem] synthetic"
        given = msgspec.structs.asdict(read(synthetic_table(table.kind), table.synthetic, where))
        try:
            return kind.synthetic(p=table.p, agents=table.sizes or agents, scale=table.scale, **given)
        except DestinyError as error:
            raise SettingsError(f"{where}: {error}") from error
    silos = shares(table, "data", agents, folder)
    if not kind.takes("targets"):
        return kind.make(silos, p=table.p, **options)
    problem = kind.make(silos, shares(table, "targets", agents, folder), **options)
    require_p(table, problem.shape[1], f"targets has {problem.shape[1]} columns")
    return problem


def problem_options(table: ProblemTable) -> dict[str, Any]:
    """The options that all sources of data have."""
    kind = KINDS[table.kind]
    return {key: getattr(table, key) for key in ("scale", "precision") if kind.takes(key)}


def synthetic_table(kind: str) -> Any:
    """The keys of random data."""
    return arguments_table(KINDS[kind].synthetic, f"Synthetic_{kind}", NOT_SYNTHETIC)


def require_p(table: ProblemTable, targets: int, why: str) -> None:
    """Refuse a p that is not the number of targets."""
    if table.p not in (None, targets):
        raise SettingsError(f"[problem] p is {table.p} but {why}: make them equal")


def read_regularizer(table: ProblemTable) -> Any:
    """The regularizer, None without."""
    term = table.regularizer
    if term is None:
        return None
    return make(REGULARIZERS[term.__struct_config__.tag], term, "[problem] regularizer")


def read_privacy(table: ProblemTable, folder: Path) -> Privacy | None:
    """The privacy, None without."""
    if table.privacy is None:
        return None
    privacy: Privacy = make(Privacy, table.privacy, "[problem] privacy")
    return privacy if privacy.secret is None else replace(privacy, secret=str(folder / privacy.secret))


def shared_keys(table: ProblemTable, p: int) -> dict[str, Any]:
    """What must be equal at all agents, defaults written out: tables that mean the same are equal."""
    keys = {key: value for key, value in msgspec.to_builtins(table).items() if key not in LOCAL}
    keys |= {"p": p, "center": bool(table.center or table.standardize)}  # the latter also subtracts the mean
    if table.synthetic is not None:
        keys["synthetic"] = msgspec.to_builtins(read(synthetic_table(table.kind), table.synthetic, ""))
    if (privacy := read_privacy(table, Path())) is not None:
        keys["privacy"] = privacy.settings
    return keys
