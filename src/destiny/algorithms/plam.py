"""PLAM (Gao, Liu & Yuan 2019): the proximal linearised augmented Lagrangian method, for one agent."""

from __future__ import annotations

from dataclasses import dataclass

from destiny.algorithms.blocks.about import for_one_agent
from destiny.algorithms.blocks.single_agent import SingleAgentTracking


@dataclass(frozen=True)
class PLAM(SingleAgentTracking):
    """X+ = X - eta (G - X sym(X^T G) + beta X (X^T X - I)),  G = grad f(X).

    Gradient descent on the augmented Lagrangian with its multiplier in closed form. The manifold attracts
    where beta > lambda_max(sym(X^T G)): no condition for PCA and SDL, but one for OLSR, where ||G||_2 is just
    the threshold if the start is next to the answer. ``watch`` doubles a beta "auto" that does not hold X;
    given as a number below the threshold, it lets X grow without end.
    """

    kind = "plam"
    about = for_one_agent("PLAM", "Gao, Liu & Yuan, SIAM J. Sci. Comput. 2019")
