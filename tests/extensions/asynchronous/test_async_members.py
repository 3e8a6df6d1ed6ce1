"""Asynchronous agents over TLS that leave for good, come late or are taken out: the others go on, exactly."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import destiny
from destiny.agents import Outcome
from destiny.agents.status import headline, metrics, rows
from destiny.agents.status_file import StatusFile
from destiny.agents.transport.event_loop import Absent, RunEnded
from destiny.cli import app
from destiny.errors import DestinyError, SettingsError
from destiny.extensions.asynchronous.agents.async_agent import AsyncAgent
from destiny.extensions.asynchronous.agents.async_checkpoints import AsyncCheckpoints, read_record
from destiny.extensions.asynchronous.agents.async_exchange import AsyncExchange
from destiny.extensions.asynchronous.agents.belief import departures
from destiny.extensions.asynchronous.agents.membership import Left, Membership, request_leave
from destiny.extensions.asynchronous.agents.replay import find_files, replay
from destiny.extensions.asynchronous.members import (
    LEFT,
    MEMBER,
    Record,
    asked,
    carried_out,
    epoch,
    first_standing,
)
from destiny.extensions.asynchronous.termination import ALL_QUIET
from destiny.geometry.stiefel import subspace_distance
from tests.helpers.agent_party import PATIENCE, Party, end, identity, kill, wait_for

TOLERANCE = 1e-6
CLOSE = 1e-4  # sine of the angle to the answer that a residual of 1e-6 means here, with a margin
RING = destiny.networks.ring(4)
LINKED = destiny.networks.from_edges([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]], 4)
PROBLEM = destiny.problems.pca.synthetic(n=12, m=90, p=3, xi=0.7, agents=4, seed=0)


class Crash(BaseException):
    """Ends an agent's thread like a lost machine would end its process."""


def party_of(folder, network=LINKED, late=(), **changes) -> Party:
    """Agents that write down what a replay needs."""
    known = {
        "algorithm": 'kind = "destiny-async"',
        "run": "checkpoint = 10\nreplay = true",
        "stop": f"rounds = 100000\ntolerance = {TOLERANCE}",
    }
    party = Party(folder, network, **{**known, **changes})
    if late:
        for i in range(party.size):
            party.write(i, agent=f"late = {list(late)}")
            path = party.home(i) / "agent.toml"
            text = path.read_text()
            for j in late:
                around = sorted(int(edge.sum()) - j for edge in network.edges if j in edge)
                text = text.replace(f"index = {j}\naddress", f"index = {j}\nneighbors = {around}\naddress")
            path.write_text(text)
    return party


def answer_of(members):
    """The principal subspace of some agents' data, by NumPy's eigenvalue solver."""
    unit = np.eye(12).reshape(12, 4, 3).transpose(1, 0, 2)  # the gradient at X is -A A^T X
    parts = [PROBLEM.host(members).gradient(np.repeat(X[None], len(members), axis=0)) for X in unit]
    return np.linalg.eigh(-np.concatenate(parts, axis=2).sum(axis=0))[1][:, -3:]


def check_answers(party, outcomes, members):
    """Everybody has the answer of these members, which is not that of other sets."""
    others = [m for m in ([0, 1, 2, 3], [0, 1, 2], [0, 1, 3], [0, 2, 3], [2, 3]) if m != members]
    for outcome in outcomes:
        assert outcome.converged, outcome
        assert outcome.closed
        assert subspace_distance(outcome.X, answer_of(members)) < CLOSE
        assert all(subspace_distance(outcome.X, answer_of(other)) > 100 * CLOSE for other in others)
        assert np.abs(outcome.X - outcomes[0].X).max() < 1e-11
        assert outcome.stationarity < CLOSE
        if len(members) < party.size:
            assert "who took part at the end" in outcome.notes[-1]
    for i in range(party.size):
        assert not [e for e in party.log(i) if e["event"] in ("mishap", "refused")], party.log(i)


def check_replay(folder, members):
    again = replay(find_files([folder]))
    assert all(one.same_bits for one in again)
    assert {one.settings.index for one in again} >= set(members)


@pytest.fixture
def slowly(monkeypatch):
    """A wake takes 10 ms: nobody is at rest before the tenth part of a run."""
    measure = AsyncAgent.measure

    def measure_slowly(self):
        time.sleep(0.01)
        return measure(self)

    monkeypatch.setattr(AsyncAgent, "measure", measure_slowly)


def ask(party, i, name=None):
    return request_leave(party.settings(i), name)


