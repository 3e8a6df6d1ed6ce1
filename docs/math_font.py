"""Write docs/assets/math.woff, the font of the formulas: ``python docs/math_font.py``, before the site is built.

Browsers place indices and exponents by a table in the font, which few systems have a font with. This is STIX Two Math
(SIL Open Font License 1.1), as the package ziamath brings it, without what no formula of the site uses.
"""

from importlib.resources import as_file, files
from pathlib import Path

from fontTools.subset import Options, Subsetter, load_font, save_font

PATH = Path(__file__).parent / "assets" / "math.woff"
LETTERS = [(0x20, 0x17F), (0x370, 0x3FF), (0x1D434, 0x1D49B), (0x1D6A4, 0x1D71B)]  # upright, Greek, italic
SYMBOLS = [
    (0x2000, 0x206F),
    (0x2100, 0x214F),
    (0x2190, 0x21FF),
    (0x2200, 0x22FF),
    (0x2308, 0x230B),
    (0x27E8, 0x27E9),
]


def main() -> None:
    """Read the font of the package, leave out what is not used, and write the rest."""
    options = Options(flavor="woff", layout_features=["*"], name_IDs=["*"])
    with as_file(files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf") as source:
        font = load_font(source, options)
        subsetter = Subsetter(options)
        subsetter.populate(
            unicodes=[code for first, last in LETTERS + SYMBOLS for code in range(first, last + 1)]
        )
        subsetter.subset(font)
        save_font(font, PATH, options)


if __name__ == "__main__":
    main()
