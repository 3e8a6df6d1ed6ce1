"""Run the examples and write docs/gallery.md with their pictures: ``python docs/gallery.py``, a minute or two.

An example is listed with the first line of its docstring as title and the first paragraph as text; it can make a
picture if it takes ``--picture FILE``.
"""

import ast
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
THUMBNAILS = HERE / "images" / "examples"
INTRO = """<!-- Written by docs/gallery.py, which runs the examples. Do not edit. -->

# Examples

Scripts that run as they are, offline, in seconds; the two demonstrations take a minute or so. They are in the folder
`examples` of the repository. Most end in asserts that hold the answer against one found another way.
"""


def told(example: Path) -> tuple[str, str]:
    """Title, and the whole sentences of the first paragraph: the last one may lead to a formula."""
    doc = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8"))) or ""
    title, *paragraphs = doc.split("\n\n")
    text = next((" ".join(part.split()) for part in paragraphs if part[:1].isupper()), "")  # commands are not
    whole, _, _ = text.rpartition(". ")
    if text and not text.endswith("."):
        text = f"{whole or text.rstrip(',')}."
    return " ".join(title.split()).rstrip("."), text


def draws(example: Path) -> bool:
    """Whether it can make a picture."""
    return "--picture" in example.read_text(encoding="utf-8")


def thumbnail(example: Path) -> None:
    """Run the example and keep its picture, small."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.png"
        subprocess.run([sys.executable, example, "--picture", path], check=True, stdout=subprocess.DEVNULL)
        picture = Image.open(path).convert("RGB")
        picture.thumbnail((640, 480))
        picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            THUMBNAILS / f"{example.stem}.png", optimize=True
        )


def card(example: Path) -> str:
    """One example of the page."""
    title, text = told(example)
    picture = f"![{title}](images/examples/{example.stem}.png)\n\n    " if draws(example) else ""
    return (
        f"-   {picture}**{title}**\n\n    {text}\n\n    [`python examples/{example.name}`](#{example.stem})\n"
    )


def source(example: Path) -> str:
    """The whole script, to be unfolded."""
    why = "not here, but by tests/test_examples.py" if draws(example) else "it is started by hand"
    return (
        f'??? example "examples/{example.name}"\n    <a id="{example.stem}"></a>\n\n'
        f'    ```python title="not run by the tests: {why}"\n    --8<--\n    examples/{example.name}\n    --8<--\n    ```\n'
    )


def page() -> str:
    """The whole page."""
    examples = sorted(EXAMPLES.glob("*.py"), key=lambda e: (not draws(e), e.name))
    cards = ['<div class="grid cards" markdown>\n', *map(card, examples), "</div>\n"]
    return "\n".join([INTRO, *cards, "## The scripts\n", *map(source, examples)])


if __name__ == "__main__":
    THUMBNAILS.mkdir(parents=True, exist_ok=True)
    for example in sorted(EXAMPLES.glob("*.py")):
        if draws(example):
            thumbnail(example)
    (HERE / "gallery.md").write_text(page(), encoding="utf-8")
