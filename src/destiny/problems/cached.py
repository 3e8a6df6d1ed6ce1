"""A problem whose agents are hosted once, however many algorithms run on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from destiny.protocols import Array, Hosted, NamedColumns, Problem


class Once:
    """A problem whose agents are hosted once and shared by all algorithms of a file."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.shape, self.agents = problem.shape, problem.agents
        self.kind = getattr(problem, "kind", "")
        self.column_names = dict(problem.column_names) if isinstance(problem, NamedColumns) else {}
        self.hosted: dict[tuple[int, ...], Hosted] = {}

    def describe(self) -> str:
        """As the problem does."""
        return str(self.problem.describe()) if hasattr(self.problem, "describe") else self.kind

    def portrait(self, answers: Mapping[str, Array]) -> dict[str, Any]:
        """As the problem does."""
        return dict(self.problem.portrait(answers)) if hasattr(self.problem, "portrait") else {}

    def host(self, ids: Sequence[int]) -> Hosted:
        """As the problem does, the first time."""
        key = tuple(ids)
        if key not in self.hosted:
            self.hosted[key] = self.problem.host(ids)
        return self.hosted[key]
