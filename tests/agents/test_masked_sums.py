"""Agents with private messages: the bits of one process, through crashes too; what travels tells nothing."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import destiny
from destiny.agents import scaffold
from destiny.agents.exchange import Exchange
from destiny.agents.privacy.run_key import RunKey
from destiny.agents.privacy.sent_log import SentLog
from destiny.agents.start import open_hiding
from destiny.agents.transport.connection import Connection
from destiny.agents.transport.messages import HEADER, Header, Kind
from destiny.cli import app
from destiny.engines.hosted import HostedAgents
from destiny.errors import CheckpointError, DestinyError, SettingsError
from tests.helpers.agent_party import PATIENCE, Party

nets = destiny.networks
PRIVATE = "private = true"
TWO_TRIANGLES = nets.from_edges([(0, 1), (0, 2), (1, 2), (0, 3), (0, 4), (3, 4)], 5)
PCA = 'kind = "pca"\nsynthetic = { n = 6, m = 60, xi = 0.7, seed = 0 }\np = 2'
OLSR = 'kind = "olsr"\nsynthetic = { n = 6, m = 60, noise = 0.1, seed = 0 }\np = 2'
SDL = 'kind = "sdl"\nsynthetic = { n = 6, m = 60, seed = 0 }\np = 2'
MODEL, KRYLOV, LBFGS = (f'kind = "averaged-{name}"' for name in ("model", "krylov", "lbfgs"))
ONES = np.ones(3, dtype="<u8")


class Crash(BaseException):
    """Ends an agent's thread like a lost machine would end its process."""


def edges(network):
    return f'[network]\nkind = "edges"\nedges = {network.edges.tolist()}'


def private(folder, network, algorithm=KRYLOV, problem=PCA, **options):
    return Party(
        folder, network, problem, algorithm, "rounds = 300\ntolerance = 1e-7", messages=PRIVATE, **options
    )


CASES = {
    "models on a star": (nets.star(4), MODEL, PCA),
    "models of regression, on two triangles": (TWO_TRIANGLES, MODEL, OLSR),
    "products on a path": (nets.path(4), KRYLOV, PCA),
    "gradients on two triangles": (TWO_TRIANGLES, LBFGS, SDL),
    "centered data on a ring": (nets.ring(4), MODEL, f"{PCA}\ncenter = true"),
    "data in units of their own": (nets.ring(3), KRYLOV, f"{PCA}\ncenter = true\nstandardize = true"),
}


@pytest.mark.parametrize("case", CASES)
def test_private_sums_have_the_bits_of_one_process(case, tmp_path):
    network, algorithm, problem = CASES[case]
    party = private(tmp_path, network, algorithm, problem, whole=edges(network) if "ring" in case else "")
    assert all(outcome.converged for outcome in party.go())
    party.check()
    said = [e["why"] for e in party.log(0) if e["event"] == "messages"]
    assert said[0].startswith(f"private messages: the other participants learn sums over all {party.size} ag")


def test_private_messages_are_the_default_unless_the_network_changes(tmp_path):
    ring, path = nets.ring(4), nets.path(4)
    known = Party(tmp_path / "a", ring, messages="", whole=edges(ring), algorithm=MODEL)
    assert known.settings(0).messages.private
    assert Party(tmp_path / "b", path, messages="", algorithm=MODEL).settings(0).messages.private
    changing = Party(tmp_path / "c", ring, messages="", whole=f"{edges(ring)}\nloss = 0.2").settings(0)
    assert not changing.messages.private
    assert "plain messages: each neighbor learns all" in changing.disclosure
    two = Party(tmp_path / "d", nets.path(2), messages=PRIVATE, algorithm=MODEL)
    with pytest.raises(SettingsError, match="need at least 3 agents"):
        two.settings(0)


def test_agents_that_differ_on_it_do_not_meet(tmp_path):
    party = private(tmp_path, nets.ring(3), deadline=2)
    party.write(2, messages="private = false")
    running = [party.thread(i) for i in range(3)]
    errors = [r.error for r in running if not r.join(PATIENCE)]
    assert any('messages is "plain messages"' in str(error) for error in errors)


