"""The constraint X^T M X = I of a run: M for an observer, and a start that the agents make feasible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from destiny.engines.hosted import HostedAgents
from destiny.engines.team import Team
from destiny.errors import MismatchError, ProblemError, SettingsError
from destiny.geometry.generalized import MassMatrix
from destiny.geometry.stiefel import identity, sym, transpose
from destiny.protocols import Array, TopologyBase
from destiny.run.averaging import agree, rounds_to_agree
from destiny.run.parts.part import RunPart
from destiny.storage.checkpoint import Saved

if TYPE_CHECKING:
    from destiny.run.plan import Plan

LARGEST = 5000  # rows of X: M of 5,000 takes 200 MB in every process
BLOCK = 500  # columns of the identity multiplied by M at a time
INDEPENDENT = 1e-6  # smallest over largest singular value of a start


class Constraint(RunPart):
    """The constraint X^T M X = I with M = sum M_i: M for observers, and a feasible start."""

    task: ClassVar[str] = "make the start feasible"

    def check(self, plan: Plan) -> None:
        """Rough averages will not do, nor will a start of dependent columns."""
        require_independent(plan.X)
        if not plan.messages.exact:
            raise MismatchError(
                f"the constraint X^T M X = I needs the exact sum of all M_i, which {plan.messages} do not "
                "give: use plain messages"
            )

    def rounds(self, plan: Plan) -> int:
        """One average."""
        return rounds_to_agree(plan.network) or 0

    def begin(self, plan: Plan, team: Team, saved: Saved | None) -> None:  # noqa: ARG002
        """Find M out of band; `ProblemError` if it is singular."""
        n = plan.problem.shape[0]
        if n > LARGEST:
            raise ProblemError(
                f"measures of X^T M X = I need M as a matrix, with n up to {LARGEST}; found n = {n}: reduce "
                "the number of coordinates first"
            )
        I = identity(n)
        blocks = [team.mass(np.ascontiguousarray(I[:, k : k + BLOCK])) for k in range(0, n, BLOCK)]
        self.mass = MassMatrix.of(sym(np.concatenate(blocks, axis=1)))

    def start(self, plan: Plan, X: Array, agents: HostedAgents) -> Array:
        return make_feasible(X, plan.network, agents)

    def identity(self) -> dict[str, Any]:
        return {"constraint": "X^T M X = I"}

    def remarks(self, X: Array, gradient: Array) -> list[str]:  # noqa: ARG002
        """What is wrong with M."""
        return [] if self.mass is None or self.mass.note is None else [self.mass.note]


def make_feasible(X: Array, network: TopologyBase, agents: HostedAgents) -> Array:
    """X (X^T M X)^{-1/2} of the hosted agents: they average the p x p matrices X_i^T (d M_i) X_i."""
    B = sym(agree(agents, network, transpose(X) @ agents.mass(X)))
    w, V = np.linalg.eigh(B)
    return np.asarray(X @ (V / np.sqrt(w)[:, None, :] @ transpose(V)))  # w > 0: M is positive definite


def require_independent(X: Array) -> None:
    """Raise `SettingsError` unless the columns of each matrix of a start ``(..., n, p)`` are independent."""
    values = np.linalg.svd(X, compute_uv=False)
    if not (values[..., -1] > INDEPENDENT * values[..., 0]).all():
        raise SettingsError("start must have independent columns; found some that depend on others")
