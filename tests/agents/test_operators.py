"""What operators of agents rely on: settings are compared, exit codes, messages, modes of files."""

import dataclasses
import errno
import json
import os
import re
import socket
import ssl
import threading
import time
from inspect import signature
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec import inspect
from typer.testing import CliRunner

import destiny
from destiny import agents, cli
from destiny.agents import outcome as answer
from destiny.agents import scaffold
from destiny.agents.transport import connector
from destiny.agents.transport.event_loop import Absent
from destiny.agents.transport.tls import describe_error
from destiny.config import tables
from destiny.config.problem import LOCAL, AgentProblem, shared_keys
from destiny.problems.data import files
from destiny.problems.kinds import KINDS
from tests.helpers.agent_party import Party, authority

PAIR = destiny.networks.path(2)
FEW = "rounds = 60\ntolerance = 0"
SDL = 'kind = "sdl"\ndata = "data.npy"\np = 3'


def with_data(party):
    """The same party with a file of data at every agent."""
    rng = np.random.default_rng(1)
    for i in range(party.size):
        np.save(party.home(i) / "data.npy", rng.standard_normal((30, 6)))
    return party


# Settings that are compared


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("scale = 10.0", "problem.scale is 10 at agent-1, 1 there"),
        ('precision = "float32"', 'problem.precision is "float32" at agent-1, "auto" there'),
    ],
)
def test_agents_with_another_problem_refuse_each_other(lines, words, tmp_path):
    party = with_data(Party(tmp_path, PAIR, problem=SDL, stop=FEW, deadline=1))
    party.write(1, problem=f"{SDL}\n{lines}")
    running = [party.thread(i) for i in range(2)]
    for one in running:
        with pytest.raises(destiny.SettingsError, match=re.escape(words)) as caught:
            one.end()
        assert caught.value.code == 2


def shared(**keys):
    """What must be equal at all agents of a problem with these keys."""
    return shared_keys(tables.read(AgentProblem, {"data": "mine.npy", "p": 2} | keys, "[problem]"), 2)


FIELDS: Any = inspect.type_info(tables.complete(AgentProblem)).fields  # type: ignore[attr-defined]


@pytest.mark.parametrize("key", [field.encode_name for field in FIELDS])
def test_every_key_of_the_problem_is_compared_unless_it_is_local(key):
    assert (key in shared(kind="pca")) == (key not in LOCAL)


@pytest.mark.parametrize("kind", KINDS)
def test_a_default_that_is_written_out_is_no_difference(kind):
    plain = {"kind": kind} | ({"targets": "mine.npy"} if kind == "olsr" else {})
    defaults = {f.encode_name: f.default for f in FIELDS if f.default not in (None, msgspec.NODEFAULT)}
    assert defaults.keys() == {"scale", "precision", "standardize"}
    others = {"data": "other.npy", "samples": "columns", "center": False}
    assert shared(**plain) == shared(**plain, **defaults, **others)
    for key, default in defaults.items():  # those of the files are those of the problems
        parameter = signature(KINDS[kind].make).parameters.get(key)
        assert parameter is None or parameter.default == default
    given = {"n": 5, "m": 9} | ({"xi": 0.5} if kind == "pca" else {})
    made = [{"synthetic": {**given, **more}, "data": None} for more in ({}, {"seed": 0}, {"seed": 1})]
    first, same, other = (shared(kind=kind, **table) for table in made)
    assert first == same != other
    if kind != "sdl":
        assert shared(**plain, standardize=True) == shared(**plain, standardize=True, center=True)


def test_a_whole_number_and_the_same_number_with_a_point_agree(tmp_path):
    party = with_data(Party(tmp_path, PAIR, problem=f"{SDL}\nscale = 10"))
    party.write(1, problem=f'{SDL}\nscale = 10.0\nsamples = "rows"')
    assert party.settings(0).hello.digest == party.settings(1).hello.digest


def test_a_hello_has_room_for_long_lists(tmp_path, monkeypatch):
    monkeypatch.setitem(tables._ADDED, AgentProblem, {"labels": (list[str] | None, None, "")})
    party = with_data(Party(tmp_path, PAIR, problem=f"{SDL}\nlabels = {json.dumps(['a name'] * 2000)}"))
    assert len(party.settings(0).hello.pack()) < 4096
    assert agents.read(party.home(0) / "agent.toml").common["problem.labels"].startswith("sha256 ")


