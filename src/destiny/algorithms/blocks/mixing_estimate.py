"""Estimates of lambda during a run, for networks that change or whose spectrum is not known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from destiny.protocols import Array

PROBES = 4  # random numbers an agent sends along: energies are averaged over the agents as well
SEED = 2022  # any fixed number: probes must be equal on every engine
FIRST, LONGEST = 32, 512  # steps of the first window and of the longest: each has twice the steps of the last
BLOCKS = 9  # energies are summed over steps 1, 2-3, 4-7, ..., 256-511 of a window
ALIVE = 1e-18  # energies below are rounding errors: (1e-9)^2 for probes of order 1
SLOWEST = 1 - 2e-4  # a larger one shrinks energies by less than 20 % in the longest window


@dataclass(frozen=True)
class Mixing:
    """Random probes that are mixed along with a method's own messages; every array ``(agents, ...)``.

    In every window each agent draws random numbers r, which are mixed step by step. At the end of the window
    the mixed numbers minus r, whose network mean is zero, are added to the probe. Any mode that shrinks in
    some round of the window therefore has a part in the probe, however rare such rounds are. The probe itself
    is mixed as well and shrinks like lambda^t. Its energy, summed over blocks of steps that double in length,
    is averaged over the network during the next window, and the ratio of two blocks gives lambda. Probes are
    never reset, so that slow modes add up over the windows.
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
        """The state before the first step, with ``lambda_ (agents, 1, 1)`` from the opening rounds."""
        zero, energy = np.zeros((len(ids), 1)), np.zeros((len(ids), BLOCKS))
        return cls(np.zeros((len(ids), PROBES)), _draw(ids, 0), energy, energy, zero, zero, lambda_)

    @property
    def probes(self) -> tuple[Array, Array, Array]:
        """The arrays to mix in each step; `update` takes them mixed."""
        return self.probe, self.fresh, self.averaged

    def update(self, ids: NDArray[np.intp], probe: Array, fresh: Array, averaged: Array) -> Mixing:
        """The state after a step, from the mixed `probes`; lambda changes at the end of a window only."""
        place, window = int(self.place.flat[0]), int(self.window.flat[0])
        energy = self.energy.copy()
        if place > 0:
            energy[:, place.bit_length() - 1] += np.sum(probe**2, axis=1)
        elif window == 0:  # no window before this one: start from the change in the first round
            probe = fresh - self.fresh
        if place + 1 < _length(window):
            return Mixing(probe, fresh, energy, averaged, self.place + 1, self.window, self.lambda_)
        lambda_ = self.lambda_
        if window > 0:  # in the first window there is nothing averaged yet
            new = estimate(averaged, _length(window - 1))
            # A larger lambda counts at once, a smaller one as the geometric mean of both gaps: windows tend
            # to miss the slowest modes.
            lambda_ = np.maximum(new, 1 - np.sqrt((1 - new) * (1 - lambda_)))
        probe = probe + (fresh - _draw(ids, window))
        return Mixing(
            probe, _draw(ids, window + 1), 0 * energy, energy, 0 * self.place, self.window + 1, lambda_
        )


def _draw(ids: NDArray[np.intp], window: int) -> Array:
    """Standard normal numbers ``(agents, PROBES)``, a function of agent and window alone."""
    return np.stack([np.random.default_rng([SEED, int(i), window]).standard_normal(PROBES) for i in ids])


def _length(window: int) -> int:
    return int(min(FIRST * 2 ** min(window, 10), LONGEST))


def estimate(energy: Array, window: int) -> Array:
    """lambda ``(agents, 1, 1)`` from the energies ``(agents, BLOCKS)`` of a window of so many steps."""
    lambda_ = np.zeros(len(energy))
    for block in range(window.bit_length() - 2):
        early, late = energy[:, block], energy[:, block + 1]
        alive = early > ALIVE
        ratio = np.divide(late, early, out=np.zeros_like(late), where=alive)
        # lambda^(2t) sums to q - q^2 over one block and q^2 - q^4 over the next, q = lambda^(2 * 2^block)
        q = (np.sqrt(1 + 4 * ratio) - 1) / 2
        lambda_ = np.where(alive, np.minimum(q, 1.0) ** (0.5 / 2**block), lambda_)
    return np.minimum(lambda_, SLOWEST)[:, None, None]
