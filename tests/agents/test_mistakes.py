"""Mistakes of operators and neighbors that must end in the right words and the right exit code."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

import destiny
from destiny import agents
from destiny.agents import scaffold
from destiny.agents.exchange import Exchange
from destiny.agents.outbox import Outbox
from destiny.agents.statements import Statements
from destiny.agents.transport.connections import MARKS, Connections
from destiny.agents.transport.event_loop import Absent
from destiny.agents.transport.messages import HEADER, MAGIC, PROTOCOL, Kind, encode_json
from destiny.run import averaging
from tests.helpers.agent_party import PATIENCE, Party, client_context, connect, read_message, wait_for

PAIR = destiny.networks.path(2)


# Files


@pytest.fixture
def results(tmp_path):
    """A folder with an answer, whose identity is empty."""
    agents.Outcome(
        reason="converged",
        converged=True,
        X=np.eye(4, 2),
        own=np.eye(4, 2),
        axes=None,
        objective=-1.0,
        explained=1.0,
        stationarity=0.0,
        consensus=0.0,
        feasibility=0.0,
        steps=1,
        rounds=1,
        sent=1,
        seconds=1.0,
        averaging=1,
    ).write(tmp_path, {})
    assert agents.Outcome.read(tmp_path, {}).explained == 1.0
    return tmp_path


@pytest.mark.parametrize("size", [0, 1, 100, 400])
def test_an_answer_that_is_cut_off_is_refused_in_one_sentence(size, results):
    path = results / "solution.npz"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(
        destiny.DestinyError, match=r"solution.npz in .* is damaged \(.*\): move the folder away"
    ):
        agents.Outcome.read(results, {})


@pytest.mark.parametrize("text", ["", "null", '"text"', "[]", "{}", '{"X": 1'])
def test_a_summary_that_is_none_is_refused_in_one_sentence(text, results):
    (results / "summary.json").write_text(text)
    with pytest.raises(destiny.DestinyError, match="is damaged"):
        agents.Outcome.read(results, {})


def test_certificates_are_written_for_all_agents_or_for_none(tmp_path):
    first, *others = scaffold.write_agent_files(
        "ring", "a=127.0.0.1:1,b=127.0.0.1:2,c=127.0.0.1:3", tmp_path, "run"
    )
    (others[-1].parent / "key.pem").write_text("of an earlier authority")
    with pytest.raises(destiny.SettingsError, match=r"key\.pem is there already"):
        scaffold.write_certificates(tmp_path)
    (others[-1].parent / "key.pem").unlink()
    others[-1].write_text(others[-1].read_text().replace('name = "c"', 'name = "Zürich"'))
    with pytest.raises(destiny.SettingsError, match="'Zürich' cannot stand in a certificate"):
        scaffold.write_certificates(tmp_path)
    assert sorted(path.name for path in first.parent.iterdir()) == ["agent.schema.json", "agent.toml"]


# Disagreements, and what only looks like one


def call(party, **changes):
    """A connection to agent-1 with the certificate of agent-0, after a HELLO that may be wrong."""
    sock = connect((party.host, 7001), client_context(party.home(0), party.home(0) / "ca.pem"))
    statement = encode_json(Kind.STATEMENT, {"index": 0, "links": [1]})
    sock.sendall(dataclasses.replace(party.settings(0).hello, **changes).pack() + statement)
    return sock


def test_a_neighbor_that_sends_what_does_not_fit_is_a_disagreement(tmp_path):
    """So it is if agents do not stop together because the diameter in their files is too small."""
    party = Party(tmp_path, PAIR, deadline=1)
    running = party.thread(1)
    with call(party) as sock:
        assert read_message(sock)[0].kind is Kind.HELLO
        sock.sendall(HEADER.pack(MAGIC, PROTOCOL, Kind.DATA, 0, 0, 0, 16) + bytes(16))
        with pytest.raises(destiny.SettingsError, match="16 bytes for round 0, expected") as caught:
            running.end()
    assert caught.value.code == 2


def test_a_neighbor_that_refuses_our_numbers_is_a_disagreement(tmp_path):
    party = Party(tmp_path, PAIR, deadline=1)
    running = party.thread(1)
    with call(party) as sock:
        assert read_message(sock)[0].kind is Kind.HELLO
        why = json.dumps({"why": "sent 8 bytes for round 0, expected 16"}).encode()
        sock.sendall(HEADER.pack(MAGIC, PROTOCOL, Kind.REFUSED, 0, 0, 0, len(why)) + why)
        with pytest.raises(destiny.SettingsError, match="refused agent-1, which sent 8 bytes") as caught:
            running.end()
    assert caught.value.code == 2


@pytest.mark.parametrize("stays", [True, False])
def test_a_second_process_with_wrong_settings_does_not_make_the_first_one_wrong(stays, tmp_path):
    """The first one is then away, or slow: starting again helps."""
    party = Party(tmp_path, PAIR, deadline=1)
    running = party.thread(1)
    with call(party) as sock:
        assert read_message(sock)[0].kind is Kind.HELLO
        with call(party, run="another") as other:
            assert read_message(other)[0].kind is Kind.REFUSED
        wait_for(lambda: [e for e in party.log(1) if e["event"] == "refused"], "a refusal")
        if not stays:
            sock.close()
        with pytest.raises(
            Absent, match="is connected and may" if stays else "ended the connection"
        ) as caught:
            running.end()
    assert caught.value.code == 75


@pytest.mark.parametrize(
    ("troubles", "error"),
    [
        pytest.param(
            [("refused", None), ("waits", object())], destiny.SettingsError, id="refused and waiting"
        ),
        pytest.param([("refused", None), ("away", None)], Absent, id="refused and away"),
        pytest.param([("waits", object())], Absent, id="waiting"),
    ],
)
def test_a_refusal_ends_an_agent_also_if_other_neighbors_wait(troubles, error):
    """An agent whose rounds are gone must not be started again for ever."""
    neighbors = [
        SimpleNamespace(name=why, trouble=why, connection=link, disagrees=why == "refused", inbox=[], index=k)
        for k, (why, link) in enumerate(troubles, 1)
    ]
    connections = SimpleNamespace(neighbors=neighbors, wait_limit=1.0)
    exchange = Exchange(connections, destiny.networks.complete(3), 0, Outbox())
    exchange.awaited = neighbors
    assert type(exchange.absence_error()) is error


# The answer


def test_averages_that_do_not_settle_are_not_reported_as_converged(tmp_path, monkeypatch):
    """As on a path of 200 agents, or with a neighbor that always reports a change."""
    monkeypatch.setattr(averaging, "MOST", 1)
    whole = '[network]\nkind = "edges"\nedges = [[0, 1]]\nloss = 0.2'
    party = Party(tmp_path, PAIR, stop="tolerance = 1e-3", whole=whole)
    for outcome in party.go():
        assert not outcome.converged
        assert outcome.reason.startswith("converged: every agent's local residual")
        assert "the averages that make the answer still changed" in outcome.reason


# Neighbors that ask for more than an honest one does


def test_a_neighbor_that_lets_nobody_forget_is_refused_before_memory_grows(tmp_path, monkeypatch):
    """A mark that never moves would make its neighbors keep everything that they ever sent."""
    move = Connections.move_mark
    monkeypatch.setattr(
        Connections, "move_mark", lambda self, mark: None if self.me.index == 0 else move(self, mark)
    )
    party = Party(tmp_path, PAIR, stop="rounds = 3000\ntolerance = 0", run="checkpoint = 2", deadline=1.5)
    liar, honest = party.thread(0), party.thread(1)
    with pytest.raises(destiny.DestinyError, match="agent-0 has not sent"):
        honest.end()
    liar.join(PATIENCE)
    words = "may need all messages since round 0 again, 4 checkpoints after this agent has passed round"
    assert any(words in e["why"] and "agent-0" in e["why"] for e in party.log(1) if e["event"] == "refused")
    assert len(list((party.out(1) / "checkpoints").glob("sent-*.npz"))) <= MARKS + 1


def test_a_neighbor_that_repeats_its_statement_is_refused(tmp_path, monkeypatch):
    say = Statements.for_newcomer

    def repeat(self, peer):
        return list(say(self, peer)) * (8 if self.notary.index == 0 else 1)

    monkeypatch.setattr(Statements, "for_newcomer", repeat)
    party = Party(tmp_path, destiny.networks.ring(3), deadline=1.5)
    outcomes = [party.thread(i) for i in range(3)]
    for outcome in outcomes:
        outcome.join(PATIENCE)
    assert all(isinstance(outcome.error, destiny.DestinyError) for outcome in outcomes)
    refused = [e["why"] for e in party.log(1) if e["event"] == "refused"]
    assert any("agent-0" in why and "sent more statements than there are agents, 3" in why for why in refused)
