"""What MkDocs asks while it builds the site: pages that are written elsewhere, put where a page asks for them."""

import re
from pathlib import Path

from click import Context
from typer.cli import get_docs_for_click
from typer.main import get_command

from destiny.cli import app

ROOT = Path(__file__).parents[1]


def commands() -> str:
    """Every command with its options, as ``destiny COMMAND --help`` tells it."""
    command = get_command(app)
    text = get_docs_for_click(obj=command, ctx=Context(command, info_name="destiny"), name="destiny")
    return text.split("\n", 1)[1]  # the page has its own heading


def file(name: str) -> str:
    """A file of the repository, its links as from the site."""
    return (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")


def on_page_markdown(markdown: str, **_: object) -> str:
    """``<!-- commands -->`` and ``<!-- file NAME -->``."""
    if "<!-- commands -->" in markdown:
        markdown = markdown.replace("<!-- commands -->", commands())
    return re.sub(r"<!-- file (\S+) -->", lambda found: file(found[1]), markdown)
