"""Agents that clip what neighbors send, and agents with mini-batches: the bits of one process."""

from __future__ import annotations

import numpy as np
import pytest

import destiny
from destiny.agents.exchange import Exchange
from destiny.agents.outbox import Sent
from destiny.errors import SettingsError
from tests.helpers.agent_party import PROBLEM, Party

COMPLETE = destiny.networks.complete(4)
CLIP = "private = false\nclip = 1"
FIXED = "rounds = 80\ntolerance = 0"


@pytest.mark.parametrize("kind", ["dgd", "destiny-accelerated"])
def test_clipped_messages_are_the_same_bits_as_in_one_process(kind, tmp_path):
    party = Party(tmp_path, COMPLETE, algorithm=f'kind = "{kind}"', messages=CLIP, stop=FIXED)
    outcomes = party.go()
    for i, outcome in enumerate(outcomes):
        assert np.array_equal(outcome.own, party.reference.agents[i]), i
        assert not outcome.converged
        assert any("the answer is approximate" in note for note in outcome.notes)
    said = [e["why"] for e in party.log(0) if e["event"] == "messages"]
    assert "messages clipped for 1 Byzantine neighbor" in said[0]


def test_an_agreement_of_clipped_agents_is_no_convergence(tmp_path):
    algorithm = 'kind = "destiny-accelerated"'
    party = Party(
        tmp_path, COMPLETE, algorithm=algorithm, messages=CLIP, stop="rounds = 900\ntolerance = 0.1"
    )
    for outcome in party.go():
        assert outcome.reason.startswith("settled, but not known to be exact with messages clipped")
        assert not outcome.converged


def test_a_lie_on_the_line_does_not_spoil_clipped_messages(tmp_path, monkeypatch):
    """Agent 1 of five sends the negative of its numbers."""
    whole = Exchange.message_for

    def lie(self, peer, round):
        message = whole(self, peer, round)
        if self.ids[0] != 1:
            return message
        return Sent.whole(-np.frombuffer(message.content))

    monkeypatch.setattr(Exchange, "message_for", lie)
    problem = 'kind = "pca"\nsynthetic = { n = 8, m = 2000, xi = 0.5, seed = 0 }\np = 1'
    party = Party(
        tmp_path,
        destiny.networks.complete(5),
        problem,
        'kind = "dgd"',
        stop="rounds = 150\ntolerance = 0",
        messages=CLIP,
    )
    known = destiny.problems.pca.solution(party.asked.problem.inner)
    for i, outcome in enumerate(party.go()):
        if i != 1:
            assert min(np.linalg.norm(outcome.own - known), np.linalg.norm(outcome.own + known)) < 0.3


def test_mini_batches_are_the_same_bits_as_in_one_process(tmp_path):
    problem = f"{PROBLEM}\nbatch = 4"
    party = Party(tmp_path, destiny.networks.ring(4), problem, 'kind = "vrsgt"', stop=FIXED)
    party.go()
    party.check()


def test_what_cannot_be_is_refused_in_the_file(tmp_path):
    ring = destiny.networks.ring(4)
    for k, (network, messages, sentence) in enumerate(
        [
            (COMPLETE, "clip = 1", r"clip = 1 cannot go with private messages.* write private = false"),
            (COMPLETE, "private = true\nclip = 1", "one kind of messages; .* one of private, clip"),
            (ring, CLIP, r"\[messages\] clip = 1 needs 3 neighbors or more"),
        ]
    ):
        with pytest.raises(SettingsError, match=sentence):
            Party(tmp_path / str(k), network, messages=messages).settings(0)
