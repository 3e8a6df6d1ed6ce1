"""Averages over the whole network along a spanning tree, the same bits at every agent.

They take three times the rounds in which everybody hears of everybody:

1. *flood*: everybody's distance from agent 0, which makes the tree;
2. *up*: every agent sends what it and the agents below it add up to;
3. *down*: the total travels back.

Methods that average many times look for a tree of few levels first (`find_tree`) and keep it: up and down
then take its depth in rounds, which is that of the most central agent.

Where sums are private, nobody learns more than the average. Rounds of `mix` would tell more than they seem
to: an agent that knows the network can solve the sums it hears for the first numbers of everybody. So agents
add up integers modulo 2^64, whose exponents flood the network first. Between organisations each agent has the
masks of its links added, which cancel in the total over all agents and in nothing less. A word travels as two
numbers below 2^32, as engines move float64.

The root, or whoever passes a total on, could tell different agents different ones. These would go on from
different points, and what one agent sends would follow from the differences of later totals. So neighbours
compare a digest of their last average before they send anything that follows from it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from destiny.engines.fixed_point import (
    DIGEST,
    GRAIN,
    LEAST,
    MOST,
    NOT_FINITE,
    Exponents,
    Integers,
    Layout,
    Neighbours,
    decode,
    encode_to,
)
from destiny.errors import NetworkError
from destiny.protocols import Array

PHASES = 3  # flood, up and down, each as long as everybody takes to hear of everybody
CANDIDATES = 256  # agents that may be the root: a message of `find_tree` has a number for each
FAR = np.finfo(np.float64).max  # distance from agent 0 before it is known: messages must be finite
HALF = np.uint64(32)
LOW = np.uint64(2**32 - 1)
EXACT = np.uint64(64 - 52)  # bits of a word to leave out: below 2^52 it is exact in float64
Words = NDArray[np.uint64]
T = TypeVar("T", np.float64, np.uint64)
Rows: TypeAlias = Array | Sequence[Array]
"""A row of numbers for each of some agents, in one array or in several."""


class TreeAgents(Protocol):
    """What averages along a tree need of the hosted agents (`destiny.engines.hosted.HostedAgents`)."""

    ids: NDArray[np.intp]
    last_mean: Array
    """Digest of the last private average ``(hosted, DIGEST)``; zeros before the first."""

    def tell(self, *blocks: Rows) -> tuple[list[Rows], Neighbours]:
        """One round: the rows of all agents heard, and where the neighbours are among them."""

    def mask_links(self, words: Words, exponents: Integers) -> None:
        """Add the masks of an agent's links to its words, in place, where there are any."""


def find_tree(agents: TreeAgents, count: int, depth: int) -> Array:
    """A spanning tree from the most central agent: ``(hosted, 2)``, the parents, and the depth of the tree.

    Takes 2 ``depth`` rounds: everybody's distances from the candidates, then the largest of all agents. The
    root has -1 for its parent; of equally central agents it is the first.
    """
    candidates = np.arange(min(count, CANDIDATES))
    distances = np.where(agents.ids[:, None] == candidates, 0.0, FAR)
    for _ in range(depth):
        (heard,), neighbours = agents.tell(distances)
        before = np.array(heard)  # what neighbours knew: the distance of the one nearer to a root is among it
        nearest = np.stack([before[places].min(axis=0) for places in neighbours.places])
        distances = np.minimum(distances, nearest + 1)
    if (distances > depth).any():
        raise NetworkError(_too_few(count, int((distances <= depth).sum(axis=1).min()), depth))
    heights = distances
    for _ in range(depth):
        (heard,), neighbours = agents.tell(heights)
        every = np.asarray(heard)
        heights = np.maximum(heights, np.stack([every[places].max(axis=0) for places in neighbours.places]))
    if (heights > depth).any():  # a liar could make everybody pass on a total for ever
        raise NetworkError(
            f"no agent is more than {depth} rounds from another; found {heights.max():g} in what neighbours "
            "tell: some agents lie"
        )
    root = int(np.argmin(heights[0]))  # all hold the same heights by now
    parents = [
        -1 if agent == root else names[np.argmin(before[places, root])]  # the first of the nearest
        for agent, names, places in zip(agents.ids, neighbours.names, neighbours.places, strict=True)
    ]
    return np.column_stack([np.asarray(parents, dtype=np.float64), heights[:, root]])


def tree_mean(
    agents: TreeAgents, own: Sequence[Array], count: int, depth: int, tree: Array | None = None
) -> list[Array]:
    """The network averages of some arrays ``(hosted, width)``.

    Parameters
    ----------
    count : int
        Agents of the network.
    depth : int
        Rounds after which everybody has heard of everybody.
    tree : ndarray (hosted, 2), optional
        That of `find_tree`; without one, agents agree on one first.
    """
    if tree is None:
        _, parents = _flood(agents, np.empty((len(agents.ids), 0), dtype=np.int64), depth)
    else:
        parents, depth = _read_tree(tree)
    return _total(agents, own, parents, count, depth, lambda total: total / count)


