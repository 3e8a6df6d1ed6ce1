"""Agents that compute and send nothing: to learn how large the messages of a method are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from destiny.engines.hosted import HostedAgents
from destiny.engines.mixers.plain import BYTES
from destiny.protocols import Agents, Array, Bounds, forward

S = TypeVar("S")


@forward
class SilentAgents(Agents):
    """Stand-in whose `mix` returns its input: shapes of states and sizes of messages without communication.

    Attributes
    ----------
    largest : int
        Numbers in the largest message that an agent would have sent.
    bytes : int
        Bytes of the largest message.
    """

    def __init__(self, inner: HostedAgents) -> None:
        self.inner = inner
        self.largest = self.bytes = 0

    def mix(self, *arrays: Array, rounds: int = 1, again: bool = False) -> tuple[Array, ...]:  # noqa: ARG002
        widths = self._widths(arrays)
        self.largest = max(self.largest, sum(widths))
        self.bytes = max(self.bytes, self.inner.mixer.gossip_bytes(widths))
        return tuple(a.copy() for a in arrays)

    def once(self, compute: Callable[[], S]) -> S:
        return compute()

    def all_reduce(self, *arrays: Array, bounds: Bounds | None = None) -> tuple[Array, ...]:
        limits = [None] * len(arrays) if bounds is None else bounds
        size = self.inner.mixer.sum_numbers(self._widths(arrays), limits)
        self.largest, self.bytes = max(self.largest, size), max(self.bytes, BYTES * size)
        return tuple(a.copy() for a in arrays)

    def _widths(self, arrays: tuple[Array, ...]) -> tuple[int, ...]:
        return tuple(a.size // len(self.inner.ids) for a in arrays)


def silent(agents: HostedAgents) -> SilentAgents:
    """The stand-in of some agents."""
    return SilentAgents(agents)  # type: ignore[abstract]  # `forward` adds the rest
