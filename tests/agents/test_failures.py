"""Agents are killed, cut off, starved and misled: the answer has the same bits, or there is a sentence."""

import errno
import random
import re
import shutil
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

import destiny
from destiny import agents
from destiny.agents import outcome as answer
from destiny.agents.agent import Agent, OutboxStore
from destiny.agents.transport.event_loop import Absent, RunEnded
from destiny.run.driver import Driver
from destiny.storage import npz
from tests.helpers.agent_party import Party, end, identity, kill, wait_for

RING = destiny.networks.ring(4)
PAIR = destiny.networks.path(2)
OFTEN = "checkpoint = 5"
LONG = 'kind = "destiny"\nstep = { kind = "constant", eta = 0.05 }'  # takes a few thousand rounds


class Crash(BaseException):
    """Ends an agent's thread like a lost machine would end its process."""


def reached(party, i, step):
    return lambda: any(s >= step for s in party.steps(i))


def test_killed_at_random_moments_even_neighbors_together(tmp_path):
    network = destiny.networks.complete(3)
    party = Party(
        tmp_path, network, algorithm=LONG, stop="rounds = 900\ntolerance = 0", run="checkpoint = 10"
    )
    processes = [party.start(i) for i in range(3)]
    chance = random.Random(2022)
    for victims in ([2], [0, 1]):
        step = max(party.steps(victims[0]), default=0) + chance.randrange(20, 90)
        wait_for(reached(party, victims[0], step), f"step {step}")
        for i in victims:
            kill(processes[i])
        for i in victims:
            processes[i] = party.start(i)
    assert max(party.steps(0)) < 850, "the run was over before the last of them died"
    for process in processes:
        end(process, code=3)
    party.check()
    assert [sum(e["event"] == "resumed" for e in party.log(i)) for i in range(3)] == [1, 1, 1]


CRASHES = ("before a checkpoint", "between its files", "after it", "averaging", "with the answer", "leaving")


@pytest.mark.parametrize("when", CRASHES)
def test_crashed_in_the_middle_of_things(when, tmp_path, monkeypatch):
    party = Party(tmp_path, RING, stop="rounds = 90\ntolerance = 0", run=OFTEN)
    victim = None
    armed = threading.Event()
    armed.set()

    def crash_here():
        if threading.current_thread() is victim and armed.is_set():
            armed.clear()
            raise Crash

    write = npz.write
    count = [0]

    def wrapped_write(files, *mode):
        mine = threading.current_thread() is victim
        count[0] += mine
        if mine and count[0] == 4 and when == "before a checkpoint":
            crash_here()
        if mine and count[0] == 4 and when == "between its files" and len(files) > 1:
            first, *_ = files.items()
            write(dict([first]), *mode)
            crash_here()
        write(files, *mode)
        if mine and count[0] == 4 and when == "after it":
            crash_here()

    average, answer_write, leave = (
        answer.average,
        agents.Outcome.write,
        Agent.serve_until_neighbors_done,
    )

    def wrapped_average(hosted, network, *arrays):
        found = average(hosted, network, *arrays)
        if when == "averaging":
            crash_here()
        return found

    def wrapped_answer(self, folder, facts):
        if when == "with the answer" and not self.closed:
            answer_write(self, folder, facts)
            crash_here()
        answer_write(self, folder, facts)

    def wrapped_leave(self, outcome):
        found = leave(self, outcome)
        if when == "leaving":
            crash_here()
        return found

    monkeypatch.setattr("destiny.agents.checkpoints.npz.write", wrapped_write)
    monkeypatch.setattr("destiny.agents.outcome.average", wrapped_average)
    monkeypatch.setattr(agents.Outcome, "write", wrapped_answer)
    monkeypatch.setattr("destiny.agents.agent.Agent.serve_until_neighbors_done", wrapped_leave)
    others = [party.thread(i) for i in (0, 1, 3)]
    victim = party.thread(2)
    victim.join(60)
    assert isinstance(victim.error, Crash), when
    party.thread(2).end()
    for other in others:
        assert other.end().closed
    party.check()


