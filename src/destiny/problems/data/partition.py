"""Who holds which samples: dealing a matrix out to agents, and loading one agent's part when it is hosted."""

from __future__ import annotations

import copy
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from destiny.errors import ProblemError
from destiny.problems.checks import check_finite, check_matrix
from destiny.problems.data.csv import shorten
from destiny.protocols import Array

Source: TypeAlias = NDArray[Any] | Callable[[], NDArray[Any]]
"""One agent's matrix, or a callable that loads it when the agent is hosted.

A callable with a ``shape`` attribute tells its size without being called.
"""

Agents: TypeAlias = int | Sequence[int] | Sequence[ArrayLike]
"""How samples are dealt out: the number of agents, the sizes of their silos, or the indices each holds."""


@runtime_checkable
class NamedSource(Protocol):
    """A source that may know the names of its features."""

    def feature_names(self) -> tuple[str, ...] | None:
        """None where names cannot be known, such as a binary file; empty for a table without a header."""


@dataclass(frozen=True)
class Columns:
    """Some samples of a matrix, cut out when they are asked for."""

    data: NDArray[Any]
    which: slice | NDArray[np.intp]
    features: tuple[str, ...] | None = None

    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if they are known."""
        return self.features

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, m_i), known without reading the data."""
        if isinstance(self.which, slice):
            return self.data[..., self.which].shape
        return (self.data.shape[0], self.which.size)

    def __call__(self) -> NDArray[Any]:
        """The samples: a view where the indices allow it."""
        return self.data[..., self.which]


@dataclass(frozen=True)
class Shift:
    """What is done to the columns of a table: (x - mean) / scale, both ``(n,)``, one entry per feature."""

    mean: Array
    scale: Array

    def __call__(self, data: NDArray[Any]) -> Array:
        """Samples ``(n, m)`` in float64, C-ordered."""
        shifted: Array = np.subtract(data, self.mean[:, None], dtype=np.float64, order="C")
        shifted /= self.scale[:, None]
        return shifted


class Silos:
    """The matrices of d agents, with the same number of rows, checked at the latest when they are loaded.

    Parameters
    ----------
    sources : sequence of Source
        One per agent.
    what : str
        What the matrices are called in a message.
    rows : int, optional
        Number of rows; by default that of the first source whose shape is known.
    """

    def __init__(self, sources: Sequence[Source], what: str = "data", rows: int | None = None) -> None:
        if len(sources) == 0:
            raise ProblemError(
                f"a problem needs at least one agent; found no {what}; give one array per agent"
            )
        self.what = what
        self.shifts: Mapping[int, Shift] = {}
        self.sources = tuple(s if callable(s) else Columns(np.asanyarray(s), slice(None)) for s in sources)
        for agent, source in enumerate(self.sources):
            if isinstance(source, Columns):
                check_matrix(source.data, self._name(agent))
        self.names = self._common_names()
        self.rows = self._known_rows() if rows is None else rows
        for agent, source in enumerate(self.sources):
            # What is in memory is checked where the mistake was made; files are read only when hosted.
            if isinstance(source, Columns) and not isinstance(source.data, np.memmap):
                self.load(agent)

    def __len__(self) -> int:
        return len(self.sources)

    def less(self, shifts: Mapping[int, Shift]) -> Silos:
        """The same matrices, those of some agents shifted when they are loaded."""
        shifted = copy.copy(self)
        shifted.shifts = shifts
        return shifted

    def load(self, agent: int) -> NDArray[Any]:
        """One agent's matrix ``(rows, m_i)`` in its own dtype, or shifted and in float64."""
        data, name = np.asanyarray(self.sources[agent]()), self._name(agent)
        check_matrix(data, name)
        if data.shape[0] != self.rows:
            raise ProblemError(
                f"{name} must have {self.rows} rows like everyone's; found shape {data.shape}; "
                "samples are columns, and all agents use the same features"
            )
        check_finite(data, name)
        return self.shifts[agent](data) if agent in self.shifts else np.asarray(data)

    def describe(self) -> str:
        """Who holds how much, in a few words."""
        held = [source.shape[1] for source in self.sources if isinstance(source, Columns)]
        samples = f"{sum(held)} samples" if len(held) == len(self) else "samples"
        return f"{len(self)} agents hold {samples} of {self.rows} features"

    def _name(self, agent: int) -> str:
        path = getattr(self.sources[agent], "path", None)
        return f"agent {agent}'s {self.what}" + (f" ({path})" if path else "")

    def _common_names(self) -> tuple[str, ...]:
        """Names of the features, empty if there are none; refuse sources that differ in names or order."""
        known = [
            (agent, names)
            for agent, source in enumerate(self.sources)
            if (names := _names_of(source)) is not None
        ]
        for agent, names in known[1:]:
            first, expected = known[0]
            if names != expected:
                raise ProblemError(
                    f"{self._name(agent)} must have the columns of {self._name(first)}, in the same order; "
                    f"found {compare_names(names, expected)}; write the same header everywhere, or "
                    f"set {'target-' if self.what == 'targets' else ''}columns = [...]"
                )
        return known[0][1] if known else ()

    def _known_rows(self) -> int:
        unread: ProblemError | None = None
        for source in self.sources:
            try:
                shape: tuple[int, ...] | None = getattr(source, "shape", None)
            except ProblemError as error:  # a file that only another agent's machine has
                unread = unread or error
            else:
                if shape is not None:
                    return shape[0]
        raise unread or ProblemError(
            f"the number of rows of the {self.what} must be known before an agent is hosted; found callables "
            "without a shape; pass it to the problem (n, and p for targets)"
        )


