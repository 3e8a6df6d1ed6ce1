"""Signals in a script: a run is saved first, then whoever handled the signal before the run gets it."""

import asyncio
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass

import pytest

import destiny
from destiny.storage import checkpoint
from tests.helpers import ROOT
from tests.helpers.small_problems import small_problem


@dataclass(frozen=True)
class Interrupted(destiny.Destiny):
    """A signal arrives in the first step."""

    number: int = signal.SIGTERM

    def step(self, state, agents):
        if agents.traffic.rounds <= self.opening:
            signal.raise_signal(self.number)
        return super().step(state, agents)


SCRIPT = """
import sys
import destiny
from tests.run.test_signals import run

for _ in range(3):
    run(sys.argv[1])
    print("went on", flush=True)
"""


def run(folder, number=signal.SIGTERM, **options):
    method = Interrupted(number=int(number))
    return destiny.solve(
        small_problem("pca"),
        destiny.networks.ring(6),
        method,
        checkpoint=folder,
        checkpoint_every=0,
        **options,
    )


def test_sigterm_ends_a_script_after_the_checkpoint(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "out")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, "", "")
    assert [path.name for path in checkpoint.list_checkpoints(tmp_path / "out")] == [
        "checkpoint-000000001.npz"
    ]


def test_ctrl_c_reaches_the_caller_after_the_checkpoint(tmp_path, handler):
    handler(signal.SIGINT)  # puts back whatever was there before this test
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, signal.SIGINT)
    assert checkpoint.list_checkpoints(tmp_path)


def test_a_handler_of_ones_own_is_called_once_and_decides(tmp_path, handler):
    mine = handler(signal.SIGTERM)
    result = run(tmp_path)
    assert mine.received == [signal.SIGTERM]
    assert result.interrupted == "SIGTERM"
    assert result.steps == 1


def test_an_ignored_signal_stays_ignored(tmp_path, handler):
    handler(signal.SIGINT)  # puts back whatever was there before this test
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    result = run(tmp_path, signal.SIGINT)
    assert result.converged
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_comparison_hands_the_signal_on_and_runs_no_further_method(handler):
    mine = handler(signal.SIGTERM)
    methods = {"first": Interrupted(), "second": destiny.Destiny()}
    found = destiny.compare(small_problem("pca"), destiny.networks.ring(6), methods)
    assert mine.received == [signal.SIGTERM]
    assert list(found.results) == ["first"]


def test_a_run_in_a_thread_touches_no_handler(handler, monkeypatch):
    mine, results = handler(signal.SIGTERM), []
    monkeypatch.setattr(signal, "raise_signal", pytest.fail)

    def work():
        results.append(destiny.solve(small_problem("pca"), destiny.networks.ring(6), rounds=40))

    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        assert signal.getsignal(signal.SIGTERM) is mine
        thread.join(0.01)
    assert results[0].interrupted is None


def test_a_handler_of_asyncio_is_called_once(tmp_path):
    """An event loop gets signals twice: by its handler and by a file descriptor that it reads."""
    received = []

    async def main():
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, received.append, "SIGTERM")
        result = run(tmp_path)
        await asyncio.sleep(0.05)
        signal.raise_signal(signal.SIGTERM)  # the loop still handles those that come later
        await asyncio.sleep(0.05)
        loop.remove_signal_handler(signal.SIGTERM)
        return result

    assert asyncio.run(main()).interrupted == "SIGTERM"
    assert received == ["SIGTERM", "SIGTERM"]
