"""A Chromium on this machine; ``python -m tests.chromium`` tells whether there is one."""

import os
import shutil
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def find() -> str | None:
    """Where it is: as DESTINY_CHROMIUM says, or under one of its usual names."""
    return os.environ.get("DESTINY_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


if __name__ == "__main__":
    sys.exit(0 if find() else 1)