def crash(*_, **__):
    raise Crash


def crash_in(monkeypatch, agent, turns):
    """An agent ends like a lost machine in each of these turns: before it sends, or when it has the total."""
    left, whole = list(turns), Exchange.all_reduce

    def sum_or_die(self, turn, tree, blocks):
        dies = bool(self.ids[0] == agent and left and turn == left[0])
        if dies:
            left.pop(0)
        if dies and len(left) % 2:
            raise Crash
        totals = whole(self, turn, tree, blocks)
        if dies:
            raise Crash
        return totals

    monkeypatch.setattr(Exchange, "all_reduce", sum_or_die)


class Restarted(threading.Thread):
    """Starts an agent again whenever it crashes."""

    def __init__(self, party, i):
        super().__init__(daemon=True)
        self.party, self.i = party, i
        self.error: BaseException | None = None
        self.crashes = 0
        self.start()

    def run(self):
        while True:
            running = self.party.thread(self.i)
            running.join(PATIENCE)
            self.error = running.error
            if not isinstance(self.error, Crash):
                return
            self.crashes += 1


CRASHES = {
    "a leaf": {3: [0, 1, 3, 4]},
    "the root": {1: [1, 2, 3, 4, 5]},
    "two neighbors together": {1: [3, 5], 2: [3, 4, 5]},
}


@pytest.mark.parametrize("who", CRASHES)
def test_agents_that_crash_go_on_with_the_same_bits(who, tmp_path, monkeypatch):
    """Before their first checkpoint, between two, and after the last step, where averages are summed."""
    party = private(tmp_path, nets.path(4), run="checkpoint = 2")
    for agent, turns in CRASHES[who].items():
        crash_in(monkeypatch, agent, turns)
    running = [Restarted(party, i) for i in range(party.size)]
    for one in running:
        one.join(PATIENCE)
        assert one.error is None, one.error
    assert [one.crashes for one in running] == [len(CRASHES[who].get(i, [])) for i in range(party.size)]
    party.check()
    assert not [e for i in range(party.size) for e in party.log(i) if e["event"] == "refused"]
    lines = (party.out(1) / "checkpoints" / "sent.log").read_text().splitlines()[1:]
    assert [int(line.split()[0]) for line in lines] == list(range(len(lines))), "one line for each sum"


def test_an_agent_that_lost_its_checkpoints_but_not_what_it_sent_begins_again(tmp_path, monkeypatch):
    party = private(tmp_path, nets.ring(4), run="checkpoint = 2")
    crash_in(monkeypatch, 1, [3])
    running, lost = [Restarted(party, i) for i in (0, 2, 3)], party.thread(1)
    lost.join(PATIENCE)
    for path in (party.out(1) / "checkpoints").glob("checkpoint-*.npz"):
        path.unlink()
    for one in [*running, Restarted(party, 1)]:
        one.join(PATIENCE)
        assert one.error is None, one.error
    party.check()


def crashed(party, monkeypatch, agent, turn):
    """The folders after one agent was lost, and all others ended for want of it."""
    crash_in(monkeypatch, agent, [turn])
    running = [party.thread(i) for i in range(party.size)]
    for one in running:
        one.join(PATIENCE)
    monkeypatch.undo()


def test_other_data_after_a_restart_are_not_sent(tmp_path, monkeypatch):
    """Two different messages under one mask would tell their difference."""
    party = private(
        tmp_path,
        nets.ring(3),
        MODEL,
        'kind = "pca"\ndata = "mine.npy"\np = 2',
        run="checkpoint = 10",
        deadline=1,
    )
    data = np.random.default_rng(0).standard_normal((3, 20, 6))
    for i in range(3):
        np.save(party.home(i) / "mine.npy", data[i])
    crashed(party, monkeypatch, 1, 1)
    np.save(party.home(1) / "mine.npy", data[1] + 1e-9)
    running = [party.thread(i) for i in range(3)]
    with pytest.raises(CheckpointError, match=r"would send in turn 0 is not what it has sent before"):
        running[1].end()
    for one in running:
        one.join(PATIENCE)