def steps_of(running):
    return [0 if one.view is None else one.view.step for one in running]


def go_on(running, wakes=10):
    """Wait until all of them have woken so many times more."""
    before = steps_of(running)
    wait_for(
        lambda: all(now >= was + wakes for now, was in zip(steps_of(running), before, strict=True)),
        "agents that go on",
    )


@pytest.mark.usefixtures("slowly")
def test_one_leaves_and_the_others_go_on_to_the_answer_without_it(tmp_path, monkeypatch):
    party, publish, checked = party_of(tmp_path), AsyncExchange.publish, []

    def publish_what_is_on_disk(self, letter):
        known, number = record_of(party, self.index), epoch(letter.standing)
        if letter.levels[self.index] >= ALL_QUIET:
            checked.append(known["bound"] == number)
        if number > 4:
            checked.append(known["standing"] == letter.standing.tolist())
        publish(self, letter)

    monkeypatch.setattr(AsyncExchange, "publish", publish_what_is_on_disk)
    running = [party.thread(i) for i in range(4)]
    go_on(running)
    assert "leaves as soon as its agent runs" in ask(party, 1)
    with pytest.raises(Left, match="agent-1 has left the run for good, and its neighbors know") as error:
        running[1].end()
    assert error.value.code == 0
    view, rest = running[0].view, [running[i] for i in (0, 2, 3)]
    assert "members: 0, 2, 3" in headline(view)
    assert dict(row[:2] for row in rows(view))["agent-1"] == "has left"
    assert 'destiny_members{agent="agent-0",run="run-1"} 3.0' in metrics(view)
    assert StatusFile(view).content()["members"] == [0, 2, 3]
    check_answers(party, [one.end() for one in rest], [0, 2, 3])
    assert [record_of(party, i)["bound"] for i in (0, 2, 3)] == [5, 5, 5]
    assert all(checked)
    left = r"agent-1 has left for good by the word of agent-1(, agent-2)?: 3 of 4 agents take part"  # or both
    assert any(re.fullmatch(left, e.get("why", "")) for e in party.log(0))
    check_replay(tmp_path, range(4))
    with pytest.raises(Left):  # started again, it says the same, though nobody is there
        party.thread(1).end()
    with pytest.raises(SettingsError, match="has left the run already"):
        ask(party, 1)
    with pytest.raises(SettingsError, match="the run is over"):
        ask(party, 0)


@pytest.mark.usefixtures("slowly")
def test_one_comes_late_and_the_answer_is_that_of_all(tmp_path):
    party = party_of(tmp_path, late=[3])
    running = [party.thread(i) for i in range(3)]
    go_on(running)
    assert dict(row[:2] for row in rows(running[0].view))["agent-3"] == "has not come yet"
    running.append(party.thread(3))
    check_answers(party, [one.end() for one in running], [0, 1, 2, 3])
    assert "agent-3 takes part from now on: 4 of 4 agents take part" in [e.get("why") for e in party.log(0)]
    assert [e for e in party.log(3) if e["event"] == "members"]
    check_replay(tmp_path, range(4))


def test_a_place_that_nobody_takes_is_waited_for_by_nobody_and_who_comes_then_is_too_late(tmp_path):
    party = party_of(tmp_path, late=[3], deadline=3)
    running = [party.thread(i) for i in range(3)]
    check_answers(party, [one.end() for one in running], [0, 1, 2])
    check_replay(tmp_path, range(3))
    with pytest.raises(Absent, match="no neighbor has let this agent in for 3 s"):
        party.thread(3).end()


@pytest.mark.usefixtures("slowly")
def test_who_calls_when_all_are_about_to_end_is_told_that_it_is_too_late(tmp_path, monkeypatch):
    monkeypatch.setattr(Record, "may_change", lambda *_: False)  # as if all had been at level 2
    party = party_of(tmp_path, late=[3])
    running = [party.thread(i) for i in range(3)]
    go_on(running)
    late = party.thread(3)
    ask(party, 1)
    with pytest.raises(RunEnded, match=r"this agent came too late: agent-. has the answer of"):
        late.end()
    outcomes = [one.end() for one in running]
    assert outcomes[1].notes[-1] == "this agent asked to leave too late: its data are part of the answer"
    check_answers(party, [outcomes[0], outcomes[2]], [0, 1, 2])


