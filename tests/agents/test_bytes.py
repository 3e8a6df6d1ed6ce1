"""Bytes that agents write, against those that are counted: sums go along the tree, and nothing else does."""

from __future__ import annotations

import pytest

import destiny
from destiny.agents.transport.connection import Connection
from destiny.agents.transport.messages import HEADER, Header, Kind
from tests.helpers.agent_party import Party

RING = destiny.networks.ring(4)
PCA = 'kind = "pca"\nsynthetic = { n = 120, m = 400, xi = 0.7, seed = 0 }\np = 3'


@pytest.mark.parametrize("private", ["true", "false"])
@pytest.mark.parametrize("kind", ["averaged-model", "averaged-krylov"])
def test_counted_bytes_are_those_on_the_lines(kind, private, tmp_path, monkeypatch):
    """Framing is a header for each message of a turn, and whole messages of other kinds (HELLO, BYE, ...)."""
    framing: dict[tuple[int, int], int] = {}
    kinds: dict[tuple[int, int], set[Kind]] = {}
    write, write_part = Connection.write, Connection.write_part

    def link(self):
        return self.connections.me.index, self.peer.index

    def note(self, message):
        if self.peer is not None:  # the HELLO of whoever calls is not counted as sent to a neighbor
            framing[link(self)] = framing.get(link(self), 0) + len(message)
            kinds.setdefault(link(self), set()).add(Header.unpack(message[: HEADER.size]).kind)
        write(self, message)

    def note_part(self, *parts):
        if self.written == 0:  # the first part has the header
            framing[link(self)] = framing.get(link(self), 0) + HEADER.size
        write_part(self, *parts)

    monkeypatch.setattr(Connection, "write", note)
    monkeypatch.setattr(Connection, "write_part", note_part)
    party = Party(
        tmp_path,
        RING,
        PCA,
        f'kind = "{kind}"',
        "rounds = 200\ntolerance = 1e-6",
        messages=f"private = {private}",
    )
    running = [party.thread(i) for i in range(4)]
    counted = sum(one.end().bytes for one in running)
    written = {
        (i, n.index): n.bytes_out for i, one in enumerate(running) for n in one.view.connections.neighbors
    }
    assert sum(written.values()) == counted + sum(framing.values())
    assert max(framing.values()) < 6000, "of every line, however long the messages are"
    parents = RING.tree.parents
    outside = [(i, j) for i, j in written if parents[i] != j and parents[j] != i]
    assert len(outside) == 2
    for pair in outside:
        assert written[pair] == framing[pair], "empty messages alone"
        assert kinds[pair] <= {Kind.HELLO, Kind.STATEMENT, Kind.BYE}
