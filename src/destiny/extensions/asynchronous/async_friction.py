"""Friction of asynchronous agents: how much of the moves that they meant to make the network makes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from destiny.geometry.stiefel import inner
from destiny.protocols import Array

# Numbers without another reason were chosen on the seeds named in docs/asynchrony.md.
GAIN = 1.01  # where all are equally fast and nothing is lost: what is missing to it is made up for
GAIN_LEAST, GAIN_MOST = 0.5, 2.0  # range of a gain: single ones of the first wakes are anything
HORIZON = 40  # wakes over which moves are averaged, so that what agents do against each other cancels
NEWEST = 0.05  # weight of an agent's own gain, beside those that it hears of
ONSET = 20  # power of mu: a friction of some per cent matters where 1 - mu is as small


@dataclass(frozen=True)
class Friction:
    """Moves are averages over `HORIZON` r wakes; they are ``(n, p)``, the gain is ``()``."""

    made: Array
    meant: Array
    """What was to be made of the move before, in one wake."""
    gain: Array
    """Share of the moves that are made, of this agent and those around it."""

    def made_up(self, mu: Array) -> Array:
        """The momentum mu with what the network takes from it, where it is near 1.

        It may be above 1, as less than that is made of it.
        """
        return np.asarray(mu + mu**ONSET * np.maximum(0.0, GAIN / self.gain - 1))


def no_friction(X: Array) -> Friction:
    nothing = np.zeros_like(X)
    return Friction(nothing, nothing, np.asarray(GAIN))


def next_friction(friction: Friction, near: Array, made: Array, meant: Array, delay: Array) -> Friction:
    """The friction after one more move.

    `near` is the mean gain of the agent and its neighbors: an agent that moved more than the others would
    see itself held back by them, and move even more. `meant` is what the last wake meant to be `made`.
    """
    wakes = HORIZON * delay
    made = friction.made + (made - friction.made) / wakes
    meant = friction.meant + (meant - friction.meant) / wakes
    product = inner(made, meant)
    gain = np.clip(inner(made, made) / product, GAIN_LEAST, GAIN_MOST) if product > 0 else near
    return Friction(made, meant, np.asarray(near + NEWEST * (gain - near)))
