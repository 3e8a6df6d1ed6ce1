"""When a run ends, in words, and whether that means convergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from destiny.errors import SettingsError, is_number, is_whole
from destiny.protocols import Topology
from destiny.run.metrics import Measures
from destiny.run.own_network import checked

# Rounds to wait for news of all agents: far more than lossy paths need, and seconds to look through.
FLOOD_LEAST, FLOOD_PER_AGENT = 10_000, 100


@dataclass(frozen=True)
class Stop:
    """The end of a run: a reason a person can read, and whether it means convergence."""

    reason: str
    converged: bool = False


@dataclass(frozen=True)
class Progress:
    """What a rule may look at: counters, and the newest measures if this step was measured."""

    step: int
    round: int
    seconds: float
    cost: int
    """Rounds the next step will take."""
    measures: Measures | None


class Rule(Protocol):
    """Looks at a run after a step and may end it."""

    def check(self, progress: Progress) -> Stop | None:
        """A stop, or None to go on."""


@dataclass(frozen=True)
class Rounds:
    """Out of communication rounds; those spent at the start count too. Steps that need none count as one."""

    limit: int

    def __post_init__(self) -> None:
        if not is_whole(self.limit) or self.limit < 0:
            raise SettingsError(f"rounds must be a whole number >= 0; found {self.limit!r}")

    def check(self, progress: Progress) -> Stop | None:
        """End before the step that would exceed the limit."""
        if progress.cost == 0:  # a method for one agent: its steps are what is limited
            out = progress.step >= self.limit
            return Stop(f"out of steps: {progress.step} of {self.limit} used") if out else None
        if progress.round + progress.cost <= self.limit:
            return None
        return Stop(f"out of rounds: {progress.round} of {self.limit} used")


@dataclass(frozen=True)
class Seconds:
    """Out of time; measuring does not count."""

    limit: float

    def __post_init__(self) -> None:
        if not is_number(self.limit) or self.limit <= 0:
            raise SettingsError(f"seconds must be a positive number; found {self.limit!r}")

    def check(self, progress: Progress) -> Stop | None:
        """End after the first step past the limit."""
        if progress.seconds < self.limit:
            return None
        return Stop(f"out of time: {progress.seconds:.1f} of {self.limit:g} seconds used")


@dataclass(frozen=True)
class Tolerance:
    """All three measures small. It looks at the whole network: for experiments, not for deployments."""

    limit: float

    def __post_init__(self) -> None:
        if not is_number(self.limit) or self.limit < 0:
            raise SettingsError(f"tolerance must be a number >= 0 (0 = never); found {self.limit!r}")

    def check(self, progress: Progress) -> Stop | None:
        """Converged when stationarity, consensus and feasibility are all within the limit."""
        if progress.measures is None or self.limit == 0 or not progress.measures.worst <= self.limit:
            return None
        return Stop(f"converged: stationarity, consensus and feasibility are all below {self.limit:g}", True)


@dataclass(frozen=True)
class Diverged:
    """The iterates are not numbers any more, or on their way there."""

    limit: float = 1e8  # no method comes back from there: H grows like the fifth power of X

    def check(self, progress: Progress) -> Stop | None:
        """End as soon as a measurement shows it."""
        if progress.measures is None or progress.measures.worst <= self.limit:
            return None
        found = progress.measures.worst
        shown = f"a measure reached {found:.1e}" if np.isfinite(found) else "an iterate is not finite"
        return Stop(f"diverged: {shown} by step {progress.step}; try a smaller step or a larger beta")


def flooding_time(network: Topology, start: int) -> int:
    """Rounds from round ``start`` until every agent has heard, through others, of every other.

    On a fixed network this is the diameter. On one that changes it follows from the rounds' links, which
    every process knows without talking; so all agents compute the same number.
    """
    diameter = getattr(network, "diameter", None)
    if diameter is not None:
        return int(diameter)
    limit = FLOOD_LEAST + FLOOD_PER_AGENT * network.agents
    heard: NDArray[np.uint8] = np.packbits(np.eye(network.agents, dtype=bool), axis=1)
    all_heard = np.packbits(np.ones(network.agents, dtype=bool))
    known = checked(network)
    for k in range(limit):
        if (heard == all_heard).all():
            return k
        W = known.at(start + k)
        heard = np.bitwise_or.reduceat(heard[W.indices], W.indptr[:-1], axis=0)
    raise SettingsError(
        f"agents cannot agree to stop: after {limit} rounds some have not heard of each other; "
        "use a network whose links keep connecting all agents"
    )