@pytest.mark.usefixtures("slowly")
def test_who_will_not_come_back_is_taken_out_by_a_neighbor(tmp_path, monkeypatch):
    """Its files are gone, and it is not asked; were it alive, it would hear of it."""
    party = party_of(tmp_path)
    tell = AsyncAgent.tell

    def tell_or_die(self, state, letter, kind, letters):
        if self.settings.index == 1 and self.wakes == 12:
            raise Crash
        tell(self, state, letter, kind, letters)

    monkeypatch.setattr(AsyncAgent, "tell", tell_or_die)
    running = [party.thread(i) for i in range(4)]
    running[1].join(PATIENCE)
    assert isinstance(running[1].error, Crash)
    assert "takes agent-1 out of the run" in ask(party, 2, "agent-1")
    wait_for(lambda: running[2].view.members == [0, 2, 3], "agent 2 takes it out")
    assert running[0].view.members is None  # one of its three neighbors says so
    assert "others follow when more than half of their neighbors say so" in ask(party, 3, "1")
    wait_for(lambda: running[0].view.members == [0, 2, 3], "agent 0 hears of it")
    monkeypatch.setattr(AsyncAgent, "tell", tell)
    with pytest.raises(
        RunEnded, match="agent-1 was taken out of the run by the word of agent-0, agent-2"
    ) as error:
        party.thread(1).end()
    assert error.value.code == 1
    check_answers(party, [running[i].end() for i in (0, 2, 3)], [0, 2, 3])
    with pytest.raises(RunEnded, match="was taken out"):
        party.thread(1).end()
    check_replay(tmp_path, range(4))


def test_one_agent_cannot_take_others_out(tmp_path, monkeypatch):
    """It says that both others have left: each goes on with the other, and names the liar in the end."""
    publish = AsyncExchange.publish

    def lie(self, letter):
        standing = np.where(np.arange(3) == 0, MEMBER, LEFT)
        publish(self, letter if self.index else replace(letter, standing=standing))

    monkeypatch.setattr(AsyncExchange, "publish", lie)
    party = party_of(tmp_path, destiny.networks.ring(3), deadline=2)
    running = [party.thread(i) for i in range(3)]
    for i in (1, 2):
        with pytest.raises(
            SettingsError, match="agent-0 took agent-1 out of the run, and this agent did not"
        ):
            running[i].end()
        assert running[i].view.members is None
        assert record_of(party, i)["standing"] == [MEMBER] * 3
        doubts = [e["why"] for e in party.log(i) if e["event"] == "members"]
        assert doubts == [
            "agent-0 says that agent 1, agent 2 left: not believed before most neighbors say so"
        ]
    running[0].join(PATIENCE)


def of(sender, standing):
    return SimpleNamespace(sender=np.array(float(sender)), standing=np.array(standing, dtype=float))


@pytest.mark.parametrize(
    ("sender", "told", "known", "words", "members", "believed"),
    [
        (1, [2, 2, 4, 2], [2, 2, 2, 2], {}, [1, 2, 3], [2, 2, 2, 2]),  # one of three
        (1, [2, 2, 4, 2], [2, 2, 2, 2], {}, [1, 3], [2, 2, 2, 2]),  # one of two
        (1, [2, 2, 4, 2], [2, 2, 2, 2], {3: [2, 2, 3, 2]}, [1, 2, 3], [2, 2, 4, 2]),  # two of three
        (1, [2, 2, 4, 2], [2, 2, 2, 2], {3: [2, 2, 3, 2]}, [1, 2], [2, 2, 2, 2]),  # agent 3 is no member
        (1, [2, 2, 4, 2], [2, 2, 2, 2], {}, [1], [2, 2, 4, 2]),  # the only neighbor
        (1, [2, 3, 2, 2], [2, 2, 2, 2], {}, [1, 2, 3], [2, 3, 2, 2]),  # of itself
        (1, [2, 2, 4, 2], [2, 2, 3, 2], {}, [1, 2, 3], [2, 2, 4, 2]),  # the operator here has asked for it
        (1, [4, 2, 2, 2], [2, 2, 2, 2], {}, [1, 2, 3], [2, 2, 2, 2]),  # of the agent that hears it
        (1, [2, 2, 2, 1], [2, 2, 2, 0], {}, [1, 2, 3], [2, 2, 2, 1]),  # who comes late is let in by anybody
        (1, [2, 2, 2, 4], [2, 2, 2, 0], {}, [1, 2], [2, 2, 2, 2]),
    ],
)
def test_whose_word_is_believed(sender, told, known, words, members, believed):
    letter = of(sender, told)
    words = {**{k: np.array(v) for k, v in words.items()}, sender: letter.standing}
    found = departures(letter, np.array(known, dtype=float), words, members, majority=True)
    assert found.tolist() == believed
    assert departures(letter, np.array(known), words, members, majority=False).tolist() == told


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"agent": 'removal = "all"'}, 'removal must be "any" or "majority"; found \'all\''),
        ({"agent": 'removal = "any"', "algorithm": 'kind = "destiny"', "run": ""}, "with all others nobody"),
    ],
)
def test_whose_word_is_believed_is_a_setting(tmp_path, changes, words):
    party = party_of(tmp_path)
    assert party.settings(0).options.majority
    party.write(0, agent='removal = "any"')
    assert not party.settings(0).options.majority
    party.write(0, **changes)
    with pytest.raises(SettingsError, match=words):
        party.settings(0)


