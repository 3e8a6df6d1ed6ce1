"""DESTINY with an averaged second-order model: few rounds, long messages, for n up to 2,000."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.trust_region import minimise, nearest_equal
from destiny.algorithms.momentum import DestinyMomentum, MomentumState, residual_scale
from destiny.errors import SettingsError
from destiny.geometry.stiefel import norm, polar, scalar, tangent, violation
from destiny.protocols import Agents, AlgorithmBase, Array, TopologyBase
from destiny.validation import is_whole

S = TypeVar("S")

FLOOR = 1e-14  # relative to the Euclidean gradient: a smaller Riemannian gradient of the model is rounding
PHASES = 3  # an average takes so many times the diameter in rounds (`destiny.engines.totals`)
LARGEST = 2000  # largest n: a message then has 16 MB
MISFIT = 0.1  # largest relative error of A_i V; it is 0 for PCA and OLSR, 0.7 for dictionaries with p > 1
DIFFERENCE = 1e-4  # step of the differences: the errors of rounding and of truncation are about equal
PROBE_SEED = 1917  # any fixed number: probes must be equal on every engine
FALL = 0.1  # a step is slow unless the slope falls below this fraction of ``mark``
SLOW_STEPS = 6  # slow steps in a row after which the agents change to momentum
SMALL = 1e-10  # relative slope from which no agent votes for momentum: rounding keeps it from falling


@dataclass(frozen=True)
class NewtonState:
    """State of `DestinyNewton`; every array has the hosted agents on axis 0."""

    X: Array
    R: Array
    """r_i = grad f_i(X_i) - A_i X_i; for quadratic f_i, the mean of all r_i once a step was taken."""
    model: Array
    """Upper triangle of A_i, ``(agents, n (n + 1) / 2)``; for quadratic f_i, of the mean, as ``R``."""
    quadratic: Array
    """1 if the A_i are known and constant."""
    vote: Array
    """1 if the agent votes for momentum; one vote is enough."""
    disagreement: Array
    """Distance of X_i from the mean where the last step began."""
    slope: Array
    """Norm of the mean model's Riemannian gradient where the last step began, relative to ``scale``."""
    mark: Array
    """The slope when it last fell, with which the next ones are compared."""
    slow: Array
    """Number of slow steps since then."""
    scale: Array
    """Norm of the first mean model's gradient, to which residuals are relative; 0 before the first step."""
    products: Array
    """Products of the n x n model with n x p matrices in all local minimisations so far."""
    fallen: Array
    """1 once the agents have changed to momentum."""
    momentum: MomentumState
    """State of `DestinyMomentum` after the change; a placeholder before."""