def _names_of(source: object) -> tuple[str, ...] | None:
    return source.feature_names() if isinstance(source, NamedSource) else None


def compare_names(names: Sequence[str], expected: Sequence[str]) -> str:
    """The first difference between two headers, in a few words."""
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


def deal(
    data: NDArray[Any], agents: Agents, what: str = "data", names: tuple[str, ...] | None = None
) -> list[Source]:
    """The columns of ``data`` ``(n, m)`` dealt out to the agents, without copying any.

    Parameters
    ----------
    data : ndarray (n, m)
        Samples in columns; may be memory-mapped.
    agents : int, sequence of int, or sequence of index arrays
        The number of agents (equal parts in order, the first ones longer by one where m is not divisible),
        the number of samples of each, or the samples each one holds.
    what : str
        What the data are called in a message.
    names : tuple of str, optional
        Names of the features.
    """
    data = np.asanyarray(data)
    check_matrix(data, f"the {what}")
    m = data.shape[1]
    parts = list(range(agents)) if isinstance(agents, int | np.integer) else list(agents)
    if not parts:
        raise ProblemError(f"a problem needs at least one agent; found agents = {agents}; ask for 1 or more")
    if isinstance(agents, int | np.integer):
        sizes = [m // len(parts) + (i < m % len(parts)) for i in range(len(parts))]
    elif all(np.ndim(part) == 0 for part in parts):
        sizes = _sizes(parts, m)
    else:
        return [Columns(data, part, names) for part in _partition(parts, m)]
    ends = itertools.accumulate(sizes)
    return [Columns(data, slice(end - size, end), names) for size, end in zip(sizes, ends, strict=True)]


def _sizes(parts: Sequence[Any], m: int) -> list[int]:
    """Sizes of silos that add up to m samples."""
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
    """Index arrays that hold each of m samples exactly once."""
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
    held = np.bincount(np.concatenate(whole), minlength=m)
    if (held != 1).any():
        sample = int(np.flatnonzero(held != 1)[0])
        raise ProblemError(
            f"a partition gives each of the {m} samples to one agent; found sample {sample} with "
            f"{held[sample]} agents; correct the indices"
        )
    return whole
