"""PCA by Krylov spaces: the space itself, rounds, answers, what agents hold, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.sparse.csgraph import shortest_path

import destiny
from destiny.algorithms.averaged.krylov import VECTORS, AveragedKrylov
from destiny.algorithms.averaged.krylov_space import extend, orthonormal_rows, restart, turned_towards
from destiny.errors import MismatchError, SettingsError
from destiny.geometry.stiefel import norm, random_point, subspace_distance, tangent
from tests.helpers.small_problems import agents_of, run, small_problem


def symmetric(n, seed):
    M = np.random.default_rng(seed).standard_normal((n, n))
    return M + M.T


def grown(C, Q, steps, most):
    """The space after some steps from the rows Q, with restarts."""
    blocks, T = [], np.empty((0, 0))
    for _ in range(steps):
        if len(T) + len(Q) > most:
            blocks, T = restart(blocks, T, [most // 2])
        space = extend(blocks, T, Q, Q @ C)
        block = space.next_block(len(Q), np.empty((0, len(C))))
        blocks, T, Q = space.blocks, space.T, block[block.any(axis=1)]
    return space


@pytest.mark.parametrize("seed", range(3))
def test_the_space_of_an_indefinite_matrix_holds_its_leading_eigenvectors(seed):
    C = symmetric(40, seed)
    space = grown(C, random_point(40, 5, seed).T, 20, most=40)
    np.testing.assert_allclose(
        np.concatenate(space.blocks) @ np.concatenate(space.blocks).T, np.eye(40), atol=1e-12
    )
    np.testing.assert_allclose(
        space.T, np.concatenate(space.blocks) @ C @ np.concatenate(space.blocks).T, atol=1e-11
    )
    rows, slope = space.ritz(3)
    assert subspace_distance(rows.T, eigh(C, subset_by_index=(37, 39))[1]) < 1e-10
    assert slope < 1e-10


@pytest.mark.parametrize("seed", range(3))
def test_norms_of_gradients_are_those_of_the_whole_matrix(seed):
    C, X = symmetric(60, seed), random_point(60, 3, seed + 7)
    Q = np.concatenate([X, np.random.default_rng(seed).standard_normal((60, 3))], axis=1)
    space = grown(C, orthonormal_rows(Q.T, 0.0), 3, most=60)
    riemannian, euclidean = space.gradient_norms(X)
    assert riemannian == pytest.approx(float(norm(tangent(X, -C @ X))), rel=1e-10)
    assert euclidean == pytest.approx(float(norm(C @ X)), rel=1e-10)
    rows, slope = space.ritz(3)
    assert slope == pytest.approx(float(norm(tangent(rows.T, -C @ rows.T))), rel=1e-8)


def test_restarts_keep_the_best_and_converge():
    C = symmetric(80, 4)
    space = grown(C, random_point(80, 2, 0).T, 60, most=16)
    assert len(np.concatenate(space.blocks)) <= 16
    rows, slope = space.ritz(2)
    assert slope < 1e-9
    assert subspace_distance(rows.T, eigh(C, subset_by_index=(78, 79))[1]) < 1e-8


def test_rows_that_add_nothing_are_left_out_and_spoil_nothing():
    rows = np.random.default_rng(0).standard_normal((4, 9))
    doubled = np.stack([rows[0], rows[1], rows[0] - 2 * rows[1], 0 * rows[0], rows[2]])
    Q = orthonormal_rows(doubled, 1e-12)
    np.testing.assert_allclose(Q @ Q.T, np.eye(3), atol=1e-14)
    assert subspace_distance(Q.T, rows[:3].T) < 1e-12
    assert orthonormal_rows(0 * rows, 0.0).shape == (0, 9)
    assert len(orthonormal_rows(np.random.default_rng(1).standard_normal((5, 3)), 1e-12)) == 3


def test_a_basis_is_turned_towards_another_point():
    rows, X = random_point(12, 3, 0).T, random_point(12, 3, 1)
    near = turned_towards(rows, X)
    assert subspace_distance(near, rows.T) < 1e-12
    assert np.linalg.norm(near - X) < np.linalg.norm(rows.T - X)


NETWORKS = {
    "random": destiny.networks.erdos_renyi(12, prob=0.3, seed=7),
    "path": destiny.networks.path(9),
    "star": destiny.networks.star(10),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_step_takes_twice_the_radius_and_all_agents_have_the_same_bits(name):
    network = NETWORKS[name]
    d = network.agents
    problem = destiny.problems.pca.synthetic(n=90, m=40 * d, p=3, xi=0.9, agents=d, seed=7)
    result = destiny.solve(problem, network, AveragedKrylov(), seed=7)
    assert result.converged
    radius = int(shortest_path(network.W, unweighted=True).max(axis=1).min())
    assert result.rounds == 2 * radius * result.steps
    assert (result.agents == result.agents[0]).all()
    assert subspace_distance(result.X, destiny.problems.pca.solution(problem)) < 1e-7


def test_the_division_of_the_data_makes_no_difference():
    """Agents that see one class, two directions or nothing walk as one agent that has everything."""
    rng = np.random.default_rng(2)
    A = np.linalg.qr(rng.standard_normal((50, 50)))[0] * 0.8 ** np.arange(
        50
    )  # two columns are two directions
    silos = [*np.split(A, 25, axis=1), np.zeros((50, 0)), 1e-3 * rng.standard_normal((50, 40))]
    problem = destiny.problems.PCA([a.T for a in silos], 4)
    pooled = destiny.problems.PCA([(np.concatenate(silos, axis=1) / np.sqrt(27)).T], 4)
    many = run(problem, destiny.networks.ring(27), AveragedKrylov(), 5)
    one = run(pooled, destiny.networks.complete(1), AveragedKrylov(), 5)
    np.testing.assert_allclose(many.X, np.broadcast_to(one.X, many.X.shape), atol=1e-9)
    np.testing.assert_allclose(many.slope[0], one.slope[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("n", "p", "rank"),
    [(10, 3, 10), (10, 10, 10), (10, 9, 10), (10, 4, 2), (10, 4, 0), (1, 1, 1), (40, 1, 40)],
)
def test_any_shape_and_any_rank(n, p, rank):
    rng = np.random.default_rng(n + p)
    A = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, 60)) if rank else np.zeros((n, 60))
    problem = destiny.problems.pca.from_data(A.T, p, 6)
    result = destiny.solve(problem, destiny.networks.ring(6), AveragedKrylov(), tolerance=1e-9, rounds=2000)
    assert result.converged, result
    explained = np.linalg.eigvalsh(A @ A.T / 6)[::-1][:p].sum()
    assert -2 * result.measures.objective == pytest.approx(explained, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("width", [1, 2])
def test_noise_without_structure_needs_restarts_and_converges(width):
    A = np.random.default_rng(5).standard_normal((120, 600))
    problem, network = destiny.problems.pca.from_data(A.T, 1, 5), destiny.networks.complete(5)
    result = destiny.solve(problem, network, AveragedKrylov(width))
    assert result.converged
    assert result.steps * width > VECTORS  # more than are kept
    assert [block.shape for block in result.state.basis] == [(5, width, 120)] * (VECTORS // width)
    assert subspace_distance(result.X, np.linalg.svd(A)[0][:, :1]) < 1e-6


def test_a_start_that_is_the_answer_ends_at_once_and_starts_may_differ():
    problem, network = small_problem("pca", 6, 0), destiny.networks.ring(6)
    answer = destiny.problems.pca.solution(problem)
    again = destiny.solve(problem, network, AveragedKrylov(), start=answer)
    assert again.converged
    assert again.steps <= 2
    settings = AveragedKrylov().on(network)
    agents = agents_of(problem, network)
    state = settings.init(np.stack([random_point(12, 3, k) for k in range(6)]), agents)
    for _ in range(5):
        state = settings.step(state, agents)
    assert settings.residual(state).max() < 1e-10
    assert subspace_distance(state.X[3], answer) < 1e-8


def test_agents_agree_to_stop_by_themselves_and_messages_may_be_private():
    problem, network = small_problem("pca", 12, 0), NETWORKS["random"]
    for messages in ("plain", "private"):
        result = destiny.solve(
            problem, network, AveragedKrylov(), local_stopping=True, tolerance=1e-9, messages=messages
        )
        assert result.converged
        assert subspace_distance(result.X, destiny.problems.pca.solution(problem)) < 1e-8
        assert (result.agents == result.agents[0]).all()


def test_agents_whose_vectors_differ_never_call_it_an_answer():
    problem, network = small_problem("pca", 6, 0), destiny.networks.ring(6)
    settings, agents = AveragedKrylov().on(network), agents_of(problem, network)
    state = settings.step(settings.init(np.stack([random_point(12, 3, 0)] * 6), agents), agents)
    block = state.block.copy()
    block[2, 0] *= -1  # as if another machine had taken the other sign
    state = replace(state, block=block)
    for _ in range(4):
        state = settings.step(state, agents)
    assert (settings.residual(state) == 1.0).all()
    (remark,) = settings.remarks(state, agents.ids, False)
    assert "use destiny-accelerated" in remark


def test_what_it_cannot_do_is_refused_in_a_sentence():
    problem, ring = small_problem("pca", 6, 0), destiny.networks.ring(6)
    with pytest.raises(SettingsError, match="needs a static network"):
        destiny.solve(problem, destiny.networks.link_loss(ring, 0.2, seed=0), AveragedKrylov())
    with pytest.raises(SettingsError, match="exact totals"):
        destiny.solve(problem, ring, AveragedKrylov(), messages=destiny.Quantized(8))
    with pytest.raises(MismatchError, match="solves PCA only"):
        destiny.solve(small_problem("olsr", 6, 0), ring, AveragedKrylov())
    with pytest.raises(SettingsError, match="depth must be"):
        AveragedKrylov(depth=-1)


def test_one_block_a_message_takes_fewer_bytes_and_more_rounds():
    problem = destiny.problems.pca.synthetic(n=80, m=400, p=3, xi=0.9, agents=6, seed=4)
    narrow, wide = (
        destiny.solve(problem, destiny.networks.ring(6), AveragedKrylov(width), seed=4) for width in (1, 2)
    )
    assert narrow.converged
    assert wide.converged
    assert narrow.bytes < 0.8 * wide.bytes
    assert wide.rounds < narrow.rounds < 1.6 * wide.rounds
    assert subspace_distance(narrow.X, wide.X) < 1e-7
    with pytest.raises(SettingsError, match="width must be 1 or 2; found 3"):
        AveragedKrylov(3)
