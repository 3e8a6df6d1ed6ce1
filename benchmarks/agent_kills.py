"""Agents over TLS are killed at random, some with damaged checkpoints: the same bits, or a refusal in words.

``python -m benchmarks.agent_kills --events 50 --seed 0 [--private | --bits 8]``. A trial is a run of
four agents on loopback, of which some are killed and started again. It must end in the bits of an undisturbed
run, or with an agent that refuses in one sentence (exit code 2). Exit code 1 if anything else happens.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from destiny import DestinyError, agents
from destiny.agents import scaffold
from destiny.engines.mixers import Messages, from_keys

AGENTS, EVENTS_A_TRIAL = 4, 5
DEADLINE = 8.0  # seconds; a refusal takes as long to be final
PATIENCE = 600.0  # seconds for one trial
EXPERIMENT = f"""
[problem]
kind = "pca"
synthetic = {{ n = 12, m = 90, xi = 0.7, seed = 0 }}
p = 3
agents = {AGENTS}
[network]
kind = "ring"
[[algorithm]]
kind = "destiny"
step = {{ kind = "constant", eta = 0.05 }}
[stop]
rounds = 700
tolerance = 0
[run]
checkpoint = 10
"""
FORK = multiprocessing.get_context("fork")  # starts at once: what takes long to import is there


# Damages


def truncate(path: Path, chance: random.Random) -> None:
    """Cut a file short."""
    raw = path.read_bytes()
    path.write_bytes(raw[: chance.randrange(len(raw))])


def flip(path: Path, chance: random.Random) -> None:
    """Change one byte."""
    raw = bytearray(path.read_bytes())
    raw[chance.randrange(len(raw))] ^= chance.randrange(1, 256)
    path.write_bytes(raw)


def swap(path: Path, chance: random.Random) -> None:
    """Exchange two files."""
    other = chance.choice([p for p in _files(path.parent) if p != path] or [path])
    first, second = path.read_bytes(), other.read_bytes()
    path.write_bytes(second)
    other.write_bytes(first)


def restore(path: Path, chance: random.Random) -> None:
    """Put an old copy of one of the files back in the place of another of its kind."""
    kind = path.name.partition("-")[0]
    copies = sorted(p for p in (path.parents[1] / "copies").glob(f"{kind}-*"))
    if copies:
        shutil.copy(chance.choice(copies), path)


def delete(path: Path, chance: random.Random) -> None:  # noqa: ARG001
    """Remove a file."""
    path.unlink()


def nothing(path: Path, chance: random.Random) -> None:
    """Leave the files as they are."""


DAMAGES: list[Callable[[Path, random.Random], None]] = [nothing, truncate, flip, swap, restore, delete]


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.npz"))


# A trial


class Agents:
    """The agents of one trial, as processes."""

    def __init__(self, folder: Path, chance: random.Random, messages: Messages) -> None:
        self.folder, self.chance = folder, chance
        bits = messages.keys().get("bits", 64)
        (folder / "experiment.toml").write_text(f"{EXPERIMENT}[messages]\nbits = {bits}\n")
        host = ".".join(["127", *(str(random.SystemRandom().randrange(1, 255)) for _ in range(3))])
        experiment, party = str(folder / "experiment.toml"), folder / "party"
        self.paths = scaffold.write_agent_files(
            experiment, f"{host}:7000", party, "kills", private=messages.private
        )
        for path in self.paths:
            path.write_text(path.read_text().replace("[tls]", f"deadline = {DEADLINE}\n[tls]", 1))
        scaffold.write_certificates(party)
        self.running = [self.start(i) for i in range(AGENTS)]

    def start(self, i: int) -> multiprocessing.process.BaseProcess:
        """Start an agent, for the first time or again."""
        process = FORK.Process(target=_run, args=(self.paths[i], self.words(i)))
        process.start()
        return process

    def words(self, i: int) -> Path:
        """What the last process of an agent said."""
        return self.paths[i].parent / "words.txt"

    def checkpoints(self, i: int) -> Path:
        """The folder of an agent's checkpoints."""
        return self.paths[i].parent / "results" / "checkpoints"

    def step(self, i: int) -> int:
        """The step of an agent's newest checkpoint."""
        names = [path.stem for path in self.checkpoints(i).glob("checkpoint-*.npz")]
        return max((int(name[-9:]) for name in names), default=0)

    def kill(self) -> str:
        """Kill one or two agents after a while, damage the first one's files, start them again."""
        first, second = self.chance.sample(range(AGENTS), 2)
        victims = [first, second][: self.chance.choice((1, 1, 2))]
        goal = self.step(first) + 10 * self.chance.randrange(1, 8)
        while self.step(first) < goal and all(process.is_alive() for process in self.running):
            time.sleep(0.01)
        self.copy(first)
        time.sleep(self.chance.uniform(0, 0.05))
        for i in victims:
            self.end(i, signal.SIGKILL)
        damage = self.chance.choice(DAMAGES)
        if files := _files(self.checkpoints(first)):
            damage(self.chance.choice(files), self.chance)
        for i in victims:
            self.running[i] = self.start(i)
        return damage.__name__

    def copy(self, i: int) -> None:
        """Keep a copy of an agent's files for later."""
        copies = self.checkpoints(i).parent / "copies"
        copies.mkdir(parents=True, exist_ok=True)
        for path in _files(self.checkpoints(i)):
            try:
                shutil.copy(path, copies)
            except FileNotFoundError:  # the agent has just removed it
                continue

    def end(self, i: int, number: signal.Signals) -> None:
        """End a process of ours."""
        process = self.running[i]
        if process.is_alive() and process.pid is not None:
            os.kill(process.pid, number)
        process.join()

    def finish(self) -> list[int]:
        """Wait for all, start again whoever lacks a neighbor; the exit codes in the end."""
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            codes = [process.exitcode for process in self.running]
            if any(code not in (None, 0, 75) for code in codes) or all(code == 0 for code in codes):
                break
            for i in (i for i, code in enumerate(codes) if code == 75):
                self.running[i] = self.start(i)
            time.sleep(0.05)
        for i in range(AGENTS):
            self.end(i, signal.SIGTERM)
        return [-1 if code is None else code for code in (p.exitcode for p in self.running)]

    def answers(self) -> list[np.ndarray]:
        """The agents' own copies."""
        solutions = []
        for path in self.paths:
            with np.load(path.parent / "results" / "solution.npz", allow_pickle=False) as file:
                solutions.append(file["own"])
        return solutions


