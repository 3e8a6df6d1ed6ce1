"""Agents with private sums: the bits of one process, through crashes too; what travels tells nothing."""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import os
import shutil
import struct
import threading
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import destiny
from destiny.agents import scaffold
from destiny.agents.outbox import Outbox
from destiny.agents.privacy.exchange import PrivateExchange
from destiny.agents.privacy.masks import RunKey
from destiny.agents.privacy.sent_log import SentLog
from destiny.agents.privacy.setup import Privacy
from destiny.agents.transport.connection import Connection
from destiny.agents.transport.messages import HEADER, Header, Kind
from destiny.cli import app
from destiny.engines import fixed_point
from destiny.errors import CheckpointError, SettingsError
from tests.helpers.agent_party import PATIENCE, Party

nets = destiny.networks
PRIVATE = "private = true"
FIXED = "rounds = 90\ntolerance = 0"


class Crash(BaseException):
    """Ends an agent's thread like a lost machine would end its process."""


def edges(network):
    return f'[network]\nkind = "edges"\nedges = {network.edges.tolist()}'


CASES = {
    "ring": (nets.ring(4), 'kind = "destiny-momentum"', False),
    "all know the network": (nets.complete(4), 'kind = "destiny"', True),
    "two calls a step": (nets.ring(3), 'kind = "atc"', False),
    "several rounds": (nets.ring(4), 'kind = "deepca"\nrounds = 3\nmixing = "fastmix"', False),
}


@pytest.mark.parametrize("case", CASES)
def test_masked_sums_have_the_bits_of_one_process(case, tmp_path):
    network, algorithm, whole = CASES[case]
    tolerance = 0 if "deepca" in algorithm else 1e-4
    party = Party(
        tmp_path,
        network,
        algorithm=algorithm,
        whole=edges(network) if whole else "",
        messages=PRIVATE,
        stop=f"rounds = 150\ntolerance = {tolerance}",
    )
    party.go()
    party.check()
    said = [e["why"] for e in party.log(0) if e["event"] == "messages"]
    assert said[0].startswith(f"private sums: each of {len(party.settings(0).neighbours)} neighbours learns")


def test_centred_data_are_averaged_by_masked_sums_too(tmp_path):
    party = Party(
        tmp_path,
        nets.ring(3),
        problem='kind = "pca"\nsynthetic = { n = 6, m = 60, xi = 0.7, seed = 0 }\np = 2\ncenter = true',
        messages=PRIVATE,
        stop="rounds = 200\ntolerance = 1e-4",
        whole=edges(nets.ring(3)),
    )
    party.go()
    party.check()


def test_the_default_is_private_where_the_network_allows_it(tmp_path):
    ring, path = nets.ring(4), nets.path(4)
    known = Party(tmp_path / "a", ring, messages="", whole=edges(ring))
    assert known.settings(0).messages.private
    assert Party(tmp_path / "b", ring, messages="").settings(0).messages.private
    exposed = Party(tmp_path / "c", path, messages="", whole=edges(path)).settings(2)
    assert not exposed.messages.private
    assert "plain messages: each neighbour learns all" in exposed.disclosure
    assert "agent 0 has agent 1 only" in exposed.disclosure
    changing = f"{edges(ring)}\nloss = 0.2"
    assert not Party(tmp_path / "d", ring, messages="", whole=changing).settings(0).messages.private
    party = Party(tmp_path / "e", path, messages="")
    with pytest.raises(SettingsError, match=r"one neighbour, agent-1, .*private = false into \[messages\]"):
        party.settings(0)
    party = Party(tmp_path / "f", path, messages=PRIVATE, whole=edges(path))
    with pytest.raises(SettingsError, match="agent 0 has agent 1 only"):
        party.settings(1)


def test_agents_that_differ_on_it_do_not_meet(tmp_path):
    party = Party(tmp_path, nets.ring(3), messages=PRIVATE, deadline=2)
    party.write(2, messages="private = false")
    running = [party.thread(i) for i in range(3)]
    errors = [r.error for r in running if not r.join(PATIENCE)]
    assert any("messages.private is" in str(error) for error in errors)


def crash(*_, **__):
    raise Crash


def crash_once(monkeypatch, agent, rounds):
    """An agent ends like a lost machine when it comes to each of these rounds."""
    left, whole = list(rounds), PrivateExchange.sum

    def sum_or_die(self, round, slot, known, numbers, rider):
        if self.index == agent and left and round == left[0]:
            left.pop(0)
            raise Crash
        return whole(self, round, slot, known, numbers, rider)

    monkeypatch.setattr(PrivateExchange, "sum", sum_or_die)


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


