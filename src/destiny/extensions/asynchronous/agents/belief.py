"""What an asynchronous agent believes of a message about others, which their sender may have made up."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from destiny.extensions.asynchronous.members import LEAVING, MEMBER
from destiny.extensions.asynchronous.termination import StampedMessage
from destiny.protocols import Array


@dataclass(frozen=True)
class Trim:
    """What is left out of a message.

    Attributes
    ----------
    void : tuple of int
        Agents whose levels and stamps are left out.
    standing : tuple of float, optional
        Who takes part, in place of what the sender says; None if that is believed.
    """

    void: tuple[int, ...]
    standing: tuple[float, ...] | None = None

    def of(self, letter: StampedMessage) -> StampedMessage:
        """The message without what is left out."""
        stamps = letter.stamps.copy()
        stamps[list(self.void)] = 0.0
        standing = letter.standing if self.standing is None else np.array(self.standing)
        return replace(letter, stamps=stamps, standing=standing)


def departures(
    letter: StampedMessage, known: Array, words: Mapping[int, Array], members: Collection[int], majority: bool
) -> Array:
    """Who takes part by a message, as far as it is believed.

    That an agent leaves is believed if the agent itself says so, if this agent's operator has asked for it or
    it is known already, or if more than half of the neighbors that take part say so. All else is believed.

    Parameters
    ----------
    known : ndarray (d,)
        The standing that this agent knows.
    words : mapping from int to ndarray (d,)
        By neighbor, the standing that it has told last, the sender of the message among them.
    members : collection of int
        The neighbors that take part.
    majority : bool
        Whether more than half of the neighbors must say so; otherwise the sender's word is enough.
    """
    believed = letter.standing.copy()
    if not majority:
        return believed
    for j in np.flatnonzero((letter.standing > MEMBER) & (known < LEAVING)):
        told = sum(words[k][j] > MEMBER for k in members if k in words)
        if j != int(letter.sender) and not 2 * told > len(members):
            believed[j] = min(believed[j], max(known[j], MEMBER))
    return believed
