"""When a run ends, in words, and whether that means convergence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from destiny.engines.mixers.plain import Messages
from destiny.errors import SettingsError
from destiny.protocols import TopologyBase
from destiny.run.metrics import Measures
from destiny.validation import is_number, is_whole

# Rounds to wait for news of all agents: far more than lossy paths need, and seconds to look through.
FLOOD_LEAST, FLOOD_PER_AGENT = 10_000, 100
CONVERGED = "converged: "  # how reasons begin that claim convergence
MANY = 2000  # agents of a static network, above which its diameter takes longer than a run
DIVERGED = 1e8  # of a measure: no method comes back from there, as H grows like the fifth power of X


@dataclass(frozen=True)
class Stop:
    """The end of a run: a reason a person can read, and whether it means convergence."""

    reason: str
    converged: bool = False
    signal: str | None = None
    """Name of the signal that ended the run."""

    def weakened(self, messages: Messages) -> Stop:
        """The same, which does not mean convergence where averages are not exact."""
        if messages.exact or not self.converged:
            return self
        reason = self.reason.removeprefix(CONVERGED)
        return Stop(f"settled, but not known to be exact with {messages}: {reason}", signal=self.signal)


@dataclass(frozen=True)
class RunStatus:
    """The state of a run after a step, for stopping rules: counters, and the measures if it was measured."""

    step: int
    round: int
    seconds: float
    cost: int
    """Rounds the next step will take."""
    measures: Measures | None
    gradients: int = 0
    """Gradients that each agent has evaluated."""
    exhausted: str | None = None
    """Why further steps change nothing (`AlgorithmBase.exhausted`)."""


@runtime_checkable
class Rule(Protocol):
    """A stopping rule: checked after every step."""

    def check(self, status: RunStatus) -> Stop | None:
        """Return a `Stop` to end the run, None to continue."""


@dataclass(frozen=True)
class Rounds:
    """Out of communication rounds; those spent at the start count too. Steps that need none count as one."""

    limit: int

    def __post_init__(self) -> None:
        if not is_whole(self.limit) or self.limit < 0:
            raise SettingsError(f"rounds must be a whole number >= 0; found {self.limit!r}", option="rounds")

    def check(self, status: RunStatus) -> Stop | None:
        """End before the step that would exceed the limit."""
        if status.cost == 0:  # a method for one agent: its steps are what is limited
            out = status.step >= self.limit
            return Stop(f"out of steps: {status.step} of {self.limit} used") if out else None
        if status.round + status.cost <= self.limit:
            return None
        return Stop(f"out of rounds: {status.round} of {self.limit} used")


@dataclass(frozen=True)
class Seconds:
    """Out of time; measuring does not count."""

    limit: float

    def __post_init__(self) -> None:
        if not is_number(self.limit) or self.limit <= 0:
            raise SettingsError(f"seconds must be a positive number; found {self.limit!r}")

    def check(self, status: RunStatus) -> Stop | None:
        """End after the first step past the limit."""
        if status.seconds < self.limit:
            return None
        return Stop(f"out of time: {status.seconds:.1f} of {self.limit:g} seconds used")


@dataclass(frozen=True)
class Tolerance:
    """All three measures small. It looks at the whole network: for experiments, not for deployments."""

    limit: float

    def __post_init__(self) -> None:
        if not is_number(self.limit) or self.limit < 0:
            raise SettingsError(f"tolerance must be a number >= 0 (0 = never); found {self.limit!r}")

    def check(self, status: RunStatus) -> Stop | None:
        """Converged when stationarity, consensus and feasibility are all within the limit."""
        if status.measures is None or self.limit == 0 or not status.measures.worst <= self.limit:
            return None
        return Stop(f"converged: stationarity, consensus and feasibility are all below {self.limit:g}", True)


@dataclass(frozen=True)
class Exhausted:
    """The method can do no better, and the tolerance is not met. For runs in which one process decides."""

    def check(self, status: RunStatus) -> Stop | None:
        """End with the method's reason."""
        if status.exhausted is None or status.measures is None:
            return None
        name, worst = status.measures.worst_name, status.measures.worst
        return Stop(f"did not converge: {name} is {worst:.1e}, and {status.exhausted}")


@dataclass(frozen=True)
class Diverged:
    """The iterates are not numbers any more, or on their way there."""

    limit: float = DIVERGED

    def check(self, status: RunStatus) -> Stop | None:
        """End as soon as a measurement shows it."""
        if status.measures is None or status.measures.worst <= self.limit:
            return None
        worst = status.measures.worst
        shown = f"a measure reached {worst:.1e}" if np.isfinite(worst) else "an iterate is not finite"
        return Stop(f"diverged: {shown} by step {status.step}; try a smaller step or a larger beta")


def remaining_rules(rules: Sequence[Rule], rounds: int, seconds: float, least: int) -> list[Rule] | None:
    """The rules for a second run after one that used ``rounds`` and ``seconds`` of their limits.

    None if that leaves less than ``least`` rounds, or no time.
    """
    left: list[Rule] = []
    for rule in rules:
        if isinstance(rule, Rounds):
            if rule.limit - rounds < max(1, least):
                return None
            rule = Rounds(rule.limit - rounds)
        elif isinstance(rule, Seconds):
            if rule.limit <= seconds:
                return None
            rule = Seconds(rule.limit - seconds)
        left.append(rule)
    return left


def flooding_time(network: TopologyBase, start: int) -> int:
    """Rounds from round ``start`` until every agent has heard, through others, of every other.

    On a static network this is the diameter, or for many agents twice the depth of the tree, which is at
    least as large. On one that changes it follows from the rounds' links, which every process knows without
    talking; so all agents compute the same number.
    """
    if network.agents > MANY and network.depth is not None:
        return 2 * network.depth
    if network.diameter is not None:
        return network.diameter
    limit = FLOOD_LEAST + FLOOD_PER_AGENT * network.agents
    reach: NDArray[np.uint8] = np.packbits(np.eye(network.agents, dtype=bool), axis=1)
    everyone = np.packbits(np.ones(network.agents, dtype=bool))
    for k in range(limit):
        if (reach == everyone).all():
            return k
        W = network.at(start + k)
        reach = np.bitwise_or.reduceat(reach[W.indices], W.indptr[:-1], axis=0)
    raise SettingsError(
        f"agents cannot agree to stop: after {limit} rounds some have not heard of each other; "
        "use a network whose links keep connecting all agents"
    )
