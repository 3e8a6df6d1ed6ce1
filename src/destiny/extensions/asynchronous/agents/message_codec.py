"""Messages of asynchronous methods as bytes: all numbers one after the other, in the order of their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from destiny.agents.transport.messages import HEADER, Header, Kind
from destiny.extensions.asynchronous.async_protocol import AsyncAlgorithmBase
from destiny.protocols import Array
from destiny.storage.checkpoint import Saved, flatten, unflatten


class MessageCodec:
    """Packs messages like a template: the shapes are the same at all agents of a run.

    Attributes
    ----------
    size : int
        Numbers of a message.
    """

    def __init__(self, template: Any) -> None:
        self.template = template
        self.shapes = {name: array.shape for name, array in flatten(template).items()}
        self.size = sum(array.size for array in flatten(template).values())

    @property
    def length(self) -> int:
        """Bytes of a message, without its header."""
        return 8 * self.size

    def pack(self, message: Any) -> memoryview:
        """Header and numbers of a message."""
        whole = np.empty(HEADER.size // 8 + self.size)
        packed = whole.data.cast("B")
        packed[: HEADER.size] = Header(Kind.STATE, 0, 0, self.length).pack()
        arrays = flatten(message).values()
        np.concatenate([np.ravel(array) for array in arrays], out=whole[HEADER.size // 8 :])
        return packed

    def unpack(self, content: memoryview) -> Any:
        """The message of some bytes, as many as `length` says."""
        numbers, arrays, at = np.frombuffer(content), {}, 0
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            arrays[name] = numbers[at : at + size].reshape(shape)
            at += size
        return unflatten(self.template, Saved(arrays, {}, {}))

    @classmethod
    def of(cls, method: AsyncAlgorithmBase, shape: tuple[int, int], agents: int) -> MessageCodec:
        """The codec of a method for this shape of X and this number of agents."""
        stranger = StandIn(agents)
        with np.errstate(all="ignore"):
            return cls(method.answer(method.start(np.eye(*shape), stranger), [], stranger)[1])


class StandIn:
    """An agent without data (`LocalAgent`), for the shapes of states and messages."""

    def __init__(self, agents: int, neighbors: Sequence[int] = ()) -> None:
        self.index, self.agents, self.own_weight = 0, agents, 1.0
        self.neighbors, self.weights = np.array(neighbors, dtype=np.intp), np.zeros(len(neighbors))

    def gradient(self, X: Array) -> Array:
        """Any matrix will do."""
        return np.ones_like(X)
