"""Install PyTorch for its tests, unless that takes long or brings gigabytes for graphics cards.

    python tools/install_torch.py torch==2.13.0

Nothing is installed before it is known what: an installation is whole, or there is none and the tests are
skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT = 100  # seconds to find out what would be installed, which may mean to download it
CARDS = ("nvidia-", "cuda-")


def packages(pip: list[str]) -> list[str]:
    """Names of what pip would install."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        subprocess.run([*pip, "--dry-run", "--report", report], check=True, timeout=LIMIT)
        table = json.loads(report.read_text(encoding="utf-8"))
    return [entry["metadata"]["name"] for entry in table["install"]]


def main() -> None:
    """Install what the command line says, or say why not."""
    quiet = ["--quiet", "--disable-pip-version-check", "--no-compile"]
    pip = [sys.executable, "-m", "pip", "install", *quiet, *sys.argv[1:]]
    try:
        if any(name.startswith(CARDS) for name in packages(pip)):
            why = "the build for this Python brings gigabytes for graphics cards"
        else:
            subprocess.run(pip, check=True)
            return
    except subprocess.TimeoutExpired:
        why = f"it takes more than {LIMIT} seconds"
    except subprocess.CalledProcessError:
        why = "pip failed, see above"
    print(f"PyTorch is not installed and its tests are skipped: {why}.")


if __name__ == "__main__":
    main()
