"""Install the package as on a machine without a compiler, from wheels alone, and use it for the first time.

    python tools/try_install.py python3.11 python3.12 python3.13

Every Python named gets an empty environment, whose path holds no other program. What is tried there is what a
new user does: a new experiment, a dry run, a run, its report.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = "plot,tls,sklearn,data,parquet"
STEPS = (
    ["new", "study", "--yes"],
    ["run", "study/experiment.toml", "--dry"],
    ["run", "study/experiment.toml", "--out", "study/results"],
    ["report", "study/results"],
)


def build(folder: Path) -> Path:
    """Build the wheel of the package, once for all Pythons."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def try_python(python: str, wheel: Path, extras: str, folder: Path) -> str:
    """Install the wheel and use it; return what was installed. Raises CalledProcessError if a step fails."""
    home = folder / "venv"
    subprocess.run([python, "-m", "venv", str(home)], check=True)
    # No compiler can be found, and none would be asked.
    environment = {**os.environ, "PATH": str(home / "bin"), "CC": "false", "CXX": "false", "PYTHONPATH": ""}

    def call(*command: str) -> str:
        program = str(home / "bin" / command[0])
        found = subprocess.run(
            [program, *command[1:]], env=environment, cwd=folder, check=True, capture_output=True, text=True
        )
        return found.stdout

    call(
        "pip", "install", "--quiet", "--only-binary", ":all:", f"{wheel}[{extras}]" if extras else str(wheel)
    )
    for step in STEPS:
        call("destiny", *step)
    assert (folder / "study" / "results" / "report.html").is_file()
    packages = [line for line in call("pip", "list", "--format=freeze").splitlines() if "==" in line]
    return f"{call('python', '--version').strip()}: {len(packages)} packages, {', '.join(packages)}"


def main() -> None:
    """Try every Python named; end with 1 if one fails."""
    parser = argparse.ArgumentParser(description="Install from wheels alone, without a compiler.")
    parser.add_argument("python", nargs="+", help="an interpreter, such as python3.11")
    parser.add_argument("--extras", default=EXTRAS, help=f"those of pyproject.toml to install; {EXTRAS}")
    args = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(Path(folder))
        for number, python in enumerate(args.python):
            own = Path(folder) / str(number)
            own.mkdir()
            try:
                print(try_python(python, wheel, args.extras, own), flush=True)
            except (OSError, subprocess.CalledProcessError) as error:
                failures += 1
                said = getattr(error, "stderr", "") or error
                print(f"{python}: failed\n{said}", flush=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
