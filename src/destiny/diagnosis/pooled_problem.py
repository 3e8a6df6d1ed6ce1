"""The pooled problem as the doctor looks at it: f without its regularizer, in whitened coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.linalg

from destiny.geometry.generalized import MassMatrix
from destiny.geometry.stiefel import sym
from destiny.problems.own_problem import WrappedProblem
from destiny.problems.regularizers import HostedRegularized
from destiny.protocols import Array, GeneralizedHosted, Hosted, ProblemBase


class SmoothPart(WrappedProblem):
    """The f of a problem f + r, which may be wrapped, as a problem read from a file is."""

    inner: ProblemBase

    @property
    def regularizer(self) -> None:
        """None: that is what is left out."""
        return

    def host(self, ids: Sequence[int]) -> Hosted:
        """The objectives of the agents ``ids``, without r beside them."""
        hosted = self.inner.host(ids)
        return hosted.hosted if isinstance(hosted, HostedRegularized) else hosted


@dataclass(frozen=True)
class HostedWhitened:
    """Hosted objectives as functions of Z."""

    hosted: Hosted
    L: Array

    def value(self, Z: Array) -> Array:
        """f_i(L^-T Z_i), ``(agents,)``."""
        return self.hosted.value(self._solve(Z, "T"))

    def gradient(self, Z: Array) -> Array:
        """L^-1 grad f_i(L^-T Z_i), ``(agents, n, p)``."""
        return self._solve(self.hosted.gradient(self._solve(Z, "T")), "N")

    def _solve(self, stack: Array, trans: Literal["N", "T"]) -> Array:
        agents, n, p = stack.shape
        flat = stack.transpose(1, 0, 2).reshape(n, -1)
        solved = scipy.linalg.solve_triangular(self.L, flat, lower=True, trans=trans)
        return np.ascontiguousarray(solved.reshape(n, agents, p).transpose(1, 0, 2))


class WhitenedProblem(WrappedProblem):
    """The problem in Z, for whoever knows M."""

    inner: ProblemBase

    def __init__(self, problem: ProblemBase, mass: MassMatrix) -> None:
        super().__init__(problem)
        self.mass = mass

    @property
    def generalized(self) -> bool:
        """False: the constraint is Z^T Z = I."""
        return False

    def host(self, ids: Sequence[int]) -> HostedWhitened:
        """The objectives of the agents ``ids``."""
        return HostedWhitened(self.inner.host(ids), self.mass.L)


def pooled_mass(problem: ProblemBase) -> MassMatrix | None:
    """M of a problem from the parts of all agents; None for X^T X = I. Raise `ProblemError` if singular."""
    if not problem.generalized:
        return None
    hosted = problem.host(range(problem.agents))
    assert isinstance(hosted, GeneralizedHosted)
    n = problem.shape[0]
    return MassMatrix.of(sym(hosted.mass(np.broadcast_to(np.eye(n), (problem.agents, n, n))).mean(axis=0)))