def test_keys_or_logs_that_were_lost_end_the_run_in_words(tmp_path, monkeypatch):
    party = private(tmp_path, nets.ring(3), run="checkpoint = 2", deadline=1)
    crashed(party, monkeypatch, 1, 5)
    (party.out(1) / "checkpoints" / "private-sums.key").unlink()
    with pytest.raises(CheckpointError, match=r"private-sums.key is missing"):
        party.thread(1).end()
    (party.out(2) / "checkpoints" / "sent.log").unlink()
    with pytest.raises(CheckpointError, match=r"sent.log must tell what was sent in \d+ turns; found 0"):
        party.thread(2).end()


def test_a_log_that_was_lost_before_a_checkpoint_leaves_the_key_alone(tmp_path, monkeypatch):
    party = private(tmp_path, nets.ring(3), run="checkpoint = 100", deadline=1)
    crashed(party, monkeypatch, 1, 1)
    folder = party.out(1) / "checkpoints"
    key, log = (folder / "private-sums.key").read_bytes(), (folder / "sent.log").read_bytes()
    (folder / "sent.log").unlink()
    with pytest.raises(CheckpointError, match=r"sent.log is missing or empty.*bring it back"):
        party.thread(1).end()
    assert (folder / "private-sums.key").read_bytes() == key
    (folder / "sent.log").write_bytes(log)
    for i in range(3):
        party.write(i, deadline="60")
    party.go()
    party.check()


def test_a_gradient_that_private_messages_cannot_carry_ends_the_run_for_all(tmp_path, monkeypatch):
    party = private(tmp_path, nets.path(3), LBFGS, SDL, deadline=30)
    gradient, calls = HostedAgents.gradient, []

    def spoilt(self, X, step=None):
        calls.append(int(self.ids[0]))
        G = gradient(self, X, step)
        return 1e9 * G if self.ids[0] == 2 and calls.count(2) > 12 else G

    monkeypatch.setattr(HostedAgents, "gradient", spoilt)
    running = [party.thread(i) for i in range(3)]
    errors = []
    for one in running:
        with pytest.raises(DestinyError) as error:
            one.end()
        errors.append(str(error.value))
    assert "private messages cannot carry it" in errors[2]
    assert all("ended the run" in error and "cannot carry it" in error for error in errors[:2])


def test_an_agent_whose_run_is_over_says_that_it_read_nothing(tmp_path):
    party = private(tmp_path, nets.ring(3), MODEL)
    party.go()
    party.thread(0).end()
    assert any("this run is over" in e.get("why", "") for e in party.log(0))


def test_no_files_are_written_for_a_method_that_private_messages_cannot_serve(tmp_path):
    experiment = tmp_path / "e.toml"
    experiment.write_text(
        f'[problem]\n{PCA}\nagents = 3\n[network]\nkind = "ring"\n[[algorithm]]\nkind = "destiny"\n'
    )
    arguments = str(experiment), "127.0.0.1:7000", tmp_path / "set", "run"
    with pytest.raises(SettingsError, match=r"which destiny does not use: leave \[algorithm\] out"):
        scaffold.write_agent_files(*arguments)
    assert not (tmp_path / "set").exists()
    assert len(scaffold.write_agent_files(*arguments, private=False)) == 3


def test_an_agent_that_is_done_serves_others_from_its_files(tmp_path, monkeypatch):
    party = private(tmp_path, nets.ring(3), MODEL, run="checkpoint = 1", deadline=2)
    crashed(party, monkeypatch, 1, 4)  # the last sum, once it has come: the others are done
    assert [(party.out(i) / "solution.npz").exists() for i in range(3)] == [True, False, True]
    for i in range(3):
        party.write(i, deadline="60")
    party.go()
    party.check()


