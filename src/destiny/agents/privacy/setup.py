"""What one agent needs for private sums, from its settings and its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from destiny.agents.outbox import Outbox
from destiny.agents.privacy.exchange import PrivateExchange
from destiny.agents.privacy.key_ring import KeyRing, Party
from destiny.agents.privacy.sent_log import SentLog
from destiny.agents.settings import Settings
from destiny.agents.transport.connections import Connections
from destiny.networks.local_view import Neighbourhood
from destiny.protocols import TopologyBase


@dataclass(frozen=True)
class Privacy:
    """The keys of a run, and the log of what was sent under masks."""

    keys: KeyRing
    log: SentLog

    @classmethod
    def open(cls, settings: Settings, folder: Path, rounds: int) -> Privacy:
        """Keys and log in the folder of the checkpoints; raises CheckpointError if one is lost or damaged."""
        log = SentLog(folder, settings.run, rounds)
        party = Party(
            settings.run,
            settings.name,
            settings.index,
            settings.agents,
            settings.files,
            neighbours_around(settings),
            settings.participants,
        )
        return cls(KeyRing.open(party, folder, begun=log.before > 0), log)

    def exchange(
        self, connections: Connections, network: TopologyBase, index: int, outbox: Outbox
    ) -> PrivateExchange:
        """The exchange of a run."""
        return PrivateExchange(connections, network, index, outbox, self.keys, self.log)

    def close(self) -> None:
        self.log.close()


def neighbours_around(settings: Settings) -> dict[int, frozenset[int]] | None:
    """The neighbours of each neighbour, if the file has the whole network."""
    if isinstance(settings.network, Neighbourhood):
        return None
    W = settings.network.at(0)
    rows = {n.index: slice(W.indptr[n.index], W.indptr[n.index + 1]) for n in settings.neighbours}
    return {i: frozenset(W.indices[row][W.data[row] != 0].tolist()) - {i} for i, row in rows.items()}
