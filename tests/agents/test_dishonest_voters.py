"""A participant that votes for another method, whose sums would reveal its neighbours' data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import destiny
from destiny import agents
from destiny.agents.transport.event_loop import RunEnded
from destiny.errors import PrivacyError
from tests.helpers.agent_party import PROBLEM, Party, Running, identity

DICTIONARY = 'kind = "sdl"\nsynthetic = { n = 6, m = 200, seed = 0 }\np = 1'


@dataclass(frozen=True)
class Voter(destiny.DestinyNewton):
    """Votes for momentum from the second step, which is the first that is not tried before the start."""

    def step(self, s, agents):
        s = super().step(s, agents)
        return replace(s, vote=np.ones_like(s.vote))


def party_of(tmp_path, problem, messages):
    return Party(
        tmp_path,
        destiny.networks.ring(4),
        problem=problem,
        algorithm='kind = "destiny-newton"',
        messages=messages,
        deadline=20,
    )


def start(party):
    """All agents of a party, of which agent 0 lies."""
    settings = party.settings(0)
    fields = {name: getattr(settings.algorithm, name) for name in ("diameter", "spectrum")}
    liar = Running(replace(settings, algorithm=Voter(**fields)))
    return liar, [party.thread(i) for i in range(1, party.size)]


def test_votes_against_exact_models_change_nothing(tmp_path):
    party = party_of(tmp_path, PROBLEM, "private = true")
    liar, honest = start(party)
    for running in honest:
        assert running.end().converged
    liar.end()
    party.check()


def test_with_private_sums_honest_agents_refuse_in_words(tmp_path):
    liar, honest = start(party_of(tmp_path, DICTIONARY, "private = true"))
    liar.join()
    for running in honest:
        with pytest.raises(
            (PrivacyError, RunEnded), match="asks to change from destiny-newton to destiny-momentum"
        ):
            running.end()


def test_with_plain_messages_the_change_is_logged_and_noted(tmp_path):
    party = party_of(tmp_path, DICTIONARY, "private = false")
    _, honest = start(party)
    for i, running in enumerate(honest, start=1):
        outcome = running.end()
        assert any(note.startswith("went on with destiny-momentum") for note in outcome.notes)
        (event,) = [e for e in party.log(i) if e["event"] == "method"]
        assert event["step"] == 2
        assert agents.Outcome.read(party.out(i), identity(party.settings(i))).notes == outcome.notes
