"""What importing costs, against ``import numpy, scipy.sparse``, in seconds of the processor."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.timing import report

BASE = "import numpy, scipy.sparse"
TASKS = {  # what is run, and the limit
    "import destiny": 1.6,
    "from destiny.cli import main; main()": 1.6,
    "from destiny import networks, problems, solve": 1.6,
    "import destiny.agents": 2.0,
}


def seconds_of(code: str) -> float:
    """User and system time of a process that runs ``code``."""
    before = os.times()
    subprocess.run([sys.executable, "-c", code, "--version"], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def main() -> None:
    codes = [BASE, *TASKS]
    rounds = [[seconds_of(code) for code in codes] for _ in range(10)]
    base, *tasks = map(min, zip(*rounds, strict=True))
    for (code, limit), seconds in zip(TASKS.items(), tasks, strict=True):
        title = "destiny --version" if "main()" in code else code
        report(title, seconds / base, limit, f"{BASE} ({1e3 * base:.0f} ms)")


if __name__ == "__main__":
    main()
