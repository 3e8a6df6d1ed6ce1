"""SLPG (Xiao, Liu & Yuan 2021): linearized proximal gradient steps without retractions, for one agent."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from destiny.algorithms.blocks.about import for_one_agent
from destiny.algorithms.blocks.curvature import largest_curvature, secants
from destiny.errors import SettingsError
from destiny.geometry.proximal import apply_prox, cubic_retraction
from destiny.geometry.stiefel import inner, norm, scalar, sym, tangent, transpose, violation
from destiny.protocols import Agents, AlgorithmBase, Array
from destiny.validation import is_number, is_whole

FIRST_STEPS = 3  # steps before Barzilai-Borwein steps, as the authors do
FIRST = 0.01  # of the authors' first steps, 0.01 / (||nabla f|| + ||grad f||)


@dataclass(frozen=True)
class SLPGState:
    """Every array has the hosted agents on axis 0; scalars ``(agents, 1, 1)``."""

    X: Array
    G: Array
    """nabla f(X) - X sym(X^T nabla f(X))."""
    multiplier: Array
    """Lambda ``(agents, p, p)``, symmetric."""
    eta: Array
    curvature: Array
    """Largest change of G relative to that of X so far."""
    gap: Array
    """||X - Y|| / eta of the last proximal step."""
    violation: Array
    count: Array
    scale: Array
    """``gap`` at the start."""


@dataclass(frozen=True)
class SLPG(AlgorithmBase):
    """X+ = Y (3 I - Y^T Y) / 2,  Y = prox(X - eta (G + X Lambda)),  Lambda += sym(X^T (Y - X)) / eta.

    G = nabla f(X) - X sym(X^T nabla f(X)), and prox is that of eta r. The line of Lambda is repeated
    ``passes`` times, from the Lambda of the step before. Steps are those of Barzilai and Borwein,
    ``|<S, J>| / <J, J>``, as the authors', but never longer than ``bound`` / L, L being the largest curvature
    seen: without that they diverge on some problems.

    Parameters
    ----------
    passes : int
        Passes of the multiplier in a step; the authors take 5.
    bound : float
        Largest step times L.
    """

    passes: int = 5
    bound: float = 0.6
    kind = "slpg"
    about = for_one_agent("SLPG", "Xiao, Liu & Yuan 2021, arXiv:2103.03514", "regularized")

    def __post_init__(self) -> None:
        if not is_whole(self.passes) or self.passes < 1:
            raise SettingsError(f"passes must be a whole number of at least 1; found {self.passes!r}")
        if not is_number(self.bound) or not 0 < self.bound < 2:
            raise SettingsError(f"bound must be in (0, 2); found {self.bound!r}")

    def init(self, X: Array, agents: Agents) -> SLPGState:
        """Measure the curvature at the start; the first steps are short."""
        slope = agents.gradient(X)
        G = tangent(X, slope)
        size = scalar(norm(slope) + norm(G))
        eta = np.divide(FIRST, size, out=np.zeros_like(size), where=size > 0)
        L = largest_curvature(lambda Y: tangent(Y, agents.gradient(Y)), X, slope)
        zero, p = np.zeros_like(size), X.shape[-1]
        s = SLPGState(X, G, np.zeros((len(X), p, p)), eta, L, zero, scalar(violation(X)), zero, zero)
        return replace(s, scale=scalar(self.proximal_step(s, agents)[2]))

    def proximal_step(self, s: SLPGState, agents: Agents) -> tuple[Array, Array, Array]:
        """Y, the multiplier after ``passes`` passes, and ||X - Y|| / eta, ``(agents,)``."""
        multiplier = s.multiplier
        for _ in range(self.passes):
            Y = apply_prox(agents.regularizer, s.X - s.eta * (s.G + s.X @ multiplier), s.eta)
            slope = np.divide(s.X - Y, s.eta, out=np.zeros_like(Y), where=s.eta > 0)
            multiplier = multiplier - sym(transpose(s.X) @ slope)
        Y = apply_prox(agents.regularizer, s.X - s.eta * (s.G + s.X @ multiplier), s.eta)
        return Y, multiplier, np.asarray(norm(slope))

    def step(self, s: SLPGState, agents: Agents) -> SLPGState:
        """One gradient, no round."""
        Y, multiplier, gap = self.proximal_step(s, agents)
        X = cubic_retraction(Y)
        G = tangent(X, agents.gradient(X))
        S, J = X - s.X, G - s.G
        L = np.maximum(s.curvature, secants(S, J)[0])
        product, square = np.abs(scalar(inner(S, J))), scalar(inner(J, J))
        longest = np.divide(self.bound, L, out=np.zeros_like(L), where=L > 0)
        eta = np.minimum(np.divide(product, square, out=longest.copy(), where=square > 0), longest)
        # Where S is rounding, J is as well.
        eta = np.where((s.count + 1 >= FIRST_STEPS) & (eta > 0), eta, s.eta)
        return SLPGState(X, G, multiplier, eta, L, scalar(gap), scalar(violation(X)), s.count + 1, s.scale)

    def residual(self, s: SLPGState) -> Array:
        """The larger of the gap relative to the start and ||X^T X - I||, ``(agents,)``."""
        largest: Array = np.maximum(s.gap / np.where(s.scale > 0, s.scale, 1.0), s.violation)[:, 0, 0]
        return np.where(s.count[:, 0, 0] > 0, largest, 1.0)
