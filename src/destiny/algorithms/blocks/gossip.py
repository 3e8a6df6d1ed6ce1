"""What agents can do together by mixing alone: several rounds at once, faster averaging, a survey."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from destiny.protocols import Agents, Array

PROBES = 8  # random numbers an agent sends along to feel the network: enough for a ratio good to 20 %
PROBE_SEED = 2022  # any fixed number: probes must be equal on every engine


def chebyshev(
    agents: Agents, *arrays: Array, rounds: int, lambda_: float, shift: float = 0.0
) -> tuple[Array, ...]:
    """The best average of some rounds for a network with this lambda: Chebyshev polynomials of W.

    Deviations from the mean shrink by 2 c^K / (1 + c^(2K)) or better, c = lambda / (1 + sqrt(1 - lambda^2)),
    and the mean is kept. A lambda that is too small slows it down, no more. For one round it is W. With a
    ``shift`` it is all of this for (W - shift I) / (1 - shift), whose spectrum can be centred.
    """
    before: tuple[Array, ...] = arrays
    now = _shifted(agents, arrays, shift)
    omega = 2.0
    for _ in range(rounds - 1):
        omega = 1 / (1 - lambda_**2 * omega / 4)
        mixed = _shifted(agents, now, shift)
        before, now = now, tuple(omega * m + (1 - omega) * b for m, b in zip(mixed, before, strict=True))
    return now


def _shifted(agents: Agents, arrays: tuple[Array, ...], shift: float) -> tuple[Array, ...]:
    """One round of (W - shift I) / (1 - shift)."""
    mixed = agents.mix(*arrays)
    if shift == 0:
        return mixed
    return tuple((m - shift * a) / (1 - shift) for m, a in zip(mixed, arrays, strict=True))


def contraction(rounds: int, lambda_: float) -> float:
    """What `chebyshev` leaves of a deviation from the mean, at worst."""
    c = lambda_ / (1 + math.sqrt(1 - lambda_**2))
    return 2 * c**rounds / (1 + c ** (2 * rounds))


def rounds_for(accuracy: float, lambda_: float) -> int:
    """Rounds after which `chebyshev` leaves at most this of a deviation from the mean."""
    c = lambda_ / (1 + math.sqrt(1 - lambda_**2))
    return 1 if c <= accuracy else math.ceil(math.log(accuracy / 2) / math.log(c))


FLOOR = -0.2  # below -1/3 momentum in the mixed quantity fails, below -0.2 where agents curve downwards
SINGLE = 0.8  # up to this lambda one round a step needs fewest rounds; found on some seeds, see docs
ENOUGH = 0.7  # beyond it, as many rounds as bring lambda down to this
MOST = 50  # rounds a step: enough for a ring of 200


@dataclass(frozen=True)
class Filter:
    """The rounds of a step as one average: a polynomial of W with no eigenvalue below `FLOOR`.

    It is (T + rest I) / (1 + rest), T the Chebyshev polynomial of the shifted W; the mean is kept.
    """

    rounds: int
    shift: float
    lambda_: float
    """Of the shifted W."""
    rest: float
    """How far T's eigenvalues reach below zero; 0 for a single round."""

    @property
    def contraction(self) -> float:
        """What a step leaves of a deviation from the mean, at worst."""
        left = contraction(self.rounds, self.lambda_)
        return (left + self.rest) / (1 + self.rest)

    def __call__(self, agents: Agents, *arrays: Array) -> tuple[Array, ...]:
        """The average of all rounds."""
        mixed = chebyshev(agents, *arrays, rounds=self.rounds, lambda_=self.lambda_, shift=self.shift)
        if self.rest == 0:
            return mixed
        return tuple((m + self.rest * a) / (1 + self.rest) for m, a in zip(mixed, arrays, strict=True))


