"""The keys an agent needs to mask what it sends: its own, its neighbours', and their neighbours'."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from destiny.agents.privacy.keys import Authorities, Statement
from destiny.agents.privacy.masks import ALL, Masks, RunKey
from destiny.agents.transport.messages import Refusal
from destiny.agents.transport.neighbour import Neighbour
from destiny.agents.transport.tls import TlsFiles, read_certificates
from destiny.errors import CheckpointError, SettingsError
from destiny.storage import npz

FILE = "keys.json"


@dataclass(frozen=True)
class Party:
    """Who this agent is, and what its file says of the others.

    Attributes
    ----------
    run, name, index, agents
        The run, this agent in it, and how many agents there are.
    files : TlsFiles
    around : mapping from int to frozenset of int
        The neighbours of neighbours, as far as the file tells them.
    participants : sequence of str
        The names of all agents in the order of their index, if the file has them.
    """

    run: str
    name: str
    index: int
    agents: int
    files: TlsFiles
    around: Mapping[int, frozenset[int]] = field(default_factory=dict)
    participants: Sequence[str] = ()


def authorities_of(files: TlsFiles) -> Authorities:
    """Whom to believe by the files of [tls]."""
    try:
        return Authorities(files.ca.read_bytes(), None if files.crl is None else files.crl.read_bytes())
    except OSError as error:
        raise Refusal(f"cannot be checked: {error.strerror}") from error


def vouch(party: Party, secret: RunKey) -> Statement:
    """This agent's statement of its key; `SettingsError` if its certificate cannot vouch for it."""
    chain = read_certificates(party.files.certificate, "certificate")
    own = Statement.sign(party.run, party.name, party.index, secret.public, chain, party.files.key)
    try:
        authorities_of(party.files).check(own)
    except Refusal as error:
        raise SettingsError(
            f"[tls] certificate {party.files.certificate} cannot vouch for this agent where sums are "
            f"private, as neighbours' neighbours would say it {error}"
        ) from error
    return own