def test_connections_that_break_come_back_by_themselves(tmp_path):
    party = Party(tmp_path, RING, algorithm=LONG, stop="rounds = 1200\ntolerance = 0", run=OFTEN)
    running = [party.thread(i) for i in range(4)]
    chance = random.Random(1)
    for k in range(6):
        wait_for(reached(party, 0, 100 * k + 5))
        connections = running[chance.randrange(4)].view.connections
        connections.loop.call_soon_threadsafe(_cut_one, connections, chance.randrange(2))
    for one in running:
        one.end()
    party.check()
    events = [e["event"] for i in range(4) for e in party.log(i)]
    assert events.count("lost") >= 6
    assert events.count("connected") > 8


def _cut_one(connections, which):
    connection = connections.neighbors[which].connection
    if connection is not None:
        connection.transport.abort()


def crash_at(monkeypatch, index, step):
    """An agent dies right after saving some step, once."""
    save, dead = OutboxStore.write, threading.Event()

    def wrapped(self, moment, saved):
        save(self, moment, saved)
        if self.settings.index == index and moment.step >= step and not dead.is_set():
            dead.set()
            raise Crash

    monkeypatch.setattr(OutboxStore, "write", wrapped)


def test_a_neighbor_absent_past_the_deadline_ends_in_75_and_all_can_go_on(tmp_path, monkeypatch):
    party = Party(tmp_path, PAIR, algorithm=LONG, stop="rounds = 300\ntolerance = 0", run=OFTEN)
    party.write(0, deadline="5")
    crash_at(monkeypatch, 1, 50)
    victim = party.thread(1)
    told = end(party.start(0), code=75)[1]
    assert re.search(r"agent-1 has not sent round \d+ for 5 s: it cannot be reached", told), told
    assert "Traceback" not in told
    assert isinstance(victim.error, Crash)
    assert len(party.steps(0)) == 2, "checkpoints are kept"
    party.go()
    party.check()


def test_whoever_waits_for_somebody_who_waits_says_so(tmp_path, monkeypatch):
    party = Party(tmp_path, destiny.networks.path(3), stop="rounds = 300\ntolerance = 0", run=OFTEN)
    party.write(0, deadline="5")
    crash_at(monkeypatch, 2, 50)
    running = [party.thread(i) for i in range(3)]
    with pytest.raises(Absent, match=r"agent-1 has not sent round .* connected and may itself be waiting"):
        running[0].end()
    assert Absent.code == 75
    assert isinstance(running[2].error, Crash)
    party.write(0)
    for one in (party.thread(0), party.thread(2), running[1]):
        one.end()
    party.check()


def test_a_slow_agent_only_slows_the_run(tmp_path):
    party = Party(tmp_path, destiny.networks.path(3), stop="rounds = 500\ntolerance = 0", run=OFTEN)
    others, slow = [party.thread(i) for i in (0, 2)], party.start(1)
    wait_for(reached(party, 1, 20))
    slow.send_signal(signal.SIGSTOP)
    seen = [max(party.steps(i)) for i in (0, 2)]
    threading.Event().wait(1.5)  # it does nothing for a while
    later = [max(party.steps(i)) for i in (0, 2)]
    assert all(b - a <= 10 for a, b in zip(seen, later, strict=True)), "nobody runs ahead"
    slow.send_signal(signal.SIGCONT)
    for other in others:
        other.end()
    end(slow, code=3)
    party.check()


def test_sigterm_saves_and_the_next_start_goes_on(tmp_path):
    party = Party(
        tmp_path, PAIR, algorithm=LONG, stop="rounds = 2500\ntolerance = 0", run="checkpoint = 1000"
    )
    other, process = party.thread(1), party.start(0)
    wait_for(lambda: other.view and other.view.step > 100)
    process.send_signal(signal.SIGTERM)
    told = end(process, code=143)[1]
    assert "stopped by SIGTERM after step" in told
    assert "start it again to go on" in told
    assert party.steps(0)
    party.thread(0).end()
    other.end()
    party.check()


