"""Clipped mixing: an agent lets no neighbor pull it further than all but the b farthest do.

    x_i+ = x_i + sum_j W_ij clip(x_j - x_i, tau_i),    clip(v, tau) = v min(1, tau / ||v||)

tau_i is the (b+1)-th largest ||x_j - x_i||, for each array of a message by itself. If at most b of an agent's
neighbors are Byzantine, the (b+1)-th farthest is as near as some honest one. The network's mean is not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.engines.mixers.plain import BYTES, PLAIN, Links, Messages, Mixer, separate
from destiny.errors import MismatchError, SettingsError
from destiny.protocols import AlgorithmBase, Array, TopologyBase
from destiny.validation import is_whole


@dataclass(frozen=True)
class Clipped(Messages):
    """Messages for networks in which some neighbors may be Byzantine, and send anything.

    The answer is approximate, and a run never claims to have converged. docs/byzantine.md has what that
    protects, and what it costs.

    Parameters
    ----------
    byzantine : int
        Neighbors of an agent that may lie. An agent needs twice as many neighbors and one more.
    """

    byzantine: int = 1
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not is_whole(self.byzantine) or self.byzantine < 1:
            raise SettingsError(f"clip must be a whole number >= 1; found {self.byzantine!r}")

    @classmethod
    def from_key(cls, clip: Any) -> Messages:
        """Of the key ``clip``, 0 for plain messages."""
        if not is_whole(clip) or clip < 0:
            raise SettingsError(f"clip must be a whole number >= 0; found {clip!r}")
        return cls(clip) if clip else PLAIN

    def check(self, network: TopologyBase, method: AlgorithmBase) -> None:
        """Refuse networks with too few neighbors, and methods that need exact averages."""
        super().check(network, method)
        if method.about is not None and "totals" in method.about:
            raise MismatchError(
                f"{method.kind} averages by exact totals, which Byzantine agents could falsify; found "
                f"{self}: leave clip out, or choose a method that only mixes, such as dgd"
            )

    def obstacle(self, network: TopologyBase) -> str | None:
        """Why honest neighbors are not the majority around some agent."""
        agent, neighbors = network.fewest_neighbors
        if neighbors >= (least := 2 * self.byzantine + 1):
            return None
        return (
            f"clip = {self.byzantine} needs {least} neighbors or more, so that honest ones are the "
            f"majority; agent {agent} has {neighbors}: add links, or make clip smaller"
        )

    def mixer(self, hosted: int, agents: int) -> ClippedMixer:  # noqa: ARG002
        return ClippedMixer(self.byzantine)

    def keys(self) -> dict[str, Any]:
        return {"clip": self.byzantine}

    def remarks(self) -> list[str]:
        """The answer is approximate."""
        return [
            f"{self}: the answer is approximate, as clipping does not keep averages (mean(D) = mean(H) is "
            "lost), and wrong if more neighbors of an agent lie"
        ]

    def __str__(self) -> str:
        several = "s" * (self.byzantine > 1)
        return f"messages clipped for {self.byzantine} Byzantine neighbor{several} of an agent"


class ClippedMixer(Mixer):
    """Mixing in which nobody pulls an agent further than all but the farthest neighbors do."""

    exact = False

    def __init__(self, byzantine: int) -> None:
        self.byzantine = byzantine
        self.weights: csr_array[Any, Any] | None = None
        self.neighbors: list[tuple[NDArray[Any], Array]] = []

    def mix(self, links: Links, blocks: Sequence[Array]) -> list[Array]:
        """What an agent makes of its neighbors' numbers does not depend on who is hosted beside it."""
        if links.weights is not self.weights:
            self.weights, self.neighbors = links.weights, neighbors_of(links)
        widths = [block.shape[1] for block in blocks]
        heard = separate(links.swap(blocks, sum(widths), BYTES * sum(widths)), widths)
        mixed = [np.empty_like(block) for block in blocks]
        for row, (places, weights) in enumerate(self.neighbors):
            for block, received, result in zip(blocks, heard, mixed, strict=True):
                result[row] = clipped_mean(block[row], received[places], weights, self.byzantine)
        return mixed


def neighbors_of(links: Links) -> list[tuple[NDArray[Any], Array]]:
    """For each hosted agent, where its neighbors are among the agents heard, and their weights."""
    W, rows, found = links.weights, links.rows, []
    for row, agent in enumerate(links.ids):
        mine = slice(rows.indptr[row], rows.indptr[row + 1])
        others = W.indices[W.indptr[agent] : W.indptr[agent + 1]] != agent  # in the same order
        found.append((rows.indices[mine][others], rows.data[mine][others]))
    return found


def clipped_mean(own: Array, others: Array, weights: Array, byzantine: int) -> Array:
    """x_i+ ``(width,)`` from x_i, the neighbors' x_j ``(k, width)`` in order and their weights ``(k,)``.

    Neighbors whose numbers are not finite count as the farthest and pull by nothing.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        pull = others - own
        distance = np.sqrt(np.sum(pull * pull, axis=1))
    far = ~np.isfinite(pull).all(axis=1)
    distance[far | np.isnan(distance)] = np.inf
    if len(distance) <= byzantine:
        return own.copy()
    tau = np.sort(distance)[-1 - byzantine]
    pull[far] = 0.0
    # An infinite tau comes of numbers near the end of the range, or of too many Byzantine neighbors.
    share = np.divide(tau, distance, out=np.ones_like(distance), where=distance > tau)
    return np.asarray(own + np.sum((weights * share)[:, None] * pull, axis=0))