@dataclass(frozen=True)
class DestinyNewton(AlgorithmBase):
    """Agents average a second-order model of f, and each minimises the mean model by itself.

    Each f_i is modelled as ``<r_i, X> + <X, A_i X> / 2``. A step averages the r_i and the A_i along a
    spanning tree (`destiny.engines.totals`); every agent then minimises the mean model on the manifold, and
    all obtain the same X. Fixed points are stationary points of the mean of the f_i. For PCA and regression
    A_i is known in closed form and one step suffices; otherwise every step estimates it from 2 n / p
    gradients. If the Hessian of an f_i is not of the form V -> A V, or the steps make no progress, all agents
    change to `DestinyMomentum` and continue from the present X. See docs/newton.md.

    A message has about n (n + 1) / 2 + 2 n p numbers. The first one contains A_i: for PCA, the second moments
    of the agent's data. With private messages, neighbours learn only the mean.

    Parameters
    ----------
    diameter : int, optional
        Diameter of the network; `on` sets it.
    spectrum : (low, high), optional
        Interval of the eigenvalues of W other than 1, for `DestinyMomentum`; by default the network's.
    """

    diameter: int | None = None
    spectrum: tuple[float, float] | None = None
    kind = "destiny-newton"
    few_steps = True
    about = About(
        "DESTINY with an averaged model",
        "this package; docs/newton.md",
        sends=2,
        triangles=1,
        numbers=3,
        rounds="rounds",
        totals=True,
        averaged="a second-order model of its objective (PCA: its matrix of second moments)",
    )

    def __post_init__(self) -> None:
        if self.diameter is not None and not (is_whole(self.diameter) and self.diameter >= 0):
            raise SettingsError(f"diameter must be a whole number >= 0; found {self.diameter!r}")
        # DestinyMomentum has the checks of spectrum.
        object.__setattr__(self, "spectrum", DestinyMomentum(spectrum=self.spectrum).spectrum)

    @property
    def rounds(self) -> int:
        """Rounds of a step."""
        return PHASES * (self.diameter or 0)

    def on(self, network: TopologyBase) -> DestinyNewton:
        """The same settings with the network's diameter and spectrum; `SettingsError` if it changes."""
        if network.changes or network.diameter is None:
            raise SettingsError(
                "destiny-newton needs a network that stays; this one changes from round to round: "
                "use destiny-momentum"
            )
        return replace(self, diameter=network.diameter, spectrum=self.spectrum or network.spectrum)

    def init(self, X: Array, agents: Agents) -> NewtonState:
        """Model each f_i at the start; no communication."""
        k, n, _ = X.shape
        if n > LARGEST:
            raise SettingsError(
                f"destiny-newton averages matrices of n x n, with n up to {LARGEST}; found n = {n}: "
                "use destiny-momentum"
            )
        A = agents.hessian()
        quadratic = A is not None
        zero, vote = np.zeros((k, 1, 1)), np.zeros((k, 1, 1))
        if A is None:
            A = left_hessian(agents, X)
            vote[:, 0, 0] = misfit(agents, X, A) > MISFIT
        return NewtonState(
            X=X,
            R=agents.gradient(X) - A @ X,
            model=pack(A),
            quadratic=zero + quadratic,
            vote=vote,
            disagreement=zero,
            slope=zero + 1.0,
            mark=zero + np.finfo(np.float64).max,
            slow=zero,
            scale=zero,
            products=zero,
            fallen=zero,
            momentum=_zero_state(X, agents),
        )

    def step(self, s: NewtonState, agents: Agents) -> NewtonState:
        """Average and minimise the model, in `rounds` rounds; after the change, a step of momentum."""
        if s.fallen.any():
            return self._with_momentum(s, self._momentum.step(s.momentum, agents))
        Z, vote, R, model = self._average(s, agents)
        if vote.any():
            s = replace(s, fallen=np.ones_like(s.fallen))
            return self._with_momentum(s, self._momentum.init(s.X, agents))
        start = polar(Z)
        G = unpack(model, Z.shape[1]) @ start + R
        slope = norm(tangent(start, G))
        scale = np.where(s.scale > 0, s.scale, residual_scale(slope, norm(G)))
        X, products = solve_each(model, R, start)
        s = replace(
            s,
            X=X,
            R=R,
            model=model,
            products=s.products + products,
            disagreement=scalar(norm(start - s.X)),
            slope=scalar(slope) / scale,
            scale=scale,
        )
        return self._vote_if_slow(self._update_models(s, agents))

    def _average(self, s: NewtonState, agents: Agents) -> tuple[Array, ...]:
        """Means of X, vote, R and the model; R and the model are not averaged again if they are means."""
        if s.quadratic.all() and s.scale.all():
            return *agents.exact_mean(s.X, s.vote), s.R, s.model
        return agents.exact_mean(s.X, s.vote, s.R, s.model)

    def _update_models(self, s: NewtonState, agents: Agents) -> NewtonState:
        """Model each f_i at the new X, unless it is quadratic."""
        if s.quadratic.all():
            return s
        A = left_hessian(agents, s.X)
        return replace(s, R=agents.gradient(s.X) - A @ s.X, model=pack(A))

    def _vote_if_slow(self, s: NewtonState) -> NewtonState:
        """Vote for momentum after `SLOW_STEPS` slow steps."""
        fell = s.slope < FALL * s.mark
        slow = np.where(fell, 0.0, s.slow + 1)
        vote = (slow >= SLOW_STEPS) & (s.slope > SMALL)
        return replace(s, mark=np.where(fell, s.slope, s.mark), slow=slow, vote=vote.astype(np.float64))

    def _with_momentum(self, s: NewtonState, momentum: MomentumState) -> NewtonState:
        return replace(s, X=momentum.X, momentum=momentum, disagreement=momentum.disagreement)

    @property
    def _momentum(self) -> DestinyMomentum:
        momentum = DestinyMomentum(spectrum=self.spectrum)
        return replace(momentum, rounds=momentum.filter.rounds)

    def remarks(self, s: NewtonState, ids: NDArray[np.intp], converged: bool) -> list[str]:
        """Sentences on the cost of local minimisations and on a change to momentum."""
        notes = [f"local minimisation took at most {s.products.max():.0f} products with the n x n model"]
        if not s.fallen.any():
            return notes
        why = "steps made no progress, or the Hessian of some f_i is not of the form V -> A V"
        return [
            *notes,
            f"went on with destiny-momentum: {why}",
            *self._momentum.remarks(s.momentum, ids, converged),
        ]

    def residual(self, s: NewtonState) -> Array:
        """Residual that an agent can compute by itself, relative to the start, ``(agents,)``."""
        if s.fallen.any():
            return self._momentum.residual(s.momentum)
        slope = s.slope[:, 0, 0]  # where the last step began
        if s.quadratic.all() and s.scale.all():  # the model is f: the slope at X itself
            G = unpack(s.model, s.X.shape[1]) @ s.X + s.R
            slope = norm(tangent(s.X, G)) / s.scale[:, 0, 0]
        return np.maximum(slope, np.maximum(s.disagreement[:, 0, 0], violation(s.X)))


