"""Any smooth objective by exactly averaged gradients: a quasi-Newton method that all agents run alike."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from destiny.algorithms.averaged.quasi_newton import quasi_newton_direction, usable_pairs
from destiny.algorithms.averaged.totals import X_BOUND, TotalsMethod, TotalsState, averages, shared
from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.curvature import curvature_along
from destiny.algorithms.blocks.opening import require_finite
from destiny.errors import NetworkError, PrivacyError, ProblemError, SettingsError
from destiny.geometry.stiefel import norm, polar, residual_scale, scalar, tangent
from destiny.protocols import Agents, Array, Bounds
from destiny.validation import is_whole

DECREASE = 1e-4  # c of f(X+) <= f(X) + c <grad, step>, Armijo's rule
# Of the largest mean of |f_i| so far, as in Hager and Zhang (2005): where f changes less its rounding may
# hide by how much, that of single precision too, and slopes decide.
NOISE = 1e-6
SHRINK_MOST, SHRINK_LEAST = 0.1, 0.5  # bounds of the next step's length after a rejected one, relative
GROW = 4.0  # longest step relative to the last accepted one
REACH, NEAREST = 1.0, 1e-12  # the longest step and the shortest bound of a step, relative to ||X|| = sqrt(p)
NEAR = 1e-3  # of ||X||: so near, f changes about as the gradients at both ends say
CONTRADICTIONS = 3  # such steps in a row with which f rises and its gradients say that it falls
ROUNDING = 1e-12  # relative slope: a smaller one may be rounding
STUCK = 1e-9  # of ||X||: a run that ends with a shorter bound could not make f decrease
DESCENT = 1e-10  # least cosine between a direction and minus the gradient
SEED = 1970  # any fixed number: the random product must be the same everywhere
PROBE, VOTE, GROWN = 3, 4, 5  # places in the numbers that are averaged; the last one in private messages
MUCH = 16.0  # mean growth of gradients after which the sizes of their rows are found anew
LEAST_ROW = 2.0**-20  # of the largest row of gradients: smaller ones have the words of such a row
GROWTH = 2.0**10  # by which the gradients of a step may exceed all before them, in private messages
APART = 1e-10  # a larger difference between agents' points is no rounding
MEETINGS = 20  # times that points may be averaged again: honest agents of different machines need a few
SAME = 1e-12  # of ||X||^2: starts whose mean is so close to the manifold are one


@dataclass(frozen=True)
class LBFGSState(TotalsState):
    """State of `AveragedLBFGS`; every array has the hosted agents on axis 0, all with the same numbers.

    X is the best point so far: every later one has a smaller f.
    """

    gradient: Array
    """Mean of the Euclidean gradients at X."""
    value: Array
    """Mean of the f_i at X."""
    size: Array
    """The largest mean of the |f_i| at any X so far, to which rounding errors of f are relative."""
    known: Array
    """1 if gradient and value are those of X."""
    trial: Array
    """The point at which the next step evaluates f."""
    moves: Array
    """Differences of points ``(agents, memory, n, p)``, the latest last; zeros where there are fewer."""
    changes: Array
    """Differences of mean gradients between the same points."""
    radius: Array
    """The longest that the next step may be."""
    curvature: Array
    """Curvature of the agent's own f_i along its gradient at the start."""
    contradictions: Array
    """Short steps in a row with which f rose although its gradients at both ends say that it falls."""
    meet: Array
    """1 if the next step averages the points: at the start, and when they were found to differ."""
    meetings: Array
    """How many times they were averaged."""
    sizes: Array
    """Of private messages: sums over the agents of the largest entry of each row of their gradients, of the
    largest so far, ``(agents, n, 1)``; zeros until they are known."""
    growth: Array
    """Of the same: by how much gradients have grown since, at most, added up over the agents."""