@pytest.mark.parametrize("algorithm", ["destiny-momentum", "atc"])
def test_an_agent_that_crashes_goes_on_with_the_same_bits(algorithm, tmp_path, monkeypatch):
    """Before its first checkpoint, between two, and where exponents are agreed on anew."""
    party = Party(
        tmp_path, nets.ring(4), algorithm=f'kind = "{algorithm}"', messages=PRIVATE, stop=FIXED,
        run="checkpoint = 10",
    )  # fmt: skip
    crash_once(monkeypatch, 1, [13, 41, 52, 60, 75])
    running = [Restarted(party, i) for i in range(party.size)]
    for one in running:
        one.join(PATIENCE)
        assert one.error is None, one.error
    assert [one.crashes for one in running] == [0, 5, 0, 0]
    party.check()


def test_neighbours_that_crash_together_go_on_with_the_same_bits(tmp_path, monkeypatch):
    party = Party(tmp_path, nets.ring(4), messages=PRIVATE, stop=FIXED, run="checkpoint = 10")
    crash_once(monkeypatch, 1, [35])
    crash_once(monkeypatch, 2, [35, 36])
    crash_once(monkeypatch, 0, [52, 70])
    running = [Restarted(party, i) for i in range(party.size)]
    for one in running:
        one.join(PATIENCE)
        assert one.error is None, one.error
    party.check()
    # Who goes on is behind those who did not crash, and refuses none of the rounds that they send again.
    assert not [e for i in range(party.size) for e in party.log(i) if e["event"] == "refused"]
    # At most two versions of the same numbers have gone to a neighbour: one choice of exponents each.
    for i in range(party.size):
        lines = (party.out(i) / "checkpoints" / "sent.log").read_text().splitlines()
        chosen = [line.split()[1:3] for line in lines if line.startswith("plan")]
        assert len(chosen) == len({tuple(pair) for pair in chosen})


def test_an_agent_that_lost_its_checkpoints_but_not_what_it_sent_begins_again(tmp_path, monkeypatch):
    """It knows nothing of rounds that it has not come to, also if its files once did."""
    party = Party(tmp_path, nets.ring(4), messages=PRIVATE, stop=FIXED, run="checkpoint = 10")
    crash_once(monkeypatch, 1, [20])  # after its first checkpoint
    running, lost = [Restarted(party, i) for i in (0, 2, 3)], party.thread(1)
    lost.join(PATIENCE)
    files = party.out(1) / "checkpoints"
    for path in files.glob("checkpoint-*.npz"):
        path.unlink()
    known = [Outbox.load(files, end) for end in (0, 16)]
    assert all(outbox.slots.keys() == outbox.messages.keys() for outbox in known)
    assert [len(outbox.slots) for outbox in known] == [0, 16]
    for one in [*running, Restarted(party, 1)]:
        one.join(PATIENCE)
        assert one.error is None, one.error
    party.check()


def crashed(party, monkeypatch, agent, round):
    """The folders after one agent was lost, and all others ended for want of it."""
    crash_once(monkeypatch, agent, [round])
    running = [party.thread(i) for i in range(party.size)]
    for one in running:
        one.join(PATIENCE)
    monkeypatch.undo()


def test_other_numbers_than_before_are_not_sent(tmp_path, monkeypatch):
    party = Party(tmp_path, nets.ring(3), messages=PRIVATE, stop=FIXED, run="checkpoint = 10", deadline=1)
    crashed(party, monkeypatch, 1, 47)
    log = party.out(1) / "checkpoints" / "sent.log"
    lines = log.read_text().splitlines(keepends=True)
    other = next(line for line in lines if line.startswith("sent 44 "))
    log.write_text("".join(lines).replace(other, "sent 44 " + "0" * 32 + "\n"))
    running = [party.thread(i) for i in range(3)]
    with pytest.raises(CheckpointError, match=r"numbers of round 44 are not those .* has sent before"):
        running[1].end()
    for one in running:
        one.join(PATIENCE)


def test_keys_that_were_lost_end_the_run_in_words(tmp_path, monkeypatch):
    party = Party(tmp_path, nets.ring(3), messages=PRIVATE, stop=FIXED, run="checkpoint = 10", deadline=1)
    crashed(party, monkeypatch, 1, 37)
    (party.out(1) / "checkpoints" / "private-sums.key").unlink()
    with pytest.raises(CheckpointError, match=r"private-sums.key is missing"):
        party.thread(1).end()
    (party.out(2) / "checkpoints" / "sent.log").unlink()
    with pytest.raises(CheckpointError, match=r"sent.log must tell what was sent in \d+ rounds; found 0"):
        party.thread(2).end()


