"""What every agent tells all others once: its neighbors, and in private runs its public key, signed.

A statement goes from neighbor to neighbor until all agents have it. From the links follow the spanning tree
for sums, the same at every agent; from the keys the masks of private sums.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from destiny.agents.transport.event_loop import Absent
from destiny.agents.transport.messages import Kind, Refusal, decode_json, encode_json
from destiny.agents.transport.neighbor import Neighbor
from destiny.errors import CheckpointError, DestinyError, SettingsError
from destiny.storage import npz
from destiny.validation import is_whole

FILE = "statements.json"
Table = dict[str, Any]


def kept_run(folder: Path) -> str | None:
    """The run whose statements are in a folder, None if there are none that can be read."""
    try:
        return str(json.loads((folder / FILE).read_text(encoding="ascii"))["run"])
    except (*npz.DAMAGE, AttributeError):
        return None


class Notary:
    """Makes and checks statements of plain runs: an agent and its neighbors, by index.

    Parameters
    ----------
    index : int
        This agent.
    agents : int
        How many there are.
    links : sequence of int
        The neighbors of this agent.
    """

    def __init__(self, index: int, agents: int, links: Sequence[int]) -> None:
        self.index, self.agents, self.links = index, agents, sorted(links)

    def own(self) -> Table:
        """The statement of this agent."""
        return {"index": self.index, "links": self.links}

    def check(self, peer: Neighbor | None, table: Table) -> None:  # noqa: ARG002
        """Raise Refusal unless a statement can be right; ``peer`` has sent it, None if it was in a file."""
        if set(table) != {"index", "links"}:
            raise Refusal("sent a statement without the right entries")

    def same(self, one: Table, other: Table) -> bool:
        """Whether two statements of one agent say the same."""
        return bool(one["links"] == other["links"])


class Statements:
    """The statements that an agent has, and whom it passes them on to.

    Parameters
    ----------
    notary : Notary
    neighbors : sequence of Neighbor
    folder : Path
        Where they are kept: after a restart, agents that are done need not be there to repeat them.
    run : str
    """

    def __init__(self, notary: Notary, neighbors: Sequence[Neighbor], folder: Path, run: str) -> None:
        self.notary, self.neighbors, self.path, self.run = notary, list(neighbors), folder / FILE, run
        own = notary.own()
        self.known: dict[int, Table] = {notary.index: own, **self._load()}
        if not notary.same(self.known[notary.index], own):
            raise CheckpointError(
                f"{self.path} has other neighbors or another key of this agent than its files: use a new "
                "run id"
            )
        self.known[notary.index] = own  # its certificate may be a newer one
        self.received: dict[int, int] = {}

    def all_known(self) -> bool:
        """Whether those of all agents are here."""
        return len(self.known) == self.notary.agents

    @property
    def links(self) -> dict[int, list[int]]:
        """The neighbors of every agent."""
        return {index: table["links"] for index, table in self.known.items()}

    def for_newcomer(self, peer: Neighbor) -> Iterator[bytes]:
        """All statements, as messages to a neighbor that has just connected."""
        self.received[peer.index] = 0
        return (encode_json(Kind.STATEMENT, table) for table in self.known.values())

    def receive(self, peer: Neighbor, content: memoryview) -> Iterator[tuple[Neighbor, bytes]]:
        """Check a statement from a neighbor and keep it; to whom it is passed on, as messages."""
        self.received[peer.index] = self.received.get(peer.index, 0) + 1
        if self.received[peer.index] > 2 * self.notary.agents:  # each once, and once again after a restart
            raise Refusal(
                f"sent more statements than there are agents, {self.notary.agents}, on one connection"
            )
        table = decode_json(content)
        index = self._checked_index(table)
        before = self.known.get(index)
        if before is not None:
            if not self.notary.same(before, table):
                raise Refusal(
                    f"passed on another statement of agent {index} than this agent has: somebody lies or has "
                    "lost its files; all agents must start a new run"
                )
            return iter(())
        self.notary.check(peer, table)
        self.known[index] = table
        message = encode_json(Kind.STATEMENT, table)
        return ((n, message) for n in self.neighbors if n.index not in (peer.index, index))

    def _checked_index(self, table: Table) -> int:
        """The agent that a statement is of; Refusal if its links are none."""
        index, links, agents = table.get("index"), table.get("links"), self.notary.agents
        if not is_whole(index) or not 0 <= index < agents:
            raise Refusal(f"passed on a statement of agent {index!r}, expected 0 to {agents - 1}")
        if (
            not isinstance(links, list)
            or not all(is_whole(link) and 0 <= link < agents and link != index for link in links)
            or sorted(set(links)) != links
        ):
            raise Refusal(f"passed on a statement of agent {index} whose neighbors are no list of agents")
        return int(index)

    def absence_error(self, seconds: float) -> DestinyError:
        """Who has not been heard of, directly or through others, and why."""
        missing = set(range(self.notary.agents)) - set(self.known)
        late = [n for n in self.neighbors if n.index in missing]
        reasons = [
            f"{n.name} has not said who its neighbors are for {seconds:g} s: it "
            + (n.trouble if n.connection is None else "is connected and may itself be waiting for somebody")
            for n in late
        ]
        if others := sorted(missing - {n.index for n in late}):
            reasons.append(
                f"agents {', '.join(map(str, others))} have not been heard of for {seconds:g} s, not through "
                "others either: they do not run, or no links lead to them"
            )
        refused = [n for n in self.neighbors if n.connection is None and n.disagrees]
        reasons += [f"{n.name} {n.trouble}" for n in refused if n not in late]
        away = [n for n in late if n.connection is None]
        error = SettingsError if refused and all(n.disagrees for n in away) else Absent
        return error(" and ".join(reasons))

    def save(self) -> None:
        """Keep all statements."""
        aside = self.path.with_suffix(".tmp")
        text = json.dumps({"run": self.run, "statements": list(self.known.values())})
        try:
            aside.unlink(missing_ok=True)
            aside.touch(mode=0o600)
            aside.write_text(text, encoding="ascii")
            aside.replace(self.path)
        except OSError as error:
            raise CheckpointError(f"could not write {self.path}: {error.strerror}") from error

    def _load(self) -> dict[int, Table]:
        if not self.path.exists():
            return {}
        try:
            content: Table = json.loads(self.path.read_text(encoding="ascii"))
            if content["run"] != self.run:
                return {}
            known: dict[int, Table] = {}
            for table in content["statements"]:
                index = self._checked_index(table)
                self.notary.check(None, table)
                known[index] = table
        except (*npz.DAMAGE, Refusal, AttributeError) as error:
            raise CheckpointError(
                f"{self.path} is damaged ({type(error).__name__}): remove it, and have all neighbors running"
            ) from error
        return known
