"""The pictures of docs/how-it-works.md."""

from typing import Any

import numpy as np
from drawing import BLUE, GREEN, ORANGE, PINK, RED, save, tidy
from matplotlib.figure import Figure

import destiny
from destiny.algorithms import DGD
from destiny.algorithms.blocks.step_sizes import Constant
from destiny.geometry.stiefel import norm
from destiny.run.plots import COLORS


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
    return destiny.problems.PCA([a.T for a in silos], p=2), destiny.networks.random_regular(
        8, degree=3, seed=0
    )


def bias() -> None:
    """Plain averaging stalls at a distance that shrinks with the step; tracking does not stall."""
    problem, net = hospitals()
    exact = destiny.problems.pca.solution(problem)
    L = float(
        norm(np.linalg.svd(problem.host(range(8)).gradient(np.stack([exact] * 8)))[1][:, :1, None]).max()
    )
    runs: dict[str, tuple[Any, str, str]] = {
        "averaging gradients, long step": (DGD(step_size=Constant(0.3 / L), beta=L), RED, "-"),
        "averaging gradients, a step three times shorter": (
            DGD(step_size=Constant(0.1 / L), beta=L),
            RED,
            "--",
        ),
        "tracking (DESTINY)": (destiny.Destiny(), BLUE, "-"),
        "tracking with momentum": (destiny.DestinyAccelerated(), GREEN, "-"),
    }
    figure = Figure(figsize=(7.5, 4), layout="constrained")
    axes = figure.subplots()
    for label, (method, color, style) in runs.items():
        rounds, error = [], []
        for moment in destiny.iterate(problem, net, method):
            rounds.append(moment.round)
            error.append(destiny.metrics.distance_to(moment.X, exact))
            if moment.round >= 400:
                break
        axes.semilogy(rounds, error, label=label, color=color, linestyle=style, linewidth=1.8)
    tidy(axes, "eight agents, three neighbors each", "rounds of communication", "angle to the pooled answer")
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
    positions = []
    for moment in destiny.iterate(
        destiny.problems.PCA([a.T for a in silos], p=1), destiny.networks.ring(4), slow, start=starts
    ):
        positions.append(moment.X[:, :, 0])
        if moment.step >= 400:
            break
    path = np.array(positions)
    for agent in range(4):
        right.plot(*path[:, agent].T, color=COLORS[agent], linewidth=1.6)
        right.scatter(*path[0, agent], color=COLORS[agent], s=40, zorder=3)
    right.scatter(*path[-1].T, color=RED, marker="*", s=140, zorder=4)
    right.set_title("the penalty's field, and four agents in it", fontsize=11)
    save(figure, "penalty")


def feasibility() -> None:
    """How far from orthonormal the agents' copies are, and how far from each other."""
    problem, net = hospitals()
    history = destiny.solve(problem, net, "destiny-accelerated", tolerance=1e-12, rounds=200, every=1).history
    figure = Figure(figsize=(7.5, 3.6), layout="constrained")
    axes = figure.subplots()
    for column, color in (("stationarity", GREEN), ("consensus", ORANGE), ("feasibility", PINK)):
        axes.semilogy(history["round"][1:], history[column][1:], label=column, color=color, linewidth=1.8)
    tidy(axes, "all three go to zero, one round per step", "rounds of communication")
    axes.legend(frameon=False)
    save(figure, "feasibility")
