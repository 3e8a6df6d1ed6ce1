"""ExPen (Xiao & Liu), constraint dissolving on the Stiefel manifold: gradient descent without constraints."""

from __future__ import annotations

from dataclasses import dataclass, field

from destiny.algorithms.blocks.about import for_one_agent
from destiny.algorithms.blocks.single_agent import SingleAgentTracking


@dataclass(frozen=True)
class ExPen(SingleAgentTracking):
    """X+ = X - eta grad h(X),  h(X) = f(A(X)) + beta/4 ||X^T X - I||_F^2,  A(X) = X (3 I - X^T X)/2.

    h is smooth and, near the manifold, has the stationary points of the problem if beta is large enough;
    its gradient takes one gradient of f, at A(X). CDOpt writes beta/2 where this has beta/4. Its authors run
    any unconstrained solver on h; here it is gradient descent with the steps of this package.
    """

    direction: str = field(default="expen", init=False)
    kind = "expen"
    about = for_one_agent("ExPen", "Xiao & Liu, J. Comput. Math. 2024; Xiao, Liu & Toh 2024 (CDOpt)")
