"""Make the pictures of the README and the documentation: ``python docs/pictures.py``.

The one of the report needs a Chromium and playwright, as its tests do.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

import destiny
from destiny import output
from destiny.algorithms import ADSA, DRGTA, DeEPCA
from destiny.report import report

sys.path.append(str(Path(__file__).parents[1]))
from tests import chromium

IMAGES = Path(__file__).parent / "images"


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    problem = destiny.problems.pca.synthetic(n=300, m=3200, p=10, xi=0.95, agents=32, seed=0)
    network = destiny.networks.erdos_renyi(32, prob=0.4, seed=0)
    network.draw(IMAGES / "network.png")
    methods = {
        "DESTINY, accelerated": destiny.DestinyMomentum(),
        "DESTINY": destiny.Destiny(),
        "DRGTA": DRGTA(),
        "DeEPCA (PCA only)": DeEPCA(),
        "ADSA (PCA only)": ADSA(),
    }
    comparison = destiny.compare(problem, network, methods, rounds=2000)
    comparison.plot(IMAGES / "convergence.png")
    with TemporaryDirectory() as folder:
        kept: dict[str, destiny.Result] = {}
        for label, result in comparison.results.items():
            output.write(Path(folder), kept := {**kept, label: result})
        output.describe(Path(folder), problem, network, comparison.results, seed=0)
        photograph(report(folder)[0], IMAGES / "report.png")


def photograph(page: Path, path: Path) -> None:
    """The upper part of a report, as on a desk."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.find(), args=chromium.FLAGS)
        tab = browser.new_page(viewport={"width": 1180, "height": 1500})
        tab.goto(page.as_uri())
        tab.wait_for_selector("#chart-2 .main-svg")
        tab.screenshot(path=path)
        browser.close()


if __name__ == "__main__":
    main()
