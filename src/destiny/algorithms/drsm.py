"""DRSM (Wang, Hu, Chen, Deng & So 2023): Riemannian subgradient steps, for objectives with kinks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from destiny.algorithms.blocks.about import About
from destiny.algorithms.drsgd import DRSGD, DescentState
from destiny.algorithms.thanos import envelope_gradient, smoothed
from destiny.geometry.stiefel import tangent
from destiny.protocols import Agents, Array

NEAR = 1e-6  # of a step: how far from X the point may be whose subgradient is taken


@dataclass(frozen=True)
class DRSM(DRSGD):
    """X+ = R_X(alpha P_X(W^t X) - eta P_X(grad f(X) + g)),  g a subgradient of r.

    `DRSGD` with a subgradient, (X - Y) / t in the subdifferential of r at Y = prox of t r at X, where t is a
    millionth of the step. Inexact: subgradients do not vanish at kinks, so that steps must, and entries come
    close to zero without ever being zero.

    Parameters
    ----------
    alpha, step_size, rounds, mixing, lambda_, retraction, gossip
        As in `DRSGD`.
    """

    kind = "drsm"
    about = About(
        "DRSM",
        "Wang, Hu, Chen, Deng & So 2023",
        sends=1,
        rounds="rounds",
        traits=frozenset({"inexact", "reconstruction", "regularised", "stochastic"}),
    )

    def init(self, X: Array, agents: Agents) -> DescentState:
        """Run the opening rounds on f; a subgradient of r is then added."""
        s = super().init(X, agents)
        if agents.regulariser is None:
            return s
        return replace(s, H=s.H + tangent(X, envelope_gradient(agents.regulariser, X, NEAR * s.pace.eta)))

    def step(self, s: DescentState, agents: Agents) -> DescentState:
        """The recursion of the class docstring, in ``rounds`` rounds."""
        if agents.regulariser is None:
            return super().step(s, agents)
        return super().step(s, smoothed(agents, NEAR * s.pace.eta))
