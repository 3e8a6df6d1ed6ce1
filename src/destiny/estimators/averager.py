"""Averages over a network, computed by its agents; rounds and numbers sent are counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from destiny.engines.hosted import HostedAgents, Traffic
from destiny.engines.mixers import PLAIN, Messages
from destiny.engines.team import Engine
from destiny.errors import NetworkError
from destiny.protocols import Array, TopologyBase
from destiny.run.averaging import agree, average_symmetric


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
    """Averages quantities over all agents; ``rounds`` and ``scalars`` count the communication so far.

    With private ``messages`` they are exact totals, of which nobody learns more than the average. Numbers of
    few bits are for steps, which correct what rounding did to those before: averages always have 64.

    Raises NetworkError if the network cannot hide what an agent sends.
    """

    def __init__(self, network: TopologyBase, engine: Engine, messages: Messages = PLAIN) -> None:
        self.network, self.engine, self.messages = network, engine, messages
        self.rounds = self.scalars = 0
        if messages.private and network.agents > 1 and (why := messages.obstacle(network)) is not None:
            raise NetworkError(why)

    def __call__(
        self,
        quantity: Callable[[int], Array],
        size: Callable[[Array], Array] | None = None,
        *,
        symmetric: bool = False,
    ) -> Average:
        """Return the average over all agents of ``quantity(agent)``, an array of the same shape at each.

        ``size`` gives the magnitudes of the entries of a stack: where averaging ends when nothing changes any
        more, each entry is then compared with its own magnitude instead of the largest entry. Of a
        ``symmetric`` matrix one triangle is sent.
        """
        team = self.engine.connect(NoObjective(self.network.agents), self.network, self.messages)
        try:
            team.rewind(Traffic(self.rounds, self.scalars))

            def task(_: None, agents: HostedAgents) -> Array:
                values = np.stack([np.asarray(quantity(int(i)), dtype=np.float64) for i in agents.ids])
                if symmetric and self.network.tree is not None:
                    return average_symmetric(agents, values)
                return agree(agents, self.network, values, None if size is None else size(values))

            parts = team.each(task, [None] * len(team.hosts))
            self.rounds, self.scalars = team.traffic.rounds, team.traffic.scalars
            ids = np.concatenate(team.hosts).tolist()
            return Average(dict(zip(ids, np.concatenate(parts), strict=True)), team.first(parts))
        finally:
            team.close()
