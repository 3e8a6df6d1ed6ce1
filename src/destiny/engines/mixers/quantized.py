"""Quantized messages: an agent sends whole numbers, the rounded difference from what it has sent before.

For every array A of a message an agent keeps two copies, both 0 at first: P, what it has sent, added up, and
M, what its neighbors' P mix to.

    Q = rint((A - P) / unit) unit;  send Q;  P += Q;  M += W Q;  the mixed array is A + (M - P)

Mixing is linear, so that nobody needs the copies of others, and the sum over the agents stays exactly what it
is. The unit is the agent's largest entry of A - P by 127, or by 32,767 for 16 bits: as a run converges,
differences, units and errors go to zero together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny.engines.mixers.plain import KEYS, PLAIN, Links, Messages, Mixer, separate
from destiny.errors import MismatchError, NetworkError, SettingsError
from destiny.protocols import AlgorithmBase, Array, TopologyBase

TYPES: dict[int, type[np.signedinteger[Any]]] = {8: np.int8, 16: np.int16}
OUTSIDE = -1  # number of the call of `mix` where no step is under way
FULL = 64  # bits of a float64 number: nothing is rounded
NARROW = 8  # numbers up to which an array is sent as it is: steps and curvatures, which may not lose a sign
LEAST = 1e-300  # unit: below it nothing has changed, and 1 / unit stays finite
PREFIX = "copies/"  # of the arrays in a checkpoint
WHY = "they tell differences from earlier ones, which a new neighbor has not heard"

Integers = NDArray[np.signedinteger[Any]]
Slot = tuple[int, int]
"""Number of the call of `mix` within a step, and of the array in its message: what shares its copies."""


@dataclass(frozen=True)
class Quantized(Messages):
    """Messages of few bits, on static networks: rounded differences from what was sent before.

    As good as numbers of 64 bits once a run converges, in an eighth or a quarter of the bytes.
    docs/howto/small-messages.md has what that does to rounds and bytes.

    Parameters
    ----------
    bits : 8 or 16
        Of a number.
    """

    bits: int = 8
    few_bits: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.bits, bool) or self.bits not in TYPES:
            raise SettingsError(f"bits must be {' or '.join(map(str, TYPES))}; found {self.bits!r}")

    @classmethod
    def from_key(cls, bits: Any) -> Messages:
        """Of the key ``bits``, 64 for plain messages."""
        if isinstance(bits, bool) or bits not in (*TYPES, FULL):
            raise SettingsError(f"bits must be {', '.join(map(str, TYPES))} or {FULL}; found {bits!r}")
        return PLAIN if bits == FULL else cls(bits)

    def check(self, network: TopologyBase, method: AlgorithmBase) -> None:
        """Refuse networks that change, and methods by exact sums."""
        super().check(network, method)
        if method.about is not None and "totals" in method.about:
            raise MismatchError(
                f"{method.kind} averages by exact totals, which need numbers of {FULL} bits; found {self}: "
                "leave bits out, or use destiny-accelerated"
            )

    def obstacle(self, network: TopologyBase) -> str | None:
        """Whether the network is known to change; one of a user's own is looked at in every round."""
        if not network.changes or network.checked:
            return None
        return (
            f"{self} need a static network, as {WHY}; this one changes from round to round: leave bits out, "
            "or fix the network"
        )

    def mixer(self, hosted: int, agents: int) -> QuantizedMixer:  # noqa: ARG002
        return QuantizedMixer(hosted, self.bits)

    def keys(self) -> dict[str, Any]:
        return {"bits": self.bits}

    def __str__(self) -> str:
        return f"messages of {self.bits} bits"