def centred(low: float, high: float) -> tuple[float, float]:
    """The shift that centres a spectrum in [low, high] about 0, and lambda of the W so shifted."""
    shift = (low + high) / 2
    return shift, (high - low) / 2 / (1 - shift)


@cache
def fitting(low: float, high: float, rounds: int | None = None) -> Filter:
    """The filter for a network whose W has all eigenvalues but the 1 in [low, high].

    One round where that is enough; otherwise as few as make the network a good one.
    """
    lazy = max(0.0, (FLOOR - low) / (1 - FLOOR))
    one = Filter(1, -lazy, max(high + lazy, -low - lazy) / (1 + lazy), 0.0)
    if rounds == 1 or (rounds is None and one.contraction <= SINGLE):
        return one
    shift, lambda_ = centred(low, high)
    for K in (rounds,) if rounds else range(2, MOST + 1):
        several = Filter(K, shift, lambda_, contraction(K, lambda_))
        if several.contraction <= ENOUGH:
            break
    return several


def single(lowest: float = -1.0) -> Filter:
    """One round a step, for a network of which no more is known than the smallest eigenvalue of its W.

    It is lazy enough to have no negative eigenvalue, (W + I) / 2 where nothing is known: products of
    different matrices have complex eigenvalues, which momentum bears only near the positive axis.
    """
    return Filter(1, min(0.0, lowest), 1.0, 0.0)


def fast_mix(agents: Agents, *arrays: Array, rounds: int, lambda_: float) -> tuple[Array, ...]:
    """Z+ = (1 + q) W Z - q Z_before (Liu & Morse 2011; used by DeEPCA): Chebyshev's stationary form."""
    root = math.sqrt(1 - lambda_**2)
    q = (1 - root) / (1 + root)
    before: tuple[Array, ...] = arrays
    now: tuple[Array, ...] = arrays
    for _ in range(rounds):
        mixed = agents.mix(*now)
        before, now = now, tuple((1 + q) * m - q * b for m, b in zip(mixed, before, strict=True))
    return now


def survey(agents: Agents, *arrays: Array, rounds: int = 20) -> tuple[tuple[Array, ...], Array]:
    """Average ``arrays`` over the network for some rounds and feel how well it mixes on the way.

    Random numbers ride along. Their change from round to round shrinks like lambda^k, so the ratio of its
    energies in two later windows estimates lambda = ||W - 11^T/d||_2; the last rounds average the energies
    themselves, so that agents where the slow modes happen to vanish learn them from their neighbours.

    Returns
    -------
    arrays : the averages so far, each with its own shape
    lambda_ : ndarray (agents, 1, 1), in [0, 1)
    """
    window = max(1, rounds // 5)
    last = rounds - window  # the remaining rounds average the energies
    probe = np.stack(
        [np.random.default_rng([PROBE_SEED, int(i)]).standard_normal(PROBES) for i in agents.ids]
    )
    energy = []
    for _ in range(last):
        previous = probe
        *arrays, probe = agents.mix(*arrays, probe)  # type: ignore[assignment]
        energy.append(np.sum((probe - previous) ** 2, axis=1))
    early = np.sum(energy[-2 * window : -window] or energy[:1], axis=0)
    late = np.sum(energy[-window:], axis=0)
    *arrays, energies = agents.mix(*arrays, np.stack([early, late], axis=1), rounds=window)  # type: ignore[assignment]
    early, late = energies[:, 0], energies[:, 1]
    # A network that averages at once leaves rounding errors only: 1e-20 of the probes' energy.
    alive = early > 1e-20 * PROBES
    ratio = np.divide(late, early, out=np.zeros_like(late), where=alive)
    lambda_ = np.minimum(ratio ** (1 / (2 * window)), 1 - 0.5 / rounds)
    # An agent that heard nobody in any round cannot tell, and should be careful.
    lambda_ = np.where(energy[0] + late + early > 0, lambda_, 1 - 0.5 / rounds)
    return tuple(arrays), lambda_[:, None, None]
