"""Who takes part in a private run, as this agent believes it: statements that are signed and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from destiny.agents.privacy.keys import Authorities, Statement
from destiny.agents.privacy.run_key import RunKey
from destiny.agents.statements import Notary, Table
from destiny.agents.transport.messages import Refusal
from destiny.agents.transport.neighbor import Neighbor
from destiny.agents.transport.tls import TlsFiles, read_certificates
from destiny.errors import SettingsError


@dataclass(frozen=True)
class Party:
    """Who this agent is, and what its file says of the others.

    Attributes
    ----------
    run, name, index, agents
        The run, this agent in it, and how many agents there are.
    links : sequence of int
        Its neighbors.
    files : TlsFiles
    around : mapping from int to frozenset of int
        The neighbors of neighbors, as far as the file tells them.
    participants : sequence of str
        The names of all agents in the order of their index, if the file has them.
    """

    run: str
    name: str
    index: int
    agents: int
    links: Sequence[int]
    files: TlsFiles
    around: Mapping[int, frozenset[int]] = field(default_factory=dict)
    participants: Sequence[str] = ()


class SigningNotary(Notary):
    """Statements with keys, signed by the agents' certificates.

    Parameters
    ----------
    party : Party
    secret : RunKey
        The key of this agent.
    """

    def __init__(self, party: Party, secret: RunKey) -> None:
        super().__init__(party.index, party.agents, party.links)
        self.party, self.run, self.secret = party, party.run, secret

    def own(self) -> Table:
        """The statement of this agent; `SettingsError` if others would not believe it."""
        party, files = self.party, self.party.files
        chain = read_certificates(files.certificate, "certificate")
        statement = Statement.sign(
            party.run, party.name, party.index, self.secret.public, self.links, chain, files.key
        )
        try:
            self.authorities().check(statement)
        except Refusal as error:
            raise SettingsError(
                f"[tls] certificate {files.certificate} cannot vouch for this agent in a private run, as "
                f"others would say it {error}"
            ) from error
        return statement.table()

    def authorities(self) -> Authorities:
        """Whom to believe, as the files of [tls] are now."""
        files = self.party.files
        try:
            return Authorities(files.ca.read_bytes(), None if files.crl is None else files.crl.read_bytes())
        except OSError as error:
            raise Refusal(f"cannot be checked: {error.strerror}") from error

    def check(self, peer: Neighbor | None, table: Table) -> None:
        """Raise Refusal unless the agent itself has signed it, and it is about this run."""
        statement, party = Statement.read(table), self.party
        who, index = repr(statement.name), statement.index
        if statement.run != party.run:
            raise Refusal(f"passed on a key of {who} for the run {statement.run!r}, expected {party.run!r}")
        if (statement.name == party.name) != (index == party.index):
            raise Refusal(f"passed on a key of {who} as agent {index}, who cannot be that agent")
        if party.participants and party.participants[index] != statement.name:
            raise Refusal(
                f"passed on a key of {who} as agent {index}, who is {party.participants[index]!r} in "
                "participants of [messages]"
            )
        if set(statement.links) != party.around.get(index, set(statement.links)):
            raise Refusal(f"passed on other neighbors of {who} than this agent's file has")
        if peer is not None and (statement.name == peer.name) != (index == peer.index):
            raise Refusal(f"sent a key of {who} as agent {index}, expected that of {peer.name!r}")
        if peer is None:  # it was checked before it was kept; certificates may have expired since
            statement.check_signature()
            return
        self.authorities().check(statement)
        if index == peer.index and peer.connection is not None:
            shown = peer.connection.certificate
            if shown is None or statement.chain[0] != shown.certificate:
                raise Refusal("sent a key signed by another certificate than it shows")

    def same(self, one: Table, other: Table) -> bool:
        """Whether two statements of one agent have the same name, key and neighbors."""
        first, second = Statement.read(one), Statement.read(other)
        return (first.name, first.key, first.links) == (second.name, second.key, second.links)

    @staticmethod
    def key_of(table: Table) -> bytes:
        """The public key in a statement."""
        return Statement.read(table).key
