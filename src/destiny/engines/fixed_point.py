"""Sums over the neighbours as exact integers modulo 2^64: equal in any order, and masks cancel in them.

Agent i adds up the contributions of its neighbours j, ``rint(W_ij a_j 2^(62 - E))``, where E is an exponent
of agent i with |a_j| <= 2^E. Weights are not negative and a row sums to 1, so a sum never exceeds 2^62.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny.protocols import Array

BITS = 62  # of a sum: one more is the sign, and one is left for the rounding of the contributions
GRAIN = 4  # exponents are multiples of it: an agent tells the size of its numbers to a factor of 16
HEAD = 4  # of the exponents above the largest number; between 4 and 7 bits with GRAIN, 55 are left
RENEW = 32  # uses after which the exponents of a slot are agreed on anew, as numbers shrink in a run
NARROW = 8  # columns up to which each has an exponent of its own: curvatures and cosines differ in size
LEAST, MOST = -960, 1024  # exponents of numbers: 2^(62 - E) and its inverse stay normal numbers
NOT_FINITE = 4096  # exponent of NaN and infinity
UNITS = 256  # of a layout that are kept: one per agent and slot, as exponents change rarely
OUTSIDE = -1  # number of the call of `mix` where no step is under way
TOTAL = -10  # less the number of the call: the same of totals, and never that of a call of `mix`
PREFIX = "private/"  # of the arrays in a checkpoint
DIGEST = 4  # numbers of 52 bits that tell one average from another (`destiny.engines.totals`)
LAST_MEAN = f"{PREFIX}last-mean"

Integers = NDArray[np.int64]
Slot = tuple[int, tuple[int, ...]]
"""Number of the call of `mix` within a step, and the widths of the arrays: what shares its exponents."""
CLEAR: Slot = (-2, ())
"""Of rounds whose numbers may be told as they are (`destiny.engines.totals`)."""


@dataclass(frozen=True)
class Layout:
    """Which columns of a message have an exponent in common.

    Attributes
    ----------
    width : int
        Columns of all arrays, side by side.
    starts : ndarray
        The first column of each group.
    group : ndarray (width,)
        The group of each column.
    """

    width: int
    starts: NDArray[np.intp]
    group: NDArray[np.intp]
    units: dict[tuple[int, ...], Array] = field(default_factory=dict, repr=False)
    """Lately used results of `unit`."""

    @property
    def groups(self) -> int:
        return len(self.starts)

    def exponents(self, numbers: Array) -> Integers:
        """The least multiples of `GRAIN` with |a| < 2^E, of numbers ``(agents, width)``, by group."""
        most = np.maximum.reduceat(numbers, self.starts, axis=1)
        least = np.minimum.reduceat(numbers, self.starts, axis=1)
        sizes = np.maximum(most, -least)
        exponents = np.frexp(sizes)[1].astype(np.int64)
        exponents = np.minimum(np.maximum(-(-exponents // GRAIN) * GRAIN, LEAST), MOST)
        exponents[sizes == 0] = LEAST
        exponents[~np.isfinite(sizes)] = NOT_FINITE
        return exponents

    def unit(self, exponents: Integers | tuple[int, ...]) -> Array:
        """2^(62 - E) of every column, ``(width,)``; ``(1,)`` if there is one group."""
        key = tuple(exponents)
        if (found := self.units.get(key)) is None:
            if len(self.units) >= UNITS:
                self.units.clear()
            found = np.ldexp(1.0, BITS - np.array(key))
            self.units[key] = found = found if self.groups == 1 else found[self.group]
        return found


@cache
def layout(widths: tuple[int, ...]) -> Layout:
    """The groups of a message with arrays of these widths."""
    sizes = [size for width in widths for size in ([1] * width if width <= NARROW else [width])]
    ends = np.cumsum(sizes, dtype=np.intp)
    return Layout(int(ends[-1]), ends - sizes, np.repeat(np.arange(len(sizes)), sizes))


def decide(before: Integers, largest: Integers, fresh: bool) -> Integers:
    """The exponents that a receiver chooses.

    Parameters
    ----------
    before : ndarray (groups,)
        Its exponents so far.
    largest : ndarray (groups,)
        The largest exponents of its neighbours' numbers; those that fit may be left out.
    fresh : bool
        Whether the slot is new or due to be renewed; otherwise only what does not fit is raised.
    """
    changed = (largest > before) | fresh
    return np.where(changed & (largest != NOT_FINITE), largest + HEAD, before)


def encode(numbers: Array, weights: Array, unit: Array) -> Integers:
    """The contributions of agents ``(agents, width)`` to a receiver that weighs them so."""
    words = np.empty(numbers.shape, dtype=np.int64)
    with np.errstate(invalid="ignore"):  # NaN becomes some integer; the receiver sets NaN in its place
        np.rint(numbers * (weights[:, None] * unit), out=words, casting="unsafe")
    return words


def encode_to(words: Integers, numbers: Array, weight: float, unit: Array) -> None:
    """The contributions of one agent, ``(width,)``, into given memory; the bits of `encode`."""
    np.rint(numbers * (weight * unit), out=words, casting="unsafe")


def decode(sums: Integers, unit: Array) -> Array:
    """The number that a sum stands for."""
    return sums / unit


@dataclass
class Exponents:
    """Exponents of a slot, one row per hosted agent, and how often the slot was used."""

    uses: int
    table: Integers

    @property
    def fresh(self) -> bool:
        """Whether all agents agree on exponents before the next use."""
        return self.uses % RENEW == 0


class Agreed:
    """The exponents of the agents hosted in one place, for all slots of a run so far.

    Attributes
    ----------
    last_mean : ndarray (hosted, DIGEST)
        Digest of the last average over all agents, which neighbours must have in common.
    """

    def __init__(self, hosted: int) -> None:
        self.hosted = hosted
        self.slots: dict[Slot, Exponents] = {}
        self.last_mean: Array = np.zeros((hosted, DIGEST))

    def at(self, slot: Slot) -> Exponents:
        """Those of a slot; of a new one, the least."""
        if slot not in self.slots:
            groups = layout(slot[1]).groups
            self.slots[slot] = Exponents(0, np.full((self.hosted, groups), LEAST, dtype=np.int64))
        return self.slots[slot]

    def arrays(self) -> dict[str, Array]:
        """For a checkpoint: by slot the number of uses and the exponents, agents on axis 0."""
        return {LAST_MEAN: self.last_mean} | {
            f"{PREFIX}{call}/{','.join(map(str, widths))}": np.column_stack(
                [np.full(self.hosted, known.uses), known.table]
            ).astype(np.float64)
            for (call, widths), known in self.slots.items()
        }

    @classmethod
    def load(cls, hosted: int, arrays: Mapping[str, Array]) -> Agreed:
        """From the arrays of a checkpoint, others among them; raises ValueError if they are damaged."""
        found = cls(hosted)
        found.last_mean = arrays.get(LAST_MEAN, found.last_mean)
        if found.last_mean.shape != (hosted, DIGEST):
            raise ValueError(f"{LAST_MEAN} has shape {found.last_mean.shape}")
        for name, array in arrays.items():
            if not name.startswith(PREFIX) or name == LAST_MEAN:
                continue
            call, widths = name.removeprefix(PREFIX).split("/")
            slot = int(call), tuple(map(int, widths.split(",")))
            if array.shape != (hosted, 1 + layout(slot[1]).groups) or not (array[:, 0] == array[0, 0]).all():
                raise ValueError(f"{name} has shape {array.shape}")
            found.slots[slot] = Exponents(int(array[0, 0]), array[:, 1:].astype(np.int64))
        return found


@dataclass(frozen=True)
class Neighbours:
    """For each hosted agent its own weight, and where its neighbours are among the agents heard."""

    own: Array
    places: list[NDArray[Any]]
    names: list[NDArray[Any]]
    """The neighbours' indices."""
    weights: list[Array]

    @classmethod
    def of(cls, W: Any, rows: Any, ids: NDArray[np.intp]) -> Neighbours:
        """From the mixing matrix and its rows of the hosted agents, with a column for every agent heard."""
        own, places, names, weights = np.zeros(len(ids)), [], [], []
        for row, agent in enumerate(ids):
            mine = slice(rows.indptr[row], rows.indptr[row + 1])
            whole = W.indices[W.indptr[agent] : W.indptr[agent + 1]]  # in the same order
            others = whole != agent
            own[row] = rows.data[mine][~others].sum()
            places.append(rows.indices[mine][others])
            names.append(whole[others])
            weights.append(rows.data[mine][others])
        return cls(own, places, names, weights)


def sum_in_clear(known: Exponents, columns: Layout, heard: Array, neighbours: Neighbours) -> Array:
    """What every hosted agent hears, ``(hosted, width)``, where the numbers of all heard are at hand.

    Chooses new exponents where need be, as the agents of organisations do by messages.
    """
    exponents = columns.exponents(heard)
    sums = np.zeros((len(neighbours.own), columns.width))
    for row, (places, weights) in enumerate(zip(neighbours.places, neighbours.weights, strict=True)):
        if len(places) == 0:
            continue
        largest = exponents[places].max(axis=0)
        known.table[row] = decide(known.table[row], largest, known.fresh)
        unit = columns.unit(known.table[row])
        sums[row] = decode(encode(heard[places], weights, unit).sum(axis=0), unit)
        if (broken := largest == NOT_FINITE).any():
            sums[row, broken[columns.group]] = np.nan
    return sums


def side_by_side(blocks: Sequence[Array], width: int) -> Array:
    """Blocks as one array ``(agents, width)``; what was side by side already is cut to this width."""
    return blocks[0][:, :width] if len(blocks) == 1 else np.concatenate(blocks, axis=1)[:, :width]