def private_mean(
    agents: TreeAgents,
    own: Array,
    columns: Layout,
    count: int,
    depth: int,
    tree: Array | None = None,
    known: Exponents | None = None,
) -> Array:
    """The same, of which nobody learns more than the average; in fixed point, rounded to 2^-50 or better.

    The exponents flood the network in either case. Neighbours hear those of an agent, which tell how large
    its numbers are. Where the same is averaged in every step, ``known`` has the largest of all agents so far,
    and nobody tells a smaller one: who chooses the points could find numbers by where their size changes.
    """
    sizes = columns.exponents(own)
    if known is not None and not known.fresh:
        sizes = np.maximum(sizes, known.table)
    exponents, parents = _flood(agents, sizes, depth, agents.last_mean)
    if known is not None:
        known.uses += 1
        known.table[:] = np.where(exponents == NOT_FINITE, known.table, exponents)
    if tree is not None:
        parents, depth = _read_tree(tree)
    # No sum of all agents exceeds 2^62.
    unit = columns.unit(np.where(exponents == NOT_FINITE, 0, exponents) + math.ceil(math.log2(count)))
    masked = np.empty((len(own), columns.width), dtype=np.uint64)
    broken = (exponents == NOT_FINITE)[columns.group]
    if broken.any():  # these numbers have no unit in which all of them fit, so nobody tells any
        own = np.where(broken, 0.0, own)
    for words, numbers in zip(masked, own, strict=True):
        encode_to(words.view(np.int64), numbers, 1.0, unit)
        agents.mask_links(words, exponents)
    (totals,) = _total(agents, [masked], parents, count, depth, lambda total: total)
    mean = decode(totals.view(np.int64), unit) / count
    mean[:, broken] = np.nan
    agents.last_mean = np.tile(_digest(mean[0]), (len(own), 1))
    return mean


def message_size(width: int, private: bool) -> int:
    """Numbers in the largest message, for averages of so many."""
    return max(1 + 2 * (width + 1), width + 1 + DIGEST) if private else 1 + width + 1


def _digest(mean: Array) -> Array:
    """Numbers that nobody can find another mean for, ``(DIGEST,)``."""
    words = hashlib.blake2b(mean.tobytes(), digest_size=8 * DIGEST).digest()
    return (np.frombuffer(words, dtype="<u8") >> EXACT).astype(np.float64)


def _flood(
    agents: TreeAgents, exponents: Integers, depth: int, last: Array | None = None
) -> tuple[Integers, NDArray[np.intp]]:
    """The largest exponents of all agents, and the parents of the hosted ones in the tree.

    Raises NetworkError if a neighbour has another digest of the ``last`` average, or exponents that no
    numbers have.
    """
    state = np.column_stack([-exponents, np.where(agents.ids == 0, 0.0, FAR)])
    for _ in range(depth):
        heard, neighbours = agents.tell(state) if last is None else agents.tell(state, last)
        others = np.asarray(heard[-1])
        # Of agents that are no neighbours, rows may be of an earlier round.
        if last is not None and any((others[near] != last[0]).any() for near in neighbours.places):
            raise NetworkError(
                "neighbours must have the same averages before they send what follows from them; found "
                "others at a neighbour: an agent on the way has changed them, or files are of another time; "
                "all agents must start a new run"
            )
        every = np.asarray(heard[0])
        for near, names in zip(neighbours.places, neighbours.names, strict=True):
            _check_sizes(-every[near, :-1], names)
        distances = every[:, -1].copy()
        nearest = np.stack([every[places].min(axis=0) for places in neighbours.places])
        nearest[:, -1] += 1
        state = np.minimum(state, nearest)
    largest: Integers = -state[0, :-1].astype(np.int64)
    parents = [
        names[np.argmin(distances[places])]  # the first of the nearest
        for names, places in zip(neighbours.names, neighbours.places, strict=True)
    ]
    return largest, np.where(agents.ids == 0, -1, parents).astype(np.intp)


def _check_sizes(exponents: Array, names: NDArray[Any]) -> None:
    """Raise NetworkError if a neighbour's exponents, a row for each of ``names``, are none."""
    on_grid = (exponents >= LEAST) & (exponents <= MOST) & (exponents % GRAIN == 0)
    wrong = ~(on_grid | (exponents == NOT_FINITE))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise NetworkError(
            f"exponents of numbers must be multiples of {GRAIN} from {LEAST} to {MOST}; found "
            f"{exponents[row, column]:g} from agent {names[row]}, who has sent a false number"
        )


