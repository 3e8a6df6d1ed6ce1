"""What one agent needs for private sums, from its settings and its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from destiny.agents.outbox import Outbox
from destiny.agents.privacy.exchange import PrivateExchange
from destiny.agents.privacy.key_ring import KeyRing, Party, vouch
from destiny.agents.privacy.masks import RunKey
from destiny.agents.privacy.sent_log import SentLog
from destiny.agents.settings import Settings
from destiny.agents.transport.connections import Connections
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
        keys = KeyRing.open(party_of(settings), folder, log.begun, sent=log.before > 0)
        log.begin()  # not before there is a new key: an old one would pass for that of this log
        return cls(keys, log)

    @staticmethod
    def check(settings: Settings) -> None:
        """Raise SettingsError if the certificate cannot vouch for this agent."""
        vouch(party_of(settings), RunKey.new())

    def exchange(
        self, connections: Connections, network: TopologyBase, index: int, outbox: Outbox
    ) -> PrivateExchange:
        """The exchange of a run."""
        return PrivateExchange(connections, network, index, outbox, self.keys, self.log)

    def close(self) -> None:
        self.log.close()


def party_of(settings: Settings) -> Party:
    """Who this agent is, and what its file says of the others."""
    return Party(
        settings.run,
        settings.name,
        settings.index,
        settings.agents,
        settings.files,
        {n.index: n.around for n in settings.neighbours if n.around is not None},
        settings.participants,
    )
