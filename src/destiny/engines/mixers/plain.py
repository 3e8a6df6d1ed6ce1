"""The contract of mixers: how numbers of agents become numbers of the network; plain messages.

A kind of messages is one file with two classes: a frozen `Messages`, which a user chooses, and the `Mixer`
that it makes for the agents of one process or thread. Both bases are plain messages; a file overrides what
differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from destiny import registry
from destiny.engines.tree_sum import Row
from destiny.errors import NetworkError, SettingsError
from destiny.protocols import AlgorithmBase, Array, Bounds, TopologyBase
from destiny.validation import did_you_mean

BYTES = 8  # of a number


class Links(Protocol):
    """The hosted agents and their links in one round, as a mixer sees them (`HostedAgents`)."""

    @property
    def ids(self) -> NDArray[np.intp]:
        """Indices of the hosted agents."""

    @property
    def turn(self) -> int:
        """Number of the exchange that comes next."""

    @property
    def weights(self) -> csr_array[Any, Any]:
        """The mixing matrix of the round ``(d, d)``; the same object for as long as it does not change."""

    @property
    def rows(self) -> csr_array[Any, Any]:
        """Its rows of the hosted agents, with a column for every agent heard."""

    def swap(self, blocks: Sequence[Array], numbers: int, bytes: int) -> Sequence[Array]:
        """Send blocks ``(hosted, k)`` to all neighbors; the same blocks of all agents heard ``(heard, k)``.

        They come as they were given or side by side in one array (`separate`); more columns may follow.
        ``numbers`` and ``bytes`` of one message are counted.
        """

    def sum(self, blocks: Sequence[Row]) -> Sequence[Row]:
        """Sums over all agents along the tree, of rows of float64 or of words; counted."""


class Mixer:
    """How numbers travel from the agents hosted in one place; this one sends them as they are.

    Attributes
    ----------
    exact : bool
        Whether averages are those of all agents, so that a run may claim to have converged.
    bounded : bool
        Whether sums are shorter with bounds, so that methods had better find some.
    """

    exact: bool = True
    bounded: bool = False

    def begin(self, arrays: Mapping[str, Array]) -> None:
        """The steps of a run begin, or go on from the arrays of a checkpoint; ValueError if damaged."""

    def begin_step(self) -> None:
        """A step begins."""

    def begin_call(self, again: bool) -> None:
        """A call of `Agents.mix` begins, on results of the last call if ``again``."""

    def end_steps(self) -> None:
        """The last step is over; what follows are averages of the answer."""

    def mix(self, links: Links, blocks: Sequence[Array]) -> list[Array]:
        """One gossip round: weighted averages of the neighbors' blocks ``(hosted, k)``."""
        widths = [block.shape[1] for block in blocks]
        received = links.swap(blocks, sum(widths), BYTES * sum(widths))
        # CSR times dense adds the neighbors in the order of their index: the same bits on every engine.
        return separate([links.rows @ block for block in received], widths)

    def all_reduce(self, links: Links, blocks: Sequence[Array], bounds: Bounds) -> Sequence[Array]:  # noqa: ARG002
        """Sums over all agents ``(k,)`` of blocks ``(hosted, k)``."""
        return links.sum(blocks)

    def gossip_bytes(self, widths: tuple[int, ...]) -> int:
        """Bytes of a message of `mix` with arrays of these widths."""
        return BYTES * sum(widths)

    def sum_numbers(self, widths: Sequence[int], bounds: Bounds) -> int:  # noqa: ARG002
        """Numbers of 8 bytes in a message of `all_reduce`."""
        return sum(widths)

    def arrays(self) -> dict[str, Array]:
        """What a checkpoint must keep, agents on axis 0."""
        return {}


@dataclass(frozen=True)
class Messages:
    """How messages travel: the option ``messages`` of a run; this one is "plain"."""

    exact: ClassVar[bool] = Mixer.exact
    private: ClassVar[bool] = False
    """Whether agents learn sums over all agents and nothing else: there are no gossip rounds then."""
    few_bits: ClassVar[bool] = False
    """Whether numbers are rounded, so that sums over all agents would not be exact."""

    def check(self, network: TopologyBase, method: AlgorithmBase) -> None:  # noqa: ARG002
        """Refuse a network or a method that such messages cannot serve."""
        if (why := self.obstacle(network)) is not None:
            raise NetworkError(why)

    def obstacle(self, network: TopologyBase) -> str | None:  # noqa: ARG002
        """Why they cannot travel on this network, or None."""
        return None

    def mixer(self, hosted: int, agents: int) -> Mixer:  # noqa: ARG002
        """What so many agents hosted in one place, of so many in all, mix by."""
        return Mixer()

    def keys(self) -> dict[str, Any]:
        """As keys of [messages] in a file, and in the summary of a result."""
        return {}

    def remarks(self) -> list[str]:
        """What the notes of a result say of them."""
        return []

    def __str__(self) -> str:
        return "plain messages"


PLAIN = Messages()
NAMES: dict[str, Messages] = {"plain": PLAIN}
"""Kinds without settings, by the name that a user may give; a file adds its own."""
KEYS: dict[str, Callable[[Any], Messages]] = {}
"""Keys of [messages] in a file, and the messages that a value asks for; a file adds its own."""


def as_messages(given: object) -> Messages:
    """The option ``messages`` of a run; `SettingsError` if it is something else."""
    if isinstance(given, Messages):
        return given
    if isinstance(given, str) and given in NAMES:
        return NAMES[given]
    near = did_you_mean(given, NAMES) if isinstance(given, str) else ""
    raise SettingsError(
        'messages must be "plain", "private", or an object such as destiny.Quantized(8); '
        f"found {given!r}{near}"
    )


def message_keys() -> dict[str, Callable[[Any], Messages]]:
    """Keys of [messages], with those of extensions, and the messages that a value asks for."""
    added = registry.message_keys()
    return KEYS | {name: key.read for name, key in added.items() if key.read is not None}


def from_keys(table: Mapping[str, Any]) -> Messages:
    """The messages of a table [messages], of whose keys one may ask for something."""
    asked = {
        key: found
        for key, read in message_keys().items()
        if key in table and (found := read(table[key])) != PLAIN
    }
    if len(asked) > 1:
        raise SettingsError(
            f"there must be one kind of messages; found {' and '.join(map(str, asked.values()))}: leave out "
            f"one of {', '.join(asked)}"
        )
    return next(iter(asked.values()), PLAIN)


def separate(received: Sequence[Array], widths: Sequence[int]) -> list[Array]:
    """Blocks of these widths, each in an array of its own, where they may lie side by side in one."""
    if len(received) >= len(widths) and received[0].shape[1] == widths[0]:
        return list(received[: len(widths)])
    ends = accumulate(widths)
    return [
        np.ascontiguousarray(received[0][:, end - width : end])
        for end, width in zip(ends, widths, strict=True)
    ]
