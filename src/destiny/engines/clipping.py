"""Clipped mixing: an agent lets no neighbour pull it further than all but the b farthest do.

    x_i+ = x_i + sum_j W_ij clip(x_j - x_i, tau_i),    clip(v, tau) = v min(1, tau / ||v||)

tau_i is the (b+1)-th largest ||x_j - x_i||, for each array of a message by itself. If at most b of an agent's
neighbours lie, the (b+1)-th farthest is as near as some honest one. The network's mean is not kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from destiny.engines.neighbours import Neighbours
from destiny.protocols import Array


def clipped_mean(own: Array, others: Array, weights: Array, liars: int) -> Array:
    """x_i+ ``(width,)`` from x_i, the neighbours' x_j ``(k, width)`` in order and their weights ``(k,)``.

    Neighbours whose numbers are not finite count as the farthest and pull by nothing.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        pull = others - own
        distance = np.sqrt(np.sum(pull * pull, axis=1))
    far = ~np.isfinite(pull).all(axis=1)
    distance[far | np.isnan(distance)] = np.inf
    if len(distance) <= liars:
        return own.copy()
    tau = np.sort(distance)[-1 - liars]
    pull[far] = 0.0
    # An infinite tau comes of numbers near the end of the range, or of more liars than expected.
    share = np.divide(tau, distance, out=np.ones_like(distance), where=distance > tau)
    return np.asarray(own + np.sum((weights * share)[:, None] * pull, axis=0))


def clipped_round(
    blocks: Sequence[Array], heard: Sequence[Array], neighbours: Neighbours, liars: int
) -> list[Array]:
    """All blocks ``(hosted, width)`` of the hosted agents after a round; ``heard`` has those of all heard.

    What an agent makes of its neighbours' numbers does not depend on who is hosted beside it.
    """
    mixed = [np.empty_like(block) for block in blocks]
    for row, (places, weights) in enumerate(zip(neighbours.places, neighbours.weights, strict=True)):
        for block, received, result in zip(blocks, heard, mixed, strict=True):
            result[row] = clipped_mean(block[row], received[places], weights, liars)
    return mixed
