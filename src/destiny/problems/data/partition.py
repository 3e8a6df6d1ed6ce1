"""Partition of samples: dividing a table over agents, and loading the part of one agent."""

from __future__ import annotations

import copy
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from destiny.errors import ProblemError
from destiny.problems.checks import check_finite, check_matrix
from destiny.problems.data.csv_layout import shorten
from destiny.problems.data.row_blocks import rows_between
from destiny.problems.data.rows import Rows, check_values
from destiny.problems.data.tables import Silos, TableSource
from destiny.protocols import Array

Source: TypeAlias = NDArray[Any] | Callable[[], NDArray[Any]] | Any
"""One agent's table, samples in rows, dense or sparse, or a callable that loads it when the agent is hosted.

`Rows` are taken as they are, without a check. The ``shape`` attribute of a callable, if it has one, is its
size.
"""

Partition: TypeAlias = int | Sequence[int] | Sequence[ArrayLike]
"""How samples are divided: the number of agents, the number of samples of each, or the indices of each."""


@runtime_checkable
class NamedSource(Protocol):
    """A source that may have names of features."""

    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features; None for formats without names, empty for a table without a header."""


@runtime_checkable
class LabeledSource(Protocol):
    """A source that may have row labels of its samples."""

    def row_ids(self) -> Sequence[Any] | None:
        """Row labels of the samples; None if there are none."""


@dataclass(frozen=True)
class Part:
    """Some rows of a table, taken when the object is called."""

    data: NDArray[Any]
    which: slice | NDArray[np.intp]
    features: tuple[str, ...] | None = None
    ids: Sequence[Any] | None = None

    def row_ids(self) -> Sequence[Any] | None:
        """Row labels of the samples, if they are known."""
        if self.ids is None:
            return None
        return [self.ids[k] for k in np.arange(len(self.ids))[self.which]]

    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if they are known."""
        return self.features

    @property
    def shape(self) -> tuple[int, ...]:
        """(m_i, n), without reading the data."""
        if isinstance(self.which, slice):
            return self.data[self.which].shape
        return (self.which.size, *self.data.shape[1:])

    def __call__(self) -> NDArray[Any]:
        """The rows ``(m_i, n)``, as a view if possible."""
        return self.data[self.which]


@dataclass(frozen=True)
class Shift:
    """The map x -> (x - mean) / scale of samples; ``mean`` and ``scale`` are ``(n,)``."""

    mean: Array
    scale: Array


