"""Several rounds a step on networks that change: mixing with extrapolation, chosen by trial before a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from destiny.algorithms.blocks.gossip import Filter, Mixer, shifted_round, single_round_filter
from destiny.protocols import Array, TopologyBase

# Numbers without another reason were chosen on seeds 0 to 23, 100 to 115 and 1000 to 1015 of
# benchmarks/profiles.py.
SINGLE = 0.92  # up to this contraction of one round, one round a step
ENOUGH = 0.85  # contraction of a step with several rounds
GAIN = 1.2  # factor by which several rounds must shrink disagreement faster than one
REST = 0.4  # weight of what a step starts from, relative to what its rounds make of it: M is then positive
ROUNDS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)  # to try, in this order, ...
EXTRAPOLATIONS = (0.5, 0.6, 0.7, 0.8, 0.9)  # ... with each of these
MODES = [(share, mu) for share in (1.0, 0.3, 0.1, -0.1) for mu in (0.7, 0.9)]
"""What must be stable: curvature times step relative to the largest, and momentum."""
TRIAL, STEPS = 240, 24  # rounds of the network to try on, and steps at least; the rounds then start over
MOST_AGENTS = 5000  # with more of them the trial would cost as much as a run
DENSE = 100  # agents; up to here dense products are faster
PROBES = 4  # random numbers of each agent
SEED = 2022  # any fixed number: the choice must be equal on every engine
ALIVE = 1e-100  # what is left of numbers of size 1 where a step averages exactly: rounding errors at most


@dataclass(frozen=True)
class ExtrapolatingFilter:
    """The rounds of a step as one mixing matrix M = (T + 0.4 I) / (1.4).

    T is ``rounds`` rounds of Z+ = V (Z + extrapolation (Z - Z_before)), V = (W - shift I) / (1 - shift) with
    the W of each round. Extrapolation speeds up slow modes as Chebyshev polynomials do on a fixed network,
    without a spectrum. The network mean stays as it is.
    """

    rounds: int
    shift: float
    extrapolation: float
    contraction: float = 1.0
    """What M leaves of a disagreement, as measured."""
    since: int = 0
    """The first round in which it is used; before, a step has one round."""

    def __call__(self, agents: Mixer, *arrays: Array) -> tuple[Array, ...]:
        """Apply M to each array, in ``rounds`` rounds."""
        before, now = arrays, shifted_round(agents, arrays, self.shift)
        for _ in range(self.rounds - 1):
            ahead = tuple(n + self.extrapolation * (n - b) for n, b in zip(now, before, strict=True))
            before, now = now, shifted_round(agents, ahead, self.shift, again=True)
        return tuple((n + REST * a) / (1 + REST) for n, a in zip(now, arrays, strict=True))


AnyFilter: TypeAlias = Filter | ExtrapolatingFilter


def filter_for_changing(network: TopologyBase, lowest: float, gap: float) -> ExtrapolatingFilter | None:
    """The filter with the fewest rounds that is worth them; None where one round a step is better.

    ``lowest`` is the smallest eigenvalue of W in any round, ``gap`` is c of the step c (1 - lambda) / L. All
    agents know the network's schedule, so that each can try filters by itself.
    """
    if network.agents > MOST_AGENTS:
        return None
    trial = Trial(network)

    def rate(filter: AnyFilter, left: float) -> float:
        return trial.disagreement_rate(filter, min(1.0, gap * (1 - left)))

    one = single_round_filter(lowest)
    left = trial.contraction(one)
    if left <= SINGLE:
        return None
    least = GAIN * max(0.0, rate(one, left))
    shift = min(0.0, round(lowest, 6))  # rounded: processes on different machines must agree
    for rounds in ROUNDS:
        fastest, chosen = least, None
        for extrapolation in EXTRAPOLATIONS:
            several = ExtrapolatingFilter(rounds, shift, extrapolation, since=network.transient)
            left = trial.contraction(several)
            if left <= ENOUGH and (new := rate(several, left)) > fastest:
                fastest, chosen = new, replace(several, contraction=round(left, 3))
        if chosen:
            return chosen
    return None


class Trial:
    """Stands in for all agents of a network: mixes numbers with the matrices of some rounds."""

    def __init__(self, network: TopologyBase) -> None:
        first = network.transient
        self.matrices: list[Any] = [network.at(round) for round in range(first, first + TRIAL)]
        if network.agents <= DENSE:
            self.matrices = [W.toarray() for W in self.matrices]
        self.agents = network.agents
        self.round = 0

    def mix(self, *arrays: Array, rounds: int = 1, again: bool = False) -> tuple[Array, ...]:  # noqa: ARG002
        """Multiply by the matrices of the next rounds."""
        for _ in range(rounds):
            W = self.matrices[self.round % TRIAL]
            arrays = tuple(W @ array for array in arrays)
            self.round += 1
        return arrays

    def contraction(self, filter: AnyFilter) -> float:
        """What a step leaves of a disagreement, in the geometric mean."""
        Y = self._start(PROBES)
        sizes = []
        for _ in range(_steps(filter)):
            (Y,) = filter(self, Y)
            Y -= Y.mean(axis=0)
            sizes.append(size := float(np.linalg.norm(Y)))
            if size < ALIVE:
                return 0.0
            Y /= size
        return math.exp(_mean_log(sizes))

    def disagreement_rate(self, filter: AnyFilter, pace: float) -> float:
        """The rate per round at which disagreement shrinks in the slowest of `MODES`; negative if it grows.

        The recursion is that of `DestinyAccelerated`, for equal quadratic f_i and steps of ``pace`` / L.
        """
        share, mu = np.array(MODES).T
        before = X = move = self._start(len(MODES))  # move = eta D
        sizes = []
        for _ in range(_steps(filter)):
            new, move = filter(self, X - move + mu * (X - before), move)
            state = np.stack([new, X, move + share * pace * (new - X)])
            state -= state.mean(axis=1, keepdims=True)
            size = np.maximum(np.linalg.norm(state, axis=(0, 1)), ALIVE)
            sizes.append(size)
            X, before, move = state / size
        return -float(np.max(_mean_log(sizes))) / filter.rounds

    def _start(self, columns: int) -> Array:
        """Random numbers ``(agents, columns)`` of mean zero, the same every time."""
        self.round = 0
        Y: Array = np.random.default_rng(SEED).standard_normal((self.agents, columns))
        Y -= Y.mean(axis=0)
        return Y


def _steps(filter: AnyFilter) -> int:
    return max(STEPS, TRIAL // filter.rounds)


def _mean_log(sizes: list[Any]) -> Any:
    """Mean logarithm over all steps but the first quarter."""
    return np.mean(np.log(sizes[len(sizes) // 4 :]), axis=0)
