"""Small instances of the problems of the paper, and short runs of them."""

import numpy as np

import destiny
from destiny.engines import Local
from destiny.engines.mixers import PLAIN

KINDS = ("pca", "olsr", "sdl")


def small_problem(kind: str, agents: int = 6, seed: int = 0):
    """One small instance of each problem of the paper."""
    if kind == "pca":
        return destiny.problems.pca.synthetic(n=12, m=90, p=3, xi=0.7, agents=agents, seed=seed)
    if kind == "olsr":
        rng = np.random.default_rng(seed)
        C = rng.standard_normal((12, 90)) / 9
        D = np.eye(3)[rng.integers(0, 3, 90)].T
        return destiny.problems.olsr.from_data(C.T, D.T, agents=agents)
    B = np.random.default_rng(seed).laplace(size=(12, 90)) / 4
    return destiny.problems.sdl.from_data(B.T, p=3, agents=agents)


def generalized(agents: int = 6, kind: str = "pca", seed: int = 0):
    """A small problem with the constraint X^T M X = I; no M_i is regular, their sum is."""
    problem, rng = small_problem(kind, agents, seed), np.random.default_rng(seed + 1)
    factors = [rng.standard_normal((12, 8)) * 3.0 ** rng.integers(-1, 2) for _ in range(agents)]
    return destiny.problems.Generalized(problem, [A @ A.T for A in factors])


def procrustes(agents: int, n: int = 4, sign: int = -1, seed: int = 0):
    """Square OLSR whose answer has the determinant ``sign``, and that answer in closed form."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    Q[:, 0] *= sign * np.linalg.det(Q)
    C = [rng.standard_normal((n, 8)) for _ in range(agents)]
    D = [Q.T @ c + 0.05 * rng.standard_normal((n, 8)) for c in C]
    best = destiny.stiefel.polar(np.sum([c @ t.T for c, t in zip(C, D, strict=True)], axis=0))
    return destiny.problems.OLSR([a.T for a in C], [a.T for a in D]), best


def silos_of(kind, d, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((12, 90)) / 9
    parts = np.array_split(A, d, axis=1)
    if kind != "olsr":
        return parts
    T = np.eye(3)[rng.integers(0, 3, 90)].T
    return list(zip(parts, np.array_split(T, d, axis=1), strict=True))


def problem_of(kind, silos):
    if kind == "pca":
        return destiny.problems.PCA([a.T for a in silos], 3)
    if kind == "olsr":
        return destiny.problems.OLSR([c.T for c, _ in silos], [t.T for _, t in silos])
    return destiny.problems.SDL([a.T for a in silos], 3)


def agents_of(problem, network, threads: int = 1, messages=PLAIN):
    """All agents of a problem in one process, as an algorithm sees them."""
    team = Local(threads).connect(problem, network, messages)
    assert len(team.workers) == threads
    return team.workers[0]


def run(problem, network, algorithm, steps, **options):
    for moment in destiny.iterate(problem, network, algorithm, **options):
        if moment.step == steps:
            return moment.state
    raise AssertionError("iterate never ends by itself")
