"""Problems given by functions of X and of an agent's data; see `destiny.problems.custom.problem`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from destiny.errors import ProblemError
from destiny.problems.batches import BatchedObjective, BatchLoop, Draws
from destiny.problems.checks import check_ids, check_p
from destiny.problems.objective_data import BoundObjective, Pair
from destiny.problems.separable import PerAgentLoop, naming
from destiny.problems.sums import Summable
from destiny.validation import check_size

Data: TypeAlias = Sequence[Any] | Callable[[int], Any]
"""The data of each agent, or a function that loads them by the index of the agent."""


class Functions(Summable):
    """A problem given by functions and data; see `destiny.problems.custom.problem`."""

    kind: Literal["custom"] = "custom"

    def __init__(
        self,
        pairs: Pair | Sequence[Pair],
        shape: tuple[int, int],
        data: Data | None,
        agents: int | None,
        draws: Draws | None,
    ) -> None:
        sizes = {
            "functions": len(pairs) if isinstance(pairs, Sequence) else None,
            "data": len(data) if data is not None and not callable(data) else None,
            "agents": None if agents is None else check_size("agents", agents),
        }
        counts = {what: count for what, count in sizes.items() if count is not None}
        if len(set(counts.values())) != 1 or 0 in counts.values():
            found = " and ".join(f"{count} {what}" for what, count in counts.items()) or "neither"
            raise ProblemError(
                f"the number of agents must be told alike by lists of functions or data, or by agents; found "
                f"{found}; give one of each per agent"
            )
        self._pairs, self._data = pairs, data
        self._agents = next(iter(counts.values()))
        if np.shape(shape) != (2,):
            raise ProblemError(
                f"shape must be (n, p), the shape of X; found {shape!r}; give two whole numbers"
            )
        self._shape = (check_size("n", shape[0]), check_p(shape[1], shape[0]))
        self._draws = draws

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p), the shape of X."""
        return self._shape

    @property
    def agents(self) -> int:
        """Number of agents d."""
        return self._agents

    @property
    def batches(self) -> list[tuple[int, int]]:
        """(batch, seed) of its mini-batches, if any."""
        return [] if self._draws is None else [(self._draws.batch, self._draws.seed)]

    def host(self, ids: Sequence[int]) -> PerAgentLoop:
        """The objectives of the agents ``ids``; loads the data of these agents only."""
        objectives = [(i, self._objective(i)) for i in check_ids(ids, self.agents)]
        if self._draws is None:
            return PerAgentLoop(objectives, self._shape)
        batched = [(i, BatchedObjective.of(objective, i, self._draws)) for i, objective in objectives]
        return BatchLoop(batched, self._shape)

    def describe(self) -> str:
        """A sentence on the problem and its data."""
        n, p = self._shape
        batches = "".join(f", mini-batches of {batch} samples" for batch, _ in self.batches)
        return f"Custom problem on {n} x {p} matrices: {self.agents} agents{batches}."

    def _objective(self, agent: int) -> BoundObjective:
        pair = self._pairs[agent] if isinstance(self._pairs, Sequence) else self._pairs
        if self._data is None:
            return BoundObjective(pair, (), {})
        with naming(f"agent {agent}'s data", f"raised on loading agent {agent}'s data"):
            return BoundObjective.of(pair, self._data(agent) if callable(self._data) else self._data[agent])