def _run(path: Path, words: Path) -> None:
    with words.open("w") as file:
        sys.stderr = file
        try:
            agents.run(agents.read(path))
        except DestinyError as error:
            print(error, file=file)
            file.flush()
            os._exit(error.code)
        except Exception:
            traceback.print_exc(file=file)
            raise
    os._exit(0)


def trial(
    events: int, chance: random.Random, right: list[np.ndarray], messages: Messages
) -> tuple[str, list[str]]:
    """How a disturbed run ended, and what was done to it."""
    with tempfile.TemporaryDirectory() as name:
        party = Agents(Path(name), chance, messages)
        done = [party.kill() for _ in range(events)]
        codes = party.finish()
        said = [party.words(i).read_text() for i in range(AGENTS)]
        if codes == [0] * AGENTS:
            equal = all(np.array_equal(a, b) for a, b in zip(party.answers(), right, strict=True))
            return "the same bits" if equal else "OTHER BITS", done
        refused = [text.splitlines()[-1] for text, code in zip(said, codes, strict=True) if code == 2]
        if refused and not any("Traceback" in text for text in said):
            return f"refused: {refused[0]}", done
        return f"WRONG: {codes} {said}", done


def main() -> int:
    """Run the trials and count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--private", action="store_true", help="sums are private")
    parser.add_argument("--bits", type=int, default=64, help="of a number in a message")
    options = parser.parse_args()
    messages = from_keys({"private": options.private, "bits": options.bits})
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        undisturbed = Agents(Path(name), chance, messages)
        assert undisturbed.finish() == [0] * AGENTS, "the undisturbed run must end"
        right = undisturbed.answers()
    ends: Counter[str] = Counter()
    damages: Counter[str] = Counter()
    while damages.total() < options.events:
        end, done = trial(min(EVENTS_A_TRIAL, options.events - damages.total()), chance, right, messages)
        damages.update(done)
        ends[end.partition(":")[0]] += 1
        print(f"{', '.join(done)} -> {end}", flush=True)
    print(f"{damages.total()} kills: {dict(damages)}; {ends.total()} runs: {dict(ends)}")
    return int(bool(set(ends) - {"the same bits", "refused"}))


if __name__ == "__main__":
    sys.exit(main())