def test_files_of_an_earlier_time_are_noticed(tmp_path, monkeypatch):
    """Restored from a backup, log included: other numbers could go out under the masks of before."""
    party = private(tmp_path, nets.ring(3), LBFGS, SDL, run="checkpoint = 1", deadline=4)
    crashed(party, monkeypatch, 1, 3)
    shutil.copytree(party.out(1), tmp_path / "backup")
    crashed(party, monkeypatch, 1, 9)
    shutil.rmtree(party.out(1))
    shutil.copytree(tmp_path / "backup", party.out(1))
    running = [party.thread(i) for i in range(3)]
    with pytest.raises(SettingsError, match="unless files here are of an earlier time"):
        running[1].end()
    for one in running:
        one.join(PATIENCE)


def test_what_travels_is_uniform_and_never_the_same(tmp_path, monkeypatch):
    sent: dict[tuple[str, str], list[bytes]] = {}
    write = Connection.write_part

    def spy(self, *parts):
        message = b"".join(parts)
        header = Header.unpack(message[: HEADER.size])
        assert header.kind is Kind.DATA
        key = (self.connections.me.agent, self.peer.name)
        sent.setdefault(key, []).append(message[HEADER.size :])
        write(self, *parts)

    monkeypatch.setattr(Connection, "write_part", spy)
    party = private(tmp_path, nets.path(3), problem=PCA.replace("n = 6", "n = 40"))
    party.go()
    up = {key: messages for key, messages in sent.items() if key[1] == "agent-1"}
    assert len(up) == 2
    words = [np.frombuffer(b"".join(messages), "<u8") for messages in up.values()]
    together = np.concatenate(words)
    assert len(together) > 2000
    assert len(np.unique(together)) == len(together)
    assert stats.chisquare(np.bincount(together.view(np.uint8), minlength=256)).pvalue > 1e-6


def test_participants_are_checked(tmp_path):
    party = private(tmp_path, nets.ring(4), deadline=2)
    names = [party.name(i) for i in range(4)]
    party.write(0, messages=f"{PRIVATE}\nparticipants = {json.dumps(names)}")
    assert party.settings(0).participants == names
    wrong = [*names[:2], "mallory", *names[3:]]  # agent-2 is not agent-0's neighbor, but its neighbors'
    party.write(0, messages=f"{PRIVATE}\nparticipants = {json.dumps(wrong)}")
    running = [party.thread(i) for i in range(4)]
    for one in running:
        one.join(PATIENCE)
    told = [e["why"] for e in party.log(0) if e["event"] == "refused"]
    assert any("key of 'agent-2' as agent 2, who is 'mallory' in participants" in why for why in told)
    party.write(0, messages=f"{PRIVATE}\nparticipants = {json.dumps(names[:3])}")
    with pytest.raises(SettingsError, match="4 different names"):
        party.settings(0)
    party.write(0, messages=f"{PRIVATE}\nparticipants = {json.dumps(names[::-1])}")
    with pytest.raises(SettingsError, match="'agent-3' as agent 0, who is 'agent-0'"):
        party.settings(0)


def test_files_for_a_network_say_that_messages_are_private(tmp_path):
    hosts = "a=h:1,b=h:2,c=h:3"
    for kind in ("ring", "path"):
        (first, *_) = scaffold.write_agent_files(kind, hosts, tmp_path / kind, "run")
        found = tomllib.loads(first.read_text())["messages"]
        assert found == {"private": True, "participants": ["a", "b", "c"]}
    (first, *_) = scaffold.write_agent_files("ring", hosts, tmp_path / "plain", "run", private=False)
    assert "private = false" in first.read_text()
    with pytest.raises(SettingsError, match="at least 3 agents"):
        scaffold.write_agent_files("path", "a=h:1,b=h:2", tmp_path / "no", "run", private=True)


