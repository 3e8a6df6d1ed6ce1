"""One agent's objective as functions and data: how data reach a function, and how samples are cut out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from destiny.protocols import Array


def _guarded(leaf: Any) -> Any:
    """An array that the function it is handed to cannot change: next time it would be another objective."""
    if isinstance(leaf, np.ndarray):
        leaf = leaf.view()
        leaf.flags.writeable = False
    return leaf


def _rows(leaf: Any, rows: Any) -> Any:
    return leaf[rows]


@dataclass(frozen=True)
class Pair:
    """A value and its gradient as functions of a NumPy X and an agent's data."""

    value: Callable[..., Any]
    gradient: Callable[..., Any]
    convert: Callable[[Any], Any] = _guarded
    """What is done to every array of the data, once."""
    take: Callable[[Any, Any], Any] = _rows
    """Some rows of a converted array."""


@dataclass(frozen=True)
class Held:
    """One agent's objective (`destiny.protocols.Objective`)."""

    pair: Pair
    args: tuple[Any, ...]
    named: Mapping[str, Any]

    @classmethod
    def of(cls, pair: Pair, data: Any) -> Held:
        """A tuple is spread over the arguments, a dict over those it names; the rest is one argument."""
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
        """Every array of the data, and whatever else it holds."""
        found: list[Any] = []
        map_leaves(found.append, (self.args, dict(self.named)))
        return iter(found)

    def take(self, rows: Any) -> Held:
        """The same objective with some of its samples: those rows of every array."""

        def cut(leaf: Any) -> Any:
            return self.pair.take(leaf, rows) if getattr(leaf, "ndim", 0) else leaf

        args, named = map_leaves(cut, (self.args, dict(self.named)))
        return replace(self, args=args, named=named)


def map_leaves(function: Callable[[Any], Any], data: Any) -> Any:
    """Apply a function to whatever lies inside (nested) tuples, lists and dicts."""
    if isinstance(data, dict):
        return {key: map_leaves(function, part) for key, part in data.items()}
    if type(data) in (tuple, list):
        return type(data)(map_leaves(function, part) for part in data)
    return function(data)
