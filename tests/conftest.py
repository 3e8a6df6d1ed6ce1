import signal

import numpy as np
import pytest

import destiny
from destiny.engines import Local


@pytest.fixture(params=range(3))
def rng(request):
    return np.random.default_rng(request.param)


def small_problem(kind: str, agents: int = 6, seed: int = 0):
    """One small instance of each problem of the paper."""
    if kind == "pca":
        return destiny.problems.pca.synthetic(n=12, m=90, p=3, xi=0.7, agents=agents, seed=seed)
    if kind == "olsr":
        rng = np.random.default_rng(seed)
        C = rng.standard_normal((12, 90)) / 9
        D = np.eye(3)[rng.integers(0, 3, 90)].T
        return destiny.problems.olsr.from_data(C, D, agents=agents)
    B = np.random.default_rng(seed).laplace(size=(12, 90)) / 4
    return destiny.problems.sdl.from_data(B, p=3, agents=agents)


def procrustes(agents: int, n: int = 4, sign: int = -1, seed: int = 0):
    """Square OLSR whose answer has the determinant ``sign``, and that answer in closed form."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    Q[:, 0] *= sign * np.linalg.det(Q)
    C = [rng.standard_normal((n, 8)) for _ in range(agents)]
    D = [Q.T @ c + 0.05 * rng.standard_normal((n, 8)) for c in C]
    best = destiny.stiefel.polar(sum(c @ t.T for c, t in zip(C, D, strict=True)))
    return destiny.problems.OLSR(C, D), best


class Handler:
    """A user's signal handler that goes on; ``received`` are the signals it was called with."""

    def __init__(self):
        self.received = []

    def __call__(self, number, frame):
        self.received.append(number)


@pytest.fixture
def handler():
    """Install a user's handler of a signal for the length of a test."""
    before = {}

    def install(number):
        mine = Handler()
        before.setdefault(number, signal.signal(number, mine))
        return mine

    yield install
    for number, old in before.items():
        signal.signal(number, old)


KINDS = ("pca", "olsr", "sdl")


def agents_of(problem, network, threads: int = 1):
    """All agents of a problem in one process, as an algorithm sees them."""
    team = Local(threads).connect(problem, network)
    assert len(team.workers) == threads
    return team.workers[0]
