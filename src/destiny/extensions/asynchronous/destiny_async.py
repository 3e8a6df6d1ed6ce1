"""Asynchronous DESTINY: accelerated gradient tracking by running sums, in which nobody waits for anybody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.curvature import curvature_along
from destiny.errors import ProblemError, SettingsError
from destiny.extensions.asynchronous.async_friction import (
    GAIN,
    GAIN_LEAST,
    GAIN_MOST,
    next_friction,
    no_friction,
)
from destiny.extensions.asynchronous.async_momentum import next_momentum, no_momentum
from destiny.extensions.asynchronous.async_protocol import LIFE, AsyncAlgorithmBase, LocalAgent
from destiny.extensions.asynchronous.async_state import (
    AsyncMessage,
    AsyncState,
    Inbox,
    arrays_only,
    lower_median,
    mean_point,
    nearby,
    nearby_gain,
    weighted_sum,
)
from destiny.geometry.directions import ANY_F, DIRECTIONS
from destiny.geometry.stiefel import STATIONARY, norm, violation
from destiny.protocols import Array, TopologyBase
from destiny.validation import is_number

# Numbers without another reason were chosen on the seeds named in docs/asynchrony.md.
LOOK = 20  # wakes between two power iterations on the curvature, one gradient each
FIRST_LOOK = 8  # power iterations at the start
STEP = 0.7  # eta L on a network that mixes well
GAP = 2.0  # c of eta <= c (1 - lambda) / L
LATE = 1.6  # c of eta <= c / (r L): steps along gradients that are old oscillate unless they are short
DAMPING = 0.5  # share of the last change of H over L that a move takes back
RELAX = 1.2  # factor of a tracker in its sum
HEARSAY = 8.0  # own share of a cosine, over 1 - lambda: less than all of it from lambda = 0.875 on
SMOOTHING = 0.05  # weight of the newest lag, and of the newest rate, in its running mean
WITHHELD = 0.5  # share of a move and of a flow that is not sent: on average half a wake is to come
ROUND_TRIP = 2  # wakes until a neighbor's answer is back if nobody is late
STIFFNESS = 0.25  # beta >= STIFFNESS L
REACH = 0.5  # largest move of X in one wake, Frobenius norm
REACH_LATE = 1.0  # that times r: moves that are on their way add up
REFERENCE = (10, 30)  # wakes whose largest tracker the residual is relative to: mixed, and not yet small
ROUNDING = 1e-6  # by which a cosine may exceed 1, and a gain its range


@dataclass(frozen=True)
class DestinyAsync(AsyncAlgorithmBase):
    """Asynchronous accelerated DESTINY. An agent that wakes computes, if nobody is late or slower,

        X  = m_ii V_i + sum_j m_ij V_j                      V_j, T_j: the newest heard of each neighbor
        D  = H_i - (1 - w_ii) T_i + sum_j w_ij T_j          H_i at X, or at the X that was known before
        V  = X + mu U - eta D - 0.5 (H_i - H_i-) / L        U: the last move
        F  = 1.2 D + theta F,   T = T + F

    and sends V and T to all neighbors, whenever it likes. T is a sum over all wakes so far: it is never a
    difference, so that a message which is lost, late, doubled or out of order, and an agent that comes back
    from an old checkpoint, only make knowledge older. Who has computed H_i before it woke (`compute`) sends
    at once, and less by half of the last move and of F: on average a message is used half a wake later. Where
    all wake in turn, compute H_i then and hear everything, this is
    X+ = M (X + mu (X - X_before) - eta D - (H - H_before) / 2 L), D+ = D - (I - W) F + H(X+) - H(X): the
    accelerated recursion, with a term that damps steep directions (0 at rest) and a momentum theta of the
    tracking in place of several rounds a step. Step sizes, momentum and penalty set themselves; mu makes up
    for what lost messages take from it.
    docs/asynchrony.md has the rule, its fixed points and measurements.

    Parameters
    ----------
    beta : "auto" or a number, taken literally
        Penalty. "auto" starts as the spectral norm of the agent's own gradient and follows the curvature.
    direction : "landing", "h", "expen" or "plam"
        The direction to track.
    lambda_ : None or a number in [0, 1)
        ||W - 11^T/d||_2, how well the network mixes; by default as the network says.
    """

    beta: float | Literal["auto"] = "auto"
    direction: str = "landing"
    lambda_: float | None = None
    kind = "destiny-async"
    about = About("Asynchronous DESTINY", "this package; docs/asynchrony.md", sends=2, numbers=8)

    def __post_init__(self) -> None:
        if self.beta != "auto" and not (is_number(self.beta) and self.beta >= 0):
            raise SettingsError(f'beta must be "auto" or a number >= 0; found {self.beta!r}')
        if self.direction not in ANY_F:
            raise SettingsError(f"direction must be one of {', '.join(ANY_F)}; found {self.direction!r}")
        if self.lambda_ is not None and not (is_number(self.lambda_) and 0 <= self.lambda_ < 1):
            raise SettingsError(f"lambda_ must be a number in [0, 1); found {self.lambda_!r}")

    def on(self, network: TopologyBase) -> DestinyAsync:
        """The same settings with the network's lambda; `SettingsError` if neither tells it."""
        if self.lambda_ is not None:
            return self
        if network.lambda_ is not None:
            return replace(self, lambda_=float(network.lambda_))
        if network.spectrum is not None:
            return replace(self, lambda_=float(max(abs(end) for end in network.spectrum)))
        raise SettingsError(
            f"{self.kind} needs to know how well the network mixes, which this one does not tell: "
            "give lambda_ (in an agent's file: lambda in [algorithm])"
        )

    def field(self, X: Array, beta: Array, agent: LocalAgent) -> Array:
        """The direction H_i(X) with this penalty, ``(n, p)``."""
        return DIRECTIONS[self.direction](agent.gradient, X, beta)

    def start(self, X: Array, agent: LocalAgent) -> AsyncState:
        """Estimate penalty and curvature from the agent's own gradients; `ProblemError` if they are infinite.

        It costs 10 gradients and no message: until they are heard, neighbors are taken to be at X as well.
        """
        slope = agent.gradient(X)
        if not np.isfinite(slope).all():
            raise ProblemError(f"the gradient of agent {agent.index} is not finite at the start")
        zero, k = np.zeros(()), len(agent.neighbors)
        H = self.field(X, zero, agent)
        V = H
        for _ in range(FIRST_LOOK):
            V = curvature_along(lambda Y: self.field(Y, zero, agent), X, H, V)
        size = np.linalg.norm(slope, 2) if self.beta == "auto" else self.beta
        beta, L = self._stiffness(np.asarray(size, float), norm(V))
        nothing, none = np.zeros_like(X), np.zeros(k)
        s = AsyncState(
            X=X,
            H=H,
            H_before=H,
            ahead=zero,
            D=nothing,
            total=nothing,
            flow=nothing,
            point=X,
            withheld=zero,
            velocity=nothing,
            delay=np.ones(()),
            momentum=no_momentum(),
            friction=no_friction(X),
            eta=zero,
            mu=zero,
            beta=beta,
            steepest=V,
            own_curvature=L,
            curvature=L,
            peak=zero,
            scale=np.asarray(np.inf),
            slope=np.asarray(norm(slope)),
            life=zero,
            count=zero,
            wakes=zero,
            inbox=Inbox(
                stamp=none,
                echo=none,
                uses=np.ones(k),
                rate=np.ones(k),
                point=np.repeat(X[None], k, axis=0),
                total=np.zeros((k, *X.shape)),
                age=none,
                ceiling=np.full(k, float(no_momentum().ceiling)),
                cosine=none,
                gain=np.full(k, GAIN),
            ),
        )
        return arrays_only(s)

    def restart(self, state: AsyncState, life: int) -> AsyncState:
        """The state with stamps that nobody has seen: what it says is newer than all before."""
        return arrays_only(replace(state, life=np.asarray(float(life)), count=np.zeros(())))

    def wake(
        self, state: AsyncState, inbox: Sequence[AsyncMessage], agent: LocalAgent
    ) -> tuple[AsyncState, AsyncMessage]:
        """The recursion of the class docstring, and the settings of the next wake."""
        s = self._receive(state, inbox, agent)
        news, count, w = s.inbox, s.count + 1, agent.weights
        X = mean_point(s, agent)
        H = s.H if s.ahead else self.field(X, s.beta, agent)
        D = H - (1 - agent.own_weight) * s.total + weighted_sum(w, news.total)
        S = X - s.X
        delay = s.delay + SMOOTHING * (1 + self._lateness(s, count, agent) - s.delay)
        velocity = s.velocity + (S - s.velocity) / delay
        slower = max(1.0, lower_median(news.rate))
        own_word = self.own_word / float(delay)
        momentum = next_momentum(nearby(s, agent), D, velocity, delay, slower, own_word)
        friction = s.friction
        if s.ahead:  # where all wake in turn nothing is missing
            meant = (s.point - s.X) / s.delay
            friction = next_friction(friction, nearby_gain(s, agent), S, meant, delay)
        mu = friction.made_up(momentum.mu)
        steepest, beta, own, L = s.steepest, s.beta, s.own_curvature, s.curvature
        if not s.ahead:
            steepest, beta, own, L = self._curvature(s, X, H, count, agent)
        eta = min(self.step_length, LATE / float(delay)) / L if L > 0 else L
        flow = (1 + (RELAX - 1) / delay) * D + self.tracking_momentum / delay * s.flow
        move = delay * (mu * velocity - eta * D)
        if L > 0:
            # Of a slow agent H is old, and its change that of a long time.
            move -= DAMPING / (L * slower) * (H - s.H_before)
        reach = min(REACH, REACH_LATE / float(delay))
        if (length := norm(move)) > reach:
            move *= reach / length
        first, last = REFERENCE
        peak = max(s.peak, norm(D)) if first <= s.wakes + 1 <= last else s.peak
        s = AsyncState(
            X=X,
            H=H,
            H_before=H,
            ahead=np.zeros(()),
            D=D,
            total=s.total + flow,
            flow=flow,
            point=X + move,
            # Who computed the gradient in this wake sends later: there is nothing to withhold.
            withheld=s.ahead * WITHHELD / delay,
            velocity=velocity,
            delay=delay,
            momentum=momentum,
            friction=friction,
            eta=eta,
            mu=mu,
            beta=beta,
            steepest=steepest,
            own_curvature=own,
            curvature=L,
            peak=peak,
            # Momentum makes single trackers small long before the run has got far: the largest counts.
            scale=min(s.scale, peak) if s.wakes + 1 == last else s.scale,
            slope=s.slope,
            life=s.life,
            count=count,
            wakes=s.wakes + 1,
            inbox=replace(news, uses=news.uses + 1),
        )
        s = arrays_only(s)
        return s, self._message(s, agent)

    def compute(self, state: AsyncState, agent: LocalAgent) -> AsyncState:
        """Compute the direction for the next wake, at the mean of the points that are known by now."""
        s = state
        if s.ahead:
            return s
        X = mean_point(s, agent)
        H = self.field(X, s.beta, agent)
        steepest, beta, own, L = self._curvature(s, X, H, s.count, agent)
        beta, own, L = np.asarray(beta), np.asarray(own), np.asarray(L)
        return replace(
            s, H=H, ahead=np.ones(()), steepest=steepest, beta=beta, own_curvature=own, curvature=L
        )

    def relink(self, state: AsyncState, before: NDArray[np.intp], agent: LocalAgent) -> AsyncState:
        """Drop what came from who has left; a new neighbor is taken to be here, with a sum of 0."""
        s, places = state, {int(j): at for at, j in enumerate(before)}
        mine = s.momentum
        first = {"point": s.point, "age": mine.age, "ceiling": mine.ceiling, "uses": 1.0, "rate": 1.0}
        first["gain"] = s.friction.gain
        parts: dict[str, Array] = {}
        for name, old in vars(s.inbox).items():
            rows = [old[places[int(j)]] if int(j) in places else None for j in agent.neighbors]
            new = np.empty((len(rows), *old.shape[1:]))
            for at, row in enumerate(rows):
                new[at] = first.get(name, 0.0) if row is None else row
            parts[name] = new
        return replace(s, inbox=Inbox(**parts))

    def answer(
        self, state: AsyncState, inbox: Sequence[AsyncMessage], agent: LocalAgent
    ) -> tuple[AsyncState, AsyncMessage]:
        """The same point and sum under a new stamp, with an echo of what has come."""
        s = self._receive(state, inbox, agent)
        s = arrays_only(replace(s, count=s.count + 1))
        return s, self._message(s, agent)

    def flaw(self, message: AsyncMessage) -> str | None:
        """Numbers that are not finite, or outside of their range; the scale is infinite at first."""
        m = message
        numbers = (m.point, m.total, m.age, m.ceiling, m.cosine, m.curvature)
        if not all(np.isfinite(part).all() for part in numbers):
            return "numbers that are not finite"
        small = min(m.age, m.ceiling, m.curvature, m.scale) < 0
        possible = GAIN_LEAST - ROUNDING <= m.gain <= GAIN_MOST + ROUNDING
        if small or np.isnan(m.scale) or abs(m.cosine) > 1 + ROUNDING or not possible:
            return (
                f"age {m.age}, ceiling {m.ceiling}, cosine {m.cosine}, curvature {m.curvature}, "
                f"scale {m.scale} or gain {m.gain} out of range"
            )
        return None

    def residual(self, state: AsyncState) -> float:
        """The largest of: the tracker's norm over its first ones, infeasibility, distance to a neighbor."""
        s = state
        reference = np.where(s.scale > STATIONARY * s.slope, s.scale, s.slope)
        if not np.isfinite(reference) or (s.inbox.stamp == 0).any():
            return float("inf")
        stationarity = norm(s.D) / reference if reference > 0 else norm(s.D)
        apart = max((norm(point - s.X) for point in s.inbox.point), default=0.0)
        return float(max(stationarity, violation(s.X), apart))

    @property
    def step_length(self) -> float:
        """eta L on this network."""
        assert self.lambda_ is not None, "call on(network) first"
        return min(STEP, GAP * (1 - self.lambda_))

    @property
    def own_word(self) -> float:
        """Share of its own cosine in the one that an agent tells: on a long ring two neighbors are few.

        Where messages are late, r > 1, single cosines are noise, and it is 1 / r of this.
        """
        assert self.lambda_ is not None, "call on(network) first"
        return min(1.0, HEARSAY * (1 - self.lambda_))

    @property
    def tracking_momentum(self) -> float:
        """theta = (1 - sqrt(1 - lambda))^2: a heavy ball for eigenvalues of I - W from 1 - lambda to 1."""
        assert self.lambda_ is not None, "call on(network) first"
        return float((1 - np.sqrt(1 - self.lambda_)) ** 2)

    def _receive(self, s: AsyncState, inbox: Sequence[AsyncMessage], agent: LocalAgent) -> AsyncState:
        """Keep the newest message of each neighbor, and how often each wakes."""
        old, newest = s.inbox, dict[int, AsyncMessage]()
        places = {j: k for k, j in enumerate(agent.neighbors.tolist())}
        for message in inbox:
            k = places[int(message.sender)]
            known = newest[k].stamp if k in newest else old.stamp[k]
            if message.stamp > known:
                newest[k] = message
        # A neighbor that has never been heard of counts as equally fast.
        wakes = np.where(old.stamp > 0, 0.0, old.rate)
        if not newest:
            return replace(s, inbox=replace(old, rate=old.rate + SMOOTHING * (wakes - old.rate)))
        stamp, echo, uses, age, ceiling, cosine, gain = (
            part.copy()
            for part in (old.stamp, old.echo, old.uses, old.age, old.ceiling, old.cosine, old.gain)
        )
        point, total = np.empty_like(old.point), np.empty_like(old.total)
        for k in range(len(places)):
            if k not in newest:
                point[k], total[k] = old.point[k], old.total[k]
                continue
            m = newest[k]
            now, before = float(m.stamp), float(old.stamp[k])
            if before > 0:
                wakes[k] = now - before if now // LIFE == before // LIFE else now % LIFE
            stamp[k], echo[k], uses[k] = now, m.heard[agent.index], 1
            age[k], ceiling[k], cosine[k], gain[k] = m.age, m.ceiling, m.cosine, m.gain
            point[k], total[k] = m.point, m.total
        rate = old.rate + SMOOTHING * (wakes - old.rate)
        new = Inbox(stamp, echo, uses, rate, point, total, age, ceiling, cosine, gain)
        curvature = max(s.curvature, *(m.curvature for m in newest.values()))
        scale = min(s.scale, *(m.scale for m in newest.values()))
        return replace(s, inbox=new, curvature=curvature, scale=scale)

    def _lateness(self, s: AsyncState, count: Array, agent: LocalAgent) -> Array:
        """Wakes that answers of neighbors were on their way, over two; 0 in lockstep.

        The time until a slower neighbor wakes does not count: with it, agents beside it would overshoot.
        """
        lag = np.minimum(LIFE * s.life + count - s.inbox.echo, count) * np.minimum(1.0, s.inbox.rate)
        return agent.weights @ np.maximum(0.0, (lag - ROUND_TRIP) / ROUND_TRIP)

    def _curvature(
        self, s: AsyncState, X: Array, H: Array, count: Array, agent: LocalAgent
    ) -> tuple[Array, Array, Array, Array]:
        """Steepest direction, beta, L_i and the largest L; one power iteration every `LOOK` wakes."""
        if count % LOOK:
            return s.steepest, s.beta, s.own_curvature, s.curvature
        V = curvature_along(lambda Y: self.field(Y, s.beta, agent), X, H, s.steepest)
        beta, L = self._stiffness(s.beta, norm(V))
        return V, beta, L, np.maximum(s.curvature, L)

    def _stiffness(self, beta: Array, L: Array) -> tuple[Array, Array]:
        """Penalty and curvature with beta >= L / 4, unless it was given, and L >= 2 beta."""
        if self.beta == "auto":
            beta = np.maximum(beta, STIFFNESS * L)
        return beta, np.maximum(L, 2 * beta)

    def _message(self, s: AsyncState, agent: LocalAgent) -> AsyncMessage:
        heard = np.zeros(agent.agents)
        heard[agent.neighbors] = s.inbox.stamp
        return AsyncMessage(
            sender=np.asarray(float(agent.index)),
            stamp=np.asarray(LIFE * s.life + s.count),
            heard=heard,
            point=s.point - s.withheld * (s.point - s.X),
            total=s.total - s.withheld * s.flow,
            age=s.momentum.age,
            ceiling=s.momentum.ceiling,
            cosine=s.momentum.cosine,
            curvature=s.curvature,
            scale=s.scale,
            gain=s.friction.gain,
        )