def solve_each(model: Array, R: Array, X: Array) -> tuple[Array, Array]:
    """Minimise each agent's model from its X; the minimisers, and the products taken ``(agents, 1, 1)``."""
    new, products = np.empty_like(X), np.empty((len(X), 1, 1))
    for i, A in enumerate(unpack(model, X.shape[1])):
        minimum = minimise(A, R[i], X[i], 0.0, FLOOR)
        new[i] = nearest_equal(A, R[i], minimum.X, X[i])
        products[i] = minimum.products
    return new, products


def left_hessian(agents: Agents, X: Array) -> Array:
    """Symmetric A_i ``(agents, n, n)`` with Hess f_i(X)[V] about A_i V, by central differences."""
    k, n, p = X.shape
    A = np.empty((k, n, n))
    for start in range(0, n, p):
        rows = np.arange(start, min(start + p, n))
        V = np.zeros((k, n, p))
        V[:, rows, np.arange(len(rows))] = 1.0
        A[:, :, rows] = hessian_product(agents, X, V)[:, :, : len(rows)]
    return (A + A.swapaxes(1, 2)) / 2


def hessian_product(agents: Agents, X: Array, V: Array) -> Array:
    """Hess f_i(X)[V] by a central difference of two gradients."""
    t = DIFFERENCE
    return (agents.gradient(X + t * V) - agents.gradient(X - t * V)) / (2 * t)


def misfit(agents: Agents, X: Array, A: Array) -> Array:
    """||H V - A_i V|| / ||H V|| of a random V, ``(agents,)``: 0 where the Hessian is of the form V -> A V."""
    V = np.stack(
        [np.random.default_rng([PROBE_SEED, int(i)]).standard_normal(X.shape[1:]) for i in agents.ids]
    )
    V /= norm(V)[:, None, None]
    HV = hessian_product(agents, X, V)
    size = norm(HV)
    return np.divide(norm(HV - A @ V), size, out=np.zeros_like(size), where=size > 0)


def pack(A: Array) -> Array:
    """The upper triangles of symmetric matrices, ``(agents, n, n) -> (agents, n (n + 1) / 2)``."""
    rows, columns = np.triu_indices(A.shape[1])
    return np.ascontiguousarray(A[:, rows, columns])


def unpack(triangles: Array, n: int) -> Array:
    """The symmetric matrices ``(agents, n, n)`` of `pack`."""
    rows, columns = np.triu_indices(n)
    A = np.empty((len(triangles), n, n))
    A[:, rows, columns] = triangles
    A[:, columns, rows] = triangles
    return A


def _zero_state(X: Array, agents: Agents) -> MomentumState:
    """A state of `DestinyMomentum` from gradients that are 0: every state must have the same arrays."""

    class ZeroAgents:
        ids, regulariser, private, sampled, clipped = agents.ids, None, False, False, False

        def gradient(self, X: Array, step: int | None = None) -> Array:  # noqa: ARG002
            return np.zeros_like(X)

        def value(self, X: Array) -> Array:
            return np.zeros(len(X))

        def hessian(self) -> None:
            return None

        def mass(self, X: Array) -> Array:
            return X

        def mix(self, *arrays: Array, rounds: int = 1, again: bool = False) -> tuple[Array, ...]:  # noqa: ARG002
            return arrays

        def spanning_tree(self) -> Array:
            return np.zeros((len(self.ids), 2))

        def exact_mean(self, *arrays: Array, tree: Array | None = None) -> tuple[Array, ...]:  # noqa: ARG002
            return arrays

        def once(self, compute: Callable[[], S]) -> S:
            return compute()

    return DestinyMomentum(beta=1.0, spectrum=(0.0, 0.0)).init(X, ZeroAgents())
