"""Asynchronous agents over TLS: nobody waits, crashes do not move the answer, a log makes the run again."""

from __future__ import annotations

import shutil
import signal
import threading

import numpy as np
import pytest
from typer.testing import CliRunner

import destiny
from destiny.agents import Outcome
from destiny.agents.transport.event_loop import Absent, RunEnded
from destiny.errors import DestinyError, SettingsError
from destiny.extensions.asynchronous.agents import async_agent as async_agent
from destiny.extensions.asynchronous.agents.async_agent import AsyncAgent
from destiny.extensions.asynchronous.agents.replay import find_files, replay
from destiny.geometry.stiefel import subspace_distance
from tests.helpers.agent_party import PATIENCE, Party, end, identity, kill, wait_for

TOLERANCE = 1e-6
CLOSE = 1e-4  # sine of the angle to the answer that a residual of 1e-6 means here, with a margin


class Crash(BaseException):
    """Ends an agent's thread like a lost machine would end its process."""


def party_of(folder, agents=3, **changes) -> Party:
    known = {
        "algorithm": 'kind = "destiny-async"',
        "run": "checkpoint = 10\nreplay = true",
        "stop": f"rounds = 100000\ntolerance = {TOLERANCE}",
    }
    return Party(folder, destiny.networks.ring(agents), **{**known, **changes})


def pooled(agents=3):
    """The principal subspace of everybody's data, by an eigenvalue solver."""
    problem = destiny.problems.pca.synthetic(n=12, m=90, p=3, xi=0.7, agents=agents, seed=0)
    return destiny.problems.pca.solution(problem)


def check_answers(party, outcomes) -> None:
    for outcome in outcomes:
        assert outcome.converged, outcome
        assert outcome.closed
        assert subspace_distance(outcome.X, pooled(party.size)) < CLOSE
        assert np.abs(outcome.X - outcomes[0].X).max() < 1e-11
        assert outcome.stationarity < CLOSE
        assert outcome.consensus < 1e-4
    for i in range(party.size):
        assert not [e for e in party.log(i) if e["event"] in ("mishap", "refused")], party.log(i)


def crash_at(monkeypatch, index, wakes):
    """Let one agent crash after each of some numbers of wakes, counted over all its lives."""
    tell, left, made = AsyncAgent.tell, list(wakes), [0]

    def tell_or_die(self, state, letter, kind, letters):
        if self.settings.index == index and kind == "wake":
            made[0] += 1
            if left and made[0] >= left[0]:
                left.pop(0)
                raise Crash
        tell(self, state, letter, kind, letters)

    monkeypatch.setattr(AsyncAgent, "tell", tell_or_die)


def test_agents_find_the_answer_of_the_pooled_data_and_the_log_makes_the_run_again(tmp_path):
    party = party_of(tmp_path, agents=4)
    outcomes = party.go()
    check_answers(party, outcomes)
    told = [e["why"] for e in party.log(0) if e["event"] == "messages"]
    assert told == [party.settings(0).disclosure]
    assert "each neighbor learns all numbers" in told[0]
    agents = replay(find_files([tmp_path]))
    assert all(one.same_bits for one in agents)
    for one, outcome in zip(agents, outcomes, strict=True):
        assert np.array_equal(one.final.X, outcome.own)
        assert one.wakes == outcome.steps
        assert one.starts == 1
    again = party.go()  # the run is over: started once more, an agent has its answer
    assert [np.array_equal(a.X, b.X) for a, b in zip(again, outcomes, strict=True)] == [True] * 4


def test_an_agent_that_crashes_again_and_again_stops_nobody_and_moves_nothing(tmp_path, monkeypatch):
    party = party_of(tmp_path)
    crash_at(monkeypatch, 1, [7, 25, 48, 60])
    others = [party.thread(0), party.thread(2)]
    crashes = 0
    while True:
        one = party.thread(1)
        one.join(PATIENCE)
        if not isinstance(one.error, Crash):
            break
        crashes += 1
        wakes = [other.view.step for other in others]
        wait_for(
            lambda wakes=wakes: all(o.view.step > w for o, w in zip(others, wakes, strict=True)),
            "the others go on while one is away",
        )
    assert crashes == 4
    outcomes = [others[0].end(), one.end(), others[1].end()]
    check_answers(party, outcomes)
    agents = replay(find_files([tmp_path]))
    assert [one.starts for one in agents] == [1, 5, 1]
    assert all(one.same_bits for one in agents)
    assert np.array_equal(agents[1].final.X, outcomes[1].own)


