"""Make the pictures of the README and the documentation: ``python docs/pictures.py [NAME ...]``, two minutes for all."""

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from drawing import BLUE, GREEN, IMAGES, RED, save, small, tidy
from explained import averaging, bias, feasibility, penalty, tracking
from matplotlib.figure import Figure

import destiny
from destiny import report as reports
from destiny.algorithms import ADSA, DRGTA, DeEPCA
from destiny.experiments import result_folder


def demonstration() -> tuple[destiny.problems.PCA, destiny.networks.Network, dict[str, Any]]:
    """What `make demo` runs, or nearly: Figure 3 of the paper."""
    methods = {
        "DESTINY, accelerated": destiny.DestinyMomentum(),
        "DESTINY": destiny.Destiny(),
        "DRGTA": DRGTA(),
        "DeEPCA (PCA only)": DeEPCA(),
        "ADSA (PCA only)": ADSA(),
    }
    problem = destiny.problems.pca.synthetic(n=300, m=3200, p=10, xi=0.95, agents=32, seed=0)
    return problem, destiny.networks.erdos_renyi(32, prob=0.4, seed=0), methods


def convergence() -> None:
    """The README's comparison."""
    destiny.compare(*demonstration(), rounds=2000).plot(IMAGES / "convergence.png")


def network() -> None:
    """The README's network."""
    destiny.networks.erdos_renyi(32, prob=0.4, seed=0).draw(IMAGES / "network.png")


def report() -> None:
    """The upper part of a report, as on a desk; it needs a Chromium and playwright, as the report's tests do."""
    from playwright.sync_api import sync_playwright

    sys.path.append(str(Path(__file__).parents[1]))
    from tests import chromium

    problem, net, methods = demonstration()
    with TemporaryDirectory() as folder:
        results: dict[str, destiny.Result] = {}
        for label, result in destiny.compare(problem, net, methods, rounds=2000).results.items():
            result_folder.write(Path(folder), results := {**results, label: result})
        result_folder.describe(Path(folder), problem, net, results, seed=0)
        (page,) = reports.report(folder)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium.find(), args=chromium.FLAGS)
            tab = browser.new_page(viewport={"width": 1180, "height": 1500})
            tab.goto(page.as_uri())
            tab.wait_for_selector("#chart-2 .main-svg")
            tab.screenshot(path=IMAGES / "report.png")
            browser.close()


def networks_of_64() -> dict[str, destiny.networks.Network]:
    """Twelve ways to connect 64 agents."""
    n = destiny.networks
    return {
        "path": n.path(64),
        "ring": n.ring(64),
        "star": n.star(64),
        "grid": n.grid(8, 8),
        "small world": n.small_world(64, degree=4, prob=0.2, seed=0),
        "random, 4 neighbours each": n.random_regular(64, degree=4, seed=0),
        "torus": n.torus(8, 8),
        "random, 10 % of all links": n.erdos_renyi(64, prob=0.1, seed=0),
        "hypercube": n.hypercube(6),
        "exponential": n.exponential(64),
        "random, 20 % of all links": n.erdos_renyi(64, prob=0.2, seed=0),
        "complete": n.complete(64),
    }


def rounds() -> None:
    """How rounds grow with lambda; the numbers are printed as the table of docs/choosing-a-network.md."""
    problem = destiny.problems.pca.synthetic(n=20, m=1280, p=2, xi=0.7, agents=64, seed=0)
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    print(
        "| network | links | diameter | λ | rounds to average | rounds to solve | numbers sent |\n|---|---|---|---|---|---|---|"
    )
    for name, net in networks_of_64().items():
        result = destiny.solve(problem, net)
        assert result.converged, name
        print(
            f"| {name} | {len(net.edges)} | {net.diameter} | {net.lambda_:.4f} | {net.rounds_to_average()} "
            f"| {result.rounds} | {result.scalars:.1e} |"
        )
        place = 1 / (1 - net.lambda_)
        right.loglog(
            place, result.rounds, "o", color={"ring": RED, "random, 4 neighbours each": GREEN}.get(name, BLUE)
        )
        at, side = (
            ((-7, 2), "right") if name in ("torus", "hypercube", "exponential", "grid") else ((7, -6), "left")
        )
        right.annotate(
            name, (place, result.rounds), xytext=at, ha=side, textcoords="offset points", fontsize=8
        )
        if name in ("ring", "random, 4 neighbours each"):
            colour = RED if name == "ring" else GREEN
            left.semilogy(result.history["round"], result.history["stationarity"], color=colour, label=name)
    tidy(left, "64 agents, the same data", "rounds of communication", "relative stationarity")
    left.legend(frameon=False)
    x = np.geomspace(1, 1500, 50)
    right.plot(x, 85 * np.sqrt(x), color="0.6", linestyle=":", zorder=0)
    right.annotate("the square root of 1 / (1 - λ)", (0.8, 3000), color="0.4", fontsize=9)
    tidy(right, "twelve networks of 64 agents", "1 / (1 - λ)", "rounds to 1e-8")
    right.set_xlim(0.7, 6000)
    save(figure, "rounds")


PICTURES: tuple[Callable[[], None], ...] = (
    convergence,
    network,
    report,
    averaging,
    bias,
    tracking,
    penalty,
    feasibility,
    rounds,
)


def main(wanted: list[str]) -> None:
    IMAGES.mkdir(exist_ok=True)
    for picture in PICTURES:
        if not wanted or picture.__name__ in wanted:
            picture()
            small(IMAGES / f"{picture.__name__}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