def runner():
    """Runs commands in this process, standard output and error apart."""
    return CliRunner(**({"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}))


# Exit codes and plausible answers


def test_exit_codes_tell_converged_from_out_of_rounds(tmp_path):
    for stop, code, words in ((FEW, 3, "out of rounds: 60 of 60 used"), ("tolerance = 1e-6", 0, "converged")):
        party = Party(tmp_path / str(code), PAIR, stop=stop)
        other = party.thread(0)
        done = runner().invoke(cli.app, ["agent", str(party.home(1) / "agent.toml")])
        other.end()
        assert done.exit_code == code
        assert words in done.stdout
        said = [line.removeprefix("destiny: agent-1: ") for line in done.stderr.splitlines()]
        learned = "plain messages: each neighbor learns all numbers this agent sends"
        assert said == [learned, "waiting for agent-0", "connected to agent-0"], (
            "an ordinary start has no alarms"
        )


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EACCES])
def test_a_full_disk_is_a_reason_to_start_again(number, tmp_path, monkeypatch):
    def touch(*_, **__):
        raise OSError(number, os.strerror(number))

    party = Party(tmp_path, PAIR)
    monkeypatch.setattr(Path, "touch", touch)
    with pytest.raises(destiny.DestinyError, match=os.strerror(number)) as caught:
        agents.run(party.settings(0), loud=False)
    assert caught.value.code == (2 if number == errno.EACCES else 75)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("when", ["read", "run"])
def test_too_many_open_files_are_told_as_that_and_not_as_a_damaged_file(number, when, tmp_path, monkeypatch):
    party = with_data(Party(tmp_path, PAIR, problem='kind = "pca"\ndata = "data.npy"\np = 2'))
    settings = party.settings(0) if when == "run" else None

    def load(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files, "open_memmap", load)
    with pytest.raises(destiny.DestinyError, match="too many files and connections open: raise") as caught:
        agents.run(settings or party.settings(0), loud=False)
    assert caught.value.code == 75
    assert "data.npy" not in str(caught.value)


def test_a_name_that_cannot_be_resolved_is_told_as_that():
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert describe_error(error) == "its name cannot be resolved: Name or service not known"


def test_a_lie_in_the_last_averaging_is_not_reported_as_an_answer(tmp_path, monkeypatch):
    party = Party(tmp_path, PAIR, stop="tolerance = 1e-6")
    average, liar = answer.average, []

    def lie(hosted, network, *arrays):
        if threading.current_thread() in liar and len(arrays) == 4:
            arrays = (1e4 * arrays[0], *arrays[1:])
        return average(hosted, network, *arrays)

    monkeypatch.setattr(answer, "average", lie)
    liar.append(party.thread(0))
    outcome = party.thread(1).end()
    liar[0].end()
    assert outcome.explained > 100
    assert not outcome.converged
    assert re.match(
        r"do not use this answer: the explained variance is \d+ %, expected 0 to 100", outcome.reason
    )
    assert str(outcome).startswith("do not use this answer")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"explained": -0.1}, "explained variance is -10 %"),
        ({"explained": float("nan")}, "explained variance is nan %"),
        ({"objective": float("inf")}, "the objective is inf, expected a finite number"),
        ({"stationarity": 3.0}, "the stationarity is 3, expected 0 to 1"),
        ({"consensus": 20.0}, "copy is 20 away from the average"),
        ({"X": np.ones((4, 2))}, r"||X^T X - I|| is"),
    ],
)
def test_numbers_that_cannot_be_right_are_named(changes, words):
    right = agents.Outcome(
        reason="converged",
        converged=True,
        X=np.eye(4, 2),
        own=np.eye(4, 2),
        axes=None,
        objective=-1.0,
        explained=1.0 + 1e-12,
        stationarity=1e-9,
        consensus=1e-9,
        feasibility=0.0,
        steps=1,
        rounds=1,
        sent=1,
        seconds=1.0,
        averaging=1,
    )
    assert right.checked() is right
    wrong = dataclasses.replace(right, **changes).checked()
    assert words in wrong.reason
    assert not wrong.converged


# What is said


def test_a_neighbor_that_does_not_come_is_reported_only_after_some_time(tmp_path, monkeypatch, capfd):
    party = Party(tmp_path, PAIR, deadline=1.5)
    for patient, said in ((10.0, False), (0.5, True)):
        monkeypatch.setattr(connector, "REPORT_AFTER", patient)
        with pytest.raises(Absent, match=r"agent-1 cannot be reached at .* \(connection refused\)"):
            agents.run(party.settings(0))
        text = capfd.readouterr().err
        assert "agent-0: waiting for agent-1\n" in text
        assert ("cannot be reached" in text) == said