def test_sigterm_kill_9_and_the_command_that_makes_the_run_again(tmp_path):
    party = party_of(tmp_path, run="checkpoint = 20\nreplay = true", deadline=PATIENCE)
    running = [party.start(i) for i in range(3)]
    wait_for(lambda: party.steps(0) and party.steps(1), "agents that have met")
    running[0].send_signal(signal.SIGTERM)
    kill(running[1])
    _, said = end(running[0], code=143)
    assert "stopped by SIGTERM after wake" in said
    step = party.steps(0)[-1]
    running[:2] = party.start(0), party.start(1)
    for process in running:
        end(process)
    assert [e["step"] for e in party.log(0) if e["event"] == "resumed"] == [step]
    outcomes = [Outcome.read(party.out(i), identity(party.settings(i))) for i in range(3)]
    check_answers(party, outcomes)
    said = CliRunner().invoke(destiny_app(), ["replay", str(tmp_path)])
    assert said.exit_code == 0, said.output
    assert said.output.count("the same bits") == 3


def destiny_app():
    from destiny.cli import app

    return app


def test_an_agent_that_has_lost_its_files_begins_anew_under_a_life_that_nobody_knows(tmp_path, monkeypatch):
    party = party_of(tmp_path, run="checkpoint = 10")
    crash_at(monkeypatch, 1, [30])
    others = [party.thread(0), party.thread(2)]
    one = party.thread(1)
    one.join(PATIENCE)
    assert isinstance(one.error, Crash), one.error
    shutil.rmtree(party.out(1))
    last = party.thread(1)
    outcomes = [others[0].end(), last.end(), others[1].end()]
    check_answers(party, outcomes)
    notes = [e["notes"] for e in party.log(1) if e["event"] == "resumed"]
    assert notes == [["neighbors have heard of life 1"]]


def test_damaged_checkpoints_are_passed_over(tmp_path, monkeypatch):
    party = party_of(tmp_path, run="checkpoint = 10")
    crash_at(monkeypatch, 1, [35])
    others = [party.thread(0), party.thread(2)]
    party.thread(1).join(PATIENCE)
    for path in (party.out(1) / "checkpoints").glob("checkpoint-*.npz"):
        path.write_bytes(path.read_bytes()[:-200])
    again = party.thread(1)
    check_answers(party, [others[0].end(), again.end(), others[1].end()])
    told = next(e["why"] for e in party.log(1) if e["event"] == "resumed")
    assert "begins again at the start" in told


def send_one_round(agents, X):
    """The first round of the average that makes the answer."""
    agents.flood = np.ones(1)
    agents.mix(X)


def test_a_crash_between_the_agreement_and_the_answer_keeps_the_state_agreed_on(tmp_path, monkeypatch):
    party = party_of(tmp_path)
    find, crashed = async_agent.answers.find, threading.Event()

    def find_or_die(agents, *rest):
        if agents.ids.tolist() == [2] and not crashed.is_set():
            crashed.set()
            send_one_round(agents, rest[2])
            raise Crash
        return find(agents, *rest)

    monkeypatch.setattr(async_agent.answers, "find", find_or_die)
    others = [party.thread(0), party.thread(1)]
    one = party.thread(2)
    one.join(PATIENCE)
    assert isinstance(one.error, Crash), one.error
    check_answers(party, [other.end() for other in [*others, party.thread(2)]])
    agents = replay(find_files([tmp_path]))
    assert [one.starts for one in agents] == [1, 1, 2]
    assert all(one.same_bits for one in agents)