class Matrices:
    """The tables of d agents, samples in rows, with the same number of columns.

    Arrays in memory are checked at once, files when they are loaded; errors are `ProblemError`.

    Parameters
    ----------
    sources : sequence of Source, or Silos
        One per agent.
    what : str
        What the tables are called in a message.
    width : int, optional
        Number of columns; by default that of the first source whose shape is known.
    gaps : bool
        Whether entries may be missing (NaN).
    sparse : bool
        Whether tables may be sparse.
    """

    def __init__(
        self,
        sources: Sequence[Source] | Silos,
        what: str = "data",
        width: int | None = None,
        gaps: bool = False,
        sparse: bool = False,
    ) -> None:
        if isinstance(sources, Silos):
            sources = sources.sources(gaps)
        if len(sources) == 0:
            raise ProblemError(
                f"a problem needs at least one agent; found no {what}; give one array per agent"
            )
        self.what, self.gaps, self.sparse = what, gaps, sparse
        self.shifts: Mapping[int, Shift] = {}
        self.sources = tuple(map(_as_source, sources))
        for agent, source in enumerate(self.sources):
            if isinstance(source, Part):
                check_matrix(source.data, self.name_of(agent))
            elif isinstance(source, TableSource) and issparse(source.rows) and not sparse:
                raise ProblemError(f"{self.name_of(agent)} must be dense; found a sparse matrix")
        self.names = self._common_names()
        self.width = self._known_width() if width is None else width
        for agent, source in enumerate(self.sources):
            # What is in memory is checked where the mistake was made; files are read only when hosted.
            if isinstance(source, Part) and not isinstance(source.data, np.memmap):
                self.load(agent)

    def __len__(self) -> int:
        return len(self.sources)

    def with_shifts(self, shifts: Mapping[int, Shift]) -> Matrices:
        """The same tables, with those of the agents in ``shifts`` shifted when they are loaded."""
        shifted = copy.copy(self)
        shifted.shifts = shifts
        return shifted

    def load(self, agent: int) -> Rows:
        """The rows of one agent ``(m_i, width)``, checked, and shifted if they are to be."""
        data, name = self.sources[agent](), self.name_of(agent)
        if isinstance(data, Rows):  # checked already
            return data
        data = _csr(data) if issparse(data) else np.asanyarray(data)
        self._check(data, name)
        rows = Rows(data if issparse(data) or isinstance(data, np.memmap) else np.asarray(data))
        shift = self.shifts.get(agent)
        return rows if shift is None else replace(rows, mean=shift.mean, scale=shift.scale)

    def _check(self, data: Any, name: str) -> None:
        if issparse(data) and not self.sparse:
            raise ProblemError(f"{name} must be dense; found a sparse matrix; give its toarray()")
        if not issparse(data):
            check_matrix(data, name)
        if data.shape[1] != self.width:
            # M of X^T M X = I has no samples.
            why = "" if self.what == "M" else "; samples are rows: are those of this table in columns?"
            raise ProblemError(
                f"{name} must have {self.width} columns like everyone's; found shape {data.shape}{why}"
            )
        if not issparse(data):
            check_finite(data, name, self.gaps)
        elif check_values(data, name):
            raise ProblemError(f"{name} must be finite; found NaN; remove the sample or fill the gap")

    def row_ids(self, agent: int) -> Sequence[Any] | None:
        """Row labels of the samples of one agent; None if there are none."""
        source = self.sources[agent]
        return source.row_ids() if isinstance(source, LabeledSource) else None

    @property
    def alike(self) -> int | None:
        """The number of rows of each of these arrays, if it is the same; None of tables of other kinds.

        Parts of one table with more rows than columns say nothing of its orientation: None too.
        """
        wholes = {id(source.data): source.data for source in self.sources if isinstance(source, Part)}
        if len(self.sources) > 1 and len(wholes) == 1 and all(len(w) >= w.shape[1] for w in wholes.values()):
            return None
        sizes = {source.shape[0] if isinstance(source, Part) else -1 for source in self.sources}
        return sizes.pop() if len(sizes) == 1 and -1 not in sizes else None

    @property
    def sizes(self) -> list[int] | None:
        """Numbers of samples of the agents; None if some are not known without reading files."""
        known = [source.shape[0] for source in self.sources if isinstance(source, Part | TableSource)]
        return known if len(known) == len(self) else None

    def describe(self) -> str:
        """Numbers of agents, samples and features, in words."""
        samples = "samples" if self.sizes is None else f"{sum(self.sizes)} samples"
        return f"{len(self)} agents hold {samples} of {self.width} features"

    def name_of(self, agent: int) -> str:
        """What the table of an agent is called in a message."""
        path = getattr(self.sources[agent], "path", None)
        return f"agent {agent}'s {self.what}" + (f" ({path})" if path else "")

    def _common_names(self) -> tuple[str, ...]:
        """Names of the features, or (); raises `ProblemError` if sources differ in names or order."""
        headers = [
            (agent, names)
            for agent, source in enumerate(self.sources)
            if (names := _names_of(source)) is not None
        ]
        for agent, names in headers[1:]:
            first, expected = headers[0]
            if names != expected:
                raise ProblemError(
                    f"{self.name_of(agent)} must have the columns of {self.name_of(first)}, in the same "
                    f"order; found {compare_names(names, expected)}; write the same header everywhere, or "
                    f"set {'target-' if self.what == 'targets' else ''}columns = [...]"
                )
        return headers[0][1] if headers else ()

    def _known_width(self) -> int:
        failure: ProblemError | None = None
        for source in self.sources:
            try:
                shape: tuple[int, ...] | None = getattr(source, "shape", None)
            except ProblemError as error:  # a file that only another agent's machine has
                failure = failure or error
            else:
                if shape is not None:
                    return shape[1]
        raise failure or ProblemError(
            f"the number of columns of the {self.what} must be known before an agent is hosted; found "
            "callables without a shape; pass it to the problem (n, and p for targets)"
        )


def _as_source(source: Any) -> Any:
    if callable(source):
        return source
    if issparse(source) or isinstance(source, Rows):
        return TableSource(_csr(source) if issparse(source) else source, ())
    return Part(np.asanyarray(source), slice(None))


def _csr(matrix: Any) -> Any:
    return csr_array(matrix)


def _names_of(source: object) -> tuple[str, ...] | None:
    return source.feature_names() if isinstance(source, NamedSource) else None


