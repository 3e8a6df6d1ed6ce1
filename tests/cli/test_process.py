"""The command as a process of its own: exit code, progress bar, version, help."""

import contextlib
import importlib.metadata
import os
import subprocess
from pathlib import Path

import pytest

import destiny
from destiny import cli
from tests.helpers.cli_experiments import AUTO, PROGRAM, Outcome, document


def test_a_mistake_ends_a_process_with_2_and_one_line(folder, tmp_path):
    file = folder / f"{tmp_path.name}.toml"
    file.write_text(document(problem={"data": "nan.npy"}), encoding="utf-8")
    arguments = [*PROGRAM, "run", file, "--out", tmp_path / "out"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
    Outcome(done.returncode, done.stdout, done.stderr).refused("nan.npy")
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder in which nobody can write")
def test_a_folder_that_cannot_be_made_is_named_in_one_sentence(folder, tmp_path):
    file = folder / f"{tmp_path.name}.toml"
    file.write_text(document(), encoding="utf-8")
    arguments = [*PROGRAM, "run", file, "--out", "/proc/out"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
    Outcome(done.returncode, done.stdout, done.stderr).refused("cannot read or write /proc/out")
    assert "Error" not in done.stderr


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal to look at")
def test_a_terminal_gets_a_progress_bar(folder, tmp_path):
    file = folder / f"{tmp_path.name}.toml"
    file.write_text(document(algorithm=[AUTO], stop={"rounds": 10**6, "seconds": 0.3}), encoding="utf-8")
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "run", file, "--out", tmp_path / "out"],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "160"},
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError), os.fdopen(ours, "rb", buffering=0) as terminal:
        while part := terminal.read(4096):  # a terminal nobody reads would make the process wait
            shown += part
    assert process.wait(timeout=30) == 0
    assert b"DESTINY" in shown
    assert b"/1000000" in shown


def test_the_version_is_that_of_the_package(command):
    outcome = command("--version")
    assert (outcome.code, outcome.out, outcome.err) == (0, f"destiny {destiny.__version__}\n", "")
    done = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == outcome.out


def test_the_command_is_installed_under_its_name():
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="destiny")
    assert script.load() is cli.main


def test_help_names_the_commands(command):
    outcome = command("--help")
    assert outcome.code == 0
    for name in ("run", "doctor", "network"):
        assert name in outcome.out
