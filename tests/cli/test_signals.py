"""A run that a signal ends resumes to the same bits, in this process and in one of its own."""

import json
import signal
import subprocess
import time

import pytest

import destiny
from tests.helpers.cli_experiments import AUTO, CONSTANT, PROGRAM, complete, document, problem_of, read

ENDS = {signal.SIGINT: 130, signal.SIGTERM: 143}


@pytest.fixture
def interrupt(monkeypatch):
    """Send this process a signal in the middle of the given step."""
    step = destiny.Destiny.step

    def arm(number, at, times=1):
        count = 0

        def counted(self, state, agents):
            nonlocal count
            count += 1
            for _ in range(times if count == at else 0):
                signal.raise_signal(number)
            return step(self, state, agents)

        monkeypatch.setattr(destiny.Destiny, "step", counted)

    return arm


RUNS = {
    "constant": {"stop": {"rounds": 90}},
    "bb": {"algorithm": [AUTO], "stop": {"rounds": 110}, "run": {"every": 7}},
    "converging": {"algorithm": [AUTO], "stop": {"rounds": 2000, "tolerance": 1e-5}},
    "local_stopping": {
        "algorithm": [AUTO],
        "stop": {"rounds": 2000, "tolerance": 1e-4, "local-stopping": True},
    },
    "lost links": {"network": {"kind": "ring", "loss": 0.2}, "stop": {"rounds": 90}},
    "olsr": {"problem": problem_of("olsr"), "algorithm": [AUTO], "stop": {"rounds": 110}},
    "two": {"algorithm": [CONSTANT | {"label": "first"}, CONSTANT | {"step": {"kind": "bb"}}]},
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize(("number", "at"), [(signal.SIGINT, 1), (signal.SIGTERM, 33)])
def test_an_interrupted_run_resumes_to_the_same_bits(run, tmp_path, interrupt, name, number, at):
    changes, out = RUNS[name], tmp_path / "out"
    interrupt(number, at)
    outcome = run(**changes)
    assert outcome.code == ENDS[number]
    assert len(outcome.err.splitlines()) == 1
    assert number.name in outcome.err
    assert "--resume" in outcome.err
    assert list(out.glob(f"*/checkpoints/checkpoint-{at:09d}.npz"))
    entry = json.loads((out / "summary.json").read_text(encoding="utf-8"))[-1]
    assert number.name in entry["reason"]
    assert entry["converged"] is False
    assert entry["steps"] == at
    assert run("--resume", **changes).code == 0
    assert run(out=tmp_path / "whole", **changes).code == 0
    labels = [e["label"] for e in json.loads((tmp_path / "whole" / "summary.json").read_text("utf-8"))]
    for label in labels:
        assert read(out, label).bits == read(tmp_path / "whole", label).bits
    assert (out / "convergence.png").is_file()


def test_a_run_interrupted_again_and_again_gets_there(run, tmp_path, interrupt):
    changes = RUNS["bb"]
    for at in (5, 5, 22, 1):
        interrupt(signal.SIGINT, at)
        assert run("--resume", **changes).code == 130
    interrupt(signal.SIGINT, 0)
    assert run("--resume", **changes).code == 0
    assert run(out=tmp_path / "whole", **changes).code == 0
    assert read(tmp_path / "out").bits == read(tmp_path / "whole").bits


def test_the_second_of_two_algorithms_resumes_and_the_first_is_kept(run, tmp_path, interrupt):
    changes = RUNS["two"]
    interrupt(signal.SIGTERM, 40 + 12)  # the first takes 40 steps
    assert run(**changes).code == 143
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert [(entry["label"], entry["steps"]) for entry in summary] == [("first", 40), ("DESTINY", 12)]
    assert run("--resume", **changes).code == 0
    assert run(out=tmp_path / "whole", **changes).code == 0
    for label in ("first", "DESTINY"):
        assert read(tmp_path / "out", label).bits == read(tmp_path / "whole", label).bits


def test_a_signal_in_the_last_step_loses_nothing(run, tmp_path, interrupt):
    interrupt(signal.SIGTERM, 40)
    assert run().code in (0, 143)
    assert run("--resume").code == 0
    assert run(out=tmp_path / "whole").code == 0
    assert read(tmp_path / "out").bits == read(tmp_path / "whole").bits
    assert (tmp_path / "out" / "convergence.png").is_file()


def test_a_second_signal_ends_at_once_without_a_traceback(run, tmp_path, interrupt):
    interrupt(signal.SIGINT, 30, times=2)
    outcome = run()
    assert outcome.code == 130
    assert "Traceback" not in outcome.err
    assert len(outcome.err.splitlines()) <= 1
    assert run("--resume").code == 0
    assert run(out=tmp_path / "whole").code == 0
    assert read(tmp_path / "out").bits == read(tmp_path / "whole").bits


def test_without_checkpoints_nobody_is_told_to_resume_in_vain(run, tmp_path, interrupt):
    interrupt(signal.SIGINT, 30)
    outcome = run(run={"checkpoint": 0})
    assert outcome.code == 130
    assert "--resume" not in outcome.err or list((tmp_path / "out").glob("*/checkpoints/*.npz"))


def test_resuming_after_the_agents_stopped_by_themselves_changes_nothing(run, tmp_path):
    changes = RUNS["local_stopping"]
    assert run(**changes).code == 0
    first = read(tmp_path / "out")
    assert first.entry["converged"] is True
    assert run("--resume", **changes).code == 0
    assert read(tmp_path / "out").bits == first.bits


LONG = {"algorithm": [AUTO], "stop": {"rounds": 1200}, "run": {"checkpoint": 50}}


@pytest.fixture(scope="module")
def uninterrupted(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("long") / "out"
    (folder / "long.toml").write_text(document(**LONG), encoding="utf-8")
    complete(folder / "long.toml", out)
    return read(out)


def start_long_run(folder, out):
    """A run in a process of its own, after its first checkpoint."""
    arguments = [*PROGRAM, "run", folder / "long.toml", "--out", out]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 30
    while not list(out.glob("*/checkpoints/*.npz")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.002)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_process_that_is_stopped_resumes_to_the_same_bits(command, uninterrupted, folder, tmp_path, number):
    out = tmp_path / "out"
    process = start_long_run(folder, out)
    process.send_signal(number)
    printed, told = process.communicate(timeout=30)
    assert printed == ""
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
        assert not (out / "summary.json").exists()
    else:
        assert process.returncode == ENDS[number]
        assert len(told.splitlines()) == 1
        assert number.name in told
        assert read(out).entry["steps"] < uninterrupted.entry["steps"]
    command("run", folder / "long.toml", "--out", out).refused("--out")
    assert command("run", folder / "long.toml", "--out", out, "--resume").code == 0
    assert read(out).bits == uninterrupted.bits
    assert not list(out.rglob("*.tmp*"))