class QuantizedMixer(Mixer):
    """Gossip by rounded differences; sums over all agents, and all that comes before the steps, are plain.

    A mean of data is found once and for all, in as few rounds as 64 bits need, while steps correct what
    rounding has done to those before.
    """

    def __init__(self, hosted: int, bits: int) -> None:
        self.hosted, self.bits = hosted, bits
        self.begun = False
        self.pairs: dict[tuple[Slot, int], Array] = {}
        """Copies by slot and width, P and M ``(hosted, 2, width)``."""
        self.weights: csr_array[Any, Any] | None = None
        self.call, self.next_call = OUTSIDE, OUTSIDE

    def begin(self, arrays: Mapping[str, Array]) -> None:
        """With the copies of a checkpoint, or none."""
        self.begun = True
        for name, array in arrays.items():
            if name.startswith(PREFIX):
                call, k, width = map(int, name.removeprefix(PREFIX).split("/"))
                if array.shape != (self.hosted, 2, width):
                    raise ValueError(f"{name} has shape {array.shape}")
                self.pairs[(call, k), width] = np.array(array)

    def begin_step(self) -> None:
        """Number the calls of `mix` from here on: each call of a step has copies of its own."""
        self.next_call = 0
        self.pairs = {key: pair for key, pair in self.pairs.items() if key[0][0] != OUTSIDE}

    def begin_call(self, again: bool) -> None:
        """The next number; ``again``, the last one."""
        if not again or self.next_call <= 0:
            self.call = self.next_call
            self.next_call += self.call != OUTSIDE

    def end_steps(self) -> None:
        """From here on messages share the copies of the first call, in which iterates were sent."""
        self.next_call = OUTSIDE
        self.pairs = {((OUTSIDE, k), w): pair for ((call, k), w), pair in self.pairs.items() if call == 0}

    def mix(self, links: Links, blocks: Sequence[Array]) -> list[Array]:
        """The averages, from what the rounded differences mix to; the copies follow."""
        self._require_same(links)
        if not self.begun:
            return super().mix(links, blocks)
        shape = layout(tuple(block.shape[1] for block in blocks), self.bits)
        parts = [self._difference(k, block) for k, block in enumerate(blocks)]
        words, numbers = shape.pack(parts)
        received = links.swap([words, numbers], sum(shape.widths), shape.bytes)
        heard = shape.unpack(*separate(received, [words.shape[1], numbers.shape[1]]))
        mixed = [links.rows @ part for part in heard]
        for k, (block, (unit, whole)) in enumerate(zip(blocks, parts, strict=True)):
            if whole is not None:
                pair = self._copies(k, block)
                pair[:, 0] += whole * unit
                pair[:, 1] += mixed[k]
                mixed[k] = block + (pair[:, 1] - pair[:, 0])
        return mixed

    def _copies(self, k: int, block: Array) -> Array:
        """Those of the k-th array of a message; zeros if it is new."""
        width = block.shape[1]
        return self.pairs.setdefault(((self.call, k), width), np.zeros((self.hosted, 2, width)))

    def _difference(self, k: int, block: Array) -> tuple[Array, Integers | None]:
        """What to send of a block: units and whole numbers, or a narrow block as it is."""
        if block.shape[1] <= NARROW:
            return block, None
        return quantize(block - self._copies(k, block)[:, 0], self.bits)

    def gossip_bytes(self, widths: tuple[int, ...]) -> int:
        return layout(widths, self.bits).bytes

    def arrays(self) -> dict[str, Array]:
        """P and M by slot and width."""
        return {f"{PREFIX}{call}/{k}/{width}": pair for ((call, k), width), pair in self.pairs.items()}

    def _require_same(self, links: Links) -> None:
        before, W = self.weights, links.weights
        if W is before:
            return
        self.weights = W
        if not self.begun or before is None or (before.shape == W.shape and abs(before - W).max() == 0):
            return
        raise NetworkError(
            f"messages of {self.bits} bits need a static network, as {WHY}; this one changed on the way: "
            "leave bits out, or fix the network"
        )


@dataclass(frozen=True)
class Layout:
    """What lies where in a message: first the integers, in words of 64 bits; then the numbers.

    The numbers are the narrow arrays as they are, and the unit of every other, in the order of the arrays.
    """

    widths: tuple[int, ...]
    bits: int

    @property
    def words(self) -> int:
        """Words that hold the integers."""
        size = sum(width for width in self.widths if width > NARROW)
        return -(-size * self.bits // 64)

    @property
    def bytes(self) -> int:
        """Of the message, integers and numbers."""
        return 8 * (self.words + sum(width if width <= NARROW else 1 for width in self.widths))

    def integers(self, words: Array) -> Integers:
        """The memory of the words as integers ``(agents, ...)``."""
        return words.view(TYPES[self.bits])

    def pack(self, parts: Sequence[tuple[Array, Integers | None]]) -> tuple[Array, Array]:
        """Words and numbers of a message, ``(agents, ...)`` both; parts as of `quantize`."""
        numbers = np.concatenate([number for number, _ in parts], axis=1)
        words = np.zeros((len(numbers), self.words))
        start, memory = 0, self.integers(words)
        for _, whole in parts:
            if whole is not None:
                memory[:, start : start + whole.shape[1]] = whole
                start += whole.shape[1]
        return words, numbers

    def unpack(self, words: Array, numbers: Array) -> list[Array]:
        """What `pack` was given, multiplied out, of all agents heard; more numbers may follow."""
        found: list[Array] = []
        start, column, memory = 0, 0, self.integers(words)
        for width in self.widths:
            if width <= NARROW:
                found.append(numbers[:, column : column + width])
                column += width
            else:
                found.append(memory[:, start : start + width] * numbers[:, column : column + 1])
                start, column = start + width, column + 1
        return found


@cache
def layout(widths: tuple[int, ...], bits: int) -> Layout:
    """The layout of messages with arrays of these widths."""
    return Layout(widths, bits)


def quantize(A: Array, bits: int) -> tuple[Array, Integers]:
    """Units ``(agents, 1)`` and whole numbers ``(agents, width)``; their products are nearest to A.

    An agent whose A is not finite has a unit that is not, so that the products are NaN.
    """
    unit = np.abs(A).max(axis=1, keepdims=True) / np.iinfo(TYPES[bits]).max
    unit[unit < LEAST] = 0.0
    usable = np.isfinite(unit) & (unit > 0)
    scaled = A * np.divide(1.0, unit, out=np.zeros_like(unit), where=usable)
    if not usable.all():
        scaled[~usable[:, 0]] = 0.0
    return unit, np.rint(scaled, out=scaled).astype(TYPES[bits])


KEYS["bits"] = Quantized.from_key
