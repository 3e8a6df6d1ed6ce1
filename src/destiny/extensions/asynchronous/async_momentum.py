"""Momentum of asynchronous agents: it grows, restarts where moves lead uphill, and heeds where a run grew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from destiny.geometry.stiefel import inner, norm
from destiny.protocols import Array

# Numbers without another reason were chosen on the seeds named in docs/asynchrony.md.
NESTEROV = 3  # mu = t / (t + NESTEROV): Nesterov's sequence
MU_MOST = 0.999  # largest mu
AGE_MOST = 3000.0  # largest ceiling of t: mu is at its largest there
SHRINK = 0.5  # factor of t at a restart: one agent that loses all of it slows the others too
RESTART = 0.4  # as in the accelerated method: neighbors whose mean cosine is below -0.4 (1 - mu) go downhill
LEAST_WATCH = 20  # wakes between two restarts whose trackers are compared, and at least t
GROWTH = 1.2  # growth of a tracker between them that is more than noise, where nobody is late
LOWER = 0.5  # the ceiling after growth, as a factor of t or of the ceiling
RAISE = 1.2  # factor of the ceiling otherwise
RISE = 0.02  # by which it rises in a wake that leads downhill: it must not sink by chance
CEILING_LEAST = 2.0


@dataclass(frozen=True)
class Momentum:
    """What an agent keeps of its momentum; numbers are ``()``."""

    age: Array
    """t, from which mu follows; it grows, and is halved where moves lead uphill."""
    ceiling: Array
    """Largest t: below where trackers grew from one restart to the next."""
    cosine: Array
    """Between tracker and mean move, negative if that leads downhill; partly what was heard of others."""
    size: Array
    """Norm of the tracker at the last restart that was compared; 0 before the first."""
    watched: Array
    """Wakes since then, of the neighbors if those are faster."""

    @property
    def mu(self) -> Array:
        return np.asarray(np.minimum(self.age / (self.age + NESTEROV), MU_MOST))


def no_momentum() -> Momentum:
    zero = np.zeros(())
    return Momentum(zero, np.asarray(AGE_MOST), zero, zero, zero)


def next_momentum(
    near: Momentum, D: Array, U: Array, delay: Array, slower: float, own_word: float
) -> Momentum:
    """The momentum of the next move.

    `near` is the last one, with averages of age, ceiling and cosine over the agent and its neighbors; D is
    the tracker, U the mean move, delay is r >= 1, slower >= 1 is how often others wake meanwhile, and
    own_word the share of the agent's own cosine in what it passes on.

    t is halved if <D, U> > 0, unless the neighbors clearly move downhill in their mean, and grows by 1 / r
    otherwise. Moves of one wake are too noisy where messages are late, and so are cosines and trackers, the
    more the later. If trackers are larger at one restart than at an earlier one, momentum was too large for
    what is known here and how old it is: t stays below half of where that was seen, and slowly more.
    """
    length, product = norm(D), norm(D) * norm(U)
    cosine = np.asarray(inner(D, U) / product if product > 0 else product)
    age, ceiling, size, watched = near.age, near.ceiling, near.size, near.watched + slower
    damping = NESTEROV / (age + NESTEROV)  # 1 - mu
    if cosine > 0 and near.cosine > -RESTART * damping / delay:
        if watched > np.maximum(LEAST_WATCH, age * delay):
            grown = 0 < GROWTH * delay * size < length
            ceiling = LOWER * np.minimum(age, ceiling) if grown else RAISE * ceiling
            size, watched = np.asarray(length), np.zeros(())
        age = SHRINK * age
    else:
        age = np.minimum(age + 1 / delay, ceiling)
        ceiling = ceiling + RISE / delay
    ceiling = np.minimum(np.maximum(ceiling, CEILING_LEAST), AGE_MOST)
    word = np.asarray((1 - own_word) * near.cosine + own_word * cosine)
    return Momentum(np.asarray(age), np.asarray(ceiling), word, size, np.asarray(watched))