@pytest.mark.parametrize("polite", [True, False], ids=["alert", "no alert"])
def test_a_certificate_that_the_called_agent_rejects_is_named(polite, tmp_path):
    """A server of another authority: with an alert after the handshake, or closing without a word."""
    party = Party(tmp_path, PAIR, deadline=1.5)
    home = party.home(1)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(home / "certificate.pem", home / "key.pem")
    if polite:
        (home / "theirs.pem").write_bytes(authority("theirs").pem)
        server.load_verify_locations(home / "theirs.pem")
        server.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server((party.host, 7001)) as listener:
        threading.Thread(target=answer_calls, args=(listener, server), daemon=True).start()
        expected = "rejected our certificate: it does not know the authority that signed it"
        if not polite:
            expected = "ended the connection before its HELLO: perhaps it does not accept our certificate"
        with pytest.raises(destiny.DestinyError, match=f"agent-1 {expected}") as caught:
            party.thread(0).end()
        assert caught.value.code == (2 if polite else 75)
        listener.shutdown(socket.SHUT_RDWR)


def answer_calls(listener, context):
    """Shake hands with every caller, read a little and hang up."""
    while True:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        with context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False) as secured:
            try:
                secured.do_handshake()
            except ssl.SSLError:
                time.sleep(0.3)  # the alert was sent; hanging up with a HELLO unread would take it along
            except OSError:
                pass


def test_a_caller_that_rejects_our_certificate_is_named(tmp_path):
    """agent-0 does not know the authority of agent-1, which it calls: both logs say so."""
    party = Party(tmp_path, PAIR, deadline=2)
    (party.home(0) / "ca.pem").write_bytes(authority("theirs").pem)
    running = [party.thread(i) for i in range(2)]
    for one in running:
        with pytest.raises(destiny.DestinyError):
            one.end()
    assert any("certificate refused: " in e.get("why", "") for e in party.log(0))
    assert any("perhaps it does not accept our certificate" in e.get("why", "") for e in party.log(1))
    assert "ConnectionResetError" not in str(party.log(1))


def test_a_file_that_differs_from_the_checkpoint_is_told_by_the_difference_alone(tmp_path):
    party = Party(tmp_path, PAIR, stop=FEW)
    party.go()
    party.write(0, stop="rounds = 61\ntolerance = 0")
    with pytest.raises(destiny.CheckpointError) as caught:
        party.thread(0).end()
    told = (
        "belongs to another run: its settings.rounds is 60, this file's is 61; choose another folder for out"
    )
    assert str(caught.value).endswith(told)
    for path in (party.out(0) / "checkpoints").iterdir():
        path.unlink()
    with pytest.raises(destiny.DestinyError) as caught:
        party.thread(0).end()
    assert "holds another run: its settings.rounds is 60, this file's is 61; " in str(caught.value)


def test_init_says_what_it_assumes_and_takes_p(tmp_path):
    run = runner()
    words = ["agents", "init", "ring", "--hosts", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "--out"]
    done = run.invoke(cli.app, [*words, str(tmp_path / "a")])
    assert "this is PCA of data.npy with p = 2 components: --p chooses another number" in done.stderr
    done = run.invoke(cli.app, [*words, str(tmp_path / "b"), "--p", "5"])
    assert "this is PCA" not in done.stderr
    assert "private messages: every agent learns sums over all 3 agents" in done.stderr
    assert "\np = 5 " in (tmp_path / "b" / "agent-1" / "agent.toml").read_text()
    with pytest.raises(destiny.SettingsError, match="--p must be at least 1; found 0"):
        scaffold.write_agent_files("ring", "a:1,b:2", tmp_path / "c", "run", 0)
    (tmp_path / "e.toml").write_text(
        '[problem]\nkind = "pca"\ndata = "d.npy"\np = 1\nagents = 2\n[network]\nkind = "path"\n'
    )
    with pytest.raises(destiny.SettingsError, match=r"e\.toml has its own p"):
        scaffold.write_agent_files(str(tmp_path / "e.toml"), "a:1,b:2", tmp_path / "c", "run", 3)


def test_files_are_their_owners_whatever_the_folder_was(tmp_path):
    party = Party(tmp_path, PAIR, stop=FEW)
    party.out(1).mkdir(mode=0o755)
    (party.out(1) / "log.jsonl").touch(mode=0o644)
    before = os.umask(0o022)
    try:
        party.go()
    finally:
        os.umask(before)
    for i in range(2):
        for path in party.out(i).rglob("*"):
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
