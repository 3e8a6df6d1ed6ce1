"""Problems of your own: any objectives with a value and a gradient, and a check that the two agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from destiny.errors import ProblemError
from destiny.problems.checks import check_ids, check_p, check_real, check_stack
from destiny.problems.taylor import GradientCheck, check_gradient
from destiny.types import Array, Objective

__all__ = ["GradientCheck", "Loop", "Separable", "check_gradient"]


class Separable:
    """A problem made of any d objectives, one per agent.

    Parameters
    ----------
    objectives : sequence of Objective
        Objects with ``value(X) -> float`` and ``gradient(X) -> (n, p)`` for X ``(n, p)``.
    shape : (n, p)

    Examples
    --------
    >>> class Linear:
    ...     def value(self, X): return float(X[0, 0])
    ...     def gradient(self, X): return np.array([[1.0], [0.0], [0.0]])
    >>> problem = Separable([Linear(), Linear()], shape=(3, 1))
    >>> problem.host([0, 1]).value(np.ones((2, 3, 1)))
    array([1., 1.])
    """

    kind: Literal["custom"] = "custom"

    def __init__(self, objectives: Sequence[Objective], shape: tuple[int, int]) -> None:
        if len(objectives) == 0:
            raise ProblemError("a problem needs at least one agent; found no objectives; give one per agent")
        for agent, objective in enumerate(objectives):
            for method in ("value", "gradient"):
                if not callable(getattr(objective, method, None)):
                    raise ProblemError(
                        f"agent {agent}'s objective must have value(X) and gradient(X); found "
                        f"{type(objective).__name__} without {method}; add the method"
                    )
        n, p = shape
        self._objectives = tuple(objectives)
        self._shape = (n, check_p(p, n))

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p)."""
        return self._shape

    @property
    def agents(self) -> int:
        """d."""
        return len(self._objectives)

    def host(self, ids: Sequence[int]) -> Loop:
        """The objectives of the agents ``ids``."""
        return Loop([(i, self._objectives[i]) for i in check_ids(ids, self.agents)], self._shape)

    def describe(self) -> str:
        """The problem in one sentence."""
        n, p = self._shape
        return f"Custom problem on {n} x {p} matrices: {self.agents} agents hold one objective each."


class Loop:
    """Objectives of the hosted agents, one after the other; NaN and infinity are passed on as they are."""

    def __init__(self, objectives: Sequence[tuple[int, Objective]], shape: tuple[int, int]) -> None:
        self._objectives = objectives
        self._shape = shape

    def value(self, X: Array) -> Array:
        """f_i(X_i), ``(agents,)``."""
        X = check_stack(X, len(self._objectives), self._shape)
        out = np.empty(len(X))
        for place, (agent, objective) in enumerate(self._objectives):
            out[place] = check_real(objective.value(X[place]), (), f"agent {agent}'s value")
        return out

    def gradient(self, X: Array) -> Array:
        """Euclidean gradients, ``(agents, n, p)``."""
        X = check_stack(X, len(self._objectives), self._shape)
        out = np.empty_like(X)
        for place, (agent, objective) in enumerate(self._objectives):
            out[place] = check_real(objective.gradient(X[place]), self._shape, f"agent {agent}'s gradient")
        return out
