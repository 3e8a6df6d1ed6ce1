"""Quasi-Newton steps by totals: directions, answers, rounds, what agents hold, and what it refuses."""

from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse.csgraph import shortest_path

import destiny
from destiny.algorithms.averaged.lbfgs import AveragedLBFGS
from destiny.algorithms.averaged.quasi_newton import quasi_newton_direction, usable_pairs
from destiny.engines import Local
from destiny.errors import NetworkError, ProblemError, SettingsError
from destiny.geometry.stiefel import polar, random_point, tangent
from destiny.problems import custom
from tests.helpers.small_problems import agents_of, procrustes, run, small_problem

N, P = 7, 2
NETWORKS = {
    "random": destiny.networks.erdos_renyi(12, prob=0.3, seed=7),
    "path": destiny.networks.path(9),
    "star": destiny.networks.star(10),
}


def fields_of(seed):
    """A quartic f with its gradient and Hessian, as functions of an n x p matrix."""
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((N, N)), rng.standard_normal((N, P))
    A = A + A.T

    def gradient(X):
        return A @ X * np.arange(1, P + 1) + X**3 + b

    def hessian(X, V):
        return A @ V * np.arange(1, P + 1) + 3 * X**2 * V

    return gradient, hessian


@pytest.mark.parametrize("seed", range(3))
def test_pairs_are_products_with_the_riemannian_hessian(seed):
    """The derivative of the Riemannian gradient along a curve on the manifold, by differences."""
    gradient, hessian = fields_of(seed)
    X = random_point(N, P, seed)
    V = tangent(X, np.random.default_rng(seed).standard_normal((N, P)))
    (pair,) = usable_pairs(X, gradient(X) - 50 * X, V[None], hessian(X, V)[None])  # - 50 X: convex here

    def riemannian(Y):
        return tangent(Y, gradient(Y) - 50 * X)

    h = 1e-5
    difference = (riemannian(polar(X + h * V)) - riemannian(polar(X - h * V))) / (2 * h)
    np.testing.assert_allclose(pair[0], V, atol=1e-14)
    np.testing.assert_allclose(pair[1], tangent(X, difference), atol=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_the_direction_is_that_of_the_whole_bfgs_matrix(seed):
    rng = np.random.default_rng(seed)
    X, G = random_point(N, P, seed), rng.standard_normal((N, P)) - 20 * random_point(N, P, seed)
    moves = rng.standard_normal((5, N, P))
    changes = moves * rng.uniform(1, 9, (N, P))
    pairs = usable_pairs(X, G, moves, changes)
    assert len(pairs) == 5
    s, y = pairs[-1]
    H = np.eye(N * P) * np.vdot(s, y) / np.vdot(y, y)
    for s, y in ((s.ravel(), y.ravel()) for s, y in pairs):
        left = np.eye(N * P) - np.outer(s, y) / (s @ y)
        H = left @ H @ left.T + np.outer(s, s) / (s @ y)
    expected = -(H @ tangent(X, G).ravel()).reshape(N, P)
    np.testing.assert_allclose(quasi_newton_direction(X, G, moves, changes), expected, atol=1e-11)
    assert np.vdot(tangent(X, G), expected) < 0


def test_pairs_of_negative_curvature_and_empty_places_are_left_out():
    X, G = random_point(N, P, 0), np.zeros((N, P))
    moves = np.random.default_rng(0).standard_normal((3, N, P))
    moves[1] = 0
    assert usable_pairs(X, G, moves, -moves) == []
    assert quasi_newton_direction(X, G, moves, -moves) is None
    assert len(usable_pairs(X, G, moves, moves)) == 2


def logarithms(agents, seed):
    """The objective of docs/your-own-objective.md."""
    rng = np.random.default_rng(seed)
    silos = [rng.standard_normal((20 + 5 * i, 6)) * (1 + np.arange(6)) for i in range(agents)]

    def value(X, A):
        return -0.5 * np.sum(np.log1p(np.sum((A @ X) ** 2, axis=1)))

    def gradient(X, A):
        Y = A @ X
        return -A.T @ (Y / (1 + np.sum(Y**2, axis=1, keepdims=True)))

    problem = custom.problem(value, gradient, data=silos, shape=(6, 2))
    return problem, lambda X: np.mean([value(X, A) for A in silos])


@pytest.mark.parametrize("seed", range(3))
def test_an_objective_of_ones_own_has_the_minimum_that_scipy_finds(seed):
    """SciPy minimizes over all matrices, of which the polar factor is taken."""
    problem, value = logarithms(6, seed)
    result = destiny.solve(problem, destiny.networks.ring(6), AveragedLBFGS(), tolerance=1e-10, seed=seed)
    assert result.converged
    start = random_point(6, 2, seed).ravel()
    other = minimize(lambda x: value(polar(x.reshape(6, 2))), start, method="BFGS")
    assert result.measures.objective == pytest.approx(other.fun, rel=1e-8)


@pytest.mark.parametrize("sign", [-1, 1])
def test_square_matrices_of_either_determinant(sign):
    problem, best = procrustes(6, sign=sign)
    result = destiny.solve(problem, destiny.networks.ring(6), AveragedLBFGS(), tolerance=1e-9)
    np.testing.assert_allclose(result.X, best, atol=1e-7)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_step_takes_twice_the_radius_and_all_agents_have_the_same_bits(name):
    network = NETWORKS[name]
    d = network.agents
    B = np.random.default_rng(7).laplace(size=(15, 40 * d))
    result = destiny.solve(destiny.problems.sdl.from_data(B.T, 3, d), network, AveragedLBFGS(), seed=7)
    assert result.converged
    radius = int(shortest_path(network.W, unweighted=True).max(axis=1).min())
    assert result.rounds == 2 * radius * result.steps
    assert (result.agents == result.agents[0]).all()


def test_f_never_grows_by_more_than_rounding():
    problem, network = small_problem("sdl"), destiny.networks.ring(6)
    result = destiny.solve(problem, network, AveragedLBFGS(), tolerance=1e-10)
    f = result.history["objective"]
    assert (np.diff(f) <= 1e-12 * np.abs(f[:-1])).all()
    assert f[-1] < f[0]


def test_agents_that_see_one_sample_or_none_take_as_many_steps_as_equal_ones():
    A = np.random.default_rng(0).laplace(size=(12, 96))
    cuts = [[12, 24, 36, 48, 60, 72, 84], [89, 90, 90, 91, 92, 93, 93]]
    network = destiny.networks.ring(8)
    even, uneven = (
        destiny.solve(destiny.problems.SDL(np.split(A.T, cut), 2), network, AveragedLBFGS(), tolerance=1e-9)
        for cut in cuts
    )
    assert even.converged
    assert uneven.converged
    assert uneven.steps < 1.5 * even.steps
    assert uneven.measures.objective == pytest.approx(even.measures.objective, rel=1e-10)


def test_single_precision_is_rounding_that_it_can_bear():
    B = np.random.default_rng(0).laplace(size=(12, 90)).astype(np.float32)
    result = destiny.solve(
        destiny.problems.sdl.from_data(B.T, 3, 6), destiny.networks.ring(6), AveragedLBFGS(), tolerance=2e-6
    )
    assert result.converged
    assert result.steps < 60


def test_values_that_cancel_to_nothing_do_not_end_it_early():
    """Where the fit is exact f falls to zero, far below the rounding errors of what it is computed from."""
    problem = destiny.problems.olsr.synthetic(n=30, m=300, p=3, agents=6, seed=4)
    result = destiny.solve(problem, destiny.networks.ring(6), AveragedLBFGS(), tolerance=1e-12, rounds=1000)
    assert result.converged
    np.testing.assert_allclose(result.X, destiny.problems.olsr.planted(30, 3, seed=4), atol=1e-10)


@pytest.mark.parametrize("outside", [np.nan, np.inf])
def test_points_where_f_is_not_defined_are_left_again(outside):
    """min <a, x> - c log x_0 on the sphere, with a step that is too long at first; SciPy knows the answer."""
    rng = np.random.default_rng(0)
    data = [rng.standard_normal((5, 1)) + 4 * np.eye(5)[:, :1] for _ in range(6)]

    def value(X, a):
        return float(np.vdot(a, X)) - 1e-3 * np.log(X[0, 0]) if X[0, 0] > 0 else outside

    def gradient(X, a):
        return a - 1e-3 / X[0, 0] * np.eye(5)[:, :1] if X[0, 0] > 0 else np.full((5, 1), outside)

    asked = []

    def counted(X, a):
        asked.append(value(X, a))
        return asked[-1]

    start = polar(np.array([[1.0], [0.2], [-0.3], [0.1], [0.4]]))
    problem = custom.problem(counted, gradient, data=data, shape=(5, 1))
    result = destiny.solve(problem, destiny.networks.ring(6), AveragedLBFGS(), start=start, tolerance=1e-9)
    assert result.converged
    assert not np.isfinite(asked).all()

    def on_the_sphere(y):  # x_0 = exp(y_0) > 0
        x = polar(np.concatenate([np.exp(y[:1]), y[1:]])[:, None])
        return np.mean([value(x, a) for a in data])

    other = minimize(on_the_sphere, np.array([0.0, 0.2, -0.3, 0.1, 0.4]), method="BFGS")
    assert result.measures.objective == pytest.approx(other.fun, rel=1e-6)


def test_a_gradient_of_another_function_is_noticed():
    data = [np.eye(5)[:, :2] + k for k in range(4)]
    problem = custom.problem(lambda X, a: float(np.vdot(a, X)), lambda X, a: -a, data=data, shape=(5, 2))
    result = destiny.solve(problem, destiny.networks.ring(4), AveragedLBFGS(), rounds=400)
    assert not result.converged
    assert any("check_gradient" in note for note in result.notes)


def test_an_infinite_gradient_at_the_start_is_refused():
    problem = custom.problem(lambda X: 0.0, lambda X: np.full_like(X, np.inf), data=[{}] * 4, shape=(3, 1))
    with pytest.raises(ProblemError, match="agent 0 is not finite"):
        destiny.solve(problem, destiny.networks.ring(4), AveragedLBFGS())


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_value_that_is_not_finite_at_the_start_is_refused_at_once(wrong):
    data = [np.eye(5)[:, :2] + k for k in range(4)]
    asked = []

    def value(X, a):
        asked.append(a[1, 0])
        return wrong if a[1, 0] == 2 else float(np.vdot(a, X))

    problem = custom.problem(value, lambda X, a: a, data=data, shape=(5, 2))
    with pytest.raises(ProblemError, match="the value of agent 2 is not finite at the start: check its f_i"):
        destiny.solve(problem, destiny.networks.ring(4), AveragedLBFGS(), rounds=400)
    assert len(asked) < 50


def test_a_start_that_is_the_answer_ends_at_once_and_starts_may_differ():
    problem, network = small_problem("olsr"), destiny.networks.ring(6)
    answer = destiny.solve(problem, network, tolerance=1e-11).X
    again = destiny.solve(problem, network, AveragedLBFGS(), start=answer, local_stopping=True)
    assert again.converged
    assert again.steps <= 2
    settings = AveragedLBFGS().on(network)
    starts = np.stack([random_point(12, 3, k) for k in range(6)])
    ends = []
    for threads in (1, 3):
        team = Local(threads).connect(problem, network)
        states = team.each(lambda X, agents: settings.init(X, agents), team.split(starts))
        for _ in range(40):
            states = team.each(lambda s, agents: settings.step(s, agents), states)
        team.close()
        assert max(settings.residual(s).max() for s in states) < 1e-9
        ends.append(np.concatenate([s.X for s in states]))
    assert (ends[0] == ends[1]).all()
    value = np.mean(agents_of(problem, network).value(ends[0]))
    assert value == pytest.approx(
        np.mean(agents_of(problem, network).value(np.stack([answer] * 6))), rel=1e-9
    )


@pytest.mark.parametrize("kind", ["pca", "olsr", "sdl"])
def test_agents_agree_to_stop_by_themselves_and_messages_may_be_private(kind):
    problem, network = small_problem(kind, 12), NETWORKS["random"]
    found = []
    for messages in ("plain", "private"):
        result = destiny.solve(
            problem, network, AveragedLBFGS(), local_stopping=True, tolerance=1e-9, messages=messages
        )
        assert result.converged
        assert result.measures.worst < 1e-8
        assert (result.agents == result.agents[0]).all()
        found.append(result.measures.objective)
    assert found[0] == pytest.approx(found[1], rel=1e-10)


def test_agents_whose_arithmetic_differs_meet_again_and_say_so():
    problem, network = small_problem("sdl"), destiny.networks.ring(6)
    settings = AveragedLBFGS().on(network)
    team = Local(2).connect(problem, network)
    states = team.each(
        lambda X, agents: settings.init(X, agents), team.split(np.stack([random_point(12, 3)] * 6))
    )

    def go(steps):
        nonlocal states
        for _ in range(steps):
            states = team.each(lambda s, agents: settings.step(s, agents), states)

    go(5)
    states[1] = replace(
        states[1], X=-states[1].X, trial=-states[1].trial
    )  # as if another machine had gone wrong
    go(1)
    assert all(settings.residual(s).min() > 0.1 for s in states)
    assert settings.remarks(states[0], np.arange(3), False) == []
    go(60)
    team.close()
    assert max(settings.residual(s).max() for s in states) < 1e-9
    assert (states[0].X[0] == states[1].X[0]).all()
    (remark,) = settings.remarks(states[0], np.arange(3), True)
    assert "different points from the same averages" in remark
    assert "once" in remark


def test_agents_that_always_want_to_meet_again_are_refused():
    """A liar would choose the point of every step so."""
    problem, network = small_problem("sdl"), destiny.networks.ring(6)
    settings, agents = AveragedLBFGS().on(network), agents_of(problem, network)
    state = settings.init(np.stack([random_point(12, 3)] * 6), agents)
    doubt = np.zeros((6, 1, 1))
    doubt[4] = 1.0
    while state.meetings.max() < 21:  # the start, and twenty times again
        state = settings.step(replace(state, disagreement=doubt), agents)
    with pytest.raises(NetworkError, match="same points from the same averages; found others 21 times"):
        settings.step(replace(state, disagreement=doubt), agents)


def test_agents_of_a_process_share_what_they_remember():
    state = run(small_problem("sdl"), destiny.networks.ring(6), AveragedLBFGS(memory=4), 9)
    assert state.moves.shape == (6, 4, 12, 3)
    assert state.moves.strides[0] == state.changes.strides[0] == 0
    assert all(getattr(state, field.name).dtype == np.float64 for field in fields(state))


def test_what_it_cannot_do_is_refused_in_a_sentence():
    problem, ring = small_problem("sdl"), destiny.networks.ring(6)
    with pytest.raises(SettingsError, match="needs a static network"):
        destiny.solve(problem, destiny.networks.link_loss(ring, 0.2, seed=0), AveragedLBFGS())
    with pytest.raises(SettingsError, match="exact totals"):
        destiny.solve(problem, ring, AveragedLBFGS(), messages=destiny.Quantized(8))
    with pytest.raises(SettingsError, match="depth must be"):
        AveragedLBFGS(depth=-1)
    with pytest.raises(SettingsError, match="memory must be"):
        AveragedLBFGS(memory=0)


@pytest.mark.parametrize("seed", range(3))
def test_a_gradient_of_the_wrong_sign_ends_the_run_soon(seed):
    rng = np.random.default_rng(seed)
    problem = custom.problem(
        lambda X, A: -0.5 * np.sum((A.T @ X) ** 2),
        lambda X, A: A @ (A.T @ X),
        data=[rng.standard_normal((12, 40)) for _ in range(6)],
        shape=(12, 3),
    )
    result = destiny.solve(problem, destiny.networks.ring(6), AveragedLBFGS())
    assert "f rises where its gradient says that it falls" in result.reason
    assert result.rounds < 200
