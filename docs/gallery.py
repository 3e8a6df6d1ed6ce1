"""Run the examples and write docs/gallery.md with their pictures: ``python docs/gallery.py [NAME ...]``.

A minute or two; with names only their pictures are made anew.
An example is listed with the first line of its docstring as title and the first paragraph as text. It makes its
picture itself if it takes ``--picture FILE``; the pictures of the longer ones are drawn here.
"""

import ast
import importlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from PIL import Image

from destiny import plots

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
THUMBNAILS = HERE / "images" / "examples"
INTRO = """<!-- Written by docs/gallery.py, which runs the examples. Do not edit. -->

# Examples

Scripts that run as they are, offline, in seconds; the demonstrations take a minute or so. They are in the folder
`examples` of the repository. Most end in asserts that compare the answer with one computed in another way.
"""
STORIES = {  # from data as they are to a picture, and what is asked there
    "three_hospitals": "CSV files, gaps, unequal units",
    "newspapers": "text, sparse",
    "photographers": "images",
    "turbines": "sensors that stream",
    "libraries": "columns split over parties",
    "private_screening": "private sums and differential privacy",
}


def title_and_text(example: Path) -> tuple[str, str]:
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


def accuracies(path: Path) -> None:
    """What examples/classes.py measures, as bars."""
    classes = importlib.import_module("examples.classes")
    (name, X, y), *_ = classes.tables()
    scores = {label: np.mean(f["test_score"]) for label, f in classes.measure(X, y).items()}
    figure = plots.pyplot().Figure(figsize=(4.5, 2.4), layout="constrained")
    axis = figure.subplots()
    bars = axis.barh(list(scores), list(scores.values()), color=plots.COLORS[: len(scores)])
    axis.bar_label(bars, fmt="%.3f", padding=3)
    axis.set(xlim=(0.8, 1), xlabel=f"cross-validated accuracy, {name}")
    axis.invert_yaxis()
    figure.savefig(path, dpi=150)


def organizations(path: Path) -> None:
    """Who talks to whom in examples/demo_agents.py, and who is killed."""
    demo = importlib.import_module("examples.demo_agents")
    draw_network(path, demo.NAMES, demo.EDGES, {demo.NAMES[demo.VICTIM]: "killed and\nstarted again"})


def organizations_in_trouble(path: Path) -> None:
    """Who talks to whom in examples/demo_async.py, who is slow and who is killed."""
    demo = importlib.import_module("examples.demo_async")
    troubles = {demo.SLOW: "20 times slower", demo.VICTIM: "killed again and again"}
    draw_network(path, demo.NAMES, demo.EDGES, troubles)


def draw_network(
    path: Path, names: tuple[str, ...], edges: list[list[int]], troubles: dict[str, str]
) -> None:
    """Agents and their links, with a word beside those in trouble."""
    figure = plots.pyplot().Figure(figsize=(4.5, 3), layout="constrained")
    axis = figure.subplots()
    graph: nx.Graph[int] = nx.Graph([(i, j) for i, j in edges])
    colors = [plots.COLORS[1 if names[k] in troubles else 0] for k in graph]
    labels = {k: names[k] for k in graph}
    place = nx.circular_layout(graph)
    style: dict[str, Any] = {"edge_color": "0.6", "node_size": 1400, "font_size": 8, "font_color": "white"}
    nx.draw(graph, place, axis, labels=labels, node_color=colors, **style)
    for k in graph:
        x, y = place[k]
        if abs(x) < abs(y) / 2:  # at the top or the bottom: above or below
            where = {"xytext": (0, 26 * np.sign(y)), "ha": "center", "va": "bottom" if y > 0 else "top"}
        else:
            where = {"xytext": (26 * np.sign(x), 0), "ha": "left" if x > 0 else "right", "va": "center"}
        axis.annotate(troubles.get(names[k], ""), (x, y), textcoords="offset points", **where)
    axis.margins(0.35, 0.22)
    figure.savefig(path, dpi=150)


def run(example: Path) -> Callable[[Path], object]:
    """The example itself, which draws its picture."""
    command = [sys.executable, str(example), "--picture"]
    return lambda path: subprocess.run([*command, str(path)], check=True, stdout=subprocess.DEVNULL)


DRAWN_HERE = {
    "classes": accuracies,
    "demo_agents": organizations,
    "demo_async": organizations_in_trouble,
}
MADE_ELSEWHERE = {"demo": "images/convergence.png"}


def picture(example: Path) -> str:
    """The picture of an example, as from the page."""
    return MADE_ELSEWHERE.get(example.stem, f"images/examples/{example.stem}.png")


def thumbnail(example: Path) -> None:
    """Draw the picture of an example and keep it, small."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.png"
        DRAWN_HERE.get(example.stem, run(example))(path)
        picture = Image.open(path).convert("RGB")
        picture.thumbnail((640, 480))
        picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            THUMBNAILS / f"{example.stem}.png", optimize=True
        )


def card(example: Path) -> str:
    """One example of the page."""
    title, text = title_and_text(example)
    parts = [
        f"![{title}]({picture(example)})",
        f"**{title}**",
        f"*{STORIES[example.stem]}*" if example.stem in STORIES else "",
        text,
        f"[`examples/{example.name}`](#{example.stem})",
    ]
    return "-   " + "\n\n    ".join(filter(None, parts)) + "\n"


def source(example: Path) -> str:
    """The whole script, to be unfolded."""
    why = "not here, but by tests/project/test_examples.py" if draws(example) else "it is started by hand"
    return (
        f'??? example "examples/{example.name}"\n    <a id="{example.stem}"></a>\n\n'
        f'    ```python title="not run by the tests: {why}"\n    --8<--\n    examples/{example.name}\n    --8<--\n    ```\n'
    )


def page() -> str:
    """The whole page."""
    stories = [EXAMPLES / f"{name}.py" for name in STORIES]
    others = sorted(set(EXAMPLES.glob("*.py")) - set(stories), key=lambda e: (not draws(e), e.name))
    parts = ["## Six stories, from data to picture\n", *grid(stories), "## Further examples\n", *grid(others)]
    return "\n".join([INTRO, *parts, "## The scripts\n", *map(source, [*stories, *others])])


def grid(examples: list[Path]) -> list[str]:
    """Examples side by side."""
    return ['<div class="grid cards" markdown>\n', *map(card, examples), "</div>\n"]


if __name__ == "__main__":
    THUMBNAILS.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(HERE.parent))
    for example in sorted(EXAMPLES.glob("*.py")):
        if example.stem in sys.argv[1:] or (len(sys.argv) == 1 and example.stem not in MADE_ELSEWHERE):
            thumbnail(example)
    (HERE / "gallery.md").write_text(page(), encoding="utf-8")
