"""One agent's objective: functions, the data bound to their arguments, and subsets of the samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from destiny.protocols import Array


def _read_only(leaf: Any) -> Any:
    """A read-only view of an array: a function that changed its data would change its objective."""
    if isinstance(leaf, np.ndarray):
        leaf = leaf.view()
        leaf.flags.writeable = False
    return leaf


def _rows(leaf: Any, rows: Any) -> Any:
    return leaf[rows]


@dataclass(frozen=True)
class Pair:
    """A value and its gradient as functions of a NumPy array X and of an agent's data."""

    value: Callable[..., Any]
    gradient: Callable[..., Any]
    convert: Callable[[Any], Any] = _read_only
    """Applied once to every array of the data."""
    take: Callable[[Any, Any], Any] = _rows
    """``(array, rows)`` -> these rows of a converted array."""


@dataclass(frozen=True)
class BoundObjective:
    """One agent's objective (`destiny.protocols.Objective`): functions bound to data."""

    pair: Pair
    args: tuple[Any, ...]
    named: Mapping[str, Any]

    @classmethod
    def of(cls, pair: Pair, data: Any) -> BoundObjective:
        """Bind a tuple as positional, a dict as keyword arguments, anything else as one argument."""
        data = map_leaves(pair.convert, data)
        if isinstance(data, dict):
            return cls(pair, (), data)
        return cls(pair, data if isinstance(data, tuple) else (data,), {})

    def value(self, X: Array) -> Any:
        """f_i(X)."""
        return self.pair.value(X, *self.args, **self.named)

    def gradient(self, X: Array) -> Any:
        """Euclidean gradient of f_i at X."""
        return self.pair.gradient(X, *self.args, **self.named)

    def leaves(self) -> Iterator[Any]:
        """All arrays and other objects inside the data."""
        leaves: list[Any] = []
        map_leaves(leaves.append, (self.args, dict(self.named)))
        return iter(leaves)

    def take(self, rows: Any) -> BoundObjective:
        """The same objective on the given rows of every array."""

        def cut(leaf: Any) -> Any:
            return self.pair.take(leaf, rows) if getattr(leaf, "ndim", 0) else leaf

        args, named = map_leaves(cut, (self.args, dict(self.named)))
        return replace(self, args=args, named=named)


def map_leaves(function: Callable[[Any], Any], data: Any) -> Any:
    """Apply a function to every object inside nested tuples, lists and dicts; return the same structure."""
    if isinstance(data, dict):
        return {key: map_leaves(function, part) for key, part in data.items()}
    if type(data) in (tuple, list):
        return type(data)(map_leaves(function, part) for part in data)
    return function(data)
