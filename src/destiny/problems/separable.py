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
    """What is wrong with a value or data, found where the agent is not known; `naming` puts it in front."""


class Separable(Summable):
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
        self, what: str, shape: tuple[int, ...], X: Array, ask: Callable[[Any, Array], object]
    ) -> Array:
        """Ask every objective at its own X_i; whatever is wrong is told with the agent's name."""
        X = check_stack(X, len(self._objectives), self._shape).view()
        X.flags.writeable = False  # a function that changed X would change the run
        out = np.empty((len(X), *shape))
        for place, (agent, objective) in enumerate(self._objectives):
            name = f"agent {agent}'s {what}"
            with naming(f"agent {agent}'s value", f"raised by {name}"):
                found = ask(objective, X[place])
            out[place] = check_real(found, shape, name)
        return out


@contextmanager
def naming(subject: str, note: str) -> Iterator[None]:
    """Put a name to what goes wrong: in front of our own sentences, below the errors of a user's function."""
    try:
        yield
    except Unnamed as error:
        raise ProblemError(f"{subject} {error}") from None
    except Exception as error:
        error.add_note(note)
        raise


def require_scalar(found: Any) -> None:
    """Refuse what is not one float64 number of an array library, before it is differentiated."""
    if not hasattr(found, "shape") or not hasattr(found, "dtype"):
        raise Unnamed(
            f"must be one number computed from X; found {type(found).__name__}; return a scalar array"
        )
    if tuple(found.shape) != ():
        raise Unnamed(f"must be one number; found shape {tuple(found.shape)}; return the shape expected")
    dtype = str(found.dtype).removeprefix("torch.")
    if dtype != "float64":
        raise Unnamed(f"must be float64; found {dtype}; X is float64, so do not convert it to anything less")