@pytest.mark.parametrize("option", [[], ["--plain"]])
def test_nobody_is_promised_private_sums_who_declined_them(tmp_path, option):
    experiment = tmp_path / "experiment.toml"
    said = "" if option else "[messages]\nprivate = false\n"
    experiment.write_text(
        '[problem]\nkind = "pca"\ndata = "data.npy"\np = 2\nagents = 3\n[network]\nkind = "ring"\n' + said
    )
    words = [
        "agents",
        "init",
        str(experiment),
        "--hosts",
        "a=h:1,b=h:2,c=h:3",
        "--out",
        str(tmp_path / "set"),
    ]
    told = CliRunner().invoke(app, [*words, *option])
    assert "private = false" in (tmp_path / "set" / "a" / "agent.toml").read_text()
    assert told.stderr.startswith("destiny: plain messages, which neighbors can read")


def test_the_log_of_another_run_is_begun_anew_and_half_a_line_is_dropped(tmp_path):
    log = SentLog(tmp_path, "one")
    log.begin()
    log.add(0, [ONES])
    log.close()
    path = tmp_path / "sent.log"
    path.write_bytes(path.read_bytes() + b"1 00")
    again = SentLog(tmp_path, "one")
    assert (again.begun, again.end) == (True, 1)
    again.add(0, [ONES])
    for other in ([ONES * 2], [ONES, ONES], [ONES[:2]]):
        with pytest.raises(CheckpointError, match="would send in turn 0 is not what it has sent before"):
            again.add(0, other)
    again.close()
    other = SentLog(tmp_path, "two")
    assert (other.begun, other.end) == (False, 0)
    other.begin()
    other.close()
    path.write_bytes(path.read_bytes() + b"nonsense\n")
    with pytest.raises(CheckpointError, match="is damaged"):
        SentLog(tmp_path, "two")


def test_an_agent_that_is_started_twice_does_not_shorten_its_log(tmp_path, monkeypatch):
    """The second process ends when it finds its port in use, but has opened the log before."""
    log, read = SentLog(tmp_path, "run"), Path.read_bytes
    log.begin()
    log.add(0, [ONES])

    def read_while_the_first_goes_on(path):
        content = read(path)
        log.add(1, [ONES])
        return content

    monkeypatch.setattr(Path, "read_bytes", read_while_the_first_goes_on)
    SentLog(tmp_path, "run").close()
    monkeypatch.undo()
    log.close()
    again = SentLog(tmp_path, "run")
    again.close()
    assert again.end == 2


def test_a_line_that_does_not_fit_on_the_disk_is_an_error(tmp_path, monkeypatch):
    """The system takes what fits and says so; half a line would be dropped, though its numbers were sent."""
    log = SentLog(tmp_path, "run")
    log.begin()
    log.add(0, [ONES])
    before, write, room = (tmp_path / "sent.log").read_bytes(), os.write, [10]

    def write_while_there_is_room(file, content):
        if room[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = write(file, content[: room[0]])
        room[0] -= count
        return count

    monkeypatch.setattr(os, "write", write_while_there_is_room)
    for _ in range(2):  # it is not known from the first time
        with pytest.raises(CheckpointError, match="No space left"):
            log.add(1, [ONES])
        assert (tmp_path / "sent.log").read_bytes() == before
        room[0] = 10
    monkeypatch.undo()
    log.close()


def test_a_crash_between_log_and_key_leaves_no_old_key(tmp_path, monkeypatch):
    """A log without a key of its own would vouch for one that an earlier run of the same name has used."""
    settings, folder = private(tmp_path, nets.ring(3)).settings(0), tmp_path / "checkpoints"
    folder.mkdir()

    def key():
        hiding = open_hiding(settings, folder)
        assert hiding is not None
        hiding.log.close()
        return hiding.notary.secret.public

    used = key()
    assert key() == used
    (folder / "sent.log").unlink()
    monkeypatch.setattr(RunKey, "keep", crash)
    with pytest.raises(Crash):
        open_hiding(settings, folder)
    monkeypatch.undo()
    assert key() != used
