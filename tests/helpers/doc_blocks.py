"""The code blocks of a page, run as a reader would run them: from top to bottom, in one empty folder.

Python blocks share their names. A block with ``title="FILE"`` is written there instead, for later blocks.
A block that cannot run here says so in its title, ``not run by the tests: WHY``, which the site leaves out.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from destiny.cli import app

FENCE = re.compile(r"^( *)```(\S*)([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
NOT_RUN = "not run by the tests: "
SHOWN = {"text", "bibtex", "yaml", "json"}  # nothing to run: output, and files of other programs


@dataclass(frozen=True)
class Block:
    """A fenced block and what its first line says of it."""

    language: str
    title: str
    code: str

    @property
    def runs(self) -> bool:
        """Whether the tests run it, write it or parse it."""
        return not self.title.startswith(NOT_RUN) and (bool(self.title) or self.language not in SHOWN)


def blocks(page: Path) -> list[Block]:
    """All blocks of a page, in order."""
    found = []
    for indent, language, rest, code in FENCE.findall(page.read_text(encoding="utf-8")):
        title = re.search(r'title="([^"]*)"', rest)
        clean = textwrap.dedent(code) if indent else code
        found.append(Block(language, title.group(1) if title else "", clean))
    return found


def run(page: Path, folder: Path) -> None:
    """Run a page's blocks in a folder, which must be the current one; whatever fails raises."""
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if not block.runs:
            continue
        if block.language == "toml":
            tomllib.loads(block.code)
        if block.title:
            (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.title).write_text(block.code, encoding="utf-8")
        elif block.language == "python":
            exec(compile(block.code, page.name, "exec", dont_inherit=True), names)
        elif block.language == "bash":
            shell(block.code, folder)
        elif block.language != "toml":
            raise AssertionError(f"{page.name}: cannot run a block of language {block.language!r}")


def shell(code: str, folder: Path) -> None:
    """Run commands; those of `destiny` in this process, which saves starting another for each."""
    lines = [words for line in code.splitlines() if (words := shlex.split(line, comments=True))]
    if all(words[0] == "destiny" for words in lines):
        for words in lines:
            done = CliRunner().invoke(app, words[1:])
            assert done.exit_code == 0, f"{shlex.join(words)}\n{done.output}{done.exception!r}"
    else:
        bash(code, folder)


def bash(code: str, folder: Path) -> None:
    """A process of its own, with this Python's ``mpiexec`` and ``destiny`` first on the path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, f"{code}\nended with {done.returncode}:\n{done.stdout}{done.stderr}"


def script(path):
    """A script of the documentation, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
