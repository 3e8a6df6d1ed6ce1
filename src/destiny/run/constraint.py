"""The constraint X^T M X = I of a run: M for an observer, and a start that the agents make feasible."""

from __future__ import annotations

import numpy as np

from destiny.engines.hosted import HostedAgents
from destiny.engines.team import Team
from destiny.errors import ProblemError, SettingsError
from destiny.geometry.generalised import MassMatrix
from destiny.geometry.stiefel import identity, sym, transpose
from destiny.protocols import Array, ProblemBase, TopologyBase
from destiny.run.averaging import agree, rounds_to_agree

LARGEST = 5000  # rows of X: M of 5,000 takes 200 MB in every process
BLOCK = 500  # columns of the identity multiplied by M at a time
INDEPENDENT = 1e-6  # smallest over largest singular value of a start


def find_mass(problem: ProblemBase, team: Team) -> MassMatrix | None:
    """M of the constraint, found out of band; None for X^T X = I. Raise `ProblemError` if it is singular."""
    if not problem.generalised:
        return None
    n = problem.shape[0]
    if n > LARGEST:
        raise ProblemError(
            f"measures of X^T M X = I need M as a matrix, with n up to {LARGEST}; found n = {n}: reduce the "
            "number of coordinates first"
        )
    I = identity(n)
    blocks = [team.mass(np.ascontiguousarray(I[:, k : k + BLOCK])) for k in range(0, n, BLOCK)]
    return MassMatrix.of(sym(np.concatenate(blocks, axis=1)))


def make_feasible(X: Array, network: TopologyBase, agents: HostedAgents) -> Array:
    """X (X^T M X)^{-1/2} of the hosted agents: they average the p x p matrices X_i^T (d M_i) X_i."""
    B = sym(agree(agents, network, transpose(X) @ agents.mass(X)))
    w, V = np.linalg.eigh(B)
    return np.asarray(X @ (V / np.sqrt(w)[:, None, :] @ transpose(V)))  # w > 0: M is positive definite


def planned_rounds(problem: ProblemBase, network: TopologyBase) -> int:
    """Rounds that `make_feasible` takes, as far as they are known beforehand."""
    return (rounds_to_agree(network) or 0) if problem.generalised else 0


def require_independent(X: Array) -> None:
    """Raise `SettingsError` unless the columns of each matrix of a start ``(..., n, p)`` are independent."""
    values = np.linalg.svd(X, compute_uv=False)
    if not (values[..., -1] > INDEPENDENT * values[..., 0]).all():
        raise SettingsError("start must have independent columns; found some that depend on others")
