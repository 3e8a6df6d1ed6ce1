"""Check that the tree says the same version everywhere, before it is released under a tag.

python tools/release.py v0.2.0
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = Path("src/destiny/_version.py")
# Files that repeat the version, and where.
COPIES = {
    "CITATION.cff": re.compile(r"^version: (\S+)$", re.MULTILINE),
    "docs/citation.md": re.compile(r"^  version = \{(\S+)\},$", re.MULTILINE),
}
RELEASED = re.compile(r"\d+\.\d+\.\d+")


def find(path: Path, pattern: re.Pattern[str]) -> str:
    """The version in a file, or what to say if there is not exactly one."""
    versions = pattern.findall(path.read_text(encoding="utf-8"))
    return str(versions[0]) if len(versions) == 1 else f"{len(versions)} versions"


def version(root: Path = ROOT) -> str:
    """The version of the package, without importing it."""
    return find(root / VERSION, re.compile(r'^__version__ = "(\S+)"$', re.MULTILINE))


def different_copies(root: Path = ROOT) -> Iterator[str]:
    """Files that give another version than the package, each with what is wrong."""
    expected = version(root)
    for name, pattern in COPIES.items():
        if (found := find(root / name, pattern)) != expected:
            yield f"{name} must give the version of {VERSION}, {expected}; found {found}"


def obstacles(tag: str, root: Path = ROOT) -> Iterator[str]:
    """What stands in the way of releasing this tree under this tag."""
    current = version(root)
    yield from different_copies(root)
    if tag != f"v{current}":
        yield f"the tag must be v{current}, after {VERSION}; found {tag}"
    if not RELEASED.fullmatch(current):
        yield f"a released version is three numbers, as in 0.2.0; found {current} in {VERSION}"
    heading = re.compile(rf"^## \[{re.escape(current)}\] - \d{{4}}-\d\d-\d\d$", re.MULTILINE)
    if not heading.search((root / "CHANGELOG.md").read_text(encoding="utf-8")):
        yield f"CHANGELOG.md must have a heading '## [{current}] - YYYY-MM-DD'; found none"


def main() -> None:
    """Check the tag of the command line; every obstacle is one line, and exit code 1."""
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/release.py TAG")
    sys.exit("\n".join(obstacles(sys.argv[1])) or None)


if __name__ == "__main__":
    main()
