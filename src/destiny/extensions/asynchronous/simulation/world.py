"""The world of a simulated run: how fast agents compute, how late messages are, what is lost, who crashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from destiny.errors import SettingsError
from destiny.protocols import Array
from destiny.validation import is_number, is_whole

SPEEDS = ("equal", "range", "straggler")
NAP = 50.0  # computing times that a nap lasts
LONGEST = 1e100  # seconds: sums of larger ones could overflow
ROUGHEST = 3.0  # jitter: of rougher times nearly all are nearly 0, and no run is long enough for their mean
SHORTEST = 0.01  # time between two crashes, in computing times
PATIENCE = 3.0  # mean delays after which a synchronous agent sends a message again, beside one computing time


@dataclass(frozen=True)
class World:
    """What happens to agents and messages, all of it drawn from a seed; times are in seconds.

    Parameters
    ----------
    speeds : "equal", "range", "straggler" or d numbers
        Mean seconds of a gradient: 1 for all; from 1 to ``slowest``, evenly in the logarithm and in random
        order; ``slowest`` for one random agent and 1 for the others; or as given.
    slowest : float
        How many times as long the slowest agent takes.
    traces : d lists of numbers, optional
        Measured seconds of successive gradients of each agent, repeated from their beginning when they end;
        in place of ``speeds`` and ``jitter``. `read_traces` reads them from a file.
    jitter : float
        Every computing time is multiplied by a lognormal number of mean 1 with this standard deviation of
        its logarithm, at most 3.
    exchange : float
        Time of a round in which an agent computes no gradient, relative to that of a gradient.
    delay : float
        Mean of an exponential time that a message travels: messages overtake each other.
    loss : float
        Share of the messages that are lost.
    double : float
        Share of the messages that arrive twice.
    naps : float
        Chance that an agent sleeps after a gradient, for 50 times its mean seconds of one.
    crash : float, optional
        Mean seconds between two crashes of an agent; by default nobody crashes.
    down : float
        Mean seconds until an agent that crashed is back.
    checkpoint : int
        Iterations of an agent between two checkpoints, from which it comes back.
    older : float
        Share of the crashes after which the newest checkpoints are gone too: the agent comes back from any of
        those that it has written, with equal chances.
    forget : float
        Share of the crashes after which all checkpoints are gone, and the agent begins again at the start.
    leave, join : lists of pairs (agent, seconds)
        Agents that ask at that time to leave for good, with their f_i, or to take part from then on only. For
        asynchronous methods.
    seed : int
    """

    speeds: Literal["equal", "range", "straggler"] | Sequence[float] = "equal"
    slowest: float = 20.0
    traces: Sequence[Sequence[float]] | None = None
    jitter: float = 0.3
    exchange: float = 1.0
    delay: float = 0.0
    loss: float = 0.0
    double: float = 0.0
    naps: float = 0.0
    crash: float | None = None
    down: float = 20.0
    checkpoint: int = 50
    older: float = 0.0
    forget: float = 0.0
    leave: Sequence[Sequence[float]] = ()
    join: Sequence[Sequence[float]] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.speeds, str) and self.speeds not in SPEEDS:
            raise SettingsError(
                f"speeds must be one of {', '.join(SPEEDS)}, or a number per agent; found {self.speeds!r}"
            )
        for name in ("exchange", "delay", "down"):
            value = getattr(self, name)
            if not is_number(value) or not 0 <= value <= LONGEST:
                raise SettingsError(f"{name} must be a number >= 0, at most {LONGEST:g}; found {value!r}")
        if not is_number(self.jitter) or not 0 <= self.jitter <= ROUGHEST:
            raise SettingsError(f"jitter must be a number from 0 to {ROUGHEST:g}; found {self.jitter!r}")
        for name in ("loss", "double", "naps"):
            value = getattr(self, name)
            if not is_number(value) or not 0 <= value < 1:
                raise SettingsError(f"{name} must be a share in [0, 1); found {value!r}")
        for name in ("older", "forget"):
            value = getattr(self, name)
            if not is_number(value) or not 0 <= value <= 1:
                raise SettingsError(f"{name} must be a share in [0, 1]; found {value!r}")
        if self.older + self.forget > 1:
            raise SettingsError(
                f"older and forget are shares of the crashes, at most 1 together; found {self.older} and "
                f"{self.forget}"
            )
        if not is_number(self.slowest) or not 1 <= self.slowest <= LONGEST:
            raise SettingsError(f"slowest must be a number >= 1, at most {LONGEST:g}; found {self.slowest!r}")
        if self.crash is not None and not (is_number(self.crash) and self.crash > 0):
            raise SettingsError(f"crash must be a positive number of seconds; found {self.crash!r}")
        if not is_whole(self.checkpoint) or self.checkpoint < 1:
            raise SettingsError(f"checkpoint must be a whole number >= 1; found {self.checkpoint!r}")
        if not is_whole(self.seed) or self.seed < 0:
            raise SettingsError(f"seed must be a whole number >= 0; found {self.seed!r}")
        for name in ("leave", "join"):
            pairs = tuple(_pair(entry, name) for entry in _listed(getattr(self, name), name, "pairs"))
            object.__setattr__(self, name, pairs)
        if not isinstance(self.speeds, str):
            object.__setattr__(self, "speeds", _positive(self.speeds, "speeds"))
        if self.traces is not None:
            traces = _listed(self.traces, "traces", "lists of seconds, which read_traces reads from a file")
            rows = tuple(_positive(trace, f"trace {k} of traces") for k, trace in enumerate(traces))
            object.__setattr__(self, "traces", rows)

    def computing_times(self, agents: int) -> Array:
        """Mean seconds of a gradient of each agent, ``(d,)``."""
        rng = np.random.default_rng([self.seed, 0])
        if self.traces is not None:
            self._require_each(len(self.traces), agents, "traces")
            return np.array([np.mean(trace) for trace in self.traces])
        if not isinstance(self.speeds, str):
            self._require_each(len(self.speeds), agents, "speeds")
            return np.array(self.speeds, dtype=np.float64)
        times = np.ones(agents)
        if self.speeds == "range":
            times = rng.permutation(np.geomspace(1, self.slowest, agents))
        elif self.speeds == "straggler":
            times[rng.integers(agents)] = self.slowest
        return times

    def check(self, agents: int) -> None:
        """Refuse speeds or traces of another number of agents, and crashes that leave no time to work."""
        fastest = float(self.computing_times(agents).min())
        if self.crash is not None and self.crash < SHORTEST * fastest:
            raise SettingsError(
                f"crash must be at least {SHORTEST:g} of the seconds of a gradient, or agents do nothing but "
                f"crash; found {self.crash!r}, and {fastest:g} s for a gradient of the fastest agent"
            )

    def _require_each(self, count: int, agents: int, name: str) -> None:
        if count != agents:
            raise SettingsError(f"{name} must have one entry for each of the {agents} agents; found {count}")


class AgentFate:
    """What happens to one agent, drawn as the run goes on.

    Each kind of event has its own stream of random numbers, so that the k-th computing time of an agent is
    the same for every method.
    """

    def __init__(self, world: World, agent: int, computing_time: float) -> None:
        self.world, self.mean = world, computing_time
        self.trace = None if world.traces is None else world.traces[agent]
        self.computed = 0
        self._compute, self._naps, self._links, self._crashes = (
            np.random.default_rng([world.seed, kind, agent]) for kind in (1, 2, 3, 4)
        )

    def compute(self, gradients: int = 1) -> float:
        """Seconds of the next gradients; without any, of handling a round."""
        if gradients == 0:
            return self.mean * self.world.exchange
        return sum(self._gradient() for _ in range(gradients))

    def _gradient(self) -> float:
        self.computed += 1
        if self.trace is not None:
            return self.trace[(self.computed - 1) % len(self.trace)]
        jitter = self.world.jitter
        return self.mean * (float(self._compute.lognormal(-(jitter**2) / 2, jitter)) if jitter else 1.0)

    def nap(self) -> float:
        """Seconds of sleep before the next iteration."""
        if self.world.naps == 0 or self._naps.random() >= self.world.naps:
            return 0.0
        return NAP * self.mean

    def travel(self) -> list[float]:
        """Delays after which a message arrives: none if it is lost, two if it is doubled."""
        world = self.world
        if world.loss == world.double == world.delay == 0:
            return [0.0]
        lost, doubled = self._links.random(2)
        if lost < world.loss:
            return []
        delays = world.delay * self._links.standard_exponential(2)
        return [float(delay) for delay in delays[: 1 + (doubled < world.double)]]

    def travel_reliably(self, links: int) -> tuple[Array, Array]:
        """Delays of a message to each of some neighbors, and how often it was sent again, ``(links,)``."""
        world = self.world
        late = world.delay * self._links.standard_exponential(links)
        again = (self._links.geometric(1 - world.loss, links) - 1).astype(np.float64)
        return late + again * (1 + PATIENCE * world.delay), again

    def next_crash(self) -> float:
        """Seconds of work until the next crash; infinite if nobody crashes."""
        return np.inf if self.world.crash is None else float(self._crashes.exponential(self.world.crash))

    def down(self) -> tuple[float, float]:
        """Seconds until the agent is back, and the share of its checkpoints that is left then, in [0, 1]."""
        gone, draw = self._crashes.standard_exponential(), self._crashes.random()
        seconds, older = self.world.down * float(gone), draw - self.world.forget
        if older < 0:
            return seconds, 0.0
        return seconds, float(older / self.world.older) if older < self.world.older else 1.0


def fates(world: World, agents: int) -> list[AgentFate]:
    """What happens to each agent."""
    return [AgentFate(world, i, float(time)) for i, time in enumerate(world.computing_times(agents))]


def _positive(values: object, name: str) -> tuple[float, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or len(values) == 0:
        raise SettingsError(f"{name} must be a list of positive seconds; found {values!r}")
    if not all(is_number(value) and 0 < value <= LONGEST for value in values):
        raise SettingsError(f"{name} must be positive seconds, at most {LONGEST:g}; found {list(values)}")
    return tuple(float(value) for value in values)


def _listed(values: object, name: str, what: str) -> Sequence[Any]:
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        raise SettingsError(f"{name} must be a list of {what}; found {values!r}")
    return cast(Sequence[Any], values)


def _pair(entry: object, name: str) -> tuple[int, float]:
    if isinstance(entry, Sequence | np.ndarray) and not isinstance(entry, str) and len(entry) == 2:
        agent, time = entry
        if is_number(agent) and float(agent).is_integer() and is_number(time) and time > 0:
            return int(agent), float(time)
    raise SettingsError(f"{name} must have pairs of an agent and a time > 0; found {entry!r}")