def test_a_method_of_another_package_has_the_same_agents(tmp_path):
    name = "destiny.extensions.asynchronous.destiny_async:DestinyAsync"
    party = party_of(tmp_path, algorithm=f'kind = "{name}"')
    assert party.settings(0).options.replay
    party.write(0, messages="private = true")
    with pytest.raises(SettingsError, match=f"{name} cannot have private sums"):
        party.settings(0)


def whole(network):
    return f'[network]\nkind = "edges"\nedges = {network.edges.tolist()}'


def test_who_has_left_while_nobody_is_there_says_so_at_the_deadline(tmp_path):
    party = party_of(tmp_path, whole=whole(LINKED), deadline=1)
    ask(party, 1)
    one = party.thread(1)
    wait_for(lambda: one.view and one.view.connections.is_open, "a start")
    with pytest.raises(Absent, match="agent-0 has been silent"):
        one.end()  # it has not met its neighbors, and may not know what it has said in another life
    files = AsyncCheckpoints(
        party.out(1) / "checkpoints", identity(party.settings(1)), 1, ["agent-0", "agent-2"]
    )
    files.write_record(Record(carried_out(asked(first_standing(4), 1, joins=False))))
    with pytest.raises(Absent, match="agent-1 has left, but agent-0, agent-2 did not say so for 1 s"):
        party.thread(1).end()


@pytest.mark.usefixtures("slowly")
@pytest.mark.parametrize("when", ["before it tells anybody", "at another"])
def test_a_kill_around_a_change_leaves_it_made_or_not_made_and_never_half(tmp_path, monkeypatch, when):
    """Of the agent that leaves, or of one that hears of it first."""
    party, died = party_of(tmp_path), threading.Event()
    after, victim = Membership.after, 0 if when == "at another" else 1

    def after_and_die(self, state, agent):
        after(self, state, agent)  # now it is on disk
        if self.settings.index == victim and self.record.standing[1] == LEFT and not died.is_set():
            died.set()
            raise Crash

    monkeypatch.setattr(Membership, "after", after_and_die)
    running = [party.thread(i) for i in range(4)]
    go_on(running)
    ask(party, 1)
    running[victim].join(PATIENCE)
    assert isinstance(running[victim].error, Crash), running[victim].error
    for path in (party.out(victim) / "checkpoints").glob("checkpoint-*.npz"):
        path.write_bytes(path.read_bytes()[:-200])  # and it goes on from the start
    running[victim] = party.thread(victim)
    with pytest.raises(Left):
        running[1].end()
    check_answers(party, [running[i].end() for i in (0, 2, 3)], [0, 2, 3])


def test_processes_leave_and_come_and_are_killed(tmp_path):
    """As operators do it: commands, and kill -9. Nobody can end while agent 1 is away."""
    party = party_of(tmp_path, late=[3], deadline=PATIENCE)
    running = [party.start(i) for i in range(3)]
    wait_for(lambda: all(party.steps(i) for i in range(3)), "agents that have met")
    kill(running[1])
    said = CliRunner().invoke(app, ["agents", "leave", str(party.home(2) / "agent.toml")])
    assert said.exit_code == 0, said.output
    running.append(party.start(3))
    wait_for(lambda: party.steps(3), "agent 3 takes part")
    kill(running[3])
    kill(running[0])
    for i in (0, 1, 3):
        running[i] = party.start(i)
    _, said = end(running[2])
    assert "agent-2 has left the run for good, and its neighbors know" in said
    for i in (0, 1, 3):
        end(running[i])
    outcomes = [Outcome.read(party.out(i), identity(party.settings(i))) for i in (0, 1, 3)]
    check_answers(party, outcomes, [0, 1, 3])
    check_replay(tmp_path, range(4))


