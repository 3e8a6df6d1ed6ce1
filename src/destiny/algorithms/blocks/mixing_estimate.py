"""How well a network mixes, estimated while a run goes on: for networks that change, or that nobody knows."""

from __future__ import annotations

from dataclasses import dataclass, replace

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

    In the first step of a window every agent sends fresh random numbers r and adds W r - r, whose mean over
    the network is zero, to its probe. Then the probe is mixed, step by step, and shrinks like lambda^t. Its
    energy, summed over blocks of steps that double in length, is averaged over the network during the next
    window; the ratio of two blocks tells lambda. Probes are never reset: slow modes add up over the windows.
    """

    probe: Array
    """(agents, PROBES)."""
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
    def start(cls, agents: int, lambda_: Array) -> Mixing:
        """The first window, before its first step; lambda as the opening rounds estimated it."""
        zero, energy = np.zeros((agents, 1)), np.zeros((agents, BLOCKS))
        return cls(np.zeros((agents, PROBES)), energy, energy, zero, zero, lambda_)

    def riders(self, ids: NDArray[np.intp]) -> tuple[Array, Array]:
        """What is sent along in a step's message."""
        return (self.probe if self.place.flat[0] else self._fresh(ids)), self.averaged

    def update(self, probe: Array, averaged: Array, ids: NDArray[np.intp]) -> Mixing:
        """The state after a step, from the mixed riders; lambda changes at the end of a window only."""
        place = int(self.place.flat[0])
        if place == 0:
            probe = self.probe + (probe - self._fresh(ids))
            return replace(self, probe=probe, averaged=averaged, place=self.place + 1)
        energy = self.energy.copy()
        energy[:, place.bit_length() - 1] += np.sum(probe**2, axis=1)
        after = replace(self, probe=probe, averaged=averaged, energy=energy, place=self.place + 1)
        window = int(self.window.flat[0])
        if place + 1 < _length(window):
            return after
        lambda_ = self.lambda_
        if window > 0:  # in the first window there is nothing averaged yet
            new = estimate(averaged, _length(window - 1))
            # Bad news at once, good news by halves: windows tend to miss the slowest modes.
            lambda_ = np.maximum(new, 1 - np.sqrt((1 - new) * (1 - lambda_)))
        return Mixing(probe, 0 * energy, energy, 0 * self.place, self.window + 1, lambda_)

    def _fresh(self, ids: NDArray[np.intp]) -> Array:
        window = int(self.window.flat[0])
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
