"""Sums over all agents of which nobody learns more than the total: integers under masks.

Numbers become integers (`destiny.engines.words`): those with a bound that all agents know take 64 bits each,
all others 384. Between organisations every agent adds masks to its integers, which cancel in the total over
all agents and in nothing less (`destiny.agents.privacy`). In one process, or between ranks of MPI, there is
nobody to hide from, and the same integers travel without masks: the same bits everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Protocol

import numpy as np

from destiny.engines.words import (
    LIMBS,
    Exponents,
    OutOfRangeError,
    Words,
    exponents,
    from_narrow,
    from_wide,
    to_narrow,
    to_wide,
)
from destiny.errors import PrivacyError
from destiny.protocols import Array, Bounds

Columns = Sequence[Sequence[str]]
WIDE = LIMBS  # words of a number without a bound
PREFIX = "private/"  # of the arrays in a checkpoint


class Hiding(Protocol):
    """How an agent hides its words from the others."""

    def hide(self, turn: int, parts: Sequence[Words], units: Sequence[Exponents]) -> None:
        """Add masks to the words of a sum, in place; they must not be those of another sum.

        ``units`` are the exponents of narrow words, by block (`destiny.engines.words.exponents`). Masks of
        agents whose words have other units, or are not as many, must not cancel: their total would mean
        nothing.
        """

    def learn(self, totals: Sequence[Words]) -> None:
        """The totals that this agent was told: masks of later sums depend on them."""

    def arrays(self) -> dict[str, Array]:
        """What a checkpoint must keep of it, with the agent on axis 0; names begin with `PREFIX`."""

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on from the arrays of a checkpoint, none where a run begins; ValueError if they are damaged."""


class PrivateSums:
    """The words of the hosted agents, before and after they travel.

    Parameters
    ----------
    count : int
        Agents of the network.
    hiding : Hiding, optional
        None where all agents are in one organisation.
    columns : sequences of str
        What errors call features, then targets: the rows of matrices, and the first numbers of vectors.
    """

    def __init__(self, count: int, hiding: Hiding | None = None, columns: Columns = ()) -> None:
        self.count, self.hiding, self.columns = count, hiding, columns

    def encode(self, turn: int, blocks: Sequence[Array], bounds: Bounds) -> list[Words]:
        """Words of blocks ``(hosted, k)``: narrow ones ``(hosted, k)``, then wide ones ``(hosted, k, 6)``.

        The first narrow word is 1 at every agent. Its total shows whether masks have cancelled.
        """
        limits = [None if bound is None else _limit(bound) for bound in bounds]
        ones, count = np.ones((len(blocks[0]), 1)), np.array(float(self.count))
        narrow, wide = [_words_of(ones, count)], list[Words]()
        for k, (block, limit) in enumerate(zip(blocks, limits, strict=True)):
            try:
                (wide if limit is None else narrow).append(_words_of(block, limit))
            except OutOfRangeError as error:
                error.block = k
                raise
        parts = [np.concatenate(narrow, 1), *([np.concatenate(wide, 1)] if wide else [])]
        if self.hiding is not None:
            units = [exponents(limit) for limit in (count, *limits) if limit is not None]
            self.hiding.hide(turn, [part[0] for part in parts], units)
        return parts

    def decode(self, totals: Sequence[Words], blocks: Sequence[Array], bounds: Bounds) -> list[Array]:
        """The sums ``(k,)`` of the blocks that were encoded; `PrivacyError` if masks have not cancelled."""
        one = to_narrow(np.ones(1), np.array(float(self.count)))
        if (totals[0][:1] != self.count * one).any():
            raise PrivacyError(_uncancelled(self.count))
        if self.hiding is not None:
            self.hiding.learn(totals)
        sums, used = [], [1, 0]  # words of either kind: the first narrow one has been looked at
        for block, bound in zip(blocks, bounds, strict=True):
            kind = int(bound is None)
            words = totals[kind][used[kind] : used[kind] + block.shape[1]]
            used[kind] += block.shape[1]
            sums.append(from_wide(words) if bound is None else from_narrow(words, _limit(bound)))
        return sums

    def numbers(self, blocks: Sequence[Array], bounds: Bounds) -> int:
        """Words in a message."""
        return 1 + sum(
            int(b.shape[1]) * (LIMBS if bound is None else 1) for b, bound in zip(blocks, bounds, strict=True)
        )

    def named(self, error: OutOfRangeError, arrays: Sequence[Array]) -> OutOfRangeError:
        """The error of `encode` with the column that the number is of, where that is known."""
        if error.block is None or error.block >= len(arrays) or not self.columns:
            return error
        shape, names = arrays[error.block].shape[1:], list(chain.from_iterable(self.columns))
        n = len(self.columns[0])
        axes = [k for k, size in enumerate(shape) if size == n or (len(shape) == 1 and size > n)]
        if len(axes) != 1 or (column := int(np.unravel_index(error.entry, shape)[axes[0]])) >= len(names):
            return error
        return OutOfRangeError(error.entry, error.said, f"What is sent of {names[column]}")

    def arrays(self) -> dict[str, Array]:
        """For a checkpoint."""
        return {} if self.hiding is None else self.hiding.arrays()


def _limit(bound: Array | float) -> Array:
    """A bound for all numbers of a block ``()``, or one for each ``(k,)``."""
    limit = np.asarray(bound, dtype=np.float64)
    return limit.reshape(()) if limit.size == 1 else limit.ravel()


def _words_of(block: Array, limit: Array | None) -> Words:
    """Words of a block ``(hosted, k)``, narrow where there is a limit."""
    return np.stack([to_wide(row) if limit is None else to_narrow(row, limit) for row in block])


def _uncancelled(count: int) -> str:
    return (
        f"the masks of {count} agents must cancel in a total, but they do not: an agent was told other "
        "totals or has other settings than the rest, or does not follow the protocol; nothing can be learnt "
        "from such a total, and all agents must start a new run"
    )