@pytest.mark.usefixtures("slowly")
def test_who_has_lost_its_files_carries_out_nothing_and_others_do(tmp_path, monkeypatch):
    party = party_of(tmp_path)
    running = [party.thread(i) for i in range(4)]
    go_on(running)
    wait_for(lambda: record_of(party, 1)["met"], "all are met")
    tell = AsyncAgent.tell

    def die(self, *rest):
        if self.settings.index == 1:
            raise Crash
        tell(self, *rest)

    monkeypatch.setattr(AsyncAgent, "tell", die)
    running[1].join(PATIENCE)
    monkeypatch.setattr(AsyncAgent, "tell", tell)
    shutil.rmtree(party.out(1))
    running[1] = party.thread(1)
    ask(party, 1)
    with pytest.raises(Left):
        running[1].end()
    assert record_of(party, 1)["bound"] is None
    check_answers(party, [running[i].end() for i in (0, 2, 3)], [0, 2, 3])


def record_of(party, i):
    path = party.out(i) / "checkpoints" / "members.json"
    return json.loads(path.read_text()) if path.exists() else {"met": False}


@pytest.mark.usefixtures("slowly")
def test_a_set_that_falls_apart_is_named_at_the_deadline_and_an_operator_decides(tmp_path):
    """No agent knows the whole network, so nobody could refuse it."""
    party = party_of(tmp_path, destiny.networks.path(4), deadline=2)
    running = [party.thread(i) for i in range(4)]
    go_on(running)
    ask(party, 1)
    with pytest.raises(Left):
        running[1].end()
    for i, names in ((0, "agent 2, agent 3"), (2, "agent 0"), (3, "agent 0")):
        with pytest.raises(Absent, match=f"nothing has been heard of {names} .* are not linked with each"):
            running[i].end()
    ask(party, 2, "0")  # no neighbor, so it is named by its index
    outcomes = [one.end() for one in [party.thread(2), party.thread(3)]]
    check_answers(party, outcomes, [2, 3])


@pytest.mark.parametrize(
    ("i", "name", "changes", "sentence"),
    [
        (0, "agent-2", {"network": RING}, "'agent-2' is no neighbor of agent-0"),
        (0, "17", {}, "this run has agents 0 to 3; found 17"),
        (0, "agent-3", {"late": [3]}, "agent-3 has not come yet"),
        (0, None, {"algorithm": 'kind = "destiny"', "run": "checkpoint = 20"}, "nobody can leave"),
        (1, None, {"network": destiny.networks.path(4), "whole": True}, "are not linked with each other"),
    ],
)
def test_what_cannot_be_asked_is_refused(tmp_path, i, name, changes, sentence):
    if changes.get("whole"):
        changes = {**changes, "whole": whole(changes["network"])}
    party = party_of(tmp_path, **changes)
    with pytest.raises(SettingsError, match=sentence):
        ask(party, i, name)
    assert not (party.out(i) / "checkpoints" / "requests.json").exists()


@pytest.mark.parametrize(
    ("late", "changes", "sentence"),
    [
        ("late = [4]", {}, "late must be indices from 0 to 3 of some agents"),
        ("late = [0, 1, 2, 3]", {}, "of some agents, not of all"),
        ("late = [1]", {}, "needs neighbors, the indices of all its neighbors"),
        ("late = [1]", {"algorithm": 'kind = "destiny"', "run": "every = 5"}, "late is for asynchronous"),
        (
            "late = [1]",
            {"network": destiny.networks.path(4), "whole": True},
            "must be linked with each other",
        ),
    ],
)
def test_late_agents_that_cannot_be_are_refused(tmp_path, late, changes, sentence):
    if changes.get("whole"):
        changes = {**changes, "whole": whole(changes["network"])}
    party = party_of(tmp_path, **changes)
    party.write(0, agent=late)
    with pytest.raises(SettingsError, match=sentence):
        party.settings(0)


