"""Sums along the spanning tree of a network, where all rows can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from destiny.protocols import Tree

T = TypeVar("T", np.float64, np.uint64)


def tree_sum(tree: Tree, rows: Sequence[NDArray[T]]) -> NDArray[T]:
    """The sum of one row of each agent, as the agents add them up; one of the rows if there is no other."""
    waiting: dict[int, NDArray[T]] = {}
    for agent in tree.upward:
        total = rows[agent]
        for place, child in enumerate(tree.children[agent]):
            part = waiting.pop(child)
            if place == 0:
                total = total + part
            else:
                total += part
        waiting[agent] = total
    return waiting[tree.root]
