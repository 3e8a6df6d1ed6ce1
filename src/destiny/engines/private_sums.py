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

    def hide(self, turn: int, parts: Sequence[Words], units: Exponents) -> None:
        """Add masks to the words of a sum, in place; they must not be those of another sum.

        ``units`` are the exponents of the narrow words (`destiny.engines.words.exponents`). Masks of agents
        whose words have other units, or are not as many, must not cancel: their total would mean nothing.
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
        limits = _limits(self.count, blocks, bounds)
        start, narrow, wide = 1, [np.stack([to_narrow(np.ones(1), limits[:1])] * len(blocks[0]))], []
        for k, (block, bound) in enumerate(zip(blocks, bounds, strict=True)):
            try:
                if bound is None:
                    wide.append(np.stack([to_wide(row) for row in block]))
                    continue
                own = limits[start : (start := start + block.shape[1])]
                narrow.append(np.stack([to_narrow(row, own) for row in block]))
            except OutOfRangeError as error:
                error.block = k
                raise
        parts = [np.concatenate(narrow, 1), *([np.concatenate(wide, 1)] if wide else [])]
        if self.hiding is not None:
            self.hiding.hide(turn, [part[0] for part in parts], exponents(limits, limits.shape))
        return parts

    def decode(self, totals: Sequence[Words], blocks: Sequence[Array], bounds: Bounds) -> list[Array]:
        """The sums ``(k,)`` of the blocks that were encoded; `PrivacyError` if masks have not cancelled."""
        limits = _limits(self.count, blocks, bounds)
        if (totals[0][:1] != self.count * to_narrow(np.ones(1), limits[:1])).any():
            raise PrivacyError(_uncancelled(self.count))
        if self.hiding is not None:
            self.hiding.learn(totals)
        narrow = from_narrow(totals[0], limits)[1:]
        wide = from_wide(totals[1]) if len(totals) > 1 else np.empty(0)
        sums, used = [], {True: 0, False: 0}
        for block, bound in zip(blocks, bounds, strict=True):
            source, start = (wide if bound is None else narrow), used[bound is None]
            used[bound is None] = end = start + block.shape[1]
            sums.append(source[start:end])
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


def _limits(count: int, blocks: Sequence[Array], bounds: Bounds) -> Array:
    """The bound of every narrow word ``(k,)``."""
    parts = [np.array([float(count)])]
    for block, bound in zip(blocks, bounds, strict=True):
        if bound is not None:
            parts.append(np.broadcast_to(np.ravel(bound), block.shape[1]).astype(np.float64))
    return np.concatenate(parts)


def _uncancelled(count: int) -> str:
    return (
        f"the masks of {count} agents must cancel in a total, but they do not: an agent was told other "
        "totals or has other settings than the rest, or does not follow the protocol; nothing can be learnt "
        "from such a total, and all agents must start a new run"
    )
