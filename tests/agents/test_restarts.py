"""Agents that are stopped, restarted and set back meet again; what fails beside the run does not end it."""

from __future__ import annotations

import signal
import threading
import time

import pytest

import destiny
from destiny import agents
from destiny.agents import status
from destiny.agents.agent import OutboxStore
from destiny.agents.transport.event_loop import Absent
from tests.helpers.agent_party import PATIENCE, Party, end, wait_for

FIXED = "rounds = 90\ntolerance = 0"
RESTARTS = 12  # of one agent, at most


class Crash(BaseException):
    """Ends an agent's thread like a lost machine would end its process."""


class Manager(threading.Thread):
    """Starts an agent again whenever it ends for want of neighbors; a start takes some time."""

    def __init__(self, party, i, start=0.0):
        super().__init__(daemon=True)
        self.party, self.i, self.seconds = party, i, start
        self.ends = []
        self.start()

    def run(self):
        while len(self.ends) <= RESTARTS:
            time.sleep(self.seconds)
            running = self.party.thread(self.i, age=self.seconds)
            running.join(PATIENCE)
            self.ends.append(running.error)
            if not isinstance(running.error, Absent):
                return

    def finish(self):
        self.join(PATIENCE)
        assert self.ends[-1:] == [None], self.ends


def test_a_damaged_checkpoint_of_an_agent_whose_neighbor_is_one_checkpoint_ahead(tmp_path, monkeypatch):
    """agent-1 dies while it writes; agent-0 has written, and says that it needs nothing before step 30."""
    party = Party(tmp_path, destiny.networks.path(2), stop=FIXED, run="checkpoint = 5")
    save = OutboxStore.write

    def save_or_die(self, moment, saved):
        if moment.step == 35 and self.settings.index == 1:
            raise Crash
        save(self, moment, saved)
        if moment.step == 35:
            raise Crash

    monkeypatch.setattr(OutboxStore, "write", save_or_die)
    for one in [party.thread(i) for i in range(2)]:
        one.join(PATIENCE)
        assert isinstance(one.error, Crash), one.error
    monkeypatch.undo()
    assert [party.steps(i) for i in range(2)] == [[30, 35], [25, 30]]
    newest = party.out(1) / "checkpoints" / "checkpoint-000000030.npz"
    newest.write_bytes(newest.read_bytes()[:-200])
    party.go()
    party.check()
    (resumed,) = (e for e in party.log(1) if e["event"] == "resumed")
    assert resumed["step"] == 25


def test_an_agent_that_stood_still_past_the_deadline_meets_its_restarted_neighbors(tmp_path):
    """It was asleep itself: that its neighbors are gone when it wakes up is no reason to end."""
    party = Party(
        tmp_path, destiny.networks.path(3), stop="rounds = 500\ntolerance = 0", run="checkpoint = 5"
    )
    for i in range(3):
        party.write(i, deadline="2" if i == 1 else "1")
    sleeper = party.start(1)
    wait_for(lambda: (party.out(1) / "log.jsonl").exists(), "agent-1")
    others = [Manager(party, i) for i in (0, 2)]
    wait_for(lambda: any(step >= 20 for step in party.steps(1)))
    sleeper.send_signal(signal.SIGSTOP)
    wait_for(lambda: all(len(other.ends) >= 2 for other in others), "two restarts of each neighbor")
    time.sleep(1)  # so that it has stood still for longer than its own deadline in any case
    sleeper.send_signal(signal.SIGCONT)
    for other in others:
        other.finish()
    end(sleeper, code=3)
    party.check()


def test_agents_that_take_longer_to_start_than_the_deadline_meet(tmp_path):
    """Each waits for as long as a neighbor may take to start, or none would ever find another."""
    party = Party(tmp_path, destiny.networks.path(3), stop=FIXED, deadline=0.3)
    managers = [Manager(party, i, start) for i, start in enumerate((1.0, 2.0, 1.5))]
    for manager in managers:
        manager.finish()
    assert all(len(manager.ends) <= 3 for manager in managers), [manager.ends for manager in managers]
    party.check()


@pytest.mark.parametrize(
    "failing", [ZeroDivisionError("x"), RuntimeError("[/x] \x1b[2J")], ids=["plain", "nasty"]
)
def test_a_view_that_fails_is_switched_off_and_the_deadline_still_works(failing, tmp_path):
    party = Party(tmp_path, destiny.networks.path(2), deadline=1)
    calls = [0, 0]

    def fail():
        calls[0] += 1
        raise failing

    def count():
        calls[1] += 1

    with pytest.raises(Absent, match="not all neighbors have come"):
        agents.run(party.settings(1), loud=False, watchers=[lambda _: fail, lambda _: count])
    assert calls[0] == 1
    assert calls[1] > 1
    assert [e["event"] for e in party.log(1)].count("mishap") == 1


def test_markup_in_what_is_shown_stays_as_it_is(tmp_path, monkeypatch):
    party = Party(tmp_path, destiny.networks.path(2), deadline=1)
    shown = []

    def watch(view):
        view.connections.neighbors[0].trouble = "[/x] [red]"
        terminal = status.Terminal(view)
        terminal.live.stop()
        with terminal.live.console.capture() as capture:
            terminal.live.console.print(terminal.table())
        shown.append(capture.get())
        return lambda: None

    monkeypatch.setenv("COLUMNS", "150")
    with pytest.raises(Absent):
        agents.run(party.settings(1), loud=False, watchers=[watch])
    assert "[/x] [red]" in shown[0]