def test_an_agent_that_lost_the_state_it_had_agreed_on_is_refused(tmp_path, monkeypatch):
    """Averages were begun with it: another state would make them wrong."""
    party = party_of(tmp_path, deadline=3)
    find = async_agent.answers.find

    def find_or_die(agents, *rest):
        if agents.ids.tolist() == [2]:
            send_one_round(agents, rest[2])
            raise Crash
        return find(agents, *rest)

    monkeypatch.setattr(async_agent.answers, "find", find_or_die)
    others = [party.thread(0), party.thread(1)]
    one = party.thread(2)
    one.join(PATIENCE)
    shutil.rmtree(party.out(2))
    with pytest.raises(DestinyError, match="all agents must start a new run"):
        party.thread(2).end()
    for other in others:
        with pytest.raises(DestinyError, match="agent-2"):
            other.end()


def test_out_of_rounds_all_agents_end_with_an_answer_that_has_not_converged(tmp_path):
    party = party_of(tmp_path, stop="rounds = 25\ntolerance = 0")
    outcomes = party.go()
    for outcome in outcomes:
        assert not outcome.converged
        assert outcome.closed
        assert outcome.reason.startswith("out of rounds")
        assert outcome.steps <= 25
        assert np.abs(outcome.X - outcomes[0].X).max() < 1e-11
    assert all(one.same_bits for one in replay(find_files([tmp_path])))


def test_a_neighbor_that_stays_away_is_named_at_the_deadline(tmp_path, monkeypatch):
    party = party_of(tmp_path, deadline=1)
    crash_at(monkeypatch, 1, [20])
    running = [party.thread(i) for i in range(3)]
    for i in (0, 2):
        with pytest.raises(Absent, match="agent-1 has been silent for 1 s") as error:
            running[i].end()
        assert error.value.code == 75


def test_an_agent_whose_numbers_are_not_finite_any_more_ends_the_run(tmp_path, monkeypatch):
    party = party_of(tmp_path)
    measure = AsyncAgent.measure

    def spoil(self):
        if self.settings.index == 0 and self.wakes == 20:
            self.state.X[...] = 1e9
        return measure(self)

    monkeypatch.setattr(AsyncAgent, "measure", spoil)
    running = [party.thread(i) for i in range(3)]
    for i in range(3):
        with pytest.raises(RunEnded, match="diverged"):
            running[i].end()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"messages": "private = true"}, "cannot have private sums"),
        ({"messages": ""}, "write private = false into"),
        ({"messages": "private = false\nbits = 8"}, "few bits cannot carry"),
        (
            {"problem": 'kind = "pca"\ndata = "data.npy"\np = 2\ncenter = true'},
            "cannot center data, which takes rounds",
        ),
        (
            {"algorithm": 'kind = "destiny"', "run": "replay = true"},
            "replay is for asynchronous methods",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(tmp_path, changes, sentence):
    party = party_of(tmp_path)
    np.save(party.home(0) / "data.npy", np.eye(12))
    party.write(0, **changes)
    with pytest.raises(DestinyError, match=sentence):
        party.settings(0)


def test_init_asks_for_plain_messages_and_writes_lambda(tmp_path):
    network = destiny.networks.ring(4)
    (tmp_path / "experiment.toml").write_text(
        '[problem]\nkind = "pca"\ndata = "data.npy"\np = 2\nagents = 4\n[network]\nkind = "ring"\n'
        '[[algorithm]]\nkind = "destiny-async"\n'
    )
    words = ["agents", "init", str(tmp_path / "experiment.toml"), "--hosts", "127.0.0.1:7000"]
    words += ["--out", str(tmp_path / "party")]
    runner = CliRunner()
    refused = runner.invoke(destiny_app(), words)
    assert isinstance(refused.exception, SettingsError)
    assert "give --plain" in str(refused.exception)
    cut = runner.invoke(destiny_app(), [*words, "--plain", "--late", "agent-0,agent-2"])
    assert "without agent-0, agent-2 they are not" in str(cut.exception)
    alone = ["agents", "init", "complete", "--hosts", "a=127.0.0.1:7000", "--out", str(tmp_path / "party")]
    assert "at least two agents" in str(runner.invoke(destiny_app(), alone).exception)
    assert not (tmp_path / "party").exists()
    assert runner.invoke(destiny_app(), [*words, "--plain"]).exit_code == 0
    home = tmp_path / "party" / "agent-0"
    np.save(home / "data.npy", np.eye(5))
    from destiny.agents import read

    settings = read(home / "agent.toml")
    assert settings.algorithm.lambda_ == pytest.approx(network.lambda_)
    assert not settings.messages.private
