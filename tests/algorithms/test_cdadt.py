"""CDADT on X^T M X = I: generalized eigenvectors from SciPy, invariance, engines, stopping, refusals."""

import numpy as np
import pytest
import scipy.linalg

import destiny
from destiny.algorithms import CDADT
from destiny.engines import Local
from destiny.geometry.generalized import MassMatrix, landing_point, penalized_gradient
from destiny.geometry.stiefel import sym
from destiny.problems import L1, Generalized, centered, pooled
from destiny.storage.checkpoint import flatten
from tests.helpers.small_problems import agents_of, generalized, run, small_problem

NETWORK = destiny.networks.erdos_renyi(6, prob=0.6, seed=0)


def mass_of(problem):
    return sum(problem.part(i) for i in range(problem.agents))


def eigenvectors(problem):
    """The leading generalized eigenvectors of the pooled data, M-orthonormal, and all eigenvalues."""
    C = sum(problem.inner.second_moments(i) for i in range(problem.agents))
    values, V = scipy.linalg.eigh(C, mass_of(problem))
    return values[::-1], V[:, ::-1][:, : problem.shape[1]]


@pytest.mark.parametrize("seed", range(3))
def test_axes_are_the_generalized_eigenvectors_of_scipy(seed):
    problem = generalized(seed=seed)
    result = destiny.solve(problem, NETWORK, rounds=4000, seed=seed)
    assert result.converged, result
    assert result.settings["kind"] == "cdadt"
    values, V = eigenvectors(problem)
    M = mass_of(problem)
    np.testing.assert_allclose(result.X.T @ M @ result.X, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(np.abs(np.sum(V * (M @ result.axes), axis=0)), 1.0, atol=1e-9)
    assert result.measures.objective == pytest.approx(-values[:3].sum() / 2 / 6, rel=1e-9)


def test_the_direction_is_the_gradient_of_the_penalized_objective():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((7, 9))
    C, M = A @ A.T, np.diag(np.arange(1.0, 8.0))
    X = rng.standard_normal((7, 2)) / 4
    V, beta = rng.standard_normal((7, 2)), 0.7

    def h(X):
        B = X.T @ M @ X
        Y = landing_point(X, B)
        return -np.vdot(Y, C @ Y) / 2 + beta / 4 * np.sum((B - np.eye(2)) ** 2)

    gradient = penalized_gradient(X, M @ X, -C @ landing_point(X, sym(X.T @ M @ X)), beta)
    slope = np.vdot(gradient, V)
    errors = [abs((h(X + t * V) - h(X - t * V)) / (2 * t) - slope) for t in (1e-2, 1e-3)]
    assert errors[1] < errors[0] / 50 < 1.0  # second order


@pytest.mark.parametrize(("f", "m"), [(1e-6, 1.0), (1.0, 1e6), (1e4, 1e-5)])
def test_units_of_f_and_of_the_constraint_change_nothing(f, m):
    problem = generalized()
    parts = [problem.part(i) for i in range(6)]
    scaled = Generalized(f * problem.inner, [m * part for part in parts])
    one, other = (run(p, NETWORK, CDADT(), 60).X for p in (problem, scaled))
    np.testing.assert_allclose(other * np.sqrt(m), one, rtol=0, atol=1e-6 * np.abs(one).max())


def test_measures_do_not_depend_on_the_coordinates():
    problem, rng = generalized(), np.random.default_rng(3)
    T = rng.standard_normal((12, 12)) + 4 * np.eye(12)
    A = [rng.standard_normal((12, 15)) for _ in range(6)]
    plain = Generalized(destiny.problems.PCA([a.T for a in A], 3), [problem.part(i) for i in range(6)])
    turned = Generalized(
        destiny.problems.PCA([(T.T @ a).T for a in A], 3), [T.T @ problem.part(i) @ T for i in range(6)]
    )
    X = rng.standard_normal((12, 3))
    a, b = (
        destiny.solve(p, NETWORK, CDADT(), rounds=150, start=start)
        for p, start in ((plain, X), (turned, np.linalg.solve(T, X)))
    )
    for name in ("objective", "stationarity", "feasibility"):
        assert a.history[name][0] == pytest.approx(b.history[name][0], rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("kind", ["olsr", "sdl"])
def test_any_objective_reaches_a_stationary_point(kind):
    result = destiny.solve(generalized(kind=kind), NETWORK, rounds=10_000, tolerance=1e-7)
    assert result.converged, result


def test_without_momentum_it_is_the_published_rule():
    problem = generalized()
    algorithm = CDADT(momentum=False).on(NETWORK)
    hosted = agents_of(problem, NETWORK)
    moments = destiny.iterate(problem, NETWORK, algorithm)
    before = next(moments).state
    for _ in range(5):
        s = next(moments).state
        S = penalized_gradient(before.X, before.E, before.D, before.beta)
        X, E, D = algorithm.filter(hosted, before.X - before.eta * S, before.E, before.D)
        E += hosted.mass(X) - hosted.mass(before.X)
        D += hosted.gradient(nearer(X, E)) - hosted.gradient(nearer(before.X, before.E))
        for name, array in (("X", X), ("E", E), ("D", D)):
            np.testing.assert_allclose(getattr(s, name), array, rtol=1e-9, atol=1e-12)
        before = s
    moments.close()


def nearer(X, E):
    return landing_point(X, sym(np.swapaxes(X, 1, 2) @ E))


def test_both_trackers_keep_their_means():
    for moment in destiny.iterate(generalized(), NETWORK):
        s = moment.state
        np.testing.assert_allclose(s.E.mean(axis=0), s.mass.mean(axis=0), atol=1e-10)
        np.testing.assert_allclose(s.D.mean(axis=0), s.H.mean(axis=0), atol=1e-12)
        if moment.step == 30:
            break


def test_same_bits_on_threads_and_after_resuming(tmp_path):
    problem = generalized()
    states = [flatten(run(problem, NETWORK, CDADT(), 15, engine=Local(threads))) for threads in (1, 2, 5)]
    assert all((states[0][name] == other[name]).all() for other in states[1:] for name in other)
    options = {"tolerance": 0.0, "rounds": 120}
    whole = destiny.solve(problem, NETWORK, **options)
    destiny.solve(problem, NETWORK, checkpoint=tmp_path, checkpoint_every=10, tolerance=0.0, rounds=90)
    resumed = destiny.solve(problem, NETWORK, checkpoint=tmp_path, resume=True, **options)
    assert (whole.X == resumed.X).all()
    assert whole.scalars == resumed.scalars
    with pytest.raises(destiny.CheckpointError, match="its constraint is"):
        destiny.solve(problem.inner, NETWORK, CDADT(), checkpoint=tmp_path, resume=True, **options)


def test_agents_agree_to_stop_by_themselves():
    result = destiny.solve(generalized(), NETWORK, local_stopping=True, tolerance=1e-7, rounds=6000, every=0)
    assert result.converged, result
    assert result.measures.worst < 1e-6


def test_it_works_on_networks_that_change_and_on_one_agent():
    network = destiny.networks.link_loss(NETWORK, 0.2, seed=0)
    result = destiny.solve(generalized(), network, rounds=8000, tolerance=1e-6)
    assert result.converged, result
    alone = destiny.solve(pooled(generalized()), destiny.networks.complete(1), rounds=8000)
    assert alone.converged
    assert alone.measures.objective == pytest.approx(result.measures.objective, rel=1e-9)


def test_a_square_x_is_tried_from_both_halves():
    rng = np.random.default_rng(0)
    problem = destiny.problems.OLSR(
        [rng.standard_normal((3, 9)).T for _ in range(4)], [rng.standard_normal((3, 9)).T for _ in range(4)]
    )
    M = [A @ A.T for A in rng.standard_normal((4, 3, 5))]
    result = destiny.solve(Generalized(problem, M), destiny.networks.ring(4), rounds=6000)
    assert any("both halves" in note for note in result.notes)
    np.testing.assert_allclose(result.X.T @ sum(M) @ result.X, np.eye(3), atol=1e-12)


def test_a_singular_or_nearly_singular_mass_is_told():
    problem = small_problem("pca")
    A = np.random.default_rng(0).standard_normal((12, 11))
    with pytest.raises(destiny.ProblemError, match=r"positive definite.*add a multiple of the identity"):
        destiny.solve(Generalized(problem, [A @ A.T] * 6), NETWORK)
    flat = np.diag([0.0] + [1.0] * 11)
    with pytest.raises(destiny.ProblemError, match="1 of its 12 diagonal entries are not positive"):
        destiny.solve(Generalized(problem, [flat] * 6), NETWORK)
    rough = np.eye(12)
    rough[0, 1] = rough[1, 0] = 1 - 1e-10
    result = destiny.solve(Generalized(problem, [rough] * 6), NETWORK, rounds=100)
    assert any("nearly singular" in note for note in result.notes)


def test_mistakes_are_refused_in_words():
    problem, eye = small_problem("pca"), np.eye(12)
    for M, words in (
        ([eye] * 5, "one matrix M_i for each of the 6 agents; found 5"),
        ([eye[:3]] * 6, "must be 12 x 12"),
        ([eye[:, :3]] * 6, r"must have 12 columns like everyone's; found shape \(12, 3\)$"),
        ([eye + np.eye(12, k=1)] * 6, "agent 0's M must be symmetric"),
        ([np.full((12, 12), np.nan)] * 6, "finite"),
    ):
        with pytest.raises(destiny.ProblemError, match=words):
            Generalized(problem, M)
    for wrong, words in (
        (problem + L1(0.1), "regularizer"),
        (Generalized(problem, [eye] * 6), "a matrix M already"),
        (centered(problem), "data to be centered"),
    ):
        with pytest.raises(destiny.ProblemError, match=words):
            Generalized(wrong, [eye] * 6)
    general = Generalized(problem, [eye] * 6)
    with pytest.raises(destiny.MismatchError, match=r"keeps X\^T X = I.*cdadt"):
        destiny.solve(general, NETWORK, destiny.Destiny())
    comparison = destiny.compare(general, NETWORK, [destiny.DestinyAccelerated(), CDADT()], rounds=100)
    assert set(comparison.skipped) == {"destiny-accelerated"}
    with pytest.raises(destiny.ProblemError, match="make the sum first"):
        destiny.problems.total([general, problem])
    assert isinstance(general + problem, Generalized)
    with pytest.raises(destiny.SettingsError, match="independent columns"):
        destiny.solve(general, NETWORK, start=np.ones((12, 3)))
    with pytest.raises(destiny.SettingsError, match="make the start feasible and to choose"):
        destiny.solve(general, NETWORK, rounds=23)
    with pytest.raises(destiny.SettingsError, match="momentum"):
        CDADT(momentum=1)


def test_the_mass_matrix_knows_its_geometry():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 9))
    mass = MassMatrix.of(A @ A.T)
    X = mass.polar(rng.standard_normal((6, 2)))
    np.testing.assert_allclose(X.T @ mass.M @ X, np.eye(2), atol=1e-13)
    np.testing.assert_allclose(mass.L @ mass.L.T, mass.M, atol=1e-12)
    assert mass.note is None
    assert mass.condition > 1
