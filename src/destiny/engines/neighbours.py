"""Where an agent finds its neighbours among the agents heard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from destiny.protocols import Array


@dataclass(frozen=True)
class Neighbours:
    """For each hosted agent, where its neighbours are among the agents heard, and their weights."""

    places: list[NDArray[Any]]
    weights: list[Array]

    @classmethod
    def of(cls, W: Any, rows: Any, ids: NDArray[np.intp]) -> Neighbours:
        """From the mixing matrix and its rows of the hosted agents, with a column for every agent heard."""
        places, weights = [], []
        for row, agent in enumerate(ids):
            mine = slice(rows.indptr[row], rows.indptr[row + 1])
            others = W.indices[W.indptr[agent] : W.indptr[agent + 1]] != agent  # in the same order
            places.append(rows.indices[mine][others])
            weights.append(rows.data[mine][others])
        return cls(places, weights)