@dataclass
class KeyRing:
    """Statements that were checked.

    Attributes
    ----------
    own : Statement
        To tell the neighbours.
    direct : dict from int to Statement
        Of the neighbours, as they said themselves; to be passed on to the others.
    passed : dict from int to dict from int to Statement
        By neighbour, what it has passed on of its other neighbours.
    streams : dict from int to bytearray
        Memory for the masks of all neighbours.
    """

    party: Party
    folder: Path
    secret: RunKey
    own: Statement
    direct: dict[int, Statement] = field(default_factory=dict)
    passed: dict[int, dict[int, Statement]] = field(default_factory=dict)
    streams: dict[int, bytearray] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, party: Party, folder: Path, begun: bool, sent: bool) -> KeyRing:
        """The keys in a folder; see `RunKey.keep` for when a key of this agent's own is made."""
        secret = RunKey.keep(folder, begun, sent)
        ring = cls(party, folder, secret, vouch(party, secret))
        ring._load()
        return ring

    def authorities(self) -> Authorities:
        """Whom to believe, as the files of [tls] are now."""
        return authorities_of(self.party.files)

    def add(self, peer: Neighbour, statement: Statement, shown: bytes) -> bool:
        """Check a statement that a neighbour has sent; whether it is the neighbour's own and new.

        ``shown`` is the certificate that the neighbour has shown on this connection.
        """
        mine = statement.name == peer.name
        known = self.direct if mine else self.passed.setdefault(peer.index, {})
        if (before := known.get(statement.index)) is not None:
            if before.key != statement.key or before.name != statement.name:
                raise Refusal(
                    f"sent another key of {statement.name!r} than before: its files were lost, or somebody "
                    "lies; all agents must start a new run"
                )
            return False
        self._check_who(peer, statement, mine)
        self.authorities().check(statement)
        if mine and statement.chain[0] != shown:
            raise Refusal("sent a key signed by another certificate than it shows")
        if not mine and len(known) >= (peer.degree_in_hello or peer.degree or 0) - 1:
            raise Refusal(f"passed on more keys than the {len(known)} of its other neighbours")
        known[statement.index] = statement
        return mine

    def _check_who(self, peer: Neighbour, statement: Statement, mine: bool) -> None:
        """A statement is about the right run, and about somebody who can be meant."""
        party, who, index = self.party, repr(statement.name), statement.index
        if statement.run != party.run:
            raise Refusal(f"passed on a key of {who} for the run {statement.run!r}, expected {party.run!r}")
        if mine and index != peer.index:
            raise Refusal(f"sent a key as agent {index}, expected {peer.index}")
        for known in (self.direct, *self.passed.values()):
            other = known.get(index, statement)
            if (other.key, other.name) != (statement.key, statement.name):
                raise Refusal(
                    f"sent another key of agent {index}, as {who}, than this agent has of {other.name!r}: "
                    "somebody lies or has lost its files; all agents must start a new run"
                )
        if mine:
            return
        if statement.name == party.name or index in (party.index, peer.index) or index >= party.agents:
            raise Refusal(f"passed on a key of {who} as agent {index}, who cannot be another neighbour")
        if statement.name in {known.name for known in self.passed[peer.index].values()}:
            raise Refusal(f"passed on keys of {who} as two agents")
        if index not in party.around.get(peer.index, {index}):
            raise Refusal(f"passed on a key of agent {index}, who is not its neighbour by this agent's file")
        if party.participants and party.participants[index] != statement.name:
            raise Refusal(
                f"passed on a key of {who} as agent {index}, who is {party.participants[index]!r} in "
                "participants of [messages]"
            )

    def missing(self, neighbours: Sequence[Neighbour]) -> dict[str, int]:
        """By neighbour, how many keys have not come through it: its own and its other neighbours'."""
        count = {
            n.name: (n.degree or 0) - len(self.passed.get(n.index, ())) - (n.index in self.direct)
            for n in neighbours
        }
        return {name: number for name, number in count.items() if number > 0}

    def masks(self, receiver: int) -> Masks:
        """What hides this agent's messages to a neighbour."""
        run, own = self.party.run, self.party.index
        return Masks(
            own,
            {k: self.secret.pair(s.key, run, receiver, own, k) for k, s in self.passed[receiver].items()},
            self.streams,
        )

    def link_masks(self) -> Masks:
        """What hides this agent's part of totals: the masks of its links."""
        run, own = self.party.run, self.party.index
        return Masks(
            own,
            {k: self.secret.pair(s.key, run, ALL, own, k) for k, s in sorted(self.direct.items())},
            self.streams,
        )

    def save(self) -> None:
        """Keep all statements: after a restart, agents that are done need not be there to repeat them."""
        tables = {
            "run": self.party.run,
            "direct": [s.table() for s in self.direct.values()],
            "passed": {str(i): [s.table() for s in them.values()] for i, them in self.passed.items()},
        }
        path = self.folder / FILE
        aside = path.with_suffix(".tmp")
        try:
            aside.unlink(missing_ok=True)
            aside.touch(mode=0o600)
            aside.write_text(json.dumps(tables), encoding="ascii")
            aside.replace(path)
        except OSError as error:
            raise CheckpointError(f"could not write {path}: {error.strerror}") from error

    def _load(self) -> None:
        path = self.folder / FILE
        if not path.exists():
            return
        try:
            tables: dict[str, Any] = json.loads(path.read_text(encoding="ascii"))
            if tables["run"] != self.party.run:
                return
            self.direct = {s.index: s for s in map(Statement.read, tables["direct"])}
            self.passed = {
                int(i): {s.index: s for s in map(Statement.read, them)}
                for i, them in tables["passed"].items()
            }
        except (*npz.DAMAGE, Refusal, AttributeError) as error:
            raise CheckpointError(
                f"{path} is damaged ({type(error).__name__}): remove it, and have all neighbours running"
            ) from error
