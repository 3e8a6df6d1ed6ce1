"""DESTINY with an averaged model: the local solver, the models, the guards, the number of rounds."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import eigh, svd

import destiny
from destiny.algorithms.blocks.gossip import centre_spectrum, rounds_for
from destiny.algorithms.blocks.leading_axes import refined
from destiny.algorithms.blocks.quadratic_model import left_hessian, misfit, pack, unpack
from destiny.algorithms.blocks.trust_region import minimise, nearest_equal
from destiny.algorithms.newton import DestinyNewton
from destiny.errors import PrivacyError, SettingsError
from destiny.geometry.stiefel import random_point, subspace_distance
from destiny.storage.checkpoint import flatten
from tests.helpers.small_problems import agents_of, small_problem


def symmetric(n, seed):
    M = np.random.default_rng(seed).standard_normal((n, n))
    return M + M.T


@pytest.mark.parametrize("seed", range(3))
def test_without_a_linear_part_the_local_solution_spans_the_lowest_eigenvectors(seed):
    A = symmetric(30, seed)
    result = minimise(A, np.zeros((30, 4)), random_point(30, 4, seed), 1e-12, 1e-13)
    assert subspace_distance(result.X, eigh(A, subset_by_index=(0, 3))[1]) < 1e-9
    assert result.products > 4


@pytest.mark.parametrize("seed", range(3))
def test_without_a_quadratic_part_the_local_solution_is_that_of_procrustes(seed):
    B = np.random.default_rng(seed).standard_normal((20, 5))
    U, _, Vt = svd(-B, full_matrices=False)
    result = minimise(np.zeros((20, 20)), B, random_point(20, 5, seed), 1e-12, 1e-13)
    np.testing.assert_allclose(result.X, U @ Vt, atol=1e-9)


def test_a_minimum_is_turned_towards_the_start_only_where_that_costs_nothing():
    A, X = symmetric(12, 0), random_point(12, 3, 1)
    Y = eigh(A, subset_by_index=(0, 2))[1]
    near = nearest_equal(A, np.zeros((12, 3)), Y, X)
    assert subspace_distance(near, Y) < 1e-12
    assert np.linalg.norm(near - X) < np.linalg.norm(Y - X)
    B = np.random.default_rng(2).standard_normal((12, 3))
    single = minimise(A, B, X, 1e-12, 1e-13).X
    assert (nearest_equal(A, B, single, X) == single).all()


def test_triangles_are_unpacked_as_they_were():
    A = np.stack([symmetric(6, k) for k in range(3)])
    assert (unpack(pack(A), 6) == A).all()


@pytest.mark.parametrize("kind", ["pca", "olsr"])
def test_closed_hessians_are_those_of_differences(kind):
    problem = small_problem(kind, 4, 0)
    problem = problem + 0.5 * problem
    agents = agents_of(problem, destiny.networks.ring(4))
    X = np.stack([random_point(*problem.shape, k) for k in range(4)])
    closed = agents.hessian()
    np.testing.assert_allclose(closed, left_hessian(agents, X), atol=1e-6 * np.abs(closed).max())
    assert (misfit(agents, X, closed) < 1e-6).all()


def test_a_hessian_of_another_form_is_noticed():
    problem = destiny.problems.sdl.synthetic(n=10, m=200, p=3, agents=4, seed=0)
    agents = agents_of(problem, destiny.networks.ring(4))
    assert agents.hessian() is None
    X = np.stack([random_point(10, 3, 0)] * 4)
    assert (misfit(agents, X, left_hessian(agents, X)) > 0.3).all()


NETWORKS = [
    destiny.networks.erdos_renyi(12, prob=0.4, seed=7),
    destiny.networks.ring(16),
    destiny.networks.star(10),
]


@pytest.mark.parametrize("network", NETWORKS, ids=["random", "ring", "star"])
def test_quadratic_objectives_take_one_step_of_three_diameters(network):
    d = network.agents
    problem = destiny.problems.pca.synthetic(n=40, m=40 * d, p=4, xi=0.9, agents=d, seed=7)
    result = destiny.solve(problem, network, DestinyNewton(), every=1, seed=7)
    assert result.converged
    assert result.rounds == 3 * network.diameter < rounds_for(1e-8, centre_spectrum(*network.spectrum)[1])
    assert (result.agents == result.agents[0]).all(), "the same bits at every agent"
    assert subspace_distance(result.X, destiny.problems.pca.solution(problem)) < 1e-8
    assert result.gradients == 1
    assert "products" in result.notes[-1]


def test_agents_that_do_not_fit_the_model_go_on_with_momentum_in_the_same_step():
    problem = destiny.problems.sdl.synthetic(n=10, m=300, p=2, agents=6, seed=0)
    network = destiny.networks.erdos_renyi(6, prob=0.6, seed=0)
    result = destiny.solve(problem, network, DestinyNewton())
    assert result.converged
    assert any("destiny-momentum" in note for note in result.notes)
    alone = destiny.solve(problem, network)
    assert abs(result.measures.objective - alone.measures.objective) < 1e-6 * abs(alone.measures.objective)


def test_a_run_resumes_to_the_same_bits_before_and_after_the_change(tmp_path):
    problem = destiny.problems.sdl.synthetic(n=8, m=200, p=2, agents=5, seed=1)
    network = destiny.networks.ring(5)
    whole = destiny.solve(problem, network, DestinyNewton(), rounds=200, tolerance=0)
    for rounds in (6, 100):
        folder = tmp_path / str(rounds)
        options = {"checkpoint": folder, "checkpoint_every": 1, "tolerance": 0}
        destiny.solve(problem, network, DestinyNewton(), rounds=rounds, **options)
        again = destiny.solve(problem, network, DestinyNewton(), rounds=200, resume=True, **options)
        assert (again.X == whole.X).all()


def test_models_that_are_not_constant_are_renewed():
    def value(X, A):
        return float(-np.sum((A.T @ X) ** 2) / 2 + np.sum(X**2) ** 2)

    def gradient(X, A):
        return -A @ (A.T @ X) + 4 * np.sum(X**2) * X

    rng = np.random.default_rng(3)
    silos = [rng.standard_normal((8, 30)) for _ in range(4)]
    problem = destiny.problems.custom.problem(value, gradient, data=silos, shape=(8, 1))
    moments = destiny.iterate(problem, destiny.networks.ring(4), DestinyNewton())
    states = [next(moments).state for _ in range(5)]
    assert np.abs(states[1].model - states[0].model).max() > 1e-3
    agents = agents_of(problem, destiny.networks.ring(4))
    for s in states:
        A = left_hessian(agents, s.X)
        np.testing.assert_allclose(s.model, pack(A), atol=1e-9)
        np.testing.assert_allclose(s.R, agents.gradient(s.X) - A @ s.X, atol=1e-9)
    result = destiny.solve(problem, destiny.networks.ring(4), DestinyNewton())
    assert result.converged
    C = sum(A @ A.T for A in silos)
    assert subspace_distance(result.X, eigh(C, subset_by_index=(7, 7))[1]) < 1e-8


def test_agents_agree_to_stop_by_themselves():
    problem, network = small_problem("pca", 8, 0), destiny.networks.erdos_renyi(8, prob=0.5, seed=1)
    result = destiny.solve(problem, network, DestinyNewton(), decentralised=True, tolerance=1e-8)
    assert result.converged
    assert subspace_distance(result.X, destiny.problems.pca.solution(problem)) < 1e-7


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_give_the_same_bits(threads):
    problem, network = small_problem("olsr", 6, 0), destiny.networks.ring(6)
    one, several = (
        destiny.solve(problem, network, DestinyNewton(), engine=destiny.engines.local(k))
        for k in (1, threads)
    )
    for name, array in flatten(one.state).items():
        assert (array == flatten(several.state)[name]).all(), name


def test_what_it_cannot_do_is_refused_in_a_sentence():
    problem, ring = small_problem("pca", 6, 0), destiny.networks.ring(6)
    lossy = destiny.networks.link_loss(ring, 0.2, seed=0)
    with pytest.raises(SettingsError, match="a network that stays"):
        destiny.solve(problem, lossy, DestinyNewton())
    wide = destiny.problems.pca.PCA([np.ones((2001, 2))] * 6, 1)
    with pytest.raises(SettingsError, match=r"n up to 2000; found n = 2001"):
        destiny.solve(wide, ring, DestinyNewton())
    with pytest.raises(SettingsError, match="diameter must be"):
        DestinyNewton(diameter=-1)
    with pytest.raises(SettingsError, match="spectrum must be"):
        DestinyNewton(spectrum=(0.5, 1.0))


def test_steps_that_lead_nowhere_end_in_momentum():
    """A model whose slope does not fall: a gradient that is not that of the values, with a turn in it."""
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])

    def gradient(X, A):
        return -A @ (A.T @ X) + 3 * X @ turn * np.sin(40 * X[0, 0])

    rng = np.random.default_rng(1)
    silos = [rng.standard_normal((6, 20)) / 5 for _ in range(4)]
    problem = destiny.problems.custom.problem(lambda X, A: 0.0, gradient, data=silos, shape=(6, 2))
    result = destiny.solve(problem, destiny.networks.ring(4), DestinyNewton(), rounds=200)
    assert any("went on with destiny-momentum" in note for note in result.notes)


@pytest.mark.parametrize("kind", ["pca", "olsr"])
def test_private_messages_take_the_same_rounds_and_twice_the_numbers(kind):
    problem, network = small_problem(kind, 8, 0), destiny.networks.ring(8)
    plain, private = (
        destiny.solve(problem, network, DestinyNewton(), every=1, messages=destiny.Messages(private=p))
        for p in (False, True)
    )
    assert private.converged
    assert private.rounds == plain.rounds
    assert 1.9 * plain.scalars < private.scalars < 2.1 * plain.scalars
    assert (private.agents == private.agents[0]).all(), "the same bits at every agent"
    assert private.measures.objective == pytest.approx(plain.measures.objective, abs=1e-12)


class Voter(DestinyNewton):
    """Agent 0 votes for momentum in every step, without any reason."""

    def init(self, X, agents):
        return self.lie(super().init(X, agents), agents)

    def step(self, s, agents):
        return self.lie(super().step(s, agents), agents)

    def lie(self, s, agents):
        return replace(s, vote=np.where(agents.ids[:, None, None] == 0, 1.0, s.vote))


def one_column(agents=4):
    """An objective that is not quadratic, but of which every Hessian has the form V -> A V."""

    def gradient(X, A):
        return -A @ (A.T @ X) + 4 * np.sum(X**2) * X

    silos = [np.random.default_rng(k).standard_normal((8, 30)) for k in range(agents)]
    value = lambda X, A: float(-np.sum((A.T @ X) ** 2) / 2 + np.sum(X**2) ** 2)  # noqa: E731
    return destiny.problems.custom.problem(value, gradient, data=silos, shape=(8, 1))


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("kind", ["pca", "olsr"])
def test_votes_are_ignored_where_models_are_exact(kind, private):
    problem, network = small_problem(kind, 5, 0), destiny.networks.ring(5)
    honest, voted = (
        destiny.solve(problem, network, method(), messages=destiny.Messages(private=private))
        for method in (DestinyNewton, Voter)
    )
    assert not voted.state.fallen.any()
    assert (voted.X == honest.X).all()
    assert voted.notes == honest.notes


def test_with_private_messages_a_vote_ends_the_run_in_a_sentence():
    problem, network = one_column(), destiny.networks.ring(4)
    messages = destiny.Messages(private=True)
    assert destiny.solve(problem, network, DestinyNewton(), messages=messages).converged
    with pytest.raises(PrivacyError, match="asks to change from destiny-newton to destiny-momentum"):
        destiny.solve(problem, network, Voter(), messages=messages)


def test_with_plain_messages_a_vote_is_logged_and_noted(caplog):
    result = destiny.solve(one_column(), destiny.networks.ring(4), Voter())
    (said,) = [r.getMessage() for r in caplog.records if r.name == "destiny.run.driver"]
    assert said.startswith("after step 1 destiny-newton went on with destiny-momentum: ")
    assert any(note.startswith("went on with destiny-momentum: ") for note in result.notes)


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
    result = destiny.solve(destiny.problems.PCA(silos, 3), destiny.networks.ring(6), DestinyNewton())
    assert subspace_distance(result.X, exact) < 1e-9


def test_where_data_have_fewer_dimensions_than_p_no_axis_is_taken_from_rounding():
    rng = np.random.default_rng(3)
    A = -(M := rng.standard_normal((12, 2))) @ M.T
    X = random_point(12, 4, 0)
    Y = minimise(A, np.zeros((12, 4)), X, 0.0, 1e-14).X
    assert (refined(A, Y) == Y).all()
    assert subspace_distance(refined(A, X[:, :2]), eigh(A, subset_by_index=(0, 1))[1]) < 1e-12


def test_agents_agree_to_stop_where_all_data_are_zero():
    problem = destiny.problems.PCA([np.zeros((4, 5))] * 3, 2)
    result = destiny.solve(problem, destiny.networks.ring(3), DestinyNewton(), decentralised=True, rounds=60)
    assert result.converged, result.reason
