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
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

import destiny
from destiny import report as reports
from destiny.algorithms import ADSA, DRGTA, DeEPCA
from destiny.estimators import DecentralizedPCA, DecentralizedScaler, biplot, silo_map
from destiny.experiments import result_folder

LOOKS = ((BLUE, "-"), (RED, "-"), (GREEN, "-"), (BLUE, "--"))


def demonstration() -> tuple[destiny.problems.PCA, destiny.networks.Network, dict[str, Any]]:
    """What `make demo` runs, or nearly: Figure 3 of the paper."""
    methods = {
        "DESTINY, accelerated": destiny.DestinyAccelerated(),
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
    from tests.helpers import chromium

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
            tab.wait_for_selector("#chart-2 .plot")
            tab.screenshot(path=IMAGES / "report.png")
            browser.close()


def serve() -> None:
    """The page of `destiny serve` for agents that wait; it needs a Chromium and playwright, too."""
    import threading

    from playwright.sync_api import sync_playwright

    from destiny.report.live.server import open_server

    sys.path.append(str(Path(__file__).parents[1]))
    from tests.helpers import chromium, live_folders

    names = ["clinic-a", "clinic-b", "clinic-c", "clinic-d"]
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        for k, name in enumerate(names):
            late = {
                names[k - 1]: names[k - 1] == "clinic-d",
                names[(k + 1) % 4]: names[(k + 1) % 4] == "clinic-d",
            }
            live_folders.agent(Path(folder) / name, name, late, run="thyroid-2026")
        server = open_server(folder, 0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=chromium.find(), args=chromium.FLAGS)
        tab = browser.new_page(viewport={"width": 1180, "height": 1000})
        tab.goto(f"http://127.0.0.1:{server.server_port}/agents/thyroid-2026")
        tab.screenshot(path=IMAGES / "serve.png")
        browser.close()
        server.shutdown()
        server.server_close()


def networks_of_64() -> dict[str, destiny.networks.Network]:
    """Twelve ways to connect 64 agents."""
    n = destiny.networks
    return {
        "path": n.path(64),
        "ring": n.ring(64),
        "star": n.star(64),
        "grid": n.grid(8, 8),
        "small world": n.small_world(64, degree=4, prob=0.2, seed=0),
        "random, 4 neighbors each": n.random_regular(64, degree=4, seed=0),
        "torus": n.torus(8, 8),
        "random, 10 % of all links": n.erdos_renyi(64, prob=0.1, seed=0),
        "hypercube": n.hypercube(6),
        "exponential": n.exponential(64),
        "random, 20 % of all links": n.erdos_renyi(64, prob=0.2, seed=0),
        "complete": n.complete(64),
    }


def profiles() -> None:
    """Performance profiles of docs/profiles.md, from the rows of docs/profiles.csv."""
    sys.path.append(str(Path(__file__).parents[1]))
    from benchmarks import profiles as measured
    from benchmarks.rows import read

    rows = read(measured.FILE)
    looks = dict(
        zip(dict.fromkeys(m for methods in measured.COMPARED.values() for m in methods), LOOKS, strict=True)
    )
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    for axes, world in zip(figure.subplots(1, 2, sharey=True), measured.COMPARED, strict=True):
        profile = measured.Profile.of(rows, world)
        factors = np.geomspace(1, 16, 400)
        for method in measured.COMPARED[world]:
            color, style = looks[method]
            shares = [100 * profile.share(method, factor) for factor in factors]
            axes.plot(factors, shares, style, color=color, label=method, linewidth=1.8)
        axes.set_xscale("log", base=2, subs=[])
        axes.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
        axes.set_ylim(0, 102)
        axes.legend(loc="lower right", fontsize=8)
        kind = "fixed" if world == "static" else "changing"
        tidy(axes, f"{len(profile.seeds)} {kind} networks", "rounds relative to the best method, at most")
    figure.axes[0].set_ylabel("% of instances solved")
    save(figure, "profiles")


def rounds() -> None:
    """How rounds grow with lambda; the numbers are printed as the table of docs/choosing-a-network.md."""
    problem = destiny.problems.pca.synthetic(n=20, m=1280, p=2, xi=0.7, agents=64, seed=0)
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    print(
        "| network | links | diameter | λ | rounds to average | rounds to solve | numbers sent |\n|---|---|---|---|---|---|---|"
    )
    for name, net in networks_of_64().items():
        result = destiny.solve(problem, net, "destiny-accelerated")
        assert result.converged, name
        print(
            f"| {name} | {len(net.edges)} | {net.diameter} | {net.lambda_:.4f} | {net.rounds_to_average()} "
            f"| {result.rounds} | {result.scalars:.1e} |"
        )
        place = 1 / (1 - net.lambda_)
        right.loglog(
            place, result.rounds, "o", color={"ring": RED, "random, 4 neighbors each": GREEN}.get(name, BLUE)
        )
        at, side = (
            ((-7, 2), "right") if name in ("torus", "hypercube", "exponential", "grid") else ((7, -6), "left")
        )
        right.annotate(
            name, (place, result.rounds), xytext=at, ha=side, textcoords="offset points", fontsize=8
        )
        if name in ("ring", "random, 4 neighbors each"):
            color = RED if name == "ring" else GREEN
            left.semilogy(result.history["round"], result.history["stationarity"], color=color, label=name)
    tidy(left, "64 agents, the same data", "rounds of communication", "relative stationarity")
    left.legend(frameon=False)
    x = np.geomspace(1, 1500, 50)
    right.plot(x, 85 * np.sqrt(x), color="0.6", linestyle=":", zorder=0)
    right.annotate("the square root of 1 / (1 - λ)", (0.8, 3000), color="0.4", fontsize=9)
    tidy(right, "twelve networks of 64 agents", "1 / (1 - λ)", "rounds to 1e-8")
    right.set_xlim(0.7, 6000)
    save(figure, "rounds")


def differential_privacy() -> None:
    """What noise costs on the digits; the numbers are printed as the table of docs/differential-privacy.md."""
    rows = load_digits().data
    centered = rows - rows.mean(axis=0)
    problem = destiny.problems.pca.from_data(rows, p=5, agents=8)
    best = float(np.sum(PCA(5).fit(rows).singular_values_ ** 2))

    def axes(epsilon: float, noise: Any, seed: int) -> Any:
        """What the agents would find, computed in one place."""
        privacy = destiny.problems.Privacy(epsilon, 1e-6, 40, noise, mean_bound=70, seed=seed)
        hidden = destiny.problems.pca.private(problem, privacy)
        try:
            whole = destiny.problems.centered(hidden).pooled()
        except destiny.ProblemError:  # the noise hides all rows
            return np.zeros((64, 5))
        assert isinstance(whole, destiny.problems.PCA)
        return destiny.problems.pca.solution(whole)

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
    epsilons = np.array([0.1, 0.3, 1, 3, 10, 30, 100])
    for noise, color, label in (
        ("alone", BLUE, "each agent's noise suffices alone"),
        ("together", GREEN, "together"),
    ):
        share = np.array(
            [[np.sum((centered @ axes(e, noise, seed)) ** 2) / best for seed in range(10)] for e in epsilons]
        )
        left.fill_between(epsilons, share.min(axis=1), share.max(axis=1), color=color, alpha=0.2, linewidth=0)
        left.semilogx(epsilons, np.median(share, axis=1), "o-", color=color, label=label)
        print(f"| {noise} | " + " | ".join(f"{value:.3f}" for value in np.median(share, axis=1)) + " |")
    left.axhline(1, color="0.4", linestyle=":")
    left.annotate("scikit-learn's PCA, without privacy", (0.1, 1.02), color="0.4", fontsize=9)
    left.set_ylim(0, 1.1)
    left.legend(frameon=False, loc="lower right")
    tidy(left, "1797 digits at 8 agents, 5 axes, δ = 1e-6", "ε", "variance explained, of PCA's")
    shown = [
        axes(1, "alone", 0),
        axes(10, "alone", 0),
        axes(10, "together", 0),
        PCA(5).fit(rows).components_.T,
    ]
    grid = np.full((4 * 9 + 1, 5 * 9 + 1), np.nan)
    for i, X in enumerate(shown):
        for k in range(5):
            x = X[:, k] * np.sign(X[:, k] @ shown[-1][:, k])
            grid[9 * i + 1 : 9 * i + 9, 9 * k + 1 : 9 * k + 9] = x.reshape(8, 8) / np.abs(x).max()
    right.imshow(grid, cmap="RdBu_r", vmin=-1, vmax=1)
    right.set_yticks(
        [5 + 9 * i for i in range(4)], ["ε = 1\nalone", "ε = 10\nalone", "ε = 10\ntogether", "PCA"]
    )
    right.set_xticks([5 + 9 * k for k in range(5)], [f"axis {k + 1}" for k in range(5)])
    right.tick_params(length=0)
    right.spines[:].set_visible(False)
    save(figure, "differential_privacy")


def wine_biplot() -> None:
    """The page on notebooks: wines of three makers, scaled together."""
    wine, maker = load_wine(return_X_y=True, as_frame=True)
    names = ["Barolo", "Grignolino", "Barbera"]
    silos = destiny.Silos({name: wine[maker == k] for k, name in enumerate(names)})
    model = make_pipeline(DecentralizedScaler(), DecentralizedPCA(random_state=0)).fit(silos)
    biplot(model, silos, IMAGES / "wine_biplot.png")
    silo_map(model, silos, IMAGES / "wine_map.png")


PICTURES: tuple[Callable[[], None], ...] = (
    convergence,
    network,
    report,
    serve,
    averaging,
    bias,
    tracking,
    penalty,
    feasibility,
    profiles,
    rounds,
    differential_privacy,
    wine_biplot,
)


def main(wanted: list[str]) -> None:
    IMAGES.mkdir(exist_ok=True)
    for picture in PICTURES:
        if not wanted or picture.__name__ in wanted:
            picture()
            small(IMAGES / f"{picture.__name__}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
