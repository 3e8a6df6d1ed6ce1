"""Agents whose messages have few bits: the bits of one process, through crashes too, and small messages."""

from __future__ import annotations

import numpy as np
import pytest

import destiny
from destiny.agents import scaffold
from destiny.agents.exchange import Exchange
from destiny.agents.outbox import Sent
from destiny.agents.transport.connection import Connection
from destiny.errors import SettingsError
from tests.helpers.agent_party import PATIENCE, Party

nets = destiny.networks
EIGHT = "private = false\nbits = 8"
RING = nets.ring(4)
EDGES = f'[network]\nkind = "edges"\nedges = {RING.edges.tolist()}'
FIXED = "rounds = 90\ntolerance = 0"


class Crash(BaseException):
    """Ends an agent's thread like a lost machine would end its process."""


CASES = {
    "ring": (RING, 'kind = "destiny-accelerated"', False, EIGHT),
    "all know the network": (RING, 'kind = "destiny"', True, EIGHT),
    "two calls a step": (nets.path(3), 'kind = "atc"', False, EIGHT),
    "several rounds, 16 bits": (nets.star(4), 'kind = "deepca"\nrounds = 3\nmixing = "fastmix"', False, "16"),
}


@pytest.mark.parametrize("case", CASES)
def test_few_bits_are_the_same_bits_as_in_one_process(case, tmp_path):
    network, algorithm, whole, messages = CASES[case]
    party = Party(
        tmp_path,
        network,
        algorithm=algorithm,
        whole=EDGES if whole else "",
        messages=messages if messages == EIGHT else EIGHT.replace("8", messages),
        stop=f"rounds = 150\ntolerance = {0 if 'deepca' in algorithm else 1e-4}",
    )
    outcomes = party.go()
    party.check()
    assert all(outcome.bytes < 0.5 * 8 * outcome.sent for outcome in outcomes)
    said = [e["why"] for e in party.log(0) if e["event"] == "messages"]
    assert "bits: each neighbor learns all numbers" in said[0]


def test_the_mean_is_averaged_at_64_bits_and_the_rest_at_8(tmp_path):
    problem = 'kind = "pca"\nsynthetic = { n = 12, m = 60, xi = 0.7, seed = 0 }\np = 2\ncenter = true'
    party = Party(tmp_path, RING, problem, messages=EIGHT, stop="rounds = 200\ntolerance = 1e-4", whole=EDGES)
    party.go()
    party.check()


@pytest.mark.parametrize("whole", ["", EDGES], ids=["neighbors only", "whole network"])
def test_messages_are_as_small_on_the_line_as_is_said(whole, tmp_path, monkeypatch):
    lengths, take = [], Connection.on_data

    def measured(self, peer, header):
        lengths.append(header.length)
        take(self, peer, header)

    monkeypatch.setattr(Connection, "on_data", measured)
    party = Party(tmp_path, RING, messages=EIGHT, stop=FIXED, whole=whole)
    outcomes = party.go()
    assert sum(lengths) == sum(outcome.bytes for outcome in outcomes)
    # X and D of 36 numbers each: 9 words of integers and two units
    assert sorted(set(lengths), key=lengths.count)[-1] == 8 * (9 + 2)


def test_an_agent_that_crashes_goes_on_with_the_same_bits(tmp_path, monkeypatch):
    """Before its first checkpoint, between two, and in the last averaging."""
    party = Party(tmp_path, RING, messages=EIGHT, stop=FIXED, run="checkpoint = 10")
    left, swap, sum_up = [5, 33, 77, 91], Exchange.swap, Exchange.all_reduce

    def die(agent, turn):
        if agent.ids[0] == 2 and left and turn >= left[0]:
            left.pop(0)
            raise Crash

    def swap_or_die(self, round, blocks):
        die(self, round)
        return swap(self, round, blocks)

    def sum_or_die(self, turn, tree, blocks):
        die(self, turn)
        return sum_up(self, turn, tree, blocks)

    monkeypatch.setattr(Exchange, "swap", swap_or_die)
    monkeypatch.setattr(Exchange, "all_reduce", sum_or_die)
    running = {i: party.thread(i) for i in range(4)}
    while left:
        running[2].join(PATIENCE)
        assert isinstance(running[2].error, Crash)
        running[2] = party.thread(2)
    answers = [running[i].end() for i in range(4)]
    party.check()
    for answer in answers:
        np.testing.assert_allclose(answer.X, answers[0].X, atol=1e-12)


def test_a_unit_that_is_not_finite_is_refused_by_name(tmp_path, monkeypatch):
    party = Party(tmp_path, nets.path(2), messages=EIGHT, stop=FIXED, deadline=3)
    whole = Exchange.message_for

    def spoilt(self, peer, round):
        message = whole(self, peer, round)
        if self.ids[0] == 1 and round == 30:
            numbers = np.frombuffer(message.content).copy()
            numbers[-1] = np.inf
            message = Sent.whole(numbers)
        return message

    monkeypatch.setattr(Exchange, "message_for", spoilt)
    running = [party.thread(i) for i in range(2)]
    for r in running:
        r.join(PATIENCE)
    assert "agent-1" in str(running[0].error)
    refused = [e for e in party.log(0) if "not finite in round 30" in str(e.get("why"))]
    assert refused


def test_what_cannot_be_is_refused_in_the_file(tmp_path):
    party = Party(tmp_path / "a", RING, messages="bits = 8")
    with pytest.raises(SettingsError, match=r"bits = 8 cannot go with private .* write private = false"):
        party.settings(0)
    party = Party(tmp_path / "b", RING, messages="private = true\nbits = 8")
    with pytest.raises(SettingsError, match=r"one kind of messages; .* one of private, bits"):
        party.settings(0)
    party = Party(tmp_path / "c", RING, messages=EIGHT, whole=f"{EDGES}\nloss = 0.2")
    with pytest.raises(SettingsError, match=r"\[messages\] messages of 8 bits need a static network"):
        party.settings(0)
    exposed = Party(tmp_path / "d", nets.path(2), messages="bits = 8").settings(0)
    assert exposed.messages == destiny.Quantized(8)  # nothing could be private there


def test_agents_that_differ_on_it_do_not_meet(tmp_path):
    party = Party(tmp_path, nets.path(2), messages=EIGHT, deadline=2)
    party.write(1, messages="private = false")
    running = [party.thread(i) for i in range(2)]
    errors = [r.error for r in running if not r.join(PATIENCE)]
    assert any('messages is "plain messages"' in str(error) for error in errors)


def test_files_for_agents_carry_it(tmp_path):
    experiment = tmp_path / "e.toml"
    experiment.write_text(
        'problem = { kind = "pca", p = 2, data = "a.npy" }\nnetwork = { kind = "ring" }\n'
        "messages = { bits = 8 }\n"
    )
    hosts = "a=127.0.0.1:7000,b=127.0.0.1:7001,c=127.0.0.1:7002"
    with pytest.raises(SettingsError, match=r"bits = 8 cannot go with private messages.* give --plain"):
        scaffold.write_agent_files(str(experiment), hosts, tmp_path / "out", "run")
    paths = scaffold.write_agent_files(str(experiment), hosts, tmp_path / "plain", "run", private=False)
    assert "bits = 8" in paths[0].read_text()
