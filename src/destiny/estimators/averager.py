"""Averages over a network, computed by its agents; rounds and numbers sent are counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from destiny.engines.hosted import Engine, HostedAgents, Traffic
from destiny.engines.totals import PHASES
from destiny.protocols import Array, TopologyBase
from destiny.run.averaging import agree, rounds_to_agree


@dataclass(frozen=True)
class NoObjective:
    """The zero objective, for agents that only average."""

    agents: int
    shape: tuple[int, int] = (1, 1)

    def host(self, ids: Sequence[int]) -> NoObjective:  # noqa: ARG002
        return self

    def value(self, X: Array) -> Array:
        return np.zeros(len(X))

    def gradient(self, X: Array) -> Array:
        return np.zeros_like(X)


@dataclass(frozen=True)
class Average:
    """An average over all agents.

    Attributes
    ----------
    by_agent : dict
        The average of each agent of this process, by agent number; equal up to rounding.
    common : ndarray
        The average of agent 0, the same bits in every process: fitted attributes are computed from it.
    """

    by_agent: dict[int, Array]
    common: Array


class Averager:
    """Averages quantities over all agents; ``rounds`` and ``scalars`` count the communication so far."""

    def __init__(self, network: TopologyBase, engine: Engine) -> None:
        self.network, self.engine = network, engine
        self.rounds = self.scalars = 0

    def __call__(
        self, quantity: Callable[[int], Array], size: Callable[[Array], Array] | None = None
    ) -> Average:
        """Return the average over all agents of ``quantity(agent)``, an array of the same shape at each.

        ``size`` gives the magnitudes of the entries of a stack: where averaging ends when nothing changes any
        more, each entry is then compared with its own magnitude instead of the largest entry.
        """
        team = self.engine.connect(NoObjective(self.network.agents), self.network)
        try:
            team.rewind(Traffic(self.rounds, self.scalars))

            def task(_: None, agents: HostedAgents) -> Array:
                values = np.stack([np.asarray(quantity(int(i)), dtype=np.float64) for i in agents.ids])
                if tree_is_faster(self.network):
                    return agents.exact_mean(values)[0]
                return agree(agents, self.network, values, None if size is None else size(values))

            parts = team.each(task, [None] * len(team.hosts))
            self.rounds, self.scalars = team.traffic.rounds, team.traffic.scalars
            ids = np.concatenate(team.hosts).tolist()
            return Average(dict(zip(ids, np.concatenate(parts), strict=True)), team.gather(parts)[0])
        finally:
            team.close()


def tree_is_faster(network: TopologyBase) -> bool:
    """Return whether averages along a spanning tree take fewer rounds than averages by mixing."""
    if network.changes or network.diameter is None:
        return False
    rounds = rounds_to_agree(network)
    return rounds is None or PHASES * network.diameter < rounds
