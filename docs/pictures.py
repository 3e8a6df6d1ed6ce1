"""Make the pictures of the README and the documentation: ``python docs/pictures.py [NAME ...]``, a minute for all."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import destiny
from destiny.algorithms import ADSA, DGD, DRGTA, DeEPCA
from destiny.plots import COLOURS
from destiny.steps import Constant
from destiny.stiefel import norm

IMAGES = Path(__file__).parent / "images"
BLUE, RED, GREEN, PINK, ORANGE, *_ = COLOURS


def small(path: Path) -> None:
    """At most 1100 x 600 points, each colour one of 256: a fifth of the bytes."""
    picture = Image.open(path).convert("RGB")
    picture.thumbnail((1100, 600))
    picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


def save(figure: Figure, name: str) -> None:
    """Write a figure as docs/images/NAME.png."""
    figure.savefig(IMAGES / f"{name}.png", dpi=110)


def tidy(axes, title: str, x: str, y: str = "") -> None:
    """What all panels share."""
    axes.set_title(title, fontsize=11)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(True, which="major", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def convergence() -> None:
    """The README's comparison."""
    problem = destiny.problems.pca.synthetic(n=300, m=3200, p=10, xi=0.95, agents=32, seed=0)
    network = destiny.networks.erdos_renyi(32, prob=0.4, seed=0)
    methods = {
        "DESTINY, accelerated": destiny.DestinyMomentum(),
        "DESTINY": destiny.Destiny(),
        "DRGTA": DRGTA(),
        "DeEPCA (PCA only)": DeEPCA(),
        "ADSA (PCA only)": ADSA(),
    }
    destiny.compare(problem, network, methods, rounds=2000).plot(IMAGES / "convergence.png")


def network() -> None:
    """The README's network."""
    destiny.networks.erdos_renyi(32, prob=0.4, seed=0).draw(IMAGES / "network.png")


def averaging() -> None:
    """Half of 64 agents hold 1, the others 0: what is left of it after some rounds of averaging."""
    networks = {
        "ring": destiny.networks.ring(64),
        "random": destiny.networks.random_regular(64, degree=4, seed=0),
    }
    angle = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    places = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    rows = figure.subplots(2, 5, width_ratios=[1, 1, 1, 1, 1.6])
    for row, (name, net) in zip(rows, networks.items(), strict=True):
        values = (places[:, 0] > 0).astype(float)
        spread = []
        for k in range(201):
            if k in (0, 5, 20, 100):
                axes = row[(0, 5, 20, 100).index(k)]
                axes.plot(*places[net.edges].transpose(2, 1, 0), color="0.8", linewidth=0.5, zorder=0)
                axes.scatter(*places.T, c=values, vmin=0, vmax=1, cmap="coolwarm", s=22)
                axes.set_aspect("equal")
                axes.set_axis_off()
                axes.set_title(f"{name}, round {k}", fontsize=10)
            spread.append(np.std(values))
            values = net.W @ values
        row[4].semilogy(spread, color=BLUE, linewidth=1.8)
        tidy(row[4], f"what is left to agree on, λ = {net.lambda_:.4f}", "rounds")
        row[4].set_ylim(1e-9, 1.5)
    save(figure, "averaging")


def hospitals() -> tuple[destiny.problems.PCA, destiny.networks.Network]:
    """Eight agents whose data have two directions in common and much that they have not."""
    rng = np.random.default_rng(1)
    common = rng.standard_normal((12, 2))
    silos = [
        common @ rng.standard_normal((2, 60)) + rng.uniform(0, 2, (12, 1)) * rng.standard_normal((12, 60))
        for _ in range(8)
    ]
    return destiny.problems.PCA(silos, p=2), destiny.networks.random_regular(8, degree=3, seed=0)


def bias() -> None:
    """Plain averaging stalls at a distance that shrinks with the step; tracking does not stall."""
    problem, net = hospitals()
    known = destiny.problems.pca.solution(problem)
    L = float(
        norm(np.linalg.svd(problem.host(range(8)).gradient(np.stack([known] * 8)))[1][:, :1, None]).max()
    )
    runs = {
        "averaging gradients, long step": (DGD(step_size=Constant(0.3 / L), beta=L), RED, "-"),
        "averaging gradients, a step three times shorter": (
            DGD(step_size=Constant(0.1 / L), beta=L),
            RED,
            "--",
        ),
        "tracking (DESTINY)": (destiny.Destiny(), BLUE, "-"),
        "tracking with momentum (the default)": (destiny.DestinyMomentum(), GREEN, "-"),
    }
    figure = Figure(figsize=(7.5, 4), layout="constrained")
    axes = figure.subplots()
    for label, (method, colour, style) in runs.items():
        rounds, error = [], []
        for moment in destiny.iterate(problem, net, method):
            rounds.append(moment.round)
            error.append(destiny.metrics.distance_to(moment.X, known))
            if moment.round >= 400:
                break
        axes.semilogy(rounds, error, label=label, color=colour, linestyle=style, linewidth=1.8)
    tidy(axes, "eight agents, three neighbours each", "rounds of communication", "angle to the pooled answer")
    axes.set_ylim(1e-9, 2)
    axes.legend(fontsize=9, frameon=False)
    save(figure, "bias")


