"""Averages that all agents know to rounding; every round and number sent is counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from destiny.algorithms.averaged.quadratic_model import pack, unpack
from destiny.algorithms.averaged.totals import averages
from destiny.engines.hosted import HostedAgents
from destiny.engines.mixers.private import WIDE
from destiny.engines.words import TINY, Columns
from destiny.errors import DestinyError, PrivacyError
from destiny.geometry.scales import matrix_scales, symmetric_scales
from destiny.protocols import Array, TopologyBase
from destiny.run.stopping import flooding_time

ACCURACY = 1e-13  # largest change of an average, relative to its largest entry, that still counts as none
MOST = 20_000  # rounds of averaging; a ring of 100 agents needs about that many
ROUGH = 5  # times that everybody hears of everybody, where averages never settle


def average(agents: HostedAgents, network: TopologyBase, *arrays: Array) -> tuple[tuple[Array, ...], bool]:
    """Exact averages on a static network (`HostedAgents.all_reduce`).

    On one that changes agents mix until the largest change seen by any agent is rounding; all end after the
    same round. False comes with averages that still changed after `MOST` rounds. Messages that carry no
    exact averages are mixed for some rounds, to rough ones: along a tree, one agent could set them.
    """
    if not agents.exact:
        return agents.mix(*arrays, rounds=ROUGH * max(1, flooding_time(network, agents.traffic.rounds))), True
    if network.tree is not None:
        return _exact(agents, arrays), True
    return _settle(agents, network, arrays, _relative_change)


def agree(agents: HostedAgents, network: TopologyBase, values: Array, sizes: Array | None = None) -> Array:
    """The network average of ``values (hosted, ...)``, the same at all agents up to rounding.

    On a static network it is exact. On one that changes agents mix until nobody sees a change: relative to
    the largest entry, or with ``sizes``, of the shape of ``values`` and none negative, each entry relative to
    the average of its own size. ``sizes`` are then sent along. Averages that do not settle are refused.
    """
    if sizes is None or (network.tree is not None and agents.exact):
        (mean,), settled = average(agents, network, values)
    else:
        (mean, _), settled = _settle(agents, network, (values, sizes), _change_by_size)
    if not settled:
        raise DestinyError(
            f"the agents' averages still change after {MOST} rounds: use a network that mixes faster, or one "
            "that all agents know ([network])"
        )
    return mean


def require_seen(squares: Array, totals: Array, noise: Array, columns: Columns) -> None:
    """Raise `PrivacyError` for a column whose sum of squares is smaller than private messages can carry.

    Parameters
    ----------
    squares : ndarray (n,)
        Those of one agent: no other knows whether a total of 0 is that of a constant column.
    totals : ndarray (n,)
        What all agents know.
    noise : ndarray (n,)
        Squares up to this are those of a constant column, by rounding.
    """
    (unseen,) = np.nonzero((squares > noise) & (totals < 2.0**TINY))
    if len(unseen):
        raise PrivacyError(
            f"private messages carry sums of squares from {2.0**TINY:.0e}, and that of "
            f"{columns[0][unseen[0]]} is smaller: multiply the column by a number that all parties agree on"
        )


def average_symmetric(agents: HostedAgents, network: TopologyBase, A: Array, noisy: bool = False) -> Array:
    """The average of symmetric matrices ``(hosted, n, n)``, by their upper triangles.

    Of matrices that are ``noisy`` nothing is told but their sum: they share the noise that hides the data.
    """
    if network.tree is None:
        return unpack(agree(agents, network, pack(A)), A.shape[1])
    bounds = None
    if agents.bounded and not noisy:
        (scales,) = agents.all_reduce(symmetric_scales(A))
        bounds = [pack(np.sqrt(np.outer(scales[0], scales[0]))[None])[0]]
    (mean,) = averages(agents, pack(A), bounds=bounds)
    return unpack(mean[:1], A.shape[1]).repeat(len(A), axis=0)


def rounds_to_agree(network: TopologyBase) -> int | None:
    """Rounds that `agree` takes, None if they are not known beforehand."""
    return None if network.depth is None else 2 * network.depth


def _exact(agents: HostedAgents, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """Averages by sums; private ones of large matrices relative to the sizes of their rows and columns."""
    if not agents.bounded:
        return averages(agents, *arrays)
    large = [_takes_bounds(a.shape[1:]) for a in arrays]
    sizes = [size for a, is_large in zip(arrays, large, strict=True) if is_large for size in matrix_scales(a)]
    totals = iter(agents.all_reduce(*sizes) if sizes else ())
    bounds = [np.outer(next(totals)[0], next(totals)[0]) if is_large else None for is_large in large]
    return averages(agents, *arrays, bounds=bounds)


def _takes_bounds(shape: tuple[int, ...]) -> bool:
    """Whether bounds for the rows and columns, in wide words, halve what the numbers take."""
    return len(shape) == 2 and math.prod(shape) + WIDE * sum(shape) <= WIDE * math.prod(shape) / 2


Change = Callable[[Sequence[Array], Sequence[Array]], Array]


def _settle(
    agents: HostedAgents, network: TopologyBase, arrays: tuple[Array, ...], measure: Change
) -> tuple[tuple[Array, ...], bool]:
    """Mix until the largest change of any agent is at most `ACCURACY`; False if that took too long."""
    start = agents.traffic.rounds
    change = np.ones(len(agents.ids))
    while True:
        # In so many rounds everybody hears of everybody: of their numbers, and of the last time's changes.
        rounds_to_flood = max(1, flooding_time(network, agents.traffic.rounds))
        before = arrays
        agents.set_flood(change)
        arrays = agents.mix(*arrays, rounds=rounds_to_flood)
        change = measure(arrays, before)
        assert agents.flood is not None
        done = bool((agents.flood <= ACCURACY).all())
        agents.set_flood(None)
        if done or agents.traffic.rounds - start >= MOST:
            return arrays, done


def _relative_change(new: Sequence[Array], old: Sequence[Array]) -> Array:
    """Largest change of an entry relative to the largest entry of its array, ``(agents,)``."""
    changes = []
    for now, before in zip(new, old, strict=True):
        rest = tuple(range(1, now.ndim))
        size = np.maximum(np.abs(now).max(axis=rest), 1e-300)
        changes.append(np.abs(now - before).max(axis=rest) / size)
    return np.asarray(np.max(changes, axis=0))


def _change_by_size(new: Sequence[Array], old: Sequence[Array]) -> Array:
    """Largest change of a value or a size relative to that size, ``(agents,)``."""
    size = np.maximum(new[1], 1e-300)
    changes = [np.abs(now - before) / size for now, before in zip(new, old, strict=True)]
    return np.asarray(np.max(changes, axis=(0, *range(2, 1 + size.ndim))))