def test_the_files_of_late_agents_are_written_with_what_they_need(tmp_path):
    (tmp_path / "experiment.toml").write_text(
        '[problem]\nkind = "pca"\ndata = "data.npy"\np = 2\nagents = 4\n[network]\nkind = "ring"\n'
        '[[algorithm]]\nkind = "destiny-async"\n'
    )
    words = ["agents", "init", str(tmp_path / "experiment.toml"), "--hosts", "127.0.0.1:7000", "--plain"]
    runner = CliRunner()
    refused = runner.invoke(app, [*words, "--out", str(tmp_path / "no"), "--late", "agent-9"])
    assert "--late must name agents of --hosts" in str(refused.exception)
    apart = runner.invoke(app, [*words, "--out", str(tmp_path / "no"), "--late", "agent-0,agent-2"])
    assert "must be linked with each other" in str(apart.exception)
    assert runner.invoke(app, [*words, "--out", str(tmp_path / "party"), "--late", "agent-3"]).exit_code == 0
    home = tmp_path / "party" / "agent-0"
    np.save(home / "data.npy", np.eye(5))
    from destiny.agents import read

    settings = read(home / "agent.toml")
    assert settings.options.late == (3,)
    weights = RING.at(0).toarray()[:3, :3]
    weights += np.diag(1 - weights.sum(axis=1))  # of a path of three
    slowest = np.sort(np.abs(np.linalg.eigvalsh(weights)))[-2]
    assert settings.algorithm.lambda_ == pytest.approx(max(slowest, RING.lambda_))
    assert {n.index: n.degree_in_file for n in settings.neighbors} == {1: 2, 3: 2}


def test_several_changes_that_are_heard_of_at_once_are_counted_one_by_one(tmp_path):
    party = party_of(tmp_path, destiny.networks.complete(5), late=[4])
    settings, told = party.settings(4), []
    log = SimpleNamespace(report=lambda event, name, sentence: told.append(sentence))
    view = SimpleNamespace(connections=SimpleNamespace(neighbors=settings.neighbors), event_log=log)
    members = Membership(settings, None, AsyncCheckpoints(tmp_path / "files", {}, 4, []), view)
    first = first_standing(5, [4])
    members.keep(carried_out(asked(carried_out(asked(first, 1, joins=False)), 4, joins=True)))
    left, came = told
    assert left == "agent-1 has left for good: 3 of 5 agents take part"
    assert came == "agent-4 takes part from now on: 4 of 5 agents take part"


def test_a_record_that_cannot_be_read_is_a_lost_one_and_one_that_was_written_is_kept(tmp_path):
    first = first_standing(4, late=[3])
    assert read_record(tmp_path, first).same_as(Record(first, met=False))
    (tmp_path / "checkpoints").mkdir()
    files = AsyncCheckpoints(tmp_path / "checkpoints", {}, 0, [])
    for record in (Record(first, 3.0), Record(carried_out(asked(first, 3, joins=True)), np.inf, met=False)):
        files.write_record(record)
        assert files.read_record(first).same_as(record)
    assert files.notes == []
    path = tmp_path / "checkpoints" / "members.json"
    for damage in ("", "{}", '{"standing": [2, 2], "bound": 0, "met": true}'):
        path.write_text(damage)
        lost = files.read_record(first)
        assert not lost.may_change(0)
        assert not replace(lost, met=True).may_change(0)
    reasons = ["cannot be read (JSONDecodeError)", "cannot be read (KeyError)", "is of another run"]
    assert files.notes == [f"{path} {why}; the agent asks its neighbors who takes part" for why in reasons]
    (tmp_path / "checkpoints" / "requests.json").write_text("[")
    with pytest.raises(DestinyError, match="remove it and ask again"):
        files.requests()
    assert files.departure() is None
    files.depart("asked")
    assert files.departure() == "asked"
    written = [path, tmp_path / "checkpoints" / "departed.json"]
    assert [file.stat().st_mode & 0o777 for file in written] == [0o600, 0o600]
    written[1].write_text('{"why')
    with pytest.raises(DestinyError, match="remove the file and start it"):
        files.departure()
    (tmp_path / "checkpoints" / "agreed.npz").write_bytes(b"PK")
    with pytest.raises(DestinyError, match="take the answer of another agent"):
        files.newest()


def test_a_set_that_changes_after_the_end_ends_the_run_in_words():
    """It takes several lost folders; averages over two sets must not come of it."""
    ended = []
    agent = SimpleNamespace(
        exchange=SimpleNamespace(agreed=True),
        connections=SimpleNamespace(abort_all=ended.append),
        state=SimpleNamespace(standing=first_standing(3)),
    )
    other = SimpleNamespace(standing=carried_out(asked(first_standing(3), 1, joins=False)))
    AsyncAgent.tell(agent, other, None, "answer", [])
    assert isinstance(ended[0], RunEnded)
    assert "start a new run" in str(ended[0])