def compare_names(names: Sequence[str], expected: Sequence[str]) -> str:
    """The first difference between two headers, in words."""
    if not names or not expected:
        return "no header" if expected else "a header here and none there"
    place = next(
        (k for k, pair in enumerate(zip(names, expected, strict=False)) if pair[0] != pair[1]),
        min(len(names), len(expected)),
    )
    if place in (len(names), len(expected)):
        return f"{len(names)} columns instead of {len(expected)}"
    here, there = (shorten(some[place:]) for some in (names, expected))
    return f"'{names[place]}' instead of '{expected[place]}' as column {place} ({here} instead of {there})"


def split_rows(
    data: NDArray[Any],
    agents: Partition,
    what: str = "data",
    names: tuple[str, ...] | None = None,
    ids: Sequence[Any] | None = None,
) -> list[Source]:
    """Divide the rows of ``data`` ``(m, n)`` over agents, without a copy.

    Parameters
    ----------
    data : ndarray (m, n)
        Samples in rows; may be memory-mapped.
    agents : int, sequence of int, or sequence of index arrays
        The number of agents (equal parts in order, the first ones longer by one where m is not divisible),
        the number of samples of each, or the samples each one holds.
    what : str
        What the data are called in a message.
    names : tuple of str, optional
        Names of the features.
    ids : sequence, optional
        Row labels of the samples.
    """
    data = np.asanyarray(data)
    check_matrix(data, f"the {what}")
    m = len(data)
    parts = list(range(agents)) if isinstance(agents, int | np.integer) else list(agents)
    if not parts:
        raise ProblemError(f"a problem needs at least one agent; found agents = {agents}; ask for 1 or more")
    if isinstance(agents, int | np.integer):
        sizes = _equal_sizes(m, len(parts))
    elif all(np.ndim(part) == 0 for part in parts):
        sizes = _sizes(parts, m)
    else:
        return [Part(data, part, names, ids) for part in _partition(parts, m)]
    ends = itertools.accumulate(sizes)
    return [Part(data, slice(end - size, end), names, ids) for size, end in zip(sizes, ends, strict=True)]


def equal_parts(table: Any, agents: int) -> list[Any]:
    """Split the rows of an array, sparse matrix or series into equal parts in order, as `split_rows`."""
    ends = itertools.accumulate(_equal_sizes(table.shape[0], agents), initial=0)
    return [rows_between(table, start, end) for start, end in itertools.pairwise(ends)]


def remote_source() -> Any:
    """Source of the data of an agent that lives in another process; raises ProblemError."""
    raise ProblemError("these data are another agent's")


def _equal_sizes(m: int, agents: int) -> list[int]:
    """Sizes of equal parts, the first ones longer by one; agents beyond the last sample hold none."""
    return [m // agents + (i < m % agents) for i in range(agents)]


def _sizes(parts: Sequence[Any], m: int) -> list[int]:
    """``parts`` as ints; raises `ProblemError` unless they are nonnegative with sum m."""
    try:
        sizes = [operator.index(size) for size in parts]
    except TypeError:
        sizes = [-1]
    if sum(sizes) != m or min(sizes) < 0:
        raise ProblemError(
            f"the sizes of the silos must be whole numbers, none negative, with sum m = {m}; found {parts}; "
            "correct them, or leave samples out of the data"
        )
    return sizes


def _partition(parts: Sequence[ArrayLike], m: int) -> list[NDArray[np.intp]]:
    """``parts`` as index arrays; raises `ProblemError` unless they hold each of m samples exactly once."""
    indices = [np.asarray(part) for part in parts]
    for agent, part in enumerate(indices):
        if part.ndim != 1 or (part.size and part.dtype.kind not in "iu"):
            raise ProblemError(
                f"agent {agent}'s part must be a 1-D array of sample indices; found shape {part.shape} of "
                f"dtype {part.dtype}; give whole numbers from 0 to {m - 1}"
            )
        if part.size and not (part.min() >= 0 and part.max() < m):
            raise ProblemError(
                f"agent {agent}'s samples must lie between 0 and {m - 1}; found {part.min()} to "
                f"{part.max()}; correct the indices"
            )
    whole = [part.astype(np.intp) for part in indices]
    counts = np.bincount(np.concatenate(whole), minlength=m)
    if (counts != 1).any():
        sample = int(np.flatnonzero(counts != 1)[0])
        raise ProblemError(
            f"a partition gives each of the {m} samples to one agent; found sample {sample} with "
            f"{counts[sample]} agents; correct the indices"
        )
    return whole
