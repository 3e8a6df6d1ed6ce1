"""What agents can do together by mixing alone: several rounds at once, faster averaging, a survey."""

from __future__ import annotations

import math

import numpy as np

from destiny.types import Agents, Array

PROBES = 8  # random numbers an agent sends along to feel the network: enough for a ratio good to 20 %
PROBE_SEED = 2022  # any fixed number: probes must be equal on every engine


def chebyshev(agents: Agents, *arrays: Array, rounds: int, lambda_: float) -> tuple[Array, ...]:
    """The best average of some rounds for a network with this lambda: Chebyshev polynomials of W.

    Deviations from the mean shrink by 2 c^K / (1 + c^(2K)) or better, c = lambda / (1 + sqrt(1 - lambda^2)),
    and the mean is kept. A lambda that is too small slows it down, no more. For one round it is W.
    """
    before: tuple[Array, ...] = arrays
    now = agents.mix(*arrays)
    omega = 2.0
    for _ in range(rounds - 1):
        omega = 1 / (1 - lambda_**2 * omega / 4)
        mixed = agents.mix(*now)
        before, now = now, tuple(omega * m + (1 - omega) * b for m, b in zip(mixed, before, strict=True))
    return now


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
    lambda_ = np.minimum(ratio, 1 - 1e-8) ** (1 / (2 * window))
    return tuple(arrays), lambda_[:, None, None]
