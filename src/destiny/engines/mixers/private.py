"""Private messages: sums over all agents of which nobody learns more than the total, as integers under masks.

Numbers become integers (`destiny.engines.words`): those with a bound that all agents know take 64 bits each,
all others 384. Between organizations every agent adds masks to its integers, which cancel in the total over
all agents and in nothing less (`destiny.agents.privacy`). In one process, or between ranks of MPI, there is
nobody to hide from, and the same integers travel without masks: the same bits everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Protocol

import numpy as np

from destiny.engines.mixers.plain import KEYS, NAMES, PLAIN, Links, Messages, Mixer
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
from destiny.errors import MismatchError, PrivacyError, SettingsError
from destiny.protocols import AlgorithmBase, Array, Bounds, TopologyBase

WIDE = LIMBS  # words of a number without a bound
HIDING = 3  # agents: of two, each knows the other's numbers from the total
METHODS = "averaged-model, averaged-krylov or averaged-lbfgs"  # those by sums over all agents


@dataclass(frozen=True)
class Private(Messages):
    """Every agent learns sums over all agents, and nothing else about the others' data.

    Methods that average over neighbors are refused. The sums are of integers, so the last digits differ from
    those of plain messages, and are the same wherever the agents live. Agents of organizations mask what they
    send; in one process, or between ranks of MPI, numbers travel as they are. docs/privacy.md says who learns
    what.
    """

    private: ClassVar[bool] = True

    @classmethod
    def from_key(cls, private: Any) -> Messages:
        """Of the key ``private``."""
        if not isinstance(private, bool):
            raise SettingsError(f"private must be True or False; found {private!r}")
        return cls() if private else PLAIN

    def check(self, network: TopologyBase, method: AlgorithmBase) -> None:
        """Refuse networks and methods from which more than totals would be learned."""
        super().check(network, method)
        about = method.about
        if about is not None and "alone" in about:
            raise MismatchError(
                f"{about.title} is a method for one agent, which has nobody to hide from: leave private out"
            )
        if about is not None and "totals" not in about:  # one of a user's own is refused when it averages
            raise MismatchError(
                f"private messages are sums over all agents, which {method.kind} does not use: use "
                f"{METHODS}, which need a smooth objective, X^T X = I and no mini-batches, or leave "
                "private out"
            )

    def obstacle(self, network: TopologyBase) -> str | None:
        """Why sums over all agents would not hide what an agent sends."""
        if network.changes:
            return (
                "private messages need a static network, along whose spanning tree sums travel; this one "
                "changes from round to round: leave private out, or use a static network"
            )
        if network.agents < HIDING:
            return (
                f"private messages need at least {HIDING} agents, as each of two can subtract its own "
                f"numbers from the total; found {network.agents}: add a party, or leave private out"
            )
        return None

    def mixer(self, hosted: int, agents: int) -> PrivateMixer:  # noqa: ARG002
        return PrivateMixer(agents)

    def keys(self) -> dict[str, Any]:
        return {"private": True}

    def __str__(self) -> str:
        return "private sums"


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
        """What a checkpoint must keep of it, with the agent on axis 0."""

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on from the arrays of a checkpoint, none where a run begins; ValueError if they are damaged."""


class PrivateMixer(Mixer):
    """Sums of words; there are no gossip rounds.

    Parameters
    ----------
    count : int
        Agents of the network.
    hiding : Hiding, optional
        None where all agents are in one organization.
    """

    bounded = True

    def __init__(self, count: int, hiding: Hiding | None = None) -> None:
        self.count, self.hiding = count, hiding

    def begin(self, arrays: Mapping[str, Array]) -> None:
        """Go on from the past of a checkpoint."""
        if self.hiding is not None:
            self.hiding.restore(arrays)

    def mix(self, links: Links, blocks: Sequence[Array]) -> NoReturn:  # noqa: ARG002
        raise PrivacyError(
            "private messages are sums over all agents; this method averages over neighbors, from which "
            f"their data can be reconstructed: use {METHODS}"
        )

    def all_reduce(self, links: Links, blocks: Sequence[Array], bounds: Bounds) -> list[Array]:
        """The sums of the blocks, as integers."""
        words = self.encode(links.turn, blocks, bounds)
        return self.decode(links.sum(words), blocks, bounds)

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

    def sum_numbers(self, widths: Sequence[int], bounds: Bounds) -> int:
        """Words in a message."""
        return 1 + sum(w * (LIMBS if bound is None else 1) for w, bound in zip(widths, bounds, strict=True))

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
        "totals or has other settings than the rest, or does not follow the protocol; nothing can be learned "
        "from such a total, and all agents must start a new run"
    )


NAMES["private"] = Private()
KEYS["private"] = Private.from_key
