"""The contract of networks: one mixing matrix for every round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.protocols.arrays import Array
from destiny.protocols.tree import Tree, spanning_tree


class Topology(Protocol):
    """Who talks to whom, with which weights, in which round: what a network must have."""

    @property
    def agents(self) -> int:
        """Number of agents d."""

    def at(self, round: int) -> csr_array[Any, Any]:
        """Mixing matrix of a round ``(d, d)``, rows sorted by index; equal in every process.

        Every row and every column sums to 1; a class of your own may return any array, which is checked.
        """


class TopologyBase(ABC):
    """A network (`Topology`) with everything else it may be asked for."""

    verified: bool = False
    """Whether its matrices are doubly stochastic by construction; otherwise each of them is checked."""
    changes: bool = True
    """Whether the mixing matrix may differ from round to round."""
    checked: bool = False
    """Whether it is of a user's own class, so that every round's matrix is looked at."""
    connected: bool = True
    """False for a network in pieces, of use only as a part of one that changes."""

    @property
    @abstractmethod
    def agents(self) -> int:
        """Number of agents d."""

    @abstractmethod
    def at(self, round: int) -> csr_array[Any, Any]:
        """Mixing matrix of a round ``(d, d)``, rows sorted by index; equal in every process."""

    @property
    def diameter(self) -> int | None:
        """Rounds until every agent has heard of every other; None if it depends on the round."""
        return None

    @cached_property
    def tree(self) -> Tree | None:
        """The spanning tree along which sums over all agents travel; None if the network changes."""
        return None if self.changes else spanning_tree(self.at(0))

    @property
    def depth(self) -> int | None:
        """Levels of that tree, an upper bound where an agent does not know it yet; None if there is none."""
        return None if self.tree is None else self.tree.depth

    @property
    def lambda_(self) -> float | None:
        """||W - 11^T/d||_2, the factor by which one round shrinks disagreement; None if there is no one W."""
        return None

    @property
    def spectrum(self) -> tuple[float, float] | None:
        """Lowest and highest eigenvalue of W but for the 1 of the mean; None if there is no one W."""
        return None

    @property
    def lowest(self) -> float | None:
        """Smallest eigenvalue of W over some rounds, of a network that is known to change; None of others."""
        return None

    @property
    def transient(self) -> int:
        """Rounds at the start that are unlike all later ones."""
        return 0

    @property
    def with_all_links(self) -> TopologyBase:
        """The network with all its links up; by default the network itself."""
        return self

    def all_edges(self) -> NDArray[np.int64]:
        """Links alive in some round ``(E, 2)``, i < j; by default those of the first round."""
        i, j = self.at(0).nonzero()
        return np.stack([i[i < j], j[i < j]], axis=1).astype(np.int64)

    @property
    def fewest_neighbours(self) -> tuple[int, int]:
        """The agent with the fewest neighbours, as far as they are known here, and their number."""
        if self.changes:
            degrees = np.bincount(self.all_edges().ravel(), minlength=self.agents)
        else:
            W = self.at(0)
            rows = np.repeat(np.arange(self.agents), np.diff(W.indptr))
            degrees = np.bincount(rows[(rows != W.indices) & (W.data != 0)], minlength=self.agents)
        agent = int(degrees.argmin())
        return agent, int(degrees[agent])

    def layout(self) -> Array:
        """Where to draw the agents, ``(d, 2)``; by default on a circle."""
        angle = 2 * np.pi * np.arange(self.agents) / self.agents
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)

    def facts(self) -> dict[str, Any]:
        """What there is to know, as plain numbers by name."""
        return {}
