"""Any objectives with a value and a gradient, one per agent, evaluated one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from destiny.errors import ProblemError
from destiny.problems.checks import check_ids, check_p, check_real, check_stack
from destiny.problems.sums import Summable
from destiny.protocols import Array, Objective


class Unnamed(ProblemError):
    """An error of a function that does not know its agent; `naming` adds the subject of the sentence."""


class Separable(Summable):
    """A problem of d objectives, one per agent.

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
        """(n, p), the shape of X."""
        return self._shape

    @property
    def agents(self) -> int:
        """Number of agents d."""
        return len(self._objectives)

    def host(self, ids: Sequence[int]) -> PerAgentLoop:
        """The objectives of the agents ``ids``."""
        return PerAgentLoop([(i, self._objectives[i]) for i in check_ids(ids, self.agents)], self._shape)

    def describe(self) -> str:
        """A sentence on the problem and its data."""
        n, p = self._shape
        return f"Custom problem on {n} x {p} matrices: {self.agents} agents hold one objective each."


class PerAgentLoop:
    """Objectives of the hosted agents, evaluated one after the other; values may be NaN or infinite."""

    def __init__(self, objectives: Sequence[tuple[int, Any]], shape: tuple[int, int]) -> None:
        self._objectives = objectives
        self._shape = shape

    def value(self, X: Array) -> Array:
        """f_i(X_i), ``(agents,)``."""
        return self._each("value", (), X, lambda objective, Xi: objective.value(Xi))

    def gradient(self, X: Array) -> Array:
        """Euclidean gradients, ``(agents, n, p)``."""
        return self._each("gradient", self._shape, X, lambda objective, Xi: objective.gradient(Xi))

    def _each(
        self, what: str, shape: tuple[int, ...], X: Array, evaluate: Callable[[Any, Array], object]
    ) -> Array:
        """Evaluate every objective at its own X_i; errors name the agent."""
        X = check_stack(X, len(self._objectives), self._shape).view()
        X.flags.writeable = False  # a function must not change X in place
        out = np.empty((len(X), *shape))
        for place, (agent, objective) in enumerate(self._objectives):
            name = f"agent {agent}'s {what}"
            with naming(f"agent {agent}'s value", f"raised by {name}"):
                result = evaluate(objective, X[place])
            out[place] = check_real(result, shape, name)
        return out


@contextmanager
def naming(subject: str, note: str) -> Iterator[None]:
    """Raise `Unnamed` as a `ProblemError` on ``subject``; add ``note`` to any other error."""
    try:
        yield
    except Unnamed as error:
        raise ProblemError(f"{subject} {error}") from None
    except Exception as error:
        error.add_note(note)
        raise


def require_scalar(value: Any) -> None:
    """Raise `Unnamed` unless ``value`` is a float64 array of shape ()."""
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        raise Unnamed(
            f"must be one number computed from X; found {type(value).__name__}; return a scalar array"
        )
    if tuple(value.shape) != ():
        raise Unnamed(f"must be one number; found shape {tuple(value.shape)}; return the shape expected")
    dtype = str(value.dtype).removeprefix("torch.")
    if dtype != "float64":
        raise Unnamed(f"must be float64; found {dtype}; X is float64, so do not convert it to anything less")
