"""DESTINY with an averaged model: the local solver, the answers, the number of rounds."""

import numpy as np
import pytest
from scipy.linalg import eigh, svd

import destiny
from destiny.algorithms.averaged.leading_axes import refined
from destiny.algorithms.averaged.model import AveragedModel
from destiny.algorithms.averaged.quadratic_model import pack, unpack
from destiny.algorithms.averaged.trust_region import minimize, nearest_equal
from destiny.errors import MismatchError, SettingsError
from destiny.geometry.stiefel import random_point, subspace_distance
from destiny.storage.checkpoint import flatten
from tests.helpers.small_problems import agents_of, small_problem


def symmetric(n, seed):
    M = np.random.default_rng(seed).standard_normal((n, n))
    return M + M.T


@pytest.mark.parametrize("seed", range(3))
def test_without_a_linear_part_the_local_solution_spans_the_lowest_eigenvectors(seed):
    A = symmetric(30, seed)
    result = minimize(A, np.zeros((30, 4)), random_point(30, 4, seed), 1e-12, 1e-13)
    assert subspace_distance(result.X, eigh(A, subset_by_index=(0, 3))[1]) < 1e-9
    assert result.products > 4


@pytest.mark.parametrize("seed", range(3))
def test_without_a_quadratic_part_the_local_solution_is_that_of_procrustes(seed):
    B = np.random.default_rng(seed).standard_normal((20, 5))
    U, _, Vt = svd(-B, full_matrices=False)
    result = minimize(np.zeros((20, 20)), B, random_point(20, 5, seed), 1e-12, 1e-13)
    np.testing.assert_allclose(result.X, U @ Vt, atol=1e-9)


def test_a_minimum_is_turned_towards_the_start_only_where_that_costs_nothing():
    A, X = symmetric(12, 0), random_point(12, 3, 1)
    Y = eigh(A, subset_by_index=(0, 2))[1]
    near = nearest_equal(A, np.zeros((12, 3)), Y, X)
    assert subspace_distance(near, Y) < 1e-12
    assert np.linalg.norm(near - X) < np.linalg.norm(Y - X)
    B = np.random.default_rng(2).standard_normal((12, 3))
    single = minimize(A, B, X, 1e-12, 1e-13).X
    assert (nearest_equal(A, B, single, X) == single).all()


def test_triangles_are_unpacked_as_they_were():
    A = np.stack([symmetric(6, k) for k in range(3)])
    assert (unpack(pack(A), 6) == A).all()


NETWORKS = [
    destiny.networks.erdos_renyi(12, prob=0.4, seed=7),
    destiny.networks.ring(16),
    destiny.networks.star(10),
]


