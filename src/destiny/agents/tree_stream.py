"""One sum along the tree at one agent: what has come is added and passed on before the rest is here.

Long messages would otherwise wait at every level of the tree until they are complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from destiny.agents.outbox import Sent, To
from destiny.agents.transport.messages import Refusal
from destiny.agents.transport.neighbor import Neighbor
from destiny.engines.tree_sum import Row, add_row

PIECE = 2**16  # bytes that are added and passed on together, at least, unless they are the last


class TreeStream:
    """The messages of one sum.

    Parameters
    ----------
    rows : sequence of ndarray
        The numbers or words of this agent, contiguous; the message has their bytes one after the other.
    parent : Neighbor or None
        None at the root.
    children : sequence of Neighbor
        In the order of their index.

    Attributes
    ----------
    totals : list of ndarray
        The sums over all agents, as far as they have come.
    messages : dict from To to Sent
        What goes to the parent and to the children.
    blamed : Neighbor or None
        Whose numbers were not finite, if `advance` raises Refusal.
    """

    def __init__(self, rows: Sequence[Row], parent: Neighbor | None, children: Sequence[Neighbor]) -> None:
        self.parent, self.children = parent, list(children)
        self.ends = np.cumsum([row.nbytes for row in rows]).tolist()
        self.size: int = self.ends[-1]
        up, self.parts = _message_like(rows)  # own rows, and what comes of the children
        for part, row in zip(self.parts, rows, strict=True):
            part[:] = row
        down, self.totals = (up, self.parts) if parent is None else _message_like(rows)
        self.added = self.passed = 0  # bytes added up, and bytes of the total that are here
        self.is_finite = True
        self.blamed: Neighbor | None = None
        self.messages: dict[To, Sent] = {}
        if parent is not None:
            self.messages[To.PARENT] = Sent(up, 0)
        if children:
            self.messages[To.CHILDREN] = Sent(down, 0)

    @property
    def done(self) -> bool:
        """Whether the whole total is here."""
        return self.passed == self.size

    def advance(self, turn: int) -> bool:
        """Add and pass on what has come; whether there is more to send than before."""
        before = self.added, self.passed
        self._add(turn)
        if self.parent is None:
            self.passed = self.added
        else:
            self._pass_on(self.parent, turn)
        if To.PARENT in self.messages:
            self.messages[To.PARENT].ready = self.added
        if To.CHILDREN in self.messages:
            self.messages[To.CHILDREN].ready = self.passed
        return before != (self.added, self.passed)

    def _add(self, turn: int) -> None:
        here = min((child.available(turn) for child in self.children), default=self.size)
        for place, part, start, stop in self._slices(self.added, self._whole(here, self.added)):
            target = self.parts[place][part]
            for row in [self._read(child, turn, place, start, stop) for child in self.children]:
                add_row(target, row)
            self.is_finite &= target.dtype != np.float64 or bool(np.isfinite(target).all())
            self.added = stop

    def _pass_on(self, parent: Neighbor, turn: int) -> None:
        end = self._whole(parent.available(turn), self.passed)
        for place, part, start, stop in self._slices(self.passed, end):
            self.totals[place][part] = self._read(parent, turn, place, start, stop)
            self.passed = stop

    def _read(self, peer: Neighbor, turn: int, place: int, start: int, stop: int) -> Row:
        """Some bytes of a neighbor's message, as a part of a row; Refusal if they are not finite."""
        like = self.parts[place]
        row = np.frombuffer(peer.content()[start:stop], dtype=like.dtype).reshape(-1, *like.shape[1:])
        if like.dtype == np.float64 and not np.isfinite(row).all():
            self.blamed = peer
            raise Refusal(f"sent numbers that are not finite in turn {turn}")
        return row

    def _whole(self, available: int, done: int) -> int:
        """The end of the last whole number among the bytes here, or ``done`` if it is not worth it."""
        if available < self.size and available - done < PIECE:
            return done
        place = next(k for k, end in enumerate(self.ends) if available <= end)
        start = 0 if place == 0 else self.ends[place - 1]
        item = self.parts[place][:1].nbytes
        return max(done, start + (available - start) // item * item if item else available)

    def _slices(self, start: int, stop: int) -> Iterator[tuple[int, slice, int, int]]:
        """The rows between two bytes: which, which part of it, and its bytes in the message."""
        first = 0
        for place, end in enumerate(self.ends):
            low, high = max(start, first), min(stop, end)
            if low < high:
                item = self.parts[place][:1].nbytes
                yield place, slice((low - first) // item, (high - first) // item), low, high
            first = end


def _message_like(rows: Sequence[Row]) -> tuple[memoryview, list[Row]]:
    """Memory for a message, and the rows in it."""
    memory = np.empty(sum(row.nbytes for row in rows), dtype=np.uint8)
    parts = np.split(memory, np.cumsum([row.nbytes for row in rows])[:-1])
    return memory.data, [p.view(row.dtype).reshape(row.shape) for p, row in zip(parts, rows, strict=True)]
