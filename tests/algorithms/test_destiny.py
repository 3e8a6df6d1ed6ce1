"""DESTINY: the literal algorithm, its invariants, its safeguards."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize

import destiny
from destiny.algorithms.blocks.step_sizes import BB, Constant, PlainBB
from destiny.geometry import stiefel
from destiny.run import metrics
from destiny.storage import checkpoint
from tests.helpers.small_problems import KINDS, agents_of, problem_of, run, silos_of, small_problem


def transcription(silos, kind, W, X0, beta, steps, eta=None, eta0=None):
    """Algorithm 1 as printed, agent by agent in plain loops, straight from the data: independent of src."""
    d, p = len(silos), X0.shape[1]

    def grad(i, Y):
        if kind == "pca":
            return -silos[i] @ (silos[i].T @ Y)
        if kind == "olsr":
            C, D = silos[i]
            return 2 * C @ (C.T @ Y - D.T)
        return -silos[i] @ (silos[i].T @ Y) ** 3

    def H(i, X):
        Z = grad(i, X @ X.T @ X)
        S = X.T @ Z
        return Z @ (3 * np.eye(p) - X.T @ X) / 2 - X @ (S + S.T) / 2 + beta * X @ (X.T @ X - np.eye(p))

    X = [X0.copy() for _ in range(d)]
    D = [H(i, X[i]) for i in range(d)]
    etas = [eta if eta is not None else eta0] * d
    for _ in range(steps):
        Xn = [sum(W[i, j] * (X[j] - etas[j] * D[j]) for j in range(d)) for i in range(d)]
        Dn = [sum(W[i, j] * D[j] for j in range(d)) + H(i, Xn[i]) - H(i, X[i]) for i in range(d)]
        if eta is None:
            S = [a - b for a, b in zip(Xn, X, strict=True)]
            J = [a - b for a, b in zip(Dn, D, strict=True)]
            etas = [abs(np.sum(s * j) / np.sum(j * j)) for s, j in zip(S, J, strict=True)]
        X, D = Xn, Dn
    return np.array(X), np.array(D)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_literal_algorithm_agrees_with_an_independent_transcription(kind, seed):
    silos = silos_of(kind, 7, seed)
    network = destiny.networks.erdos_renyi(7, prob=0.5, seed=seed)
    X0 = stiefel.random_point(12, 3, seed=seed)
    W = network.W.toarray()
    constant = run(problem_of(kind, silos), network, destiny.Destiny(0.8, Constant(0.02)), 50, start=X0)
    X, D = transcription(silos, kind, W, X0, 0.8, 50, eta=0.02)
    np.testing.assert_allclose(constant.X, X, atol=1e-10, rtol=0)
    np.testing.assert_allclose(constant.D, D, atol=1e-10, rtol=0)
    bb = run(problem_of(kind, silos), network, destiny.Destiny(0.8, PlainBB(0.02)), 12, start=X0)
    X, D = transcription(silos, kind, W, X0, 0.8, 12, eta0=0.02)
    np.testing.assert_allclose(bb.X, X, atol=1e-10, rtol=0)
    np.testing.assert_allclose(bb.D, D, atol=1e-10, rtol=0)


def networks(d):
    fixed = destiny.networks.ring(d)
    return {
        "ring": fixed,
        "star": destiny.networks.star(d),
        "loss": destiny.networks.link_loss(destiny.networks.complete(d), 0.4, seed=1),
        "matchings": destiny.networks.matchings(fixed, seed=2),
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["ring", "star", "loss", "matchings"])
def test_tracking_invariant_at_every_step(kind, name):
    for moment in destiny.iterate(small_problem(kind), networks(6)[name], destiny.Destiny()):
        assert metrics.tracking_error(moment.state.D, moment.state.H) < 1e-12
        if moment.step == 40:
            break


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("power", [-40, 20])
def test_scaling_every_objective_by_a_power_of_two_keeps_the_bits(kind, power):
    class Scaled:
        def __init__(self, hosted):
            self.hosted = hosted

        def value(self, X):
            return float(self.hosted.value(X[None])[0] * 2.0**power)

        def gradient(self, X):
            return self.hosted.gradient(X[None])[0] * 2.0**power

    problem, network = small_problem(kind), destiny.networks.ring(6)
    X0 = stiefel.random_point(12, 3)
    scaled = [Scaled(problem.host([i])) for i in range(6)]
    plain = run(problem, network, destiny.Destiny(), 30, start=X0)
    other = run(scaled, network, destiny.Destiny(), 30, start=X0)
    assert (plain.X == other.X).all()
    assert (plain.D * 2.0**power == other.D).all()


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_scaling_by_any_factor_keeps_the_iterates(factor):
    A = np.random.default_rng(0).standard_normal((12, 90))
    network, root = destiny.networks.erdos_renyi(6, prob=0.6, seed=0), np.sqrt(factor)
    states = [
        run(destiny.problems.pca.from_data((scale * A).T, 3, 6), network, destiny.Destiny(), 20)
        for scale in (1.0, root)
    ]
    np.testing.assert_allclose(states[0].X, states[1].X, atol=1e-8, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_one_agent_is_a_solver_in_its_own_right(kind):
    result = destiny.solve(
        small_problem(kind, agents=1), destiny.networks.ring(1), destiny.Destiny(), rounds=3000
    )
    assert result.converged
    assert result.scalars == 0
    assert stiefel.violation(result.X) < 1e-12


@pytest.mark.parametrize("seed", range(12))
def test_small_regressions_converge(seed):
    """Convex f, where a penalty below its threshold or one long step would be fatal."""
    rng = np.random.default_rng(seed)
    d, n = [1, 2, 4][seed % 3], int(rng.integers(2, 8))
    p = int(rng.integers(1, n + 1))
    silos, targets = rng.standard_normal((d, n, 20)), rng.standard_normal((d, p, 20))
    result = destiny.solve(
        destiny.problems.OLSR([a.T for a in silos], [a.T for a in targets]),
        destiny.networks.complete(d),
        destiny.Destiny(),
    )
    assert result.converged, result


def test_pca_with_p_equal_n_is_stationary_everywhere():
    A = np.random.default_rng(0).standard_normal((4, 30))
    result = destiny.solve(
        destiny.problems.pca.from_data(A.T, p=4, agents=3), destiny.networks.ring(3), destiny.Destiny()
    )
    assert result.converged
    assert result.steps == 0


@pytest.mark.parametrize("seed", [2])
@pytest.mark.parametrize("make", ["ring", "star", "path", "complete", "grid", "loss"])
def test_pca_reaches_the_subspace_of_the_svd(make, seed):
    problem = destiny.problems.pca.synthetic(n=20, m=160, p=3, xi=0.6, agents=8, seed=seed)
    network = {
        "ring": destiny.networks.ring(8),
        "star": destiny.networks.star(8),
        "path": destiny.networks.path(8),
        "complete": destiny.networks.complete(8),
        "grid": destiny.networks.grid(2, 4),
        "loss": destiny.networks.link_loss(destiny.networks.complete(8), 0.5, seed=seed),
    }[make]
    result = destiny.solve(problem, network, destiny.Destiny(), seed=seed, rounds=6000)
    known = destiny.problems.pca.solution(problem)
    assert result.converged, result
    assert stiefel.subspace_distance(result.X, known) < 1e-6
    np.testing.assert_allclose(np.abs(np.sum(result.axes * known, axis=0)), 1, atol=1e-6)


def test_complete_graph_with_equal_weights_is_the_centralized_method():
    """With W = 11^T/d and one common X, every agent walks the path of a single agent that holds all data."""
    silos = silos_of("pca", 5)
    network = destiny.networks.from_weights(np.full((5, 5), 0.2))
    together = run(problem_of("pca", silos), network, destiny.Destiny(0.5, Constant(0.05)), 60)
    # The pooled objective is the mean: A / sqrt(d) in one place.
    pooled = problem_of("pca", [np.concatenate(silos, axis=1) / np.sqrt(5)])
    alone = run(pooled, destiny.networks.ring(1), destiny.Destiny(0.5, Constant(0.05)), 60)
    # One mixing averages exactly, so X is common throughout and D only enters through its mean.
    np.testing.assert_allclose(together.X.mean(axis=0), alone.X[0], atol=1e-10)


def test_relabeling_the_agents_permutes_the_rows():
    silos, order = silos_of("olsr", 6), np.array([3, 0, 5, 1, 4, 2])
    network = destiny.networks.erdos_renyi(6, prob=0.5, seed=3)
    moved = destiny.networks.from_weights(network.W.toarray()[np.ix_(order, order)])
    algorithm = destiny.Destiny(lambda_=0.7)
    a = run(problem_of("olsr", silos), network, algorithm, 25)
    b = run(problem_of("olsr", [silos[i] for i in order]), moved, algorithm, 25)
    np.testing.assert_allclose(a.X[order], b.X, atol=1e-9)


def test_states_and_settings_are_frozen_and_steps_are_pure():
    problem, network = small_problem("pca"), destiny.networks.ring(6)
    state = run(problem, network, destiny.Destiny(), 5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.X = None
    with pytest.raises(dataclasses.FrozenInstanceError):
        destiny.Destiny().beta = 1.0
    arrays = checkpoint.flatten(state)
    before = {name: array.copy() for name, array in arrays.items()}
    agents = agents_of(problem, network)
    once, twice = (destiny.Destiny().step(state, agents) for _ in range(2))
    assert all((arrays[name] == before[name]).all() for name in arrays)
    assert (once.X == twice.X).all()
    assert (once.D == twice.D).all()


def test_axis_zero_of_every_array_is_the_agents():
    state = run(small_problem("sdl"), destiny.networks.ring(6), destiny.Destiny(), 2)
    assert {len(array) for array in checkpoint.flatten(state).values()} == {6}


@pytest.mark.parametrize("fraction", [0.7, 0.9])
def test_a_penalty_below_its_threshold_is_noticed_and_mended(fraction):
    """A convex f with large positive multiplier; started at its solution, a small beta settles off St."""
    rng = np.random.default_rng(0)
    C = rng.standard_normal((12, 90))
    D = np.zeros((3, 90))  # min ||C^T X||^2: multiplier 2 X^T C C^T X / d, positive
    problem = destiny.problems.olsr.from_data(C.T, D.T, agents=6)
    values, vectors = np.linalg.eigh(C @ C.T / 6)
    X0, threshold = vectors[:, :3], 1.5 * 2 * values[2]
    network = destiny.networks.complete(6)
    nudge = stiefel.polar(X0 + 0.01 * rng.standard_normal((12, 3)))
    small = fraction * threshold
    options = {"start": nudge, "tolerance": 1e-7}
    watched = destiny.solve(problem, network, destiny.Destiny(beta=small), rounds=4000, **options)
    assert watched.converged
    twice = 2 * watched.rounds
    blind = destiny.solve(problem, network, destiny.Destiny(beta=small, watch=False), rounds=twice, **options)
    assert not blind.converged
    assert (watched.state.doublings > 0).any()
    assert any("raised" in note for note in watched.notes)
    assert metrics.tracking_error(watched.state.D, watched.state.H) < 1e-10


def test_an_automatic_penalty_grows_where_the_iterates_run_away():
    """Strongly convex f started where its gradient is small: "auto" begins far below the threshold."""
    rng = np.random.default_rng(0)
    C = np.diag(np.linspace(1, 30, 12)) @ rng.standard_normal((12, 90))
    X0 = np.linalg.eigh(C @ C.T)[1][:, :3]  # the smallest directions: the gradient there is small
    problem = destiny.problems.olsr.from_data(C.T, np.zeros((90, 3)), agents=6)
    start = stiefel.polar(X0 + 1e-3 * rng.standard_normal((12, 3)))
    result = destiny.solve(problem, destiny.networks.complete(6), destiny.Destiny(), start=start, rounds=8000)
    assert result.converged, result
    assert stiefel.subspace_distance(result.X, X0) < 1e-6


@pytest.mark.parametrize("seed", [101, 307])
@pytest.mark.parametrize(
    "network", [destiny.networks.ring(6), destiny.networks.complete(6)], ids=["ring", "all"]
)
def test_an_objective_that_curves_upwards_across_the_manifold_converges(network, seed):
    """Robust PCA: sym(X^T grad f) is 0 on the manifold and grows off it: no gradient there shows it."""
    rng = np.random.default_rng(seed)
    plane = np.linalg.qr(rng.standard_normal((12, 3)))[0]
    silos = [
        2 * rng.standard_normal((20, 3)) @ plane.T + 0.1 * rng.standard_normal((20, 12)) for _ in range(6)
    ]
    for A in silos:
        A[:4] = 3 * rng.standard_normal((4, 12))  # outliers

    def residual(X, A):
        R = A - (A @ X) @ X.T
        return R, np.sqrt(0.01 + np.sum(R**2, axis=1, keepdims=True))

    def gradient(X, A):
        R, sizes = residual(X, A)
        return -(R / sizes).T @ (A @ X) - A.T @ ((R / sizes) @ X)

    problem = destiny.problems.custom.problem(
        lambda X, A: residual(X, A)[1].sum(), gradient, shape=(12, 3), data=silos
    )
    result = destiny.solve(problem, network, "destiny", seed=seed, rounds=4000)
    assert result.converged, result
    assert metrics.tracking_error(result.state.D, result.state.H) < 1e-10

    def pooled(flat):
        X = stiefel.polar(flat.reshape(12, 3))
        return sum(residual(X, A)[1].sum() for A in silos) / 6

    best = minimize(pooled, result.X.ravel(), method="BFGS").fun  # SciPy finds nothing lower next to it
    np.testing.assert_allclose(result.measures.objective, best, rtol=1e-9)


def test_doubling_beta_keeps_the_tracking_invariant():
    problem, network = small_problem("olsr"), destiny.networks.ring(6)
    state = run(problem, network, destiny.Destiny(), 30)
    rng = np.random.default_rng(0)
    off = dataclasses.replace(
        state,
        X=state.X + 0.1 * rng.standard_normal(state.X.shape),
        D=0 * state.D,
        H=0 * state.H,
        violation=np.ones_like(state.beta),
        disagreement=0 * state.beta,
        stalled=9 + 0 * state.beta,
    )
    after = destiny.Destiny().adapt_penalty(off, off.violation, 0 * off.beta)
    assert (after.beta == 2 * off.beta).all()
    np.testing.assert_allclose(after.D, after.H, atol=1e-12)
    assert np.abs(after.H).max() > 0


@pytest.mark.parametrize("kind", ["pca", "olsr"])
def test_dissolving_direction_converges_too(kind):
    result = destiny.solve(
        small_problem(kind), destiny.networks.complete(6), destiny.Destiny(direction="expen"), rounds=5000
    )
    assert result.converged, result


def test_gossip_rounds_at_the_start_are_counted_and_only_spent_when_asked():
    problem, network = small_problem("pca"), destiny.networks.ring(6)
    moments = destiny.iterate(problem, network, destiny.Destiny())
    first = next(moments)
    assert (first.step, first.round) == (0, 20)
    assert next(moments).round == 21
    # 12 links' directions; 20 rounds of two matrices, 16 with 8 probes, 4 with 2 energies
    assert first.scalars == 12 * (20 * 2 * 36 + 16 * 8 + 4 * 2)
    literal = destiny.iterate(problem, network, destiny.Destiny(beta=1.0, step_size=Constant(0.01)))
    assert (next(literal).round, next(literal).scalars) == (0, 12 * 2 * 36)


def test_agents_without_samples_or_with_zeros_only_take_part():
    A = np.random.default_rng(0).standard_normal((10, 40))
    silos = [A[:, :20], np.empty((10, 0)), np.zeros((10, 7)), A[:, 20:], np.empty((10, 0))]
    problem = destiny.problems.PCA([a.T for a in silos], 2)
    result = destiny.solve(problem, destiny.networks.path(5), destiny.Destiny(), rounds=5000)
    assert result.converged, result
    known = np.linalg.svd(A)[0][:, :2]
    assert stiefel.subspace_distance(result.X, known) < 1e-6


def test_all_data_zero_is_stationary_at_once():
    problem = destiny.problems.PCA([np.zeros((3, 5))] * 3, 2)
    result = destiny.solve(problem, destiny.networks.ring(3), destiny.Destiny())
    assert result.converged
    assert result.steps == 0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"beta": -1.0}, 'beta must be "auto" or a number >= 0; found -1.0'),
        ({"beta": "big"}, 'beta must be "auto" or a number >= 0'),
        ({"beta": float("nan")}, "beta must be"),
        ({"direction": "linear"}, "direction must be one of"),
        ({"gossip": 0}, "gossip must be a whole number of at least 5"),
        ({"gossip": 5.5}, "gossip must be a whole number of at least 5"),
        ({"lambda_": "high"}, "lambda must be in"),
        ({"lambda_": 1.0}, r"lambda must be in \[0, 1\)"),
    ],
)
def test_settings_are_checked(settings, sentence):
    with pytest.raises(destiny.SettingsError, match=sentence):
        destiny.Destiny(**settings)


@pytest.mark.parametrize("rule", [lambda: Constant(0.0), lambda: BB(cap=-1.0), lambda: BB(forget=1.5)])
def test_step_settings_are_checked(rule):
    with pytest.raises(destiny.SettingsError, match="must be"):
        rule()


@pytest.mark.parametrize("method", [destiny.Destiny, destiny.algorithms.DRGTA, destiny.algorithms.FastPCA])
def test_a_number_is_a_constant_step(method):
    assert method(step_size=0.1) == method(step_size=Constant(0.1))
    with pytest.raises(destiny.SettingsError, match="a number or a rule"):
        method(step_size="0.1")
