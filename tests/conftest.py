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


KINDS = ("pca", "olsr", "sdl")


def agents_of(problem, network, threads: int = 1):
    """All agents of a problem in one process, as an algorithm sees them."""
    team = Local(threads).connect(problem, network)
    assert len(team.workers) == threads
    return team.workers[0]
