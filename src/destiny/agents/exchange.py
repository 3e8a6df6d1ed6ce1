"""A round's messages between an agent and its neighbours (`destiny.engines.hosted.Exchange`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from destiny.agents.outbox import Sent
from destiny.agents.transport.connections import Hub
from destiny.agents.transport.event_loop import Absent, Ended
from destiny.agents.transport.messages import HEADER, Refused, finite
from destiny.agents.transport.neighbour import Neighbour
from destiny.engines.hosted import rows_of
from destiny.errors import DestinyError, SettingsError
from destiny.protocols import Array, Topology

FURTHEST = 100_000  # rounds ahead to look for one in which a link is up again
KEPT = 16  # rounds whose links are remembered: as far as neighbours are apart


class Exchange:
    """One message per neighbour and round, the same to all; sent again to whoever asks.

    Parameters
    ----------
    hub : Hub
    network : Topology
        The agent's own row of the weights is all that is looked at.
    index : int
        This agent.
    sent : Sent
        What it sent before it was restarted.
    """

    def __init__(self, hub: Hub, network: Topology, index: int, sent: Sent) -> None:
        self.hub, self.network, self.sent = hub, network, sent
        self.ids = np.array([index], dtype=np.intp)
        self.round = sent.end
        self.changes = not hasattr(network, "diameter")
        self.links: dict[int, frozenset[int]] = {}
        self.buffer: Array = np.empty((0, 0))

    # What the algorithm asks for

    def adopt(self, W: csr_array[Any, Any]) -> csr_array[Any, Any]:
        """The agent's row, with a column for every agent it hears."""
        heard, rows = rows_of(W, self.ids)
        self.places = {int(agent): place for place, agent in enumerate(heard)}
        self.heard = [n for n in self.hub.neighbours if n.index in self.places]
        return rows

    def swap(self, round: int, blocks: Sequence[Array]) -> Sequence[Array]:
        """One round: send to all, wait for all, put them in the order of their index."""
        numbers = self.sent.add(round, self.hub.mark, list(blocks))
        if not finite(numbers):
            self.give_up(f"diverged: its numbers were not finite any more in round {round}")
        self.round = round
        for n in self.heard:
            self.hub.pump(n)
        try:
            self.hub.wait(self.all_here)
        except Absent:
            raise self.absent() from None
        if self.buffer.shape != (len(self.places), numbers.size):
            self.buffer = np.empty((len(self.places), numbers.size))
        self.buffer[self.places[int(self.ids[0])]] = numbers
        for n in self.heard:
            message = n.take()
            self.buffer[self.places[n.index]] = np.frombuffer(message.memory, count=numbers.size)
            n.give_back(message)
        self.hub.rounds += 1
        return [self.buffer]

    def all_here(self) -> bool:
        """Whether all messages of this round are here; one that came early and does not fit is refused."""
        due = self.size(self.round)
        for n in self.heard:
            if not n.inbox:
                return False
            if n.inbox[0].length != due:
                found = n.inbox[0].length
                n.forget_unread(self.round)
                if n.link is not None:
                    n.link.refuse(f"sent {found} bytes for round {self.round}, expected {due}")
                return False
        return True

    def give_up(self, why: str) -> None:
        """Nobody can go on without this agent's numbers: tell them, and end."""
        self.hub.say_bye(why)
        raise Ended(f"{why}; try a smaller step or a larger beta, in a new run")

    def absent(self) -> DestinyError:
        """Who has not come, and why as far as we know."""
        late = [n for n in self.heard if not n.inbox]
        told = " and ".join(
            f"{n.name} has not sent round {self.round} for {self.hub.patience:g} s: it "
            + (n.trouble if n.link is None else "is connected and may itself be waiting for somebody")
            for n in late
        )
        # A disagreement is for people to settle; anybody else may just be started again.
        disagree = all(n.wrong and n.link is None for n in late)
        return SettingsError(told) if late and disagree else Absent(told)

    # What the hub asks for (`destiny.agents.transport.connections.Post`)

    def due(self, peer: Neighbour) -> int:
        """The round that must come next from a neighbour."""
        return self.next_up(peer, peer.need)

    def size(self, round: int) -> int | None:
        """Bytes of everybody's message of a round, as soon as our own is there."""
        mine = self.sent.messages.get(round)
        return None if mine is None else len(mine) - HEADER.size

    def pump(self, peer: Neighbour) -> None:
        """Write what a neighbour lacks, as far as it reads."""
        link = peer.link
        while link is not None and not (link.paused or link.dead or link.said_bye):
            k = self.next_up(peer, link.next_out)
            if k not in self.sent.messages:
                return
            link.write(self.sent.messages[k])
            link.next_out = k + 1

    def serves(self, peer: Neighbour, need: int, mark: int) -> None:
        """Refuse a neighbour that needs a round nobody has any more, or claims what cannot be."""
        if need < self.sent.first:
            raise Refused(
                f"needs round {need}, but what was sent before round {self.sent.first} is gone: "
                "its checkpoints were lost or are of another time; all agents must start a new run"
            )
        if need > (most := self.most_received(peer)):
            raise Refused(f"says that it has all rounds before {need}, but can have those before {most} only")
        if mark > self.next_up(peer, need):
            raise Refused(f"says that it needs round {need}, and no round before {mark}: one must be wrong")

    def most_received(self, peer: Neighbour) -> int:
        """A neighbour cannot have this round or later ones of this agent.

        How far an earlier process of this agent came is known from the neighbours' first HELLOs alone.
        """
        if peer.connections == 0:
            return self.hub.limits.rounds
        return max(peer.received, self.next_up(peer, self.sent.end))

    def learnt(self, peer: Neighbour) -> None:  # noqa: ARG002
        """A neighbour's mark has moved: what all of them have for good can go, but not this round.

        Neighbours are further than an agent that had to go back to the checkpoint before its newest.
        """
        self.sent.prune(min(self.round, *(n.durable for n in self.hub.neighbours)))

    def next_up(self, peer: Neighbour, round: int) -> int:
        """The first round from this one on in which the link to a neighbour is up."""
        if not self.changes:
            return round
        for k in range(round, round + FURTHEST):
            if peer.index in self.up(k):
                return k
        raise Refused(f"has no link that is up from round {round} on")

    def up(self, round: int) -> frozenset[int]:
        """Who is heard in a round."""
        if round not in self.links:
            W = self.network.at(round)
            mine = slice(W.indptr[self.ids[0]], W.indptr[self.ids[0] + 1])
            self.links[round] = frozenset(W.indices[mine].tolist())
            while len(self.links) > KEPT:
                del self.links[next(iter(self.links))]
        return self.links[round]