@dataclass(frozen=True)
class AveragedLBFGS(TotalsMethod):
    """Limited-memory BFGS on the manifold, with gradients and values averaged exactly.

    A step averages the gradients and values of all f_i at one common point along a spanning tree
    (`Agents.all_reduce`). All agents obtain the same means, and from them the same next point: they run one
    method for pooled data, and never disagree, whatever they hold. See docs/averaged-lbfgs.md.

    A message has n p numbers and a few more, that of the first step 2 n p. An agent's neighbors learn sums
    of gradients at points that all know; with private messages only the mean over all agents.

    Parameters
    ----------
    memory : int
        Differences of points and gradients that are kept.
    depth : int, optional
        As in `TotalsMethod`.
    """

    memory: int = 20
    kind = "averaged-lbfgs"
    about = About(
        "DESTINY by quasi-Newton steps",
        "this package; docs/averaged-lbfgs.md",
        sends=2,
        numbers=5,
        rounds="rounds",
        averaged="its gradients at points that all agents know",
        learned="sizes of the rows of gradients and how they grow; "
        "mean gradient, value and curvature at the points of each step",
        traits=frozenset({"totals"}),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (is_whole(self.memory) and self.memory >= 1):
            raise SettingsError(f"memory must be a whole number >= 1; found {self.memory!r}")

    def init(self, X: Array, agents: Agents) -> LBFGSState:
        """Measure the curvature of each f_i. Raise `ProblemError` for infinite gradients."""
        k, n, p = X.shape
        zero = np.zeros((k, 1, 1))
        empty = shared(np.zeros((self.memory, n, p)), k)
        return LBFGSState(
            X=X,
            gradient=shared(np.zeros((n, p)), k),
            value=zero,
            size=zero,
            known=zero,
            trial=X,
            moves=empty,
            changes=empty,
            radius=zero,
            curvature=_curvature(X, agents),
            contradictions=zero,
            meet=zero + 1.0,
            meetings=zero,
            sizes=shared(np.zeros((n, 1)), k),
            growth=zero,
            slope=zero + 1.0,
            scale=zero,
            disagreement=zero,
        )

    def step(self, s: LBFGSState, agents: Agents) -> LBFGSState:
        """Average gradient and value at the trial point; accept it or not; choose the next one."""
        own = _numbers(s, agents)
        if not s.scale.any():
            _require_finite_values(agents, own[:, 0, 0])
        G = agents.gradient(s.trial)
        if agents.bounded:
            s, own = _with_sizes(s, G, own, agents)
        bounds = _bounds(s, agents)
        if s.meet.any():
            Z, G, mean = averages(
                agents, s.trial, G, own, bounds=bounds and [X_BOUND * agents.count, *bounds]
            )
            s = _met(_grown(s, mean, agents), polar(Z[0]))
            if s.X.shape[2] - norm(Z[0]) ** 2 > SAME * s.X.shape[2]:  # gradients of different points
                return s
        else:
            G, mean = averages(agents, G, own, bounds=bounds)
            s = _grown(s, mean, agents)
            s = replace(s, disagreement=np.abs(own - mean)[:, :, PROBE : PROBE + 1])
            if mean[0, 0, VOTE] > 0:
                _require_few_meetings(s)
                return replace(s, trial=s.X, meet=np.ones_like(s.meet))
        # The means have the same bits in every row.
        value, size, curvature = (float(number) for number in mean[0, 0, :PROBE])
        there = Evaluation(s.trial[0], value, size, G[0].copy())
        return _judge(s, there) if s.known.any() else _begin(s, there, curvature)

    def remarks(self, s: LBFGSState, ids: NDArray[np.intp], converged: bool) -> list[str]:  # noqa: ARG002
        """Whether agents computed different points from the same averages, and whether f would not fall."""
        notes = []
        if (again := int(s.meetings.max()) - 1) > 0:
            times = "once" if again == 1 else f"{again} times"
            notes.append(
                f"agents obtained different points from the same averages, {times}, and averaged these: "
                "their arithmetic differs"
            )
        why = self.exhausted(s)
        if why is None and s.known.any() and s.radius.max() < STUCK * np.sqrt(s.X.shape[2]):
            why = _stuck(s)
        return notes if converged or why is None else [*notes, why]

    def exhausted(self, s: LBFGSState) -> str | None:
        """Whether values contradict gradients, or all but the shortest steps are rejected."""
        if s.contradictions.max() >= CONTRADICTIONS:
            return "f rises where its gradient says that it falls: test it with destiny.check_gradient"
        if not s.moves[0].any() or s.radius.max() > NEAREST * np.sqrt(s.X.shape[2]):
            return None
        return "rounding allows no less: raise the tolerance" if s.slope.max() < ROUNDING else _stuck(s)


@dataclass(frozen=True)
class Evaluation:
    """Means over all agents at one point: the value, the size of the values, and the gradient."""

    X: Array
    value: float
    size: float
    gradient: Array


def _require_finite_values(agents: Agents, values: Array) -> None:
    """Raise `ProblemError` with the first agent whose f_i is not finite where the run begins."""
    broken = agents.ids[~np.isfinite(values)]
    if len(broken):
        raise ProblemError(f"the value of agent {broken[0]} is not finite at the start: check its f_i")


def _require_few_meetings(s: LBFGSState) -> None:
    """Raise NetworkError, at all agents alike, rather than let one of them choose the point of every step."""
    if s.meetings.max() > MEETINGS:
        raise NetworkError(
            f"agents must obtain the same points from the same averages; found others {MEETINGS + 1} times: "
            "their arithmetic differs, or some lie; use destiny-accelerated"
        )


def _stuck(s: LBFGSState) -> str:
    return (
        f"steps of {s.radius.max():.0e} along the gradient do not decrease f: these are rounding "
        "errors, or value and gradient of an objective disagree (destiny.check_gradient)"
    )


def _numbers(s: LBFGSState, agents: Agents) -> Array:
    """Value, its size, curvature, a random product of the trial point, and doubt, ``(agents, 1, 5)``."""
    value = scalar(agents.value(s.trial))
    rng = np.random.default_rng(SEED)
    left, right = (rng.standard_normal(size) for size in s.trial.shape[1:])
    probe = scalar(np.array([left @ X @ right for X in s.trial]))
    vote = (s.disagreement > APART).astype(np.float64)
    return np.concatenate([value, np.abs(value), s.curvature, probe, vote], axis=2)


def _with_sizes(s: LBFGSState, G: Array, own: Array, agents: Agents) -> tuple[LBFGSState, Array]:
    """Sizes of the rows of gradients, and the growth of the agents' gradients since beside `_numbers`.

    Sizes are found anew after a step with which gradients have grown much: words would lose digits. An agent
    whose gradient has grown too much for the words of a step ends the run before it sends it.
    """
    largest = np.abs(G).max(axis=2, keepdims=True)
    if not s.sizes.any() or s.growth.max() > MUCH * agents.count:
        (found,) = agents.all_reduce(largest)
        sizes = np.maximum(found[0], s.sizes[0])
        sizes = np.maximum(sizes, LEAST_ROW * sizes.max())  # rows that are 0 now may not stay so
        s = replace(s, sizes=shared(sizes, len(G)), growth=np.ones_like(s.growth))
    ratios = np.divide(largest, s.sizes, out=np.zeros_like(largest), where=s.sizes > 0)
    growth = ratios.max(axis=1, keepdims=True)
    if not (growth <= GROWTH * s.growth).all():
        raise PrivacyError(
            f"a gradient must be finite, and at most {GROWTH:.0f} times as large as those before it; that of "
            "this agent is not: private messages cannot carry it, and the run ends here"
        )
    return s, np.concatenate([own, growth], axis=2)


def _bounds(s: LBFGSState, agents: Agents) -> Bounds | None:
    """What gradients add up to at most, as no agent's has grown by more than `GROWTH`."""
    if not agents.bounded:
        return None
    rows = agents.count * GROWTH * float(s.growth.flat[0]) * s.sizes[0]
    return [np.broadcast_to(rows, s.gradient.shape[1:]), None]


def _grown(s: LBFGSState, mean: Array, agents: Agents) -> LBFGSState:
    """The state with the growth that was averaged along, where it was."""
    if not agents.bounded:
        return s
    return replace(s, growth=np.maximum(s.growth, agents.count * mean[0, 0, GROWN]))


def _met(s: LBFGSState, X: Array) -> LBFGSState:
    """The state at the mean of the agents' points, with nothing known of it or before."""
    k = len(s.X)
    empty, zero = shared(np.zeros_like(s.moves[0]), k), np.zeros((k, 1, 1))
    return replace(
        s,
        X=shared(X, k),
        trial=shared(X, k),
        known=zero,
        moves=empty,
        changes=empty,
        slope=zero + 1.0,
        disagreement=zero,
        meet=zero,
        meetings=s.meetings + 1,
    )


def _begin(s: LBFGSState, here: Evaluation, curvature: float) -> LBFGSState:
    """The state after the first evaluation at X; the first step is the gradient over the mean curvature."""
    k, _, p = s.X.shape
    length = norm(tangent(here.X, here.gradient))
    if not s.scale.any():
        scale = residual_scale(length[None], norm(here.gradient)[None]).item()
        s = replace(s, scale=np.full((k, 1, 1), scale))
    radius = float(length) / curvature if curvature > 0 else REACH * np.sqrt(p)
    return _with_trial(_at(s, here), radius)


def _judge(s: LBFGSState, there: Evaluation) -> LBFGSState:
    """The state after an evaluation at the trial point: there if f decreased, otherwise at X still."""
    X, G, value = s.X[0], s.gradient[0], float(s.value.flat[0])
    move = there.X - X
    length = float(norm(move))
    if not (np.isfinite(there.value) and np.isfinite(there.gradient).all()):
        return _with_trial(s, SHRINK_MOST * length)
    s = _remember(s, move, there.gradient - G)
    slope = float(np.vdot(tangent(X, G), move))
    slope_there = float(np.vdot(tangent(there.X, there.gradient), move))
    rise, noise = there.value - value, NOISE * float(s.size.flat[0])
    contradicted = length <= NEAR * np.sqrt(X.shape[1]) and rise > noise and slope_there <= slope / 2 < 0
    s = replace(s, contradictions=np.where(contradicted, s.contradictions + 1, 0.0))
    if rise <= DECREASE * slope or (rise <= noise and slope_there <= (2 * DECREASE - 1) * slope):
        s = _at(s, there)
        bent = not usable_pairs(there.X, there.gradient, s.moves[0, -1:], s.changes[0, -1:])
        radius = GROW * length if bent else max(float(s.radius.flat[0]), GROW * length)
        return _with_trial(s, radius, whole=bent)
    to_zero = slope / (slope - slope_there) if slope_there > slope else SHRINK_LEAST
    return _with_trial(s, min(SHRINK_LEAST, max(SHRINK_MOST, to_zero)) * length)


def _at(s: LBFGSState, here: Evaluation) -> LBFGSState:
    """The state with this X, of which value and gradient are known."""
    k, scale = len(s.X), float(s.scale.flat[0])
    one = np.ones((k, 1, 1))
    slope = float(norm(tangent(here.X, here.gradient))) / scale if scale else 0.0
    return replace(
        s,
        X=shared(here.X, k),
        gradient=shared(here.gradient, k),
        value=here.value * one,
        size=np.maximum(s.size, here.size),
        known=one,
        slope=slope * one,
    )


def _with_trial(s: LBFGSState, radius: float, whole: bool = False) -> LBFGSState:
    """The state with the next trial point, at most ``radius`` away; just so far if ``whole``."""
    (k, _, p), X, G = s.X.shape, s.X[0], s.gradient[0]
    radius = np.sqrt(p) * min(REACH, max(NEAREST, radius / np.sqrt(p)))
    g = tangent(X, G)
    D = quasi_newton_direction(X, G, s.moves[0], s.changes[0])
    if D is None or not np.vdot(g, D) < -DESCENT * norm(g) * norm(D):
        D, whole = -g, True
    length = float(norm(D))
    if length > radius or (whole and length > 0):
        D = D * (radius / length)
    return replace(s, trial=shared(polar(X + D), k), radius=np.full((k, 1, 1), radius))


def _remember(s: LBFGSState, move: Array, change: Array) -> LBFGSState:
    """The state with one more pair, in place of the oldest."""
    k = len(s.X)
    moves = np.concatenate([s.moves[0, 1:], move[None]])
    changes = np.concatenate([s.changes[0, 1:], change[None]])
    return replace(s, moves=shared(moves, k), changes=shared(changes, k))


def _curvature(X: Array, agents: Agents) -> Array:
    """Curvature of each f_i along its own Riemannian gradient at X_i, ``(agents, 1, 1)``."""

    def field(Y: Array) -> Array:
        return tangent(Y, agents.gradient(Y))

    here = field(X)
    require_finite(agents, here)
    return scalar(norm(tangent(X, curvature_along(field, X, here, here))))
