"""Problems of a class of the user's own: wrapped once, so that they have all members of `ProblemBase`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard, TypeVar

from destiny.errors import ProblemError
from destiny.protocols import Hosted, Problem, ProblemBase, forward

REQUIRED = ("shape", "agents", "host")
Kind = TypeVar("Kind")


@forward
class WrappedProblem(ProblemBase):
    """A problem around another: members it does not define are those of ``inner``, or the defaults."""

    def __init__(self, inner: Problem) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return repr(self.inner)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n, p) of X."""
        return self.inner.shape

    @property
    def agents(self) -> int:
        """Number of agents d."""
        return self.inner.agents

    def host(self, ids: Sequence[int]) -> Hosted:
        return self.inner.host(ids)

    @property
    def kind(self) -> str:
        """That of ``inner``, by default the name of its class."""
        return str(getattr(self.inner, "kind", type(self.inner).__name__))

    @property
    def principal_axes(self) -> bool:
        """That of ``inner``, by default whether its kind is "pca"."""
        return bool(getattr(self.inner, "principal_axes", self.kind == "pca"))


def unwrap(problem: object, kind: type[Kind]) -> Kind | None:
    """The problem of class ``kind`` within those that wrap it, by their ``inner``; None if there is none."""
    while not isinstance(problem, kind):
        if not isinstance(problem, ProblemBase):
            return None
        problem = getattr(problem, "inner", None)
    return problem


def is_problem(given: object) -> TypeGuard[Problem]:
    """Whether something can host agents."""
    return hasattr(given, "host") and not isinstance(given, type)


def as_problem(given: object) -> ProblemBase:
    """The problem itself if it derives from `ProblemBase`, wrapped otherwise.

    `ProblemError` if it is none.
    """
    if isinstance(given, ProblemBase):
        return given
    if not is_problem(given):
        raise ProblemError(
            f"problem must be one of destiny.problems or a list of objectives; found {given!r}"
        )
    if missing := [name for name in REQUIRED if not hasattr(given, name)]:
        raise ProblemError(
            f"a problem must have {', '.join(REQUIRED)}; found {type(given).__name__} without "
            f"{' and '.join(missing)}; add what is missing"
        )
    return WrappedProblem(given)
