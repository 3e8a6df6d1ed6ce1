"""FAPS: the subspace of the SVD on a star, what is refused elsewhere, and what agents know."""

import numpy as np
import pytest

import destiny
from destiny.algorithms import FAPS
from destiny.algorithms.blocks.star import Star
from destiny.geometry.stiefel import subspace_distance
from tests.helpers.small_problems import agents_of, small_problem

WEIGHTS = ("metropolis", "lazy", "best-constant")


@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_center_hears_the_mean_and_tells_it_to_all(weights):
    network = destiny.networks.star(5, weights=weights)
    agents = agents_of(small_problem("pca", 5), network)
    star = Star.of(network, "faps")
    A = np.random.default_rng(0).standard_normal((5, 4, 2))
    mean = star.mean(agents, A)
    np.testing.assert_allclose(mean[star.center], A.mean(axis=0), atol=1e-14)
    np.testing.assert_allclose(star.broadcast(agents, mean), np.broadcast_to(mean[0], A.shape), atol=1e-14)
    assert agents.traffic.rounds == 2


@pytest.mark.parametrize("seed", range(3))
def test_agents_that_see_different_directions_agree_too(seed):
    rng = np.random.default_rng(seed)
    silos = [rng.standard_normal((15, 4)) * 0.7 ** np.arange(15)[:, None] for _ in range(8)]
    problem = destiny.problems.PCA([a.T for a in silos], 2)
    result = destiny.solve(problem, destiny.networks.star(8), FAPS(), rounds=4000)
    assert result.converged, result
    assert subspace_distance(result.X, destiny.problems.pca.solution(problem)) < 1e-7


def test_agents_stop_by_themselves():
    problem = small_problem("pca", 6)
    result = destiny.solve(
        problem, destiny.networks.star(6), FAPS(), local_stopping=True, tolerance=1e-8, rounds=2000
    )
    assert result.converged, result
    assert result.measures.worst < 1e-7


@pytest.mark.parametrize(
    "network",
    [
        destiny.networks.ring(6),
        destiny.networks.complete(6),
        destiny.networks.link_loss(destiny.networks.star(6), 0.1, seed=0),
    ],
    ids=["ring", "complete", "lossy star"],
)
def test_other_networks_are_refused(network):
    problem = small_problem("pca", 6)
    with pytest.raises(destiny.MismatchError, match="faps needs a star"):
        destiny.solve(problem, network, FAPS())
    assert "faps" in destiny.compare(problem, network, [FAPS()], rounds=40).skipped


def test_settings_are_checked():
    with pytest.raises(destiny.SettingsError, match="beta"):
        FAPS(beta=-1.0)