@pytest.mark.parametrize("where", ["in the middle", "at the end"])
def test_a_full_disk_ends_in_a_sentence_and_nothing_is_lost(where, tmp_path, monkeypatch):
    party = Party(tmp_path, PAIR, stop="rounds = 90\ntolerance = 0", run=OFTEN)
    savez, calls = np.savez, [0]

    def full(file, **arrays):
        if threading.current_thread() is victim:
            calls[0] += 1
            if calls[0] == 7 or (where == "at the end" and "own" in arrays):
                raise OSError(errno.ENOSPC, "No space left on device")
        savez(file, **arrays)

    victim = None
    if where == "at the end":
        calls[0] = 1000
    monkeypatch.setattr(np, "savez", full)
    other = party.thread(0)
    victim = party.thread(1)
    with pytest.raises(destiny.DestinyError, match=r"No space left on device.*; make room") as caught:
        victim.end()
    assert caught.value.code == 75, "a service manager starts it again"
    assert not list(party.out(1).rglob("*.tmp*"))
    monkeypatch.undo()
    party.thread(1).end()
    other.end()
    party.check()


def test_a_folder_that_cannot_be_used_is_refused_before_anybody_is_called(tmp_path):
    party = Party(tmp_path, PAIR)
    (tmp_path / "file").touch()
    party.write(0, agent=f'out = "{tmp_path / "file" / "out"}"')
    assert "out" in end(party.start(0), code=2)[1]
    party.write(0, agent='out = "/proc/out"')
    with pytest.raises(destiny.SettingsError, match=r"\[agent\] out /proc/out cannot be used"):
        party.thread(0).end()


def stopped_midway(party, monkeypatch, step=30):
    """Both agents come to a stop after some step, with two checkpoints each."""
    save = OutboxStore.write

    def until(self, moment, saved):
        save(self, moment, saved)
        if moment.step == step:
            raise Crash

    monkeypatch.setattr(OutboxStore, "write", until)
    for one in [party.thread(i) for i in range(party.size)]:
        one.join(60)
        assert isinstance(one.error, Crash | Absent), one.error
    monkeypatch.undo()


def damage(path):
    path.write_bytes(path.read_bytes()[:-200])


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path, monkeypatch):
    party = Party(tmp_path, PAIR, stop="rounds = 90\ntolerance = 0", run=OFTEN)
    stopped_midway(party, monkeypatch)
    damage(party.out(1) / "checkpoints" / "checkpoint-000000030.npz")
    party.go()
    party.check()
    (resumed,) = (e for e in party.log(1) if e["event"] == "resumed")
    assert resumed["step"] == 25
    assert "damaged" in resumed["notes"][0]


def test_two_damaged_checkpoints_end_in_a_sentence(tmp_path, monkeypatch):
    party = Party(tmp_path, PAIR, stop="rounds = 90\ntolerance = 0", run=OFTEN)
    stopped_midway(party, monkeypatch)
    for path in (party.out(1) / "checkpoints").glob("checkpoint-*.npz"):
        damage(path)
    with pytest.raises(destiny.CheckpointError, match=r"no checkpoint in .* can be read"):
        party.thread(1).end()


@pytest.mark.parametrize("spoil", [damage, Path.unlink])
def test_a_checkpoint_without_its_messages_is_passed_over_for_the_one_before(spoil, tmp_path, monkeypatch):
    party = Party(tmp_path, PAIR, stop="rounds = 90\ntolerance = 0", run=OFTEN, deadline=20)
    stopped_midway(party, monkeypatch)
    spoil(sorted((party.out(1) / "checkpoints").glob("sent-*.npz"))[-1])
    damage(party.out(0) / "checkpoints" / "checkpoint-000000030.npz")  # it needs what agent-1 sent before 30
    kept = Agent(party.settings(1), loud=False)
    assert kept.checkpoints.rounds == [45], "the mark must not run ahead of the checkpoint in use"
    kept.close()
    party.go()
    party.check()
    (resumed,) = (e for e in party.log(1) if e["event"] == "resumed")
    assert resumed["step"] == 25
    assert any("is passed over: the messages sent before it" in note for note in resumed["notes"])


