"""What an agent of asynchronous DESTINY keeps and sends, and averages of what it has heard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from destiny.extensions.asynchronous.async_friction import Friction
from destiny.extensions.asynchronous.async_momentum import Momentum
from destiny.extensions.asynchronous.async_protocol import LocalAgent
from destiny.protocols import Array

SLOWEST = 20.0  # a neighbor's word counts by how slow it is, up to this; silent for twice as long, once
MIXING = 0.9  # share of W in the average of points: momentum is unstable at eigenvalues of W below -1/3


@dataclass(frozen=True)
class AsyncMessage:
    """What an agent tells all its neighbors after a wake (`Message`)."""

    sender: Array
    stamp: Array
    heard: Array
    point: Array
    """V less what is withheld, the point ``(n, p)`` that neighbors average."""
    total: Array
    """T less what is withheld, ``(n, p)``: absolute, so that a message replaces all earlier ones."""
    age: Array
    ceiling: Array
    cosine: Array
    curvature: Array
    """Largest curvature that the sender has heard of."""
    scale: Array
    """Smallest reference norm of residuals that the sender has heard of."""
    gain: Array


@dataclass(frozen=True)
class Inbox:
    """The newest message of each of the k neighbors, by field, neighbors on axis 0."""

    stamp: Array
    echo: Array
    """The newest stamp of this agent that the neighbor had heard when it sent."""
    uses: Array
    """Wakes in which this message was used, plus 1."""
    rate: Array
    """Running mean of the neighbor's wakes during one wake of this agent."""
    point: Array
    total: Array
    age: Array
    ceiling: Array
    cosine: Array
    gain: Array


@dataclass(frozen=True)
class AsyncState:
    """State of one agent; matrices are ``(n, p)``, numbers are ``()``."""

    X: Array
    H: Array
    """Direction of f_i, penalty included: that of the last wake, or if `ahead` that of the next one."""
    H_before: Array
    """That of the last wake."""
    ahead: Array
    """1 if H was computed for the next wake (`DestinyAsync.compute`), otherwise 0."""
    D: Array
    """The tracker: what this agent knows of sum_i H_i."""
    total: Array
    """Sum of all D so far, each `RELAX` times and with what momentum adds."""
    flow: Array
    """The last change of the sum."""
    point: Array
    """X after the move."""
    withheld: Array
    """Share of the last move, and of the last flow, that was not sent."""
    velocity: Array
    """Running mean of the moves of X."""
    delay: Array
    """r >= 1, running mean of the wakes that information takes to a neighbor and back, over two."""
    momentum: Momentum
    friction: Friction
    eta: Array
    mu: Array
    beta: Array
    steepest: Array
    """Estimate of the direction in which H_i changes most."""
    own_curvature: Array
    """L_i, the rate of that change."""
    curvature: Array
    """The largest L that this agent has heard of."""
    peak: Array
    """The largest tracker of this agent in the wakes of the reference."""
    scale: Array
    """Norm that the residual is relative to: the smallest peak heard of."""
    slope: Array
    """Norm of the agent's gradient at the start."""
    life: Array
    """Starts of this agent so far."""
    count: Array
    """Wakes in this life."""
    wakes: Array
    """Wakes since the start, whatever the life."""
    inbox: Inbox


def nearby(s: AsyncState, agent: LocalAgent) -> Momentum:
    """The momentum with averages over the agent and its neighbors, as far as they tell of it.

    In that of the cosines an agent counts in proportion to the time between its wakes: moves and trackers of
    a fast one between two messages of a slow one are mostly noise, those of the slow one are means.
    """
    own, w, news, mine = agent.own_weight, agent.weights, s.inbox, s.momentum
    slow = w * np.where(news.uses > 2 * SLOWEST, 1.0, 1 / np.maximum(news.rate, 1 / SLOWEST))
    return replace(
        mine,
        age=own * mine.age + w @ news.age,
        ceiling=own * mine.ceiling + w @ news.ceiling,
        cosine=(own * mine.cosine + slow @ news.cosine) / (own + slow.sum()),
    )


def nearby_gain(s: AsyncState, agent: LocalAgent) -> Array:
    """The mean gain of the agent and its neighbors."""
    return np.asarray(agent.own_weight * s.friction.gain + agent.weights @ s.inbox.gain)


def mean_point(s: AsyncState, agent: LocalAgent) -> Array:
    """X: the mean of the points, in which a neighbor that has been silent for long counts for less."""
    news = s.inbox
    heed = MIXING * agent.weights * np.square(np.minimum(1.0, lower_median(news.uses) / news.uses))
    return np.asarray((1 - heed.sum()) * s.point + weighted_sum(heed, news.point))


def lower_median(values: Array) -> float:
    """The median, of an even number the lower of the two in the middle; 1 of none."""
    return float(np.sort(values)[(len(values) - 1) // 2]) if len(values) else 1.0


def weighted_sum(weights: Array, stack: Array) -> Array:
    """sum_j w_j A_j of ``(k,)`` and ``(k, n, p)``, added in the order of the neighbors: the same bits."""
    total, term = np.zeros(stack.shape[1:]), np.empty(stack.shape[1:])
    for weight, matrix in zip(weights, stack, strict=True):
        total += np.multiply(weight, matrix, out=term)
    return total


def arrays_only(state: AsyncState) -> AsyncState:
    """The same with every number as an array ``()``: NumPy makes scalars of those it computes with."""
    known: dict[str, Any] = vars(state)
    plain: dict[str, Any] = {k: np.asarray(v) if isinstance(v, np.generic) else v for k, v in known.items()}
    return replace(state, **plain)
