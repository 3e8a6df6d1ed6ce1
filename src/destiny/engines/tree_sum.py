"""Sums along the spanning tree of a network: how two rows are added, and all rows where they can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from destiny.engines.words import add_into
from destiny.protocols import Tree

Row: TypeAlias = NDArray[Any]
"""Numbers ``(k,)`` in float64, or words ``(k,)`` or ``(k, 6)`` (`destiny.engines.words`)."""


def add_row(total: Row, part: Row) -> None:
    """Add a row to another, in place."""
    if total.dtype == np.float64:
        np.add(total, part, out=total)
    else:
        add_into(total, part)


def tree_sum(tree: Tree, rows: Sequence[Row]) -> Row:
    """The sum of one row of each agent, as the agents add them up: own row, then children by index."""
    waiting: dict[int, Row] = {}
    for agent in tree.upward:
        total = rows[agent]
        if tree.children[agent]:
            total = total.copy()
        for child in tree.children[agent]:
            add_row(total, waiting.pop(child))
        waiting[agent] = total
    return waiting[tree.root]