def tracking() -> None:
    """At the answer an agent's own direction is not zero; its tracker, which stands for the network's, is."""
    problem, net = hospitals()
    rounds, own, tracked, mean = [], [], [], []
    for moment in destiny.iterate(problem, net, destiny.Destiny()):
        rounds.append(moment.round)
        own.append(norm(moment.state.H))
        tracked.append(norm(moment.state.D))
        mean.append(float(norm(moment.state.H.mean(axis=0))))
        if moment.round >= 160:
            break
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, lengths, title in (
        (left, own, "where each agent's own data pull"),
        (right, tracked, "where each agent's tracker points"),
    ):
        axes.semilogy(rounds, np.array(lengths), color=BLUE, linewidth=1)
        axes.semilogy(rounds, mean, color="black", linewidth=2, linestyle="--")
        tidy(axes, title, "rounds of communication")
    left.set_ylabel("length")
    left.legend(
        [left.lines[0], left.lines[-1]],
        ["one of the eight agents", "the network's mean"],
        frameon=False,
        loc=3,
    )
    save(figure, "tracking")


def penalty() -> None:
    """Left: averages of points on a circle lie inside. Right: a field that leads to the circle, and four agents in it."""
    A = np.diag([1.0, 0.45])
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    turn = np.linspace(0, 2 * np.pi, 200)
    for axes in (left, right):
        axes.plot(np.cos(turn), np.sin(turn), color="0.4", linewidth=1.5)
        axes.set_aspect("equal")
        axes.set_axis_off()
    angles = np.array([0.2, 1.1, 2.3])
    points = np.stack([np.cos(angles), np.sin(angles)])
    middle = points.mean(axis=1)
    for point in points.T:
        left.annotate("", middle, point, arrowprops={"arrowstyle": "->", "color": "0.5"})
    left.scatter(*points, color=BLUE, s=60, zorder=3)
    left.scatter(*middle, color=RED, s=60, zorder=3)
    left.annotate("their average:\noff the manifold", middle - [0.05, 0.12], ha="center", va="top", color=RED)
    left.set_title("three agents on the manifold", fontsize=11)

    grid = np.stack(np.meshgrid(np.linspace(-1.45, 1.45, 30), np.linspace(-1.45, 1.45, 30)))
    X = grid.reshape(2, -1).T[:, :, None]
    field = -destiny.directions.DIRECTIONS["landing"](lambda Y: -A @ Y, X, 1.0)
    u, v = field[:, :, 0].T.reshape(grid.shape)
    right.streamplot(grid[0], grid[1], u, v, color="0.75", density=0.9, linewidth=0.7, arrowsize=0.8)
    rng = np.random.default_rng(3)
    silos = [np.sqrt(A) @ rng.standard_normal((2, 30)) for _ in range(4)]
    angles = np.array([0.9, 1.3, 1.9, 2.2])
    starts = np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, :, None]
    slow = destiny.Destiny(step_size=Constant(0.005), beta=30.0, direction="landing")
    path = []
    for moment in destiny.iterate(
        destiny.problems.PCA(silos, p=1), destiny.networks.ring(4), slow, start=starts
    ):
        path.append(moment.X[:, :, 0])
        if moment.step >= 400:
            break
    path = np.array(path)
    for agent in range(4):
        right.plot(*path[:, agent].T, color=COLOURS[agent], linewidth=1.6)
        right.scatter(*path[0, agent], color=COLOURS[agent], s=40, zorder=3)
    right.scatter(*path[-1].T, color=RED, marker="*", s=140, zorder=4)
    right.set_title("the penalty's field, and four agents in it", fontsize=11)
    save(figure, "penalty")


def feasibility() -> None:
    """How far from orthonormal the agents' copies are, and how far from each other."""
    problem, net = hospitals()
    history = destiny.solve(problem, net, tolerance=1e-12, rounds=200, every=1).history
    figure = Figure(figsize=(7.5, 3.6), layout="constrained")
    axes = figure.subplots()
    for column, colour in (("stationarity", GREEN), ("consensus", ORANGE), ("feasibility", PINK)):
        axes.semilogy(history["round"][1:], history[column][1:], label=column, color=colour, linewidth=1.8)
    tidy(axes, "all three go to zero, one round per step", "rounds of communication")
    axes.legend(frameon=False)
    save(figure, "feasibility")


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
