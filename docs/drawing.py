"""Colors, sizes and frames of the pictures of the documentation."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from destiny.run.plots import COLORS

IMAGES = Path(__file__).parent / "images"
BLUE, RED, GREEN, PINK, ORANGE, *_ = COLORS


def small(path: Path) -> None:
    """Reduce a picture to at most 1100 x 1200 points and 128 colors: a fifth of the bytes."""
    picture = Image.open(path).convert("RGB")
    picture.thumbnail((1100, 1200))
    picture.quantize(128, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


def save(figure: Figure, name: str) -> None:
    """Write a figure as docs/images/NAME.png."""
    figure.savefig(IMAGES / f"{name}.png", dpi=110)


def tidy(axes: Axes, title: str, x: str, y: str = "") -> None:
    """Set titles, grid and frame as in all panels."""
    axes.set_title(title, fontsize=11)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(True, which="major", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
