"""Sums over all agents of which nobody learns more than the total: integers under masks.

Numbers become integers (`destiny.engines.words`): those with a bound that all agents know take 64 bits each,
all others 384. Between organisations every agent adds masks to its integers, which cancel in the total over
all agents and in nothing less (`destiny.agents.privacy`). In one process, or between ranks of MPI, there is
nobody to hide from, and the same integers travel without masks: the same bits everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from destiny.engines.words import (
    LIMBS,
    Exponents,
    Words,
    exponents,
    from_narrow,
    from_wide,
    to_narrow,
    to_wide,
)
from destiny.errors import PrivacyError
from destiny.protocols import Array, Bounds

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
    """

    def __init__(self, count: int, hiding: Hiding | None = None) -> None:
        self.count, self.hiding = count, hiding

    def encode(self, turn: int, blocks: Sequence[Array], bounds: Bounds) -> list[Words]:
        """Words of blocks ``(hosted, k)``: narrow ones ``(hosted, k)``, then wide ones ``(hosted, k, 6)``.

        The first narrow word is 1 at every agent. Its total shows whether masks have cancelled.
        """
        ones = np.ones((len(blocks[0]), 1))
        narrow = [(ones, np.array(float(self.count)))]
        narrow += [(b, _limit(bound)) for b, bound in zip(blocks, bounds, strict=True) if bound is not None]
        parts = [_words([[to_narrow(row, limit) for row in block] for block, limit in narrow])]
        wide = [b for b, bound in zip(blocks, bounds, strict=True) if bound is None]
        if wide:
            parts.append(_words([[to_wide(row) for row in block] for block in wide]))
        if self.hiding is not None:
            units = [exponents(limit) for _, limit in narrow]
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

    def arrays(self) -> dict[str, Array]:
        """For a checkpoint."""
        return {} if self.hiding is None else self.hiding.arrays()


def _limit(bound: Array | float) -> Array:
    """A bound for all numbers of a block ``()``, or one for each ``(k,)``."""
    limit = np.asarray(bound, dtype=np.float64)
    return limit.reshape(()) if limit.size == 1 else limit.ravel()


def _words(blocks: Sequence[Sequence[Words]]) -> Words:
    """Words of all agents ``(hosted, k)`` or ``(hosted, k, 6)``, from those of each block and agent."""
    return np.stack([np.concatenate(rows) for rows in zip(*blocks, strict=True)])


def _uncancelled(count: int) -> str:
    return (
        f"the masks of {count} agents must cancel in a total, but they do not: an agent was told other "
        "totals or has other settings than the rest, or does not follow the protocol; nothing can be learnt "
        "from such a total, and all agents must start a new run"
    )
