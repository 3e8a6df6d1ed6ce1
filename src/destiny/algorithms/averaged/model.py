"""Quadratic objectives by one exactly averaged model: few rounds, long messages, for n up to 2,000."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from destiny.algorithms.averaged.quadratic_model import pack, solve_each, unpack
from destiny.algorithms.averaged.totals import X_BOUND, TotalsMethod, TotalsState, averages, shared
from destiny.algorithms.blocks.about import About
from destiny.errors import MismatchError, SettingsError
from destiny.geometry.scales import column_scales
from destiny.geometry.stiefel import norm, polar, residual_scale, scalar, tangent, violation
from destiny.protocols import Agents, Array, Bounds

LARGEST = 2000  # largest n: a message then has 16 MB
FALL = 0.1  # a step is slow unless the slope falls below this fraction of ``mark``
SMALL = 1e-10  # relative slope below which rounding keeps it from falling
SLOW_STEPS = 6  # slow steps in a row after which no further step will help


@dataclass(frozen=True)
class NewtonState(TotalsState):
    """State of `AveragedModel`; every array has the hosted agents on axis 0."""

    R: Array
    """r_i; once a step was taken, the mean of all."""
    model: Array
    """Upper triangle of A_i, ``(agents, n (n + 1) / 2)``; once a step was taken, of the mean."""
    mark: Array
    """The slope when it last fell, with which the next ones are compared."""
    slow: Array
    """Number of slow steps since then."""
    products: Array
    """Products of the n x n model with n x p matrices in all local minimizations so far."""


@dataclass(frozen=True)
class AveragedModel(TotalsMethod):
    """Agents average their quadratic objectives, and each minimizes the mean by itself.

    Each f_i is ``<r_i, X> + <X, A_i X> / 2`` but for a constant. The first step averages the r_i and the A_i
    along a spanning tree (`Agents.all_reduce`); every agent then minimizes the mean on the manifold, and all
    obtain the same X. Later steps, if any, average X alone. Objectives that are not quadratic are refused:
    `AveragedLBFGS` is for them. See docs/averaged-model.md.

    A message has n (n + 1) / 2 + 2 n p numbers. In plain messages an agent's parent in the tree learns the
    sum of the A_i of the agent and those below it: for PCA, second moments of their data.

    Parameters
    ----------
    depth : int, optional
        As in `TotalsMethod`.
    """

    kind = "averaged-model"
    about = About(
        "DESTINY with an averaged model",
        "this package; docs/averaged-model.md",
        sends=2,
        triangles=1,
        rounds="rounds",
        averaged="a second-order model of its objective (PCA: its matrix of second moments)",
        learned="scales of the features; the mean of the objectives: for PCA the pooled second moments",
        traits=frozenset({"totals"}),
    )

    def init(self, X: Array, agents: Agents) -> NewtonState:
        """Write each f_i as a model; no communication."""
        k, n, _ = X.shape
        if n > LARGEST:
            raise SettingsError(
                f"averaged-model averages matrices of n x n, with n up to {LARGEST}; found n = {n}: "
                "use averaged-krylov for PCA, averaged-lbfgs for regression"
            )
        A = agents.hessian()
        if A is None:
            raise MismatchError(
                "averaged-model averages quadratic objectives, as those of PCA and regression; this one is "
                "not quadratic, or does not say so: use averaged-lbfgs"
            )
        zero = np.zeros((k, 1, 1))
        return NewtonState(
            X=X,
            R=agents.gradient(np.zeros_like(X)),  # exactly zero if f_i has no linear term
            model=pack(A),
            disagreement=zero,
            slope=zero + 1.0,
            scale=zero,
            mark=zero + np.finfo(np.float64).max,
            slow=zero,
            products=zero,
        )

    def step(self, s: NewtonState, agents: Agents) -> NewtonState:
        """Average, in the first step the models too, and minimize the mean model."""
        if s.scale.all():
            (Z,), R, model = averages(agents, s.X, bounds=[X_BOUND * agents.count]), s.R, s.model
        else:
            Z, R, model = averages(agents, s.X, s.R, s.model, bounds=_bounds(s, agents))
        # The means have the same bits at all agents: what follows from them is computed once in a process.
        start, X, slope, size, products = agents.once(lambda: _minimize(model[:1], R[:1], Z[:1]))
        k = len(s.X)
        scale = np.where(s.scale > 0, s.scale, residual_scale(slope, size))
        relative = np.divide(scalar(slope), scale, out=np.zeros_like(scale), where=scale > 0)
        fell = relative < FALL * s.mark
        return replace(
            s,
            X=shared(X[0], k),
            R=R,
            model=model,
            products=s.products + products,
            disagreement=scalar(norm(start - s.X)),
            slope=relative,
            scale=scale,
            mark=np.where(fell, relative, s.mark),
            slow=np.where(fell, 0.0, s.slow + 1),
        )

    def exhausted(self, s: NewtonState) -> str | None:
        """Why the slope has not fallen for some steps; the model is exact."""
        if s.slow.min() < SLOW_STEPS:
            return None
        if s.slope.max() <= SMALL:
            return "rounding allows no less: raise the tolerance"
        return "local minimization makes no more progress: scale the features, or use averaged-lbfgs"

    def remarks(self, s: NewtonState, ids: NDArray[np.intp], converged: bool) -> list[str]:  # noqa: ARG002
        """A sentence on the cost of local minimizations."""
        return [f"local minimization took at most {s.products.max():.0f} products with the n x n model"]

    def residual(self, s: NewtonState) -> Array:
        """Residual that an agent can compute by itself, relative to the start, ``(agents,)``."""
        slope = s.slope[:, 0, 0]  # where the last step began
        if s.scale.all():  # the model is f: the slope at X itself
            G = unpack(s.model[:1], s.X.shape[1]) @ s.X[:1] + s.R[:1]
            slope = norm(tangent(s.X[:1], G)) / s.scale[:, 0, 0]
        return np.maximum(slope, np.maximum(s.disagreement[:, 0, 0], violation(s.X)))


def _bounds(s: NewtonState, agents: Agents) -> Bounds | None:
    """What X, R and the model add up to at most, by a sum of their scales; None where it is of no use."""
    if not agents.bounded or (scales := agents.scales()) is None:
        return None
    u, v = column_scales(s.R, scales)
    (rows, *_), (columns, *_) = agents.all_reduce(u, v)
    model = pack(np.sqrt(np.outer(rows, rows))[None])[0]
    return [X_BOUND * agents.count, np.sqrt(np.outer(rows, columns)), model]


def _minimize(model: Array, R: Array, Z: Array) -> tuple[Array, ...]:
    """From the mean Z of the points: its projection, the minimizer of the mean model near it; what was seen.

    That is the norms of the model's Riemannian and Euclidean gradients there, and the products taken. All
    arrays have one row.
    """
    start = polar(Z)
    G = unpack(model, Z.shape[1]) @ start + R
    X, products = solve_each(model, R, start)
    return start, X, norm(tangent(start, G)), norm(G), products