def _total(
    agents: TreeAgents,
    own: Sequence[NDArray[T]],
    parents: NDArray[np.intp],
    count: int,
    depth: int,
    finish: Callable[[NDArray[T]], NDArray[T]],
) -> list[NDArray[T]]:
    """What ``finish`` makes of the sums over all agents, at every hosted one; the root applies it."""
    parts = list(own)
    parts.append(np.ones((len(parents), 1), dtype=own[0].dtype))  # count the agents
    sums = _up(agents, parts, parents, depth)
    for root in np.flatnonzero(parents < 0).tolist():
        for rows in sums[:-1]:
            rows[root] = finish(rows[root])
    totals = _down(agents, sums, parents, depth)
    counted = totals.pop()
    if (counted != count).any():
        raise NetworkError(_too_few(count, int(counted.min()), depth))
    return totals


def _too_few(count: int, found: int, depth: int) -> str:
    return (
        f"a total must be over {count} agents; found {found}: the network is not connected, some agents "
        f"need more than the {depth} rounds given as diameter to hear of others, or they send false numbers"
    )


def _read_tree(tree: Array) -> tuple[NDArray[np.intp], int]:
    """Parents and depth of a tree of `find_tree`; raise NetworkError if it is none."""
    if not np.isfinite(tree).all():
        raise NetworkError(
            "a tree for totals must be of numbers of agents; found NaN or infinity: some agents lie"
        )
    return tree[:, 0].astype(np.intp), int(tree[0, 1])


def _up(
    agents: TreeAgents, parts: Sequence[NDArray[T]], parents: NDArray[np.intp], depth: int
) -> list[list[NDArray[T]]]:
    """What every hosted agent and those below it add up to, children in the order of their index."""
    sums = [list(part) for part in parts]
    for _ in range(depth):
        heard, neighbours = agents.tell(*map(_split, sums), parents[:, None].astype(np.float64))
        below = np.asarray(heard[-1])[:, 0]
        children = [
            places[below[places] == i] for i, places in zip(agents.ids, neighbours.places, strict=True)
        ]
        # Rows that were sent never change: others may still read them.
        sums = [
            [_add(own, block, places) for own, places in zip(part, children, strict=True)]
            for part, block in zip(parts, heard[:-1], strict=True)
        ]
    return sums


def _add(own: NDArray[T], heard: Rows, places: NDArray[np.intp]) -> NDArray[T]:
    """Own numbers plus those at some places; the same array if there are none."""
    if len(places) == 0:
        return own
    total = own.copy()
    for place in places:
        total += _join(heard[place], own.dtype)
    return total


def _down(
    agents: TreeAgents, sums: Sequence[Sequence[NDArray[T]]], parents: NDArray[np.intp], depth: int
) -> list[NDArray[T]]:
    """The sums of the root, at every agent; the last are counts, which are 0 where there is no total yet."""
    nothing = [np.broadcast_to(np.zeros(1, dtype=rows[0].dtype), rows[0].shape) for rows in sums]
    known = parents < 0
    totals = [
        [row if done else zeros for row, done in zip(rows, known, strict=True)]
        for rows, zeros in zip(sums, nothing, strict=True)
    ]
    for _ in range(depth):
        heard, neighbours = agents.tell(*map(_split, totals))
        for row, (parent, places, names) in enumerate(
            zip(parents, neighbours.places, neighbours.names, strict=True)
        ):
            for source in [] if known[row] else places[names == parent]:
                if np.any(heard[-1][source]):
                    for total, block in zip(totals, heard, strict=True):
                        numbers = _join(block[source], total[row].dtype)
                        # Rows of agents in this process stay as they are, what came from others does not.
                        total[row] = numbers if isinstance(block, list) else numbers.copy()
                    known[row] = True
    return [_stack(total) for total in totals]


def _stack(rows: Sequence[NDArray[T]]) -> NDArray[T]:
    """Rows as one array that nobody may write to, as others may still read it; one row is stored once."""
    if all(row is rows[0] for row in rows):
        return np.broadcast_to(rows[0], (len(rows), len(rows[0])))
    stack = np.stack(rows)
    stack.flags.writeable = False
    return stack


def _split(rows: Sequence[NDArray[T]]) -> Rows:
    """Numbers as they are, rows of words ``(k,)`` as numbers ``(2 k,)``."""
    if rows[0].dtype == np.float64:
        return [np.asarray(row, dtype=np.float64) for row in rows]
    words = np.asarray(rows, dtype=np.uint64)
    return np.concatenate([words >> HALF, words & LOW], axis=1).astype(np.float64)


def _join(numbers: Array, dtype: np.dtype[T]) -> NDArray[T]:
    """The inverse of `_split`, of one row."""
    if dtype == np.float64:
        return numbers.astype(dtype, copy=False)
    high, low = np.split(numbers.astype(np.uint64), 2)
    return ((high << HALF) | low).astype(dtype, copy=False)
