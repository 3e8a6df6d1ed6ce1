"""Problems made of functions of X and an agent's data; made by `destiny.problems.custom.problem`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from destiny.errors import ProblemError
from destiny.problems.batches import Drawn, DrawnLoop
from destiny.problems.checks import check_ids, check_p, check_size
from destiny.problems.objective_data import Held, Pair
from destiny.problems.separable import Loop, naming
from destiny.problems.sums import Summable

Data: TypeAlias = Sequence[Any] | Callable[[int], Any]
"""What each agent holds, or how to load it."""


class Functions(Summable):
    """A problem made of functions and data; see `problem`."""

    kind: Literal["custom"] = "custom"

    def __init__(
        self,
        pairs: Pair | Sequence[Pair],
        shape: tuple[int, int],
        data: Data | None,
        agents: int | None,
        batch: int | None,
        seed: int,
    ) -> None:
        told = {
            "functions": len(pairs) if isinstance(pairs, Sequence) else None,
            "data": len(data) if data is not None and not callable(data) else None,
            "agents": None if agents is None else check_size("agents", agents),
        }
        counts = {what: count for what, count in told.items() if count is not None}
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
        self.batches = [] if batch is None else [(batch, seed)]
        """(batch, seed) of its mini-batches, if any."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p)."""
        return self._shape

    @property
    def agents(self) -> int:
        """d."""
        return self._agents

    def host(self, ids: Sequence[int]) -> Loop:
        """The objectives of the agents ``ids``; asks for their data and no others'."""
        held = [(i, self._held(i)) for i in check_ids(ids, self.agents)]
        if not self.batches:
            return Loop(held, self._shape)
        ((batch, seed),) = self.batches
        drawn = [(i, Drawn.of(objective, i, seed, batch, self._shape)) for i, objective in held]
        return DrawnLoop(drawn, self._shape)

    def describe(self) -> str:
        """The problem in one sentence."""
        n, p = self._shape
        drawn = "".join(f", mini-batches of {batch} samples" for batch, _ in self.batches)
        return f"Custom problem on {n} x {p} matrices: {self.agents} agents{drawn}."

    def _held(self, agent: int) -> Held:
        pair = self._pairs[agent] if isinstance(self._pairs, Sequence) else self._pairs
        if self._data is None:
            return Held(pair, (), {})
        with naming(f"agent {agent}'s data", f"raised on loading agent {agent}'s data"):
            return Held.of(pair, self._data(agent) if callable(self._data) else self._data[agent])
