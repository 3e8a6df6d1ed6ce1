"""How well a network mixes, estimated while a run goes on: for networks that change, or that nobody knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from destiny.protocols import Array

PROBES = 4  # random numbers an agent sends along: energies are averaged over the agents as well
SEED = 2022  # any fixed number: probes must be equal on every engine
FIRST, LONGEST = 32, 512  # steps until the first estimate; windows double up to the second
BLOCKS = 9  # energies are summed over steps 1, 2-3, 4-7, ..., 256-511 of a window
ALIVE = 1e-18  # energies below are rounding errors
SLOWEST = 1 - 2e-4  # a window cannot tell a larger lambda from 1


@dataclass(frozen=True)
class Mixing:
    """Probes that are mixed along with a method's own messages; every array ``(agents, ...)``.

    In every window each agent draws random numbers r, which are mixed step by step; what the window has made
    of them minus r, whose mean over the network is zero, is added to the probe. So a mode shows as soon as
    some round of a window shrinks it, however few do. The probe is mixed, too, and shrinks like lambda^t. Its
    energy, summed over blocks of steps that double in length, is averaged over the network during the next
    window; the ratio of two blocks tells lambda. Probes are never reset: slow modes add up over the windows.
    """

    probe: Array
    """(agents, PROBES)."""
    fresh: Array
    """The random numbers of this window, mixed since its start, (agents, PROBES)."""
    energy: Array
    """An agent's own energies in this window, (agents, BLOCKS)."""
    averaged: Array
    """The energies of the window before, mixed since then, (agents, BLOCKS)."""
    place: Array
    """Steps into the window, (agents, 1)."""
    window: Array
    """Windows before this one, (agents, 1)."""
    lambda_: Array
    """(agents, 1, 1)."""

    @classmethod
    def start(cls, ids: NDArray[np.intp], lambda_: Array) -> Mixing:
        """The first window, before its first step; lambda as the opening rounds estimated it."""
        zero, energy = np.zeros((len(ids), 1)), np.zeros((len(ids), BLOCKS))
        return cls(np.zeros((len(ids), PROBES)), _draw(ids, 0), energy, energy, zero, zero, lambda_)

    @property
    def riders(self) -> tuple[Array, Array, Array]:
        """What is sent along in a step's message."""
        return self.probe, self.fresh, self.averaged

    def update(self, ids: NDArray[np.intp], probe: Array, fresh: Array, averaged: Array) -> Mixing:
        """The state after a step, from the mixed riders; lambda changes at the end of a window only."""
        place, window = int(self.place.flat[0]), int(self.window.flat[0])
        energy = self.energy.copy()
        if place > 0:
            energy[:, place.bit_length() - 1] += np.sum(probe**2, axis=1)
        elif window == 0:  # there is no window before: what the first round does must be enough
            probe = fresh - self.fresh
        if place + 1 < _length(window):
            return Mixing(probe, fresh, energy, averaged, self.place + 1, self.window, self.lambda_)
        lambda_ = self.lambda_
        if window > 0:  # in the first window there is nothing averaged yet
            new = estimate(averaged, _length(window - 1))
            # Bad news at once, good news by halves: windows tend to miss the slowest modes.
            lambda_ = np.maximum(new, 1 - np.sqrt((1 - new) * (1 - lambda_)))
        probe = probe + (fresh - _draw(ids, window))
        return Mixing(
            probe, _draw(ids, window + 1), 0 * energy, energy, 0 * self.place, self.window + 1, lambda_
        )


def _draw(ids: NDArray[np.intp], window: int) -> Array:
    """Random numbers of some agents, the same wherever they are hosted."""
    return np.stack([np.random.default_rng([SEED, int(i), window]).standard_normal(PROBES) for i in ids])


def _length(window: int) -> int:
    return int(min(FIRST * 2 ** min(window, 10), LONGEST))


def estimate(energy: Array, window: int) -> Array:
    """lambda from the energies of a window, ``(agents, 1, 1)``."""
    lambda_ = np.zeros(len(energy))
    for block in range(window.bit_length() - 2):
        early, late = energy[:, block], energy[:, block + 1]
        alive = early > ALIVE
        ratio = np.divide(late, early, out=np.zeros_like(late), where=alive)
        # lambda^(2t) sums to q - q^2 over one block and q^2 - q^4 over the next, q = lambda^(2 * 2^block)
        q = (np.sqrt(1 + 4 * ratio) - 1) / 2
        lambda_ = np.where(alive, np.minimum(q, 1.0) ** (0.5 / 2**block), lambda_)
    return np.minimum(lambda_, SLOWEST)[:, None, None]