@pytest.mark.parametrize("network", NETWORKS, ids=["random", "ring", "star"])
def test_quadratic_objectives_take_one_sum(network):
    d = network.agents
    problem = destiny.problems.pca.synthetic(n=40, m=40 * d, p=4, xi=0.9, agents=d, seed=7)
    result = destiny.solve(problem, network, AveragedModel(), every=1, seed=7)
    assert result.converged
    assert result.rounds == 2 * network.depth
    assert result.scalars == 2 * (d - 1) * (40 * 41 // 2 + 2 * 40 * 4)
    assert (result.agents == result.agents[0]).all(), "the same bits at every agent"
    assert subspace_distance(result.X, destiny.problems.pca.solution(problem)) < 1e-8
    assert result.gradients == 1
    assert "products" in result.notes[-1]


def test_agents_agree_to_stop_by_themselves():
    problem, network = small_problem("pca", 8, 0), destiny.networks.erdos_renyi(8, prob=0.5, seed=1)
    result = destiny.solve(problem, network, AveragedModel(), local_stopping=True, tolerance=1e-8)
    assert result.converged
    assert subspace_distance(result.X, destiny.problems.pca.solution(problem)) < 1e-7


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_give_the_same_bits(threads):
    problem, network = small_problem("olsr", 6, 0), destiny.networks.ring(6)
    one, several = (
        destiny.solve(problem, network, AveragedModel(), engine=destiny.engines.local(k))
        for k in (1, threads)
    )
    for name, array in flatten(one.state).items():
        assert (array == flatten(several.state)[name]).all(), name


@pytest.mark.parametrize(("feature", "factor"), [(0, 1e3), (7, 1e6), (11, 1e8)])
def test_a_feature_in_large_units_hides_no_axis(feature, factor):
    rng = np.random.default_rng(17)
    silos = [rng.standard_normal((12, 20)) for _ in range(6)]
    for A in silos:
        A[[0, feature]] = A[[feature, 0]]
        A[feature] *= factor
    order = np.r_[feature, np.delete(np.arange(12), feature)]  # the SVD is accurate with large rows first
    exact = np.empty((12, 3))
    exact[order] = svd(np.hstack(silos)[order], full_matrices=False)[0][:, :3]
    result = destiny.solve(
        destiny.problems.PCA([a.T for a in silos], 3), destiny.networks.ring(6), AveragedModel()
    )
    assert subspace_distance(result.X, exact) < 1e-9


def test_where_data_have_fewer_dimensions_than_p_no_axis_is_taken_from_rounding():
    rng = np.random.default_rng(3)
    A = -(M := rng.standard_normal((12, 2))) @ M.T
    X = random_point(12, 4, 0)
    Y = minimize(A, np.zeros((12, 4)), X, 0.0, 1e-14).X
    assert (refined(A, Y) == Y).all()
    assert subspace_distance(refined(A, X[:, :2]), eigh(A, subset_by_index=(0, 1))[1]) < 1e-12


def test_agents_agree_to_stop_where_all_data_are_zero():
    problem = destiny.problems.PCA([np.zeros((5, 4))] * 3, 2)
    result = destiny.solve(problem, destiny.networks.ring(3), AveragedModel(), local_stopping=True, rounds=60)
    assert result.converged, result.reason


@pytest.mark.parametrize("kind", ["pca", "olsr"])
def test_hessians_are_derivatives_of_gradients(kind):
    problem = small_problem(kind, 4, 0)
    problem = problem + 0.5 * problem
    agents = agents_of(problem, destiny.networks.ring(4))
    X, V = (np.stack([random_point(*problem.shape, seed + k) for k in range(4)]) for seed in (0, 9))
    np.testing.assert_allclose(agents.gradient(X + V) - agents.gradient(X), agents.hessian() @ V, atol=1e-12)


def test_a_run_resumes_to_the_same_bits(tmp_path):
    problem, network = small_problem("olsr", 5, 1), destiny.networks.ring(5)
    whole = destiny.solve(problem, network, AveragedModel(), rounds=40, tolerance=0)
    options = {"checkpoint": tmp_path, "checkpoint_every": 1, "tolerance": 0}
    destiny.solve(problem, network, AveragedModel(), rounds=8, **options)
    again = destiny.solve(problem, network, AveragedModel(), rounds=40, resume=True, **options)
    for name, array in flatten(whole.state).items():
        assert (array == flatten(again.state)[name]).all(), name


@pytest.mark.parametrize("kind", ["pca", "olsr"])
def test_private_messages_take_one_more_sum_of_scales(kind):
    problem, network = small_problem(kind, 8, 0), destiny.networks.ring(8)
    plain, private = (
        destiny.solve(problem, network, AveragedModel(), every=1, messages=messages)
        for messages in ("plain", "private")
    )
    assert private.converged
    assert private.rounds == 2 * plain.rounds
    n, p = problem.shape
    assert private.bytes == plain.bytes + 8 * 14 * (2 + 6 * (n + p))  # wide words, and a count in each sum
    assert (private.agents == private.agents[0]).all(), "the same bits at every agent"
    np.testing.assert_allclose(private.X, plain.X, atol=1e-9)


def test_a_limit_of_rounds_counts_the_sum_of_scales():
    problem, network = small_problem("pca", 8, 0), destiny.networks.ring(8)
    private = "private"
    for rounds, steps in ((8, 0), (15, 0), (16, 1)):
        result = destiny.solve(problem, network, AveragedModel(), rounds=rounds, messages=private)
        assert (result.steps, result.rounds <= rounds) == (steps, True)


def test_what_it_cannot_do_is_refused_in_a_sentence():
    problem, ring = small_problem("pca", 6, 0), destiny.networks.ring(6)
    with pytest.raises(SettingsError, match="needs a static network"):
        destiny.solve(problem, destiny.networks.link_loss(ring, 0.2, seed=0), AveragedModel())
    wide = destiny.problems.pca.PCA([np.ones((2, 2001))] * 6, 1)
    with pytest.raises(SettingsError, match=r"n up to 2000; found n = 2001"):
        destiny.solve(wide, ring, AveragedModel())
    with pytest.raises(SettingsError, match="depth must be"):
        AveragedModel(depth=-1)
    with pytest.raises(MismatchError, match="not quadratic, or does not say so: use averaged-lbfgs"):
        destiny.solve(small_problem("sdl"), ring, AveragedModel())
