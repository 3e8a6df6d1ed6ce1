"""Averaging by several rounds of mixing: Chebyshev polynomials of W, filters, an estimate of lambda."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np

from destiny.protocols import Agents, Array

PROBES = 8  # random numbers an agent sends along: enough to estimate a ratio of energies to 20 %
PROBE_SEED = 2022  # any fixed number: probes must be equal on every engine
FLOOR = -0.2  # smallest eigenvalue of M: momentum is unstable below -1/3, and below -0.2 where f_i is concave
FLOOR_CHANGING = 0.2  # the same where W changes: with 0 some periodic networks never converged
SINGLE = 0.8  # up to this lambda, one round a step; chosen on seeds 0 to 3 of docs/acceleration.md
ENOUGH = 0.7  # contraction of a step with several rounds; chosen on the same seeds
MOST = 50  # rounds a step: enough for a ring of 200


class Mixer(Protocol):
    """What averaging asks of agents."""

    def mix(self, *arrays: Array, rounds: int = 1, again: bool = False) -> tuple[Array, ...]: ...


def chebyshev(
    agents: Mixer, *arrays: Array, rounds: int, lambda_: float, shift: float = 0.0
) -> tuple[Array, ...]:
    """Apply to each array the Chebyshev polynomial of W of degree ``rounds``, scaled to keep the mean.

    It is the polynomial of this degree that shrinks deviations from the mean most on networks with
    ``lambda_``: by the factor of `contraction`. A ``lambda_`` that is too small only slows it down. One round
    is W itself. With a ``shift``, (W - shift I) / (1 - shift) takes the place of W; see `center_spectrum`.
    """
    before: tuple[Array, ...] = arrays
    now = shifted_round(agents, arrays, shift)
    omega = 2.0
    for _ in range(rounds - 1):
        omega = 1 / (1 - lambda_**2 * omega / 4)
        mixed = shifted_round(agents, now, shift, again=True)
        for m, b in zip(mixed, before, strict=True):
            m *= omega
            m += (1 - omega) * b
        before, now = now, mixed
    return now


def shifted_round(
    agents: Mixer, arrays: tuple[Array, ...], shift: float, again: bool = False
) -> tuple[Array, ...]:
    """One round of (W - shift I) / (1 - shift)."""
    mixed = agents.mix(*arrays, again=again)
    if shift == 0:
        return mixed
    for m, a in zip(mixed, arrays, strict=True):
        m -= shift * a
        m /= 1 - shift
    return mixed


def contraction(rounds: int, lambda_: float) -> float:
    """Largest factor by which `chebyshev` multiplies a deviation from the mean.

    2 c^K / (1 + c^(2K)) with K = ``rounds`` and c = lambda / (1 + sqrt(1 - lambda^2)).
    """
    c = lambda_ / (1 + math.sqrt(1 - lambda_**2))
    return 2 * c**rounds / (1 + c ** (2 * rounds))


def rounds_for(accuracy: float, lambda_: float) -> int:
    """Rounds after which `contraction` is at most ``accuracy``."""
    c = lambda_ / (1 + math.sqrt(1 - lambda_**2))
    return 1 if c <= accuracy else math.ceil(math.log(accuracy / 2) / math.log(c))


@dataclass(frozen=True)
class Filter:
    """The rounds of a step as one mixing matrix M, a polynomial of W with no eigenvalue below `FLOOR`.

    M = (T + rest I) / (1 + rest), where T is the Chebyshev polynomial of (W - shift I) / (1 - shift).
    """

    rounds: int
    shift: float
    lambda_: float
    """Of (W - shift I) / (1 - shift)."""
    rest: float
    """Minus the smallest eigenvalue of T; 0 for a single round."""

    @property
    def contraction(self) -> float:
        """Largest factor by which M multiplies a deviation from the mean."""
        left = contraction(self.rounds, self.lambda_)
        return (left + self.rest) / (1 + self.rest)

    def __call__(self, agents: Mixer, *arrays: Array) -> tuple[Array, ...]:
        """Apply M to each array, in ``rounds`` rounds."""
        mixed = chebyshev(agents, *arrays, rounds=self.rounds, lambda_=self.lambda_, shift=self.shift)
        if self.rest == 0:
            return mixed
        return tuple((m + self.rest * a) / (1 + self.rest) for m, a in zip(mixed, arrays, strict=True))


def center_spectrum(low: float, high: float) -> tuple[float, float]:
    """The shift for which the spectrum [low, high] of W is centered at 0, and lambda of the shifted W."""
    shift = (low + high) / 2
    return shift, (high - low) / 2 / (1 - shift)


@cache
def filter_for(low: float, high: float, rounds: int | None = None) -> Filter:
    """The filter for a network whose W has its eigenvalues other than 1 in [low, high].

    It has ``rounds`` rounds. By default it has one if that contracts by `SINGLE` or better, otherwise the
    fewest that contract by `ENOUGH`, at most `MOST`.
    """
    lazy = max(0.0, (FLOOR - low) / (1 - FLOOR))
    one = Filter(1, -lazy, max(high + lazy, -low - lazy) / (1 + lazy), 0.0)
    if rounds == 1 or (rounds is None and one.contraction <= SINGLE):
        return one
    shift, lambda_ = center_spectrum(low, high)
    for K in (rounds,) if rounds else range(2, MOST + 1):
        several = Filter(K, shift, lambda_, contraction(K, lambda_))
        if several.contraction <= ENOUGH:
            break
    return several


def single_round_filter(lowest: float = -1.0) -> Filter:
    """The filter (W + s I) / (1 + s) of one round with no eigenvalue below `FLOOR_CHANGING`.

    It is for networks of which only ``lowest``, the smallest eigenvalue of W in any round, is known. Products
    of different matrices have complex eigenvalues, and momentum is stable only near the positive axis.
    """
    return Filter(1, -max(0.0, (FLOOR_CHANGING - lowest) / (1 - FLOOR_CHANGING)), 1.0, 0.0)


def fast_mix(agents: Agents, *arrays: Array, rounds: int, lambda_: float) -> tuple[Array, ...]:
    """FastMix (Liu & Morse 2011; used by DeEPCA): ``rounds`` times Z+ = (1 + q) W Z - q Z_before.

    q = (1 - r) / (1 + r) with r = sqrt(1 - lambda^2), the limit of the coefficients of `chebyshev`.
    """
    root = math.sqrt(1 - lambda_**2)
    q = (1 - root) / (1 + root)
    before: tuple[Array, ...] = arrays
    now: tuple[Array, ...] = arrays
    for k in range(rounds):
        mixed = agents.mix(*now, again=k > 0)
        before, now = now, tuple((1 + q) * m - q * b for m, b in zip(mixed, before, strict=True))
    return now


def average_and_estimate_lambda(
    agents: Agents, *arrays: Array, rounds: int = 20
) -> tuple[tuple[Array, ...], Array]:
    """Average ``arrays`` for ``rounds`` rounds and estimate lambda = ||W - 11^T/d||_2 on the way.

    Random probes are sent along. Their change from round to round shrinks like lambda^k, so the ratio of its
    energies in two successive windows estimates lambda. The last rounds average the energies, so that agents
    at which the slowest modes vanish get them from their neighbors.

    Returns
    -------
    arrays : tuple of ndarray
        The arrays after mixing.
    lambda_ : ndarray (agents, 1, 1)
        In [0, 1 - 1 / (2 rounds)]: so few rounds cannot tell a larger lambda from 1. An agent without a
        neighbor in any round gets the upper end.
    """
    window = max(1, rounds // 5)
    last = rounds - window  # the remaining rounds average the energies
    probe = np.stack(
        [np.random.default_rng([PROBE_SEED, int(i)]).standard_normal(PROBES) for i in agents.ids]
    )
    energy = []
    for k in range(last):
        previous = probe
        *arrays, probe = agents.mix(*arrays, probe, again=k > 0)  # type: ignore[assignment]
        energy.append(np.sum((probe - previous) ** 2, axis=1))
    early = np.sum(energy[-2 * window : -window] or energy[:1], axis=0)
    late = np.sum(energy[-window:], axis=0)
    energies = np.stack([early, late], axis=1)
    *arrays, energies = agents.mix(*arrays, energies, rounds=window, again=True)  # type: ignore[assignment]
    early, late = np.maximum(energies, 0.0).T  # a neighbor that lies can make them negative
    # A network that averages at once leaves rounding errors only: 1e-20 of the probes' energy.
    alive = early > 1e-20 * PROBES
    ratio = np.divide(late, early, out=np.zeros_like(late), where=alive)
    lambda_ = np.minimum(ratio ** (1 / (2 * window)), 1 - 0.5 / rounds)
    lambda_ = np.where(energy[0] + late + early > 0, lambda_, 1 - 0.5 / rounds)
    return tuple(arrays), lambda_[:, None, None]
