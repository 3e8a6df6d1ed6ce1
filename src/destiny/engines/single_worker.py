"""What teams share whose process has one worker: an MPI rank, or the agent of an organization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from destiny.engines.hosted import HostedAgents, Traffic
from destiny.protocols import Array

S = TypeVar("S")


class SingleWorkerTeam:
    """The part of `destiny.engines.team.Team` that needs no other process; see there."""

    def __init__(self, agents: HostedAgents) -> None:
        self.agents = agents

    @property
    def hosts(self) -> list[NDArray[np.intp]]:
        """The agents of this process: one worker."""
        return [self.agents.ids]

    @property
    def traffic(self) -> Traffic:
        """What the run has cost so far."""
        return self.agents.traffic

    def rewind(self, traffic: Traffic) -> None:
        """Count on from ``traffic``."""
        self.agents.rewind(traffic)

    def each(self, task: Callable[[Any, HostedAgents], S], parts: Sequence[Any]) -> list[S]:
        """Run the task for the agents of this process."""
        # A diverging iterate overflows on its way out; the run reports it in words.
        with np.errstate(over="ignore", invalid="ignore"):
            return [task(parts[0], self.agents)]

    def split(self, stack: Array) -> list[Array]:
        """The rows of the agents of this process; an array of one row is that of its only agent."""
        return [np.ascontiguousarray(stack if len(stack) == 1 else stack[self.agents.ids])]

    def own(self, parts: Sequence[Any]) -> Any:
        """The state of the agents of this process."""
        return parts[0]

    def set_flood(self, parts: Sequence[Array] | None) -> None:
        """Start a new max-consensus among the agents, or end it with None."""
        self.agents.set_flood(None if parts is None else parts[0])

    @property
    def flood(self) -> Array:
        """The largest value that each agent of this process has received so far."""
        assert self.agents.flood is not None
        return self.agents.flood
