"""Averages over a network, found by its agents: every round and every number sent is counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from destiny.engines.hosted import Engine, HostedAgents, Traffic
from destiny.protocols import Array, Topology
from destiny.run.averaging import agree


@dataclass(frozen=True)
class Idle:
    """A problem whose agents have nothing to minimise: they meet to average."""

    agents: int
    shape: tuple[int, int] = (1, 1)

    def host(self, ids: Sequence[int]) -> Idle:  # noqa: ARG002
        """Nothing to load."""
        return self

    def value(self, X: Array) -> Array:
        """Zero."""
        return np.zeros(len(X))

    def gradient(self, X: Array) -> Array:
        """Zero."""
        return np.zeros_like(X)


@dataclass(frozen=True)
class Averaged:
    """An average as the agents know it, equal up to rounding.

    Attributes
    ----------
    own : dict
        The average as each agent of this process holds it, by the agent's number.
    told : ndarray
        Agent 0's, the same bits in every process: what is reported.
    """

    own: dict[int, Array]
    told: Array


class Averages:
    """Calls for averages; ``rounds`` and ``scalars`` are those spent so far."""

    def __init__(self, network: Topology, engine: Engine) -> None:
        self.network, self.engine = network, engine
        self.rounds = self.scalars = 0

    def __call__(self, quantity: Callable[[int], Array]) -> Averaged:
        """The average of ``quantity(agent)``, an array of one shape, over all agents."""
        team = self.engine.connect(Idle(self.network.agents), self.network)
        try:
            team.rewind(Traffic(self.rounds, self.scalars))

            def task(_: None, agents: HostedAgents) -> Array:
                values = np.stack([np.asarray(quantity(int(i)), dtype=np.float64) for i in agents.ids])
                return agree(agents, self.network, values)

            parts = team.each(task, [None] * len(team.hosts))
            self.rounds, self.scalars = team.traffic.rounds, team.traffic.scalars
            ids = np.concatenate(team.hosts).tolist()
            return Averaged(dict(zip(ids, np.concatenate(parts), strict=True)), team.gather(parts)[0])
        finally:
            team.close()
