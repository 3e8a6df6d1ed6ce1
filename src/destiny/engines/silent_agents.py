"""Agents that compute and send nothing: to learn how large the messages of a method are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from destiny.engines import quantisation
from destiny.engines.hosted import HostedAgents
from destiny.protocols import Array, Bounds

S = TypeVar("S")


class SilentAgents:
    """Stand-in whose `mix` returns its input: shapes of states and sizes of messages without communication.

    Attributes
    ----------
    largest : int
        Numbers in the largest message that an agent would have sent.
    bytes : int
        Bytes of the largest message, with numbers of so many bits.
    """

    def __init__(self, agents: HostedAgents, bits: int = quantisation.FULL) -> None:
        self.ids, self.gradient, self.value = agents.ids, agents.gradient, agents.value
        self.regulariser, self.hessian, self.mass = agents.regulariser, agents.hessian, agents.mass
        self.scales = agents.scales
        self.sampled, self.clipped = agents.sampled, agents.clipped
        self.private, self.private_sums = agents.private, agents.private_sums
        self.bits, self.count = bits, agents.network.agents
        self.largest = self.bytes = 0

    def mix(self, *arrays: Array, rounds: int = 1, again: bool = False) -> tuple[Array, ...]:  # noqa: ARG002
        widths = tuple(a.size // len(self.ids) for a in arrays)
        self.largest = max(self.largest, sum(widths))
        self.bytes = max(self.bytes, quantisation.message_bytes(widths, self.bits))
        return tuple(a.copy() for a in arrays)

    def once(self, compute: Callable[[], S]) -> S:
        return compute()

    def all_reduce(self, *arrays: Array, bounds: Bounds | None = None) -> tuple[Array, ...]:
        blocks = [a.reshape(len(a), -1) for a in arrays]
        size = sum(b.shape[1] for b in blocks)
        if self.private_sums is not None:
            size = self.private_sums.numbers(blocks, [None] * len(blocks) if bounds is None else bounds)
        self.largest, self.bytes = max(self.largest, size), max(self.bytes, 8 * size)
        return tuple(a.copy() for a in arrays)