def test_an_agent_that_is_done_serves_others_from_its_files(tmp_path, monkeypatch):
    party = Party(tmp_path, nets.ring(3), messages=PRIVATE, stop=FIXED, run="checkpoint = 10", deadline=1)
    crashed(party, monkeypatch, 1, 95)  # in the averaging, after the last step
    party.deadline = 60
    for i in range(3):
        party.write(i)
    party.go()
    party.check()


def test_what_travels_is_uniform_and_never_the_same(tmp_path, monkeypatch):
    sent: dict[int, list[tuple[int, bytes]]] = {}  # by connection
    write = Connection.write

    def spy(self, message):
        header = Header.unpack(message[: HEADER.size])
        if header.kind is Kind.DATA:
            sent.setdefault(id(self), []).append((header.round, bytes(message[HEADER.size :])))
        write(self, message)

    monkeypatch.setattr(Connection, "write", spy)
    party = Party(
        tmp_path,
        nets.ring(3),
        problem='kind = "pca"\nsynthetic = { n = 40, m = 90, xi = 0.7, seed = 0 }\np = 3',
        algorithm='kind = "deepca"',
        messages=PRIVATE,
        stop="rounds = 60\ntolerance = 0",
    )
    party.go()
    width, groups = 120, fixed_point.layout((120,)).groups
    assert len(sent) == 6
    for messages in sent.values():
        steps = [np.frombuffer(m, "<u8") for k, m in messages if k < 60]
        assert len(steps) >= 60
        assert {len(words) for words in steps} == {1 + groups + width}
        masked = np.stack([words[-width:] for words in steps])
        assert len({words.tobytes() for words in masked}) == len(masked)
        counts = np.bincount(masked.view(np.uint8).ravel(), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-6
        # Successive messages, which are nearly the same numbers in the end, have nothing in common.
        pair = (masked[:-1].ravel() >> 11).astype(float), (masked[1:].ravel() >> 11).astype(float)
        assert abs(np.corrcoef(*pair)[0, 1]) < 6 / np.sqrt(pair[0].size)


def test_participants_are_checked(tmp_path):
    party = Party(tmp_path, nets.ring(4), messages=PRIVATE, deadline=2)
    names = [party.name(i) for i in range(4)]
    party.write(0, messages=f"{PRIVATE}\nparticipants = {json.dumps(names)}")
    assert party.settings(0).participants == names
    wrong = [*names[:2], "mallory", *names[3:]]  # agent-2 is not agent-0's neighbour, but its neighbours'
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


def test_files_for_a_network_say_whether_sums_are_private(tmp_path):
    hosts = "a=h:1,b=h:2,c=h:3"
    (first, *_) = scaffold.write_agent_files("ring", hosts, tmp_path / "ring", "run")
    found = tomllib.loads(first.read_text())["messages"]
    assert found == {"private": True, "participants": ["a", "b", "c"]}
    assert "of 2 agents at least; with 3 or more" in scaffold.disclosure("ring", hosts)
    (first, *_) = scaffold.write_agent_files("path", hosts, tmp_path / "path", "run")
    assert tomllib.loads(first.read_text())["messages"] == {"private": False}
    assert "plain messages, which neighbours can read: " in scaffold.disclosure("path", hosts)
    with pytest.raises(SettingsError, match="agent 0 has agent 1 only"):
        scaffold.write_agent_files("path", hosts, tmp_path / "no", "run", private=True)
    (first, *_) = scaffold.write_agent_files("ring", hosts, tmp_path / "plain", "run", private=False)
    assert "private = false" in first.read_text()


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
    assert told.stderr.startswith("destiny: plain messages, which neighbours can read")


def test_the_log_of_another_run_is_begun_anew_and_half_a_line_is_dropped(tmp_path):
    log = SentLog(tmp_path, "one")
    log.add_round(0, np.ones(3))
    assert log.add_plan(0, 2, (4, 8))
    log.close()
    path = tmp_path / "sent.log"
    path.write_bytes(path.read_bytes() + b"sent 1 00")
    again = SentLog(tmp_path, "one")
    assert again.before == 1
    assert again.add_plan(0, 2, (4, 8))
    assert not again.add_plan(0, 2, (8, 8))
    again.add_round(0, np.ones(3))
    with pytest.raises(CheckpointError, match="numbers of round 0 are not those"):
        again.add_round(0, np.zeros(3))
    again.close()
    other = SentLog(tmp_path, "two")
    assert other.before == 0
    other.begin()
    other.close()
    path.write_bytes(path.read_bytes() + b"nonsense\n")
    with pytest.raises(CheckpointError, match="is damaged"):
        SentLog(tmp_path, "two")


def test_an_agent_that_is_started_twice_does_not_shorten_its_log(tmp_path, monkeypatch):
    """The second process ends when it finds its port in use, but has opened the log before."""
    log, read = SentLog(tmp_path, "run"), Path.read_bytes
    log.add_round(0, np.ones(3))

    def read_while_the_first_goes_on(path):
        content = read(path)
        log.add_round(1, np.ones(3))
        return content

    monkeypatch.setattr(Path, "read_bytes", read_while_the_first_goes_on)
    SentLog(tmp_path, "run").close()
    monkeypatch.undo()
    log.close()
    again = SentLog(tmp_path, "run")
    again.close()
    assert again.before == 2


def test_a_line_that_does_not_fit_on_the_disk_is_an_error(tmp_path, monkeypatch):
    """The system takes what fits and says so; half a line would be dropped, though its numbers were sent."""
    log = SentLog(tmp_path, "run")
    log.add_round(0, np.ones(3))
    before, write, room = (tmp_path / "sent.log").read_bytes(), os.write, [10]

    def write_while_there_is_room(file, content):
        if room[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = write(file, content[: room[0]])
        room[0] -= count
        return count

    monkeypatch.setattr(os, "write", write_while_there_is_room)
    for attempt in (lambda: log.add_round(1, np.ones(3)), lambda: log.add_plan(0, 2, (4, 8))):
        with pytest.raises(CheckpointError, match="No space left"):
            attempt()
        assert (tmp_path / "sent.log").read_bytes() == before
        room[0] = 10
        with pytest.raises(CheckpointError, match="No space left"):  # it is not known from the first time
            attempt()
        room[0] = 10
    monkeypatch.undo()
    log.close()


def test_a_crash_between_log_and_key_leaves_no_old_key(tmp_path, monkeypatch):
    """A log without a key of its own would vouch for one that an earlier run of the same name has used."""
    party = Party(tmp_path, nets.ring(3), messages=PRIVATE, stop=FIXED)
    settings, folder = party.settings(0), tmp_path / "checkpoints"
    folder.mkdir()

    def key():
        privacy = Privacy.open(settings, folder, 0)
        privacy.close()
        return privacy.keys.secret.public

    used = key()
    (folder / "sent.log").unlink()
    monkeypatch.setattr(RunKey, "keep", crash)
    with pytest.raises(Crash):
        Privacy.open(settings, folder, 0)
    monkeypatch.undo()
    assert key() != used


def test_files_of_an_earlier_time_are_noticed(tmp_path, monkeypatch):
    """Restored from a backup, log included: other numbers could go out under the masks of before."""
    party = Party(tmp_path, nets.ring(3), messages=PRIVATE, stop=FIXED, run="checkpoint = 10", deadline=1)
    crashed(party, monkeypatch, 1, 37)
    shutil.copytree(party.out(1), tmp_path / "backup")
    crashed(party, monkeypatch, 1, 44)
    shutil.rmtree(party.out(1))
    shutil.copytree(tmp_path / "backup", party.out(1))
    running = [party.thread(i) for i in range(3)]
    with pytest.raises(SettingsError, match="unless files here are of an earlier time"):
        running[1].end()
    for one in running:
        one.join(PATIENCE)


def test_the_tags_of_a_log_are_those_of_the_standards_under_its_own_key(tmp_path):
    """Poly1305 of RFC 8439 written out; nobody without the key can find other numbers of the same tag."""
    numbers, tags = np.random.default_rng(0).standard_normal(11), []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        log = SentLog(folder, "run")
        for round in (0, 1):
            log.add_round(round, numbers)
        log.close()
        first, *lines = (folder / "sent.log").read_text().splitlines()
        tags += [line.split()[2] for line in lines]
        key = hmac.new(bytes.fromhex(first.split()[-1]), struct.pack("<Q", 1), hashlib.sha256).digest()
        assert tags[-1] == poly1305(key, numbers.tobytes()).hex()
    assert len(set(tags)) == 4
    path = tmp_path / "a" / "sent.log"
    path.write_bytes(path.read_bytes().replace(b'run "run" ', b'run "run" 0'))
    with pytest.raises(CheckpointError, match="is damaged"):
        SentLog(tmp_path / "a", "run")


def poly1305(key, message):
    r, s = (int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF, key[16:])
    total = 0
    for k in range(0, len(message), 16):
        total = (total + int.from_bytes(message[k : k + 16] + b"\1", "little")) * r % (2**130 - 5)
    return ((total + int.from_bytes(s, "little")) % 2**128).to_bytes(16, "little")
