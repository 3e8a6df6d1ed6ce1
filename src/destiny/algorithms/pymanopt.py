"""Pymanopt's optimizers as a method for one agent: an independent implementation to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from destiny.algorithms.blocks.about import for_one_agent
from destiny.errors import INSTALL, MissingExtraError, SettingsError
from destiny.geometry.stiefel import norm, polar, tangent
from destiny.protocols import Agents, AlgorithmBase, Array
from destiny.validation import did_you_mean, is_whole

METHODS = ("gradient", "conjugate-gradient", "trust-regions")
NUDGE = 6e-6  # cube root of the rounding unit: optimal for central differences
NOISE = (
    1e-15  # relative to ||grad f||: a smaller Riemannian gradient is rounding, and line searches divide by it
)


@dataclass(frozen=True)
class PymanoptState:
    """Pymanopt's own memory (step lengths, directions, radius) does not outlast a step."""

    X: Array


@dataclass(frozen=True)
class Pymanopt(AlgorithmBase):
    """One step = ``iterations`` iterations of an optimizer of Pymanopt on f / ||grad f||_2, from X.

    Every step starts Pymanopt's loop anew: conjugate gradients restart, and a trust region has its first
    radius again. The two line searches compare values of f, whose rounding hides a decrease once the
    Riemannian gradient is 1e-8 to 1e-6 of that at the start; they end there, trust regions do not. Hessians
    are differences of two gradients. A line search starts at the step 1 / ||G||_2: Pymanopt's own first
    length of 1 leads too far away near the answer.

    Parameters
    ----------
    method : "gradient", "conjugate-gradient" or "trust-regions"
    iterations : int
        Iterations per step.
    """

    method: Literal["gradient", "conjugate-gradient", "trust-regions"] = "trust-regions"
    iterations: int = 10
    kind = "pymanopt"
    about = for_one_agent("Pymanopt", "Townsend, Koep & Weichwald, JMLR 2016")

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            near = did_you_mean(self.method, METHODS)
            raise SettingsError(f"method must be one of {', '.join(METHODS)}; found {self.method!r}{near}")
        if not is_whole(self.iterations) or self.iterations < 1:
            raise SettingsError(f"iterations must be a whole number of at least 1; found {self.iterations!r}")
        if find_spec("pymanopt") is None:
            raise MissingExtraError(
                f"kind pymanopt needs the package pymanopt: {INSTALL.format(extra='compare')}"
            )

    def init(self, X: Array, agents: Agents) -> PymanoptState:  # noqa: ARG002
        """Start from the nearest point of the manifold."""
        return PymanoptState(polar(X))

    def step(self, s: PymanoptState, agents: Agents) -> PymanoptState:
        """``iterations`` iterations of Pymanopt for each hosted agent; no round."""
        return PymanoptState(np.stack([self.burst(s.X, i, agents) for i in range(len(s.X))]))

    def burst(self, X: Array, i: int, agents: Agents) -> Array:
        """X_i after ``iterations`` iterations, ``(n, p)``; the other agents' X stay as they are."""
        G = agents.gradient(X)[i]
        size = float(np.linalg.norm(G, 2)) if np.isfinite(G).all() else 0.0
        length = float(norm(tangent(X[i], G)))
        if size == 0 or length <= NOISE * size:
            return np.asarray(X[i])  # stationary, or not finite

        def at(Y: Array) -> Array:
            stack = X.copy()
            stack[i] = Y
            return stack

        def cost(Y: Array) -> float:
            return float(agents.value(at(Y))[i] / size)

        def slope(Y: Array) -> Array:
            return np.asarray(agents.gradient(at(Y))[i] / size)

        def curvature(Y: Array, Z: Array) -> Array:
            if not Z.any():
                return Z
            t = NUDGE / float(norm(Z))
            return np.asarray((slope(Y + t * Z) - slope(Y - t * Z)) / (2 * t))

        # An overflow or a division by zero in Pymanopt shows in the result.
        with np.errstate(all="ignore"):
            return optimize(self.method, X[i], cost, slope, curvature, length / size, self.iterations)


def optimize(
    method: str, X: Array, cost: Any, slope: Any, curvature: Any, length: float, iterations: int
) -> Array:
    """The last iterate of Pymanopt's optimizer, ``(n, p)``. Pymanopt is imported here only."""
    pymanopt = _import_pymanopt()
    from pymanopt.optimizers import ConjugateGradient, SteepestDescent, TrustRegions
    from pymanopt.optimizers.line_search import AdaptiveLineSearcher, BackTrackingLineSearcher

    manifold = pymanopt.manifolds.Stiefel(*X.shape)
    wrap = pymanopt.function.numpy(manifold)
    problem = pymanopt.Problem(
        manifold, wrap(cost), euclidean_gradient=wrap(slope), euclidean_hessian=wrap(curvature)
    )
    limits = {"max_time": np.inf, "max_iterations": iterations, "min_gradient_norm": 0.0, "verbosity": 0}
    if method == "trust-regions":
        optimizer = TrustRegions(**limits)
    elif method == "gradient":
        optimizer = SteepestDescent(BackTrackingLineSearcher(initial_step_size=length), **limits)
    else:
        limits["max_iterations"] += 1  # it counts the evaluation of its start
        optimizer = ConjugateGradient(line_searcher=AdaptiveLineSearcher(initial_step_size=length), **limits)
    return np.asarray(optimizer.run(problem, initial_point=X).point)


def _import_pymanopt() -> Any:
    """The package. Its import sets JAX to float64 for the whole process, which is undone."""
    if find_spec("jax") is None:
        return import_module("pymanopt")
    config: Any = import_module("jax").config
    before = config.jax_enable_x64
    package = import_module("pymanopt")
    config.update("jax_enable_x64", before)
    return package
