"""The Markdown of the site, beyond the usual: formulas, the page of commands, and files of the repository.

Zensical loads it as the extension ``site_markdown``, with ``docs`` on the Python path (``make docs``).

- ``$...$`` in a line and ``$$...$$`` in lines of its own are formulas in LaTeX, written into the page as MathML, which
  browsers draw by themselves: no script, no font, nothing to load.
- ``<!-- commands -->`` is replaced by every command with its options.
- ``<!-- file NAME -->`` is replaced by that file of the repository.
- titles of code blocks that say why the tests do not run a block are left out.
"""

import re
from pathlib import Path
from typing import Any

from click import Context
from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor
from typer.cli import get_docs_for_click
from typer.main import get_command

from destiny.cli import app

ROOT = Path(__file__).parents[1]
BLOCK_FORMULA = re.compile(r"^\$\$\n(.+?)\n\$\$$", re.MULTILINE | re.DOTALL)
OPERATOR = re.compile(
    r"<mo>([a-z]+)</mo>"
)  # names such as sym: as <mo> they would stand apart from their brackets
NOT_RUN = re.compile(r'^( *```\S+) title="not run by the tests: [^"]*"', re.MULTILINE)
INLINE_FORMULA = r"(?<![\w\\$])\$(?![\s$])([^$]+?)(?<!\s)\$(?![\w$])"


def commands() -> str:
    """Every command with its options, as ``destiny COMMAND --help`` prints it."""
    command: Any = get_command(app)  # Typer brings a Click of its own, whose types are others
    context: Any = Context(command, info_name="destiny")
    text = get_docs_for_click(obj=command, ctx=context, name="destiny")
    return text.split("\n", 1)[1]  # the page has its own heading


def file(name: str) -> str:
    """A file of the repository, its links as from the site."""
    return (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")


def mathml(formula: str, display: str = "inline") -> str:
    """A formula as MathML; one with a command that the converter does not know is refused."""
    result = convert(formula, display=display)
    if "\\" in result or ">&<" in result:
        raise ValueError(f"this formula could not be converted, see the commands in it: {formula}")
    return OPERATOR.sub(r"<mi>\1</mi>", result)


class Parts(Preprocessor):
    """``<!-- commands -->``, ``<!-- file NAME -->`` and titles that are for the tests."""

    def run(self, lines: list[str]) -> list[str]:
        text = "\n".join(lines)
        if "<!-- commands -->" in text:
            text = text.replace("<!-- commands -->", commands())
        text = re.sub(r"<!-- file (\S+) -->", lambda match: file(match[1]), text)
        return NOT_RUN.sub(r"\1", text).split("\n")


class BlockFormulas(Preprocessor):
    """Formulas in lines of their own; those in code blocks, which are gone by now, stay as they are."""

    def run(self, lines: list[str]) -> list[str]:
        return BLOCK_FORMULA.sub(self.formula, "\n".join(lines)).split("\n")

    def formula(self, match: re.Match[str]) -> str:
        html = f'<div class="formula">{mathml(match[1], "block")}</div>'
        return f"\n{self.md.htmlStash.store(html)}\n"


class InlineFormulas(InlineProcessor):
    """Formulas in a line of text."""

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:  # noqa: ARG002
        return self.md.htmlStash.store(mathml(m[1])), m.start(0), m.end(0)


class SiteMarkdown(Extension):
    """All of the above."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.preprocessors.register(Parts(md), "parts", 40)  # before snippets (32)
        md.preprocessors.register(BlockFormulas(md), "block-formulas", 22)  # after fenced blocks (25)
        md.inlinePatterns.register(InlineFormulas(INLINE_FORMULA, md), "formulas", 185)  # after code (190)


def makeExtension(**settings: object) -> SiteMarkdown:
    """What Markdown calls to load the extension."""
    return SiteMarkdown(**settings)
