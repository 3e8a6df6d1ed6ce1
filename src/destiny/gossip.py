"""What agents can learn together by mixing alone."""

from __future__ import annotations

import numpy as np

from destiny.types import Agents, Array

PROBES = 8  # random numbers an agent sends along to feel the network: enough for a ratio good to 20 %
PROBE_SEED = 2022  # any fixed number: probes must be equal on every engine


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