def test_messages_that_were_lost_and_are_needed_end_in_a_sentence(tmp_path, monkeypatch):
    party = Party(tmp_path, PAIR, stop="rounds = 90\ntolerance = 0", run=OFTEN, deadline=4)
    stopped_midway(party, monkeypatch)
    sorted((party.out(1) / "checkpoints").glob("sent-*.npz"))[-1].unlink()
    damage(party.out(1) / "checkpoints" / "checkpoint-000000025.npz")
    damage(party.out(0) / "checkpoints" / "checkpoint-000000030.npz")
    first, second = party.thread(0), party.thread(1)
    # Whoever of the two notices second may find the other gone already, on a busy machine.
    told = r"needs round 45, but what was sent before round 50 is gone|agent-1 has not sent round 45"
    with pytest.raises((destiny.SettingsError, Absent), match=told):
        first.end()
    with pytest.raises(destiny.SettingsError, match="all agents must start a new run"):
        second.end()


def test_checkpoints_at_odd_moments_lose_nothing_that_was_sent(tmp_path, monkeypatch):
    """One agent saves between the other's steps, which forgets messages it has not saved yet."""
    party = Party(tmp_path, PAIR, stop="rounds = 150\ntolerance = 0", run="checkpoint = 20")
    after_step, odd = Driver.after_step, iter([27, 33, 41])
    due = [next(odd)]

    def signalled(self, moment, signal):
        if isinstance(self.store, OutboxStore) and self.store.settings.index == 1 and moment.step == due[0]:
            due[0] = next(odd, 10**9)
            signal = self.store.connections.pending_signal = lambda: "SIGTERM"
        return after_step(self, moment, signal)

    monkeypatch.setattr(Driver, "after_step", signalled)
    other = party.thread(0)
    for _ in range(3):
        with pytest.raises(destiny.DestinyError, match="stopped by SIGTERM after step"):
            party.thread(1).end()
    stop_both = threading.Event()
    save = OutboxStore.write

    def crash_once(self, moment, saved):
        save(self, moment, saved)
        if self.settings.index == 0 and moment.step == 60 and not stop_both.is_set():
            stop_both.set()
            raise Crash

    monkeypatch.setattr(OutboxStore, "write", crash_once)
    last = party.thread(1)
    other.join(60)
    assert isinstance(other.error, Crash)
    party.thread(0).end()
    last.end()
    party.check()


def test_an_agent_that_lost_its_checkpoints_is_told_to_start_a_new_run(tmp_path, monkeypatch):
    party = Party(tmp_path, PAIR, stop="rounds = 90\ntolerance = 0", run=OFTEN, deadline=4)
    stopped_midway(party, monkeypatch)
    shutil.rmtree(party.out(0))
    first, second = party.thread(0), party.thread(1)
    with pytest.raises(
        destiny.SettingsError, match="refused agent-0, which needs round 0, but what was sent"
    ):
        first.end()
    with pytest.raises(destiny.SettingsError, match="all agents must start a new run"):
        second.end()


def test_a_checkpoint_of_other_data_or_another_run_is_refused(tmp_path, monkeypatch):
    problem, rng = 'kind = "pca"\ndata = "data.npy"\np = 3', np.random.default_rng(0)
    party = Party(tmp_path, PAIR, problem=problem, stop="rounds = 90\ntolerance = 0", run=OFTEN, deadline=4)
    for i in range(2):
        np.save(party.home(i) / "data.npy", rng.standard_normal((45, 12)))
    stopped_midway(party, monkeypatch)
    np.save(party.home(0) / "data.npy", rng.standard_normal((45, 12)))
    other = party.thread(1)
    with pytest.raises(destiny.CheckpointError, match="belongs to other data"):
        party.thread(0).end()
    party.write(0, id="run-2")
    with pytest.raises(destiny.CheckpointError, match='its run is "run-1", this file\'s is "run-2"'):
        party.thread(0).end()
    with pytest.raises(Absent):
        other.end()


