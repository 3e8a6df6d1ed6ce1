"""DESTINY with an averaged second-order model: few rounds, long messages, for n up to 2,000."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from destiny.algorithms.blocks.about import About
from destiny.algorithms.blocks.quadratic_model import left_hessian, misfit, pack, solve_each, unpack
from destiny.algorithms.blocks.totals import TotalsMethod
from destiny.algorithms.blocks.zero_agents import ZeroAgents
from destiny.algorithms.momentum import DestinyMomentum, MomentumState, residual_scale
from destiny.errors import PrivacyError, SettingsError
from destiny.geometry.stiefel import norm, polar, scalar, tangent, violation
from destiny.protocols import Agents, Array, TopologyBase

LARGEST = 2000  # largest n: a message then has 16 MB
MISFIT = 0.1  # largest relative error of A_i V; it is 0 for PCA and OLSR, 0.7 for dictionaries with p > 1
FALL = 0.1  # a step is slow unless the slope falls below this fraction of ``mark``
SLOW_STEPS = 6  # slow steps in a row after which the agents change to momentum
SMALL = 1e-10  # relative slope from which no agent votes for momentum: rounding keeps it from falling
VOTED = (
    "an agent asks to change from destiny-newton to destiny-momentum, because the model does not fit its "
    "objective or steps make no progress; that cannot be done with private messages, as the sums of "
    "destiny-momentum reveal more than averages: use destiny-lbfgs"
)
# Every state must have the same arrays: until a change to momentum its state is that of gradients 0.
PLACEHOLDER = DestinyMomentum(beta=1.0, spectrum=(0.0, 0.0))


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
    """1 if the agent votes for momentum; one vote is enough, unless the f_i are quadratic."""
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
class DestinyNewton(TotalsMethod):
    """Agents average a second-order model of f, and each minimises the mean model by itself.

    Each f_i is modelled as ``<r_i, X> + <X, A_i X> / 2``. A step averages the r_i and the A_i along a
    spanning tree (`destiny.engines.totals`); every agent then minimises the mean model on the manifold, and
    all obtain the same X. Fixed points are stationary points of the mean of the f_i. For PCA and regression
    A_i is known in closed form and one step suffices; otherwise every step estimates it from 2 n / p
    gradients. If the Hessian of an f_i is not of the form V -> A V, or the steps make no progress, all agents
    change to `DestinyMomentum` and continue from the present X. With private messages the run ends with a
    `PrivacyError` instead: the sums of `DestinyMomentum` reveal more than means. See docs/newton.md.

    A message has about n (n + 1) / 2 + 2 n p numbers. The first one contains A_i: for PCA, the second moments
    of the agent's data. With private messages, neighbours learn only the mean.

    Parameters
    ----------
    diameter : int, optional
        As in `TotalsMethod`.
    spectrum : (low, high), optional
        Interval of the eigenvalues of W other than 1, for `DestinyMomentum`; by default the network's.
    """

    spectrum: tuple[float, float] | None = None
    kind = "destiny-newton"
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
        super().__post_init__()
        # DestinyMomentum has the checks of spectrum.
        object.__setattr__(self, "spectrum", DestinyMomentum(spectrum=self.spectrum).spectrum)

    def on(self, network: TopologyBase) -> Self:
        """The same settings with the network's diameter and spectrum; `SettingsError` if it changes."""
        return replace(super().on(network), spectrum=self.spectrum or network.spectrum)

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
        if A is not None:
            R = agents.gradient(np.zeros_like(X))  # exactly zero if f_i has no linear term
        else:
            A = left_hessian(agents, X)
            R = agents.gradient(X) - A @ X
            vote[:, 0, 0] = misfit(agents, X, A) > MISFIT
        return NewtonState(
            X=X,
            R=R,
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
            momentum=PLACEHOLDER.init(X, ZeroAgents(agents.ids)),
        )

    def step(self, s: NewtonState, agents: Agents) -> NewtonState:
        """Average and minimise the model, in `rounds` rounds; after the change, a step of momentum."""
        if s.fallen.any():
            return self._with_momentum(s, self._momentum.step(s.momentum, agents))
        Z, vote, R, model = self._average(s, agents)
        if vote.any() and not s.quadratic.all():  # models of quadratic f_i are exact: only a liar votes
            if agents.private:
                raise PrivacyError(VOTED)
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
            slope=np.divide(scalar(slope), scale, out=np.zeros_like(scale), where=scale > 0),
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
        """Vote for momentum after `SLOW_STEPS` slow steps, unless the f_i are quadratic."""
        fell = s.slope < FALL * s.mark
        slow = np.where(fell, 0.0, s.slow + 1)
        vote = (slow >= SLOW_STEPS) & (s.slope > SMALL) & (s.quadratic == 0)
        return replace(s, mark=np.where(fell, s.slope, s.mark), slow=slow, vote=vote.astype(np.float64))

    def _with_momentum(self, s: NewtonState, momentum: MomentumState) -> NewtonState:
        return replace(s, X=momentum.X, momentum=momentum, disagreement=momentum.disagreement)

    @property
    def _momentum(self) -> DestinyMomentum:
        momentum = DestinyMomentum(spectrum=self.spectrum)
        return replace(momentum, rounds=momentum.filter.rounds)

    def exhausted(self, s: NewtonState) -> str | None:
        """Why the slope has not fallen for a while, if no agent votes for momentum."""
        if s.fallen.any() or s.slow.min() < SLOW_STEPS:
            return None
        if s.slope.max() <= SMALL:
            return "rounding allows no less: raise the tolerance"
        if s.quadratic.all():
            return "local minimisation makes no more progress: scale the features, or use destiny-momentum"
        return None

    def change(self, s: NewtonState) -> str | None:
        """Sentence on the change to momentum, once it has happened."""
        if not s.fallen.any():
            return None
        why = "steps made no progress, or the Hessian of some f_i is not of the form V -> A V"
        return f"went on with destiny-momentum: {why}"

    def remarks(self, s: NewtonState, ids: NDArray[np.intp], converged: bool) -> list[str]:
        """Sentences on the cost of local minimisations and on a change to momentum."""
        notes = [f"local minimisation took at most {s.products.max():.0f} products with the n x n model"]
        if (change := self.change(s)) is None:
            return notes
        return [*notes, change, *self._momentum.remarks(s.momentum, ids, converged)]

    def residual(self, s: NewtonState) -> Array:
        """Residual that an agent can compute by itself, relative to the start, ``(agents,)``."""
        if s.fallen.any():
            return self._momentum.residual(s.momentum)
        slope = s.slope[:, 0, 0]  # where the last step began
        if s.quadratic.all() and s.scale.all():  # the model is f: the slope at X itself
            G = unpack(s.model, s.X.shape[1]) @ s.X + s.R
            slope = norm(tangent(s.X, G)) / s.scale[:, 0, 0]
        return np.maximum(slope, np.maximum(s.disagreement[:, 0, 0], violation(s.X)))
