"""Agents without objective and neighbours, for the placeholder of a state that a method may have later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from destiny.protocols import Array

S = TypeVar("S")


@dataclass(frozen=True)
class ZeroAgents:
    """f_i = 0, and nothing is sent (`destiny.protocols.Agents`)."""

    ids: NDArray[np.intp]
    regulariser = None
    private = sampled = clipped = False

    def gradient(self, X: Array, step: int | None = None) -> Array:  # noqa: ARG002
        """0."""
        return np.zeros_like(X)

    def value(self, X: Array) -> Array:
        """0."""
        return np.zeros(len(X))

    def hessian(self) -> None:
        """None is known."""
        return

    def mass(self, X: Array) -> Array:
        """M = I."""
        return X

    def mix(self, *arrays: Array, rounds: int = 1, again: bool = False) -> tuple[Array, ...]:  # noqa: ARG002
        """The arrays themselves."""
        return arrays

    def spanning_tree(self) -> Array:
        """Every agent is a root."""
        return np.tile([-1.0, 0.0], (len(self.ids), 1))

    def exact_mean(self, *arrays: Array, tree: Array | None = None) -> tuple[Array, ...]:  # noqa: ARG002
        """The arrays themselves."""
        return arrays

    def once(self, compute: Callable[[], S]) -> S:
        """Computed at once."""
        return compute()
