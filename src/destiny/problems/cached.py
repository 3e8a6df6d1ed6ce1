"""A problem whose agents are hosted once, however many algorithms run on it."""

from __future__ import annotations

from collections.abc import Sequence

from destiny.problems.own_problem import WrappedProblem
from destiny.protocols import Hosted, Problem


class CachedProblem(WrappedProblem):
    """A problem whose hosted agents are cached, so that several algorithms load the data once."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.hosted: dict[tuple[int, ...], Hosted] = {}

    def host(self, ids: Sequence[int]) -> Hosted:
        """``problem.host(ids)``, cached."""
        key = tuple(ids)
        if key not in self.hosted:
            self.hosted[key] = self.inner.host(ids)
        return self.hosted[key]
