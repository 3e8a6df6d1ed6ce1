"""What MkDocs asks while it builds the site: the page of commands is written from the commands themselves."""

from click import Context
from typer.cli import get_docs_for_click
from typer.main import get_command

from destiny.cli import app

PLACE = "<!-- commands -->"


def commands() -> str:
    """Every command with its options, as ``destiny COMMAND --help`` tells it."""
    command = get_command(app)
    text = get_docs_for_click(obj=command, ctx=Context(command, info_name="destiny"), name="destiny")
    return text.split("\n", 1)[1]  # the page has its own heading


def on_page_markdown(markdown: str, **_: object) -> str:
    """Put the commands where a page asks for them."""
    return markdown.replace(PLACE, commands()) if PLACE in markdown else markdown
