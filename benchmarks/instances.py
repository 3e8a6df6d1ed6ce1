"""Random small instances, functions of their seeds: a problem, a network, and how the network changes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import destiny
from destiny import networks

GRAPHS = ("ring", "path", "star", "caterpillar", "geometric", "random")
CHANGES = ("loss", "periodic", "sequence", "matchings")
PROBLEMS = ("pca", "olsr", "procrustes")


@dataclass(frozen=True)
class Instance:
    """What `draw` made, and its description in a few words."""

    name: str
    problem: Any
    network: Any


def draw(seed: int, changing: bool) -> Instance:
    """The instance of a seed: graph, change, problem and how much the agents differ are all random."""
    rng = np.random.default_rng([seed, int(changing)])
    graph, kind = str(rng.choice(GRAPHS)), str(rng.choice(PROBLEMS))
    agents = int(rng.integers(5, 25))
    different = bool(rng.integers(2))
    base = _graph(graph, agents, rng)
    network, change = _change(base, rng) if changing else (base, "static")
    problem = _problem(kind, base.agents, different, rng)
    words = f"{kind}, {'different' if different else 'equal'} agents, {graph} of {base.agents}, {change}"
    return Instance(words, problem, network)


def _graph(graph: str, agents: int, rng: np.random.Generator) -> Any:
    seed = int(rng.integers(10**6))
    if graph in ("ring", "path", "star"):
        return getattr(networks, graph)(agents)
    if graph == "caterpillar":  # a path with a leaf at every second agent
        spine = max(2, 2 * agents // 3)
        leaves = [(2 * k, spine + k) for k in range(agents - spine)]
        return networks.from_edges([*((k, k + 1) for k in range(spine - 1)), *leaves], agents, name=graph)
    if graph == "geometric":
        return networks.random_geometric(agents, radius=0.45, seed=seed)
    return networks.erdos_renyi(agents, prob=float(rng.uniform(0.25, 0.6)), seed=seed)


def _change(base: Any, rng: np.random.Generator) -> tuple[Any, str]:
    kind, seed = str(rng.choice(CHANGES)), int(rng.integers(10**6))
    if kind == "loss":
        loss = float(rng.choice([0.2, 0.4, 0.5, 0.6]))
        return networks.link_loss(base, loss, seed), f"loss {loss:g}"
    if kind == "matchings":
        return networks.matchings(base, seed), "matchings"
    if kind == "sequence":  # good at first, then the base for ever
        first = int(rng.integers(1, 200))
        return networks.sequence(
            [networks.complete(base.agents)] * first + [base]
        ), f"complete for {first} rounds"
    parts = int(rng.integers(2, 5))
    color = rng.permutation(len(base.edges)) % parts
    pieces = [
        networks.from_edges(base.edges[color == c], base.agents, connected=False, name=f"part {c}")
        for c in range(parts)
        if (color == c).any()
    ]
    return networks.periodic(pieces), f"periodic, {len(pieces)} parts"


def _problem(kind: str, agents: int, different: bool, rng: np.random.Generator) -> Any:
    n, p = int(rng.integers(8, 21)), int(rng.integers(1, 5))
    samples = int(rng.integers(n, 3 * n))
    basis = np.linalg.qr(rng.standard_normal((n, n)))[0]
    # PCA: eigenvalues fall by a constant factor; regression: condition of A A^T up to 25
    spread = float(rng.uniform(0.6, 0.9)) ** (np.arange(n) / 2)
    if kind != "pca":
        spread = np.logspace(0, -float(rng.uniform(0, 0.7)), n)
    data = []
    for agent in range(agents):
        weight = spread.copy()
        size = 1.0
        if different:  # in scale, and in the directions they see
            size = 10 ** float(rng.uniform(-0.75, 0.75))
            weight *= np.where((np.arange(n) + agent) % 3 == 0, 1.0, 0.1)
        data.append(size * basis @ (weight[:, None] * rng.standard_normal((n, samples))) / np.sqrt(samples))
    if kind == "pca":
        return destiny.problems.PCA([a.T for a in data], p)
    truth = np.linalg.qr(rng.standard_normal((n, p)))[0]
    noise = 0.1 * float(np.mean([np.abs(A).mean() for A in data]))
    targets = [truth.T @ A + noise * rng.standard_normal((p, samples)) for A in data]
    if kind == "olsr":
        return destiny.problems.OLSR([a.T for a in data], [a.T for a in targets])

    def value(X: Any, A: Any, B: Any) -> float:
        return float(0.5 * np.sum((A.T @ X - B.T) ** 2))

    def gradient(X: Any, A: Any, B: Any) -> Any:
        return A @ (A.T @ X - B.T)

    return destiny.problems.custom.problem(
        value, gradient, data=list(zip(data, targets, strict=True)), shape=(n, p)
    )