MISMATCHES = {
    "run": ({"id": "run-2"}, "run is 'run-2' at agent-1, 'run-1' there"),
    "settings": ({"stop": "rounds = 91\ntolerance = 0"}, "rounds is 91 at agent-1, 90 there"),
    "method": ({"algorithm": 'kind = "diging"'}, 'algorithm.kind is "diging" at agent-1, "destiny" there'),
    "shape": (
        {"problem": 'kind = "pca"\nsynthetic = { n = 13, m = 90, xi = 0.7 }\np = 3'},
        "n is 13 at agent-1, 12",
    ),
    "seed": ({"start": "seed = 1"}, 'start is "seed 1" at agent-1, "seed 0" there'),
}


@pytest.mark.parametrize("what", MISMATCHES)
def test_whoever_is_in_another_run_is_refused_naming_both_values(what, tmp_path):
    changes, told = MISMATCHES[what]
    party = Party(tmp_path, PAIR, stop="rounds = 90\ntolerance = 0")
    party.write(1, deadline="3", **changes)
    right, wrong = party.thread(0), party.thread(1)
    with pytest.raises(destiny.SettingsError, match=r"not all neighbors have come within 3 s: agent-0 .*"):
        wrong.end()
    for i in range(2):  # both sides have it in their logs
        assert any(told in e.get("why", "") for e in party.log(i)), party.log(i)
    shutil.rmtree(party.out(1))
    party.write(1)
    party.thread(1).end()  # the one that was right has waited, undisturbed
    right.end()
    party.check()


def test_another_version_of_the_package_is_refused(tmp_path, monkeypatch):
    party = Party(tmp_path, PAIR, deadline=4)
    new, right = party.settings(1), party.thread(0)
    wait_for(lambda: right.view is not None)
    monkeypatch.setattr("destiny.agents.settings.__version__", "9.9")
    from tests.helpers.agent_party import Running

    refusal = re.escape(f"package version is '9.9' at agent-1, '{destiny.__version__}' there")
    with pytest.raises(destiny.SettingsError, match=refusal):
        Running(new).end()
    with pytest.raises(destiny.SettingsError, match=refusal):
        right.end()


def test_a_neighbor_that_does_not_list_us_is_named(tmp_path):
    party = Party(tmp_path, RING, deadline=4)
    text = (party.home(1) / "agent.toml").read_text()
    head, *neighbors = text.split("[[neighbor]]")
    kept = [n for n in neighbors if "agent-0" not in n]
    (party.home(1) / "agent.toml").write_text("[[neighbor]]".join([head, *kept]))
    second, first = party.thread(1), party.thread(0)
    with pytest.raises(
        destiny.DestinyError, match="says it is 'agent-0', which is not whom agent-1 talks to"
    ):
        first.end()
    with pytest.raises(Absent):
        second.end()


def test_a_run_that_diverges_ends_at_every_agent_in_words(tmp_path):
    party = Party(tmp_path, RING, algorithm='kind = "destiny"\nstep = { kind = "constant", eta = 1e6 }')
    for one in [party.thread(i) for i in range(4)]:
        with pytest.raises(RunEnded, match="diverged"):
            one.end()
    assert RunEnded.code == 1


def test_a_mistake_of_ours_in_the_background_does_not_go_unnoticed(tmp_path, monkeypatch):
    from destiny.agents.transport.connector import Connector

    async def broken(self, n):
        raise ZeroDivisionError

    monkeypatch.setattr(Connector, "dial", broken)
    with pytest.raises(ZeroDivisionError):
        Party(tmp_path, PAIR).thread(0).end()


def test_nothing_of_the_data_or_the_iterates_is_in_the_log(tmp_path):
    party = Party(tmp_path, PAIR)
    party.go()
    for i in range(2):
        entries = party.log(i)
        assert {"connected"} <= {e["event"] for e in entries}
        outcome = agents.Outcome.read(party.out(i), identity(party.settings(i)))
        text = (party.out(i) / "log.jsonl").read_text()
        assert not any(repr(float(x))[:8] in text for x in outcome.own.ravel())
