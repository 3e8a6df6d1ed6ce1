"""A Chromium on this machine; ``python -m tests.helpers.chromium`` tells whether there is one."""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find() -> str | None:
    """Where it is: as DESTINY_CHROMIUM says, or under one of its usual names."""
    return os.environ.get("DESTINY_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


def works(path: str) -> bool:
    """Whether it starts: some systems have a stand-in that only says how to install the real one."""
    try:
        return subprocess.run([path, "--version"], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


if __name__ == "__main__":
    found = find()
    sys.exit(0 if found and works(found) else 1)
