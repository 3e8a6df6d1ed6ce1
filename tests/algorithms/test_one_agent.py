"""Methods for one agent: each against an independent reference, its formula and its promises."""

import dataclasses
import sys
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

import destiny
from destiny.algorithms import PCAL, PLAM, ExPen, Landing, MultiplierCorrection, PenCF, Pymanopt, WenYin
from destiny.algorithms.blocks.step_sizes import Alternating, Constant
from destiny.algorithms.feasible import curve
from destiny.algorithms.penalty import safe_step
from destiny.errors import MissingExtraError, SettingsError
from destiny.geometry.directions import DIRECTIONS
from destiny.geometry.stiefel import polar, random_point, subspace_distance, violation
from destiny.problems import pooled
from destiny.run import metrics
from tests.helpers.small_problems import KINDS, agents_of, small_problem

NETWORK = destiny.networks.complete(1)
METHODS = {
    m.kind: m for m in (PLAM(), PCAL(), PenCF(), ExPen(), Landing(), WenYin(), Pymanopt("trust-regions"))
} | {"multiplier-correction": MultiplierCorrection(), "projection": MultiplierCorrection(update="projection")}
LINE_SEARCHES = {name: Pymanopt(name) for name in ("gradient", "conjugate-gradient")}
PENALTIES = {kind: METHODS[kind] for kind in ("plam", "pcal", "pencf", "expen")}
STARTS = range(6)


@pytest.fixture(params=METHODS)
def method(request):
    return METHODS[request.param]


class Scaled:
    """Another problem's objectives times a factor."""

    def __init__(self, problem, factor):
        self.problem, self.factor = problem, factor
        self.shape, self.agents = problem.shape, problem.agents

    def host(self, ids):
        hosted = self.problem.host(ids)

        class Times:
            def value(_, X):
                return self.factor * hosted.value(X)

            def gradient(_, X):
                return self.factor * hosted.gradient(X)

        return Times()


def run(problem, method, tolerance=1e-8, steps=600, **options):
    """The first moment at which all measures are below the tolerance, and its measures."""
    for moment in destiny.iterate(problem, NETWORK, method, **options):
        if moment.step == 0:
            start = metrics.reference(moment.team, moment.X.mean(axis=0))
        mean = moment.X.mean(axis=0)
        spread = metrics.Spread(mean, metrics.Spread.numbers(moment.X, mean))
        found = metrics.measure(moment.team, spread, start)
        if found.worst <= tolerance or moment.step == steps:
            return moment, found
    raise AssertionError("iterate never ends by itself")


def take(method, problem, X, steps):
    """Some steps from X, without a driver."""
    agents = agents_of(problem, destiny.networks.ring(problem.agents))
    states = [method.init(X, agents)]
    for _ in range(steps):
        states.append(method.step(states[-1], agents))
    return states


def near(n, p, seed, size=0.02):
    """A stack of one point near the manifold, not on it."""
    return (random_point(n, p, seed) + size * np.random.default_rng(seed).standard_normal((n, p)))[None]


@lru_cache
def best_known(kind):
    """SciPy's best objective over all starts: BFGS on Y -> f(Y (Y^T Y)^-1/2), its own differences."""
    hosted = pooled(small_problem(kind)).host([0])
    n, p = small_problem(kind).shape

    def f(y):
        U, _, Vt = np.linalg.svd(y.reshape(n, p), full_matrices=False)
        return hosted.value((U @ Vt)[None])[0]

    return min(minimize(f, random_point(n, p, seed).ravel(), method="BFGS").fun for seed in STARTS)


@lru_cache
def words(seed=5):
    """OLSR on 0/1 data as they are: multipliers far above zero, so a small penalty does not hold X."""
    rng = np.random.default_rng(seed)
    C = (rng.random((8, 200)) < 0.3 * rng.random((8, 1))).astype(float)
    return destiny.problems.olsr.from_data(C.T, np.eye(3)[rng.integers(0, 3, 200)], agents=1)


# The answers


@pytest.mark.parametrize("kind", KINDS)
def test_each_reaches_a_feasible_stationary_point_without_a_message(method, kind, rng):
    seed = int(rng.integers(100))
    moment, found = run(pooled(small_problem(kind, seed=seed)), method, seed=seed)
    assert found.worst <= 1e-8, (moment.step, found)
    assert moment.round == moment.scalars == method.about.rounds == method.about.sends == 0


def test_each_finds_the_singular_vectors(method):
    problem = small_problem("pca")
    A = np.concatenate([problem.data.load(i).table for i in range(problem.agents)]).T
    U, _, _ = np.linalg.svd(A)
    moment, _ = run(pooled(problem), method)
    assert subspace_distance(moment.X[0], U[:, :3]) < 1e-6


@pytest.mark.parametrize("kind", ["olsr", "sdl"])
def test_each_is_no_worse_than_scipy_from_the_same_starts(method, kind):
    problem = pooled(small_problem(kind))
    values = [run(problem, method, seed=seed)[1].objective for seed in STARTS]
    assert min(values) <= best_known(kind) + 1e-9 * abs(best_known(kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LINE_SEARCHES)
def test_pymanopts_line_searches_end_where_values_cannot_tell(name, kind):
    problem = pooled(small_problem(kind))
    exact = run(problem, METHODS["pymanopt"], tolerance=1e-10)[1].objective
    _, found = run(problem, LINE_SEARCHES[name], tolerance=1e-9, steps=25)
    assert found.stationarity < 1e-6
    assert found.feasibility < 1e-12
    if found.stationarity > 1e-8:  # its docstring says so: the objective is right to its last digits by then
        assert abs(found.objective - exact) <= 16 * np.finfo(float).eps * abs(exact)


@pytest.fixture(scope="module")
def brink():
    """A start next to the answer of `words`, and lambda_max(sym(X^T G)) there: no beta below it holds X."""
    X = run(words(), METHODS["pymanopt"])[0].X
    M = X[0].T @ words().host([0]).gradient(X)[0]
    start = polar(X[0] + 0.02 * np.random.default_rng(0).standard_normal(X.shape[1:]))
    return start, float(np.linalg.eigvalsh((M + M.T) / 2)[-1])


@pytest.mark.parametrize("name", PENALTIES)
def test_a_penalty_has_a_threshold_below_which_the_run_says_it_failed(name, brink):
    start, threshold = brink
    literal = dataclasses.replace(PENALTIES[name], watch=False)
    _, above = run(words(), dataclasses.replace(literal, beta=2 * threshold), start=start)
    assert above.worst <= 1e-8
    _, below = run(words(), dataclasses.replace(literal, beta=threshold / 2), start=start)
    assert not below.feasibility < 1e-4


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_the_automatic_penalty_grows_where_it_does_not_hold(name, share, brink):
    start, threshold = brink
    method, agents = PENALTIES[name], agents_of(words(), NETWORK)
    s = method.init(start[None], agents)
    s = dataclasses.replace(s, beta=np.full_like(s.beta, share * threshold))
    for _ in range(300):
        s = method.step(s, agents)
    assert violation(s.X)[0] < 1e-8
    assert np.linalg.norm(s.H) < 1e-6 * threshold
    if share < 1 or name != "pcal":  # its columns cannot grow, so it holds at the threshold
        assert s.doublings.max() >= 1
        (said,) = method.remarks(s, np.arange(1), True)
        assert "beta was too small" in said


def test_solve_drives_them(method):
    result = destiny.solve(pooled(small_problem("pca")), NETWORK, method)
    assert result.converged
    assert result.rounds == 0
    assert result.axes is not None  # the pooled problem is still PCA


# Laws


@pytest.mark.parametrize("kind", KINDS)
def test_the_scale_of_f_does_not_matter(method, kind):
    problem = pooled(small_problem(kind))
    moment, _ = run(problem, method)
    same, _ = run(Scaled(problem, 1024.0), method)  # a power of two keeps every bit
    np.testing.assert_array_equal(same.X, moment.X)
    assert same.step == moment.step
    # Any other factor changes roundings, which these steps magnify: about as many steps.
    steps = [run(Scaled(problem, factor), method)[0].step for factor in (1e-3, 1e3)]
    assert max(abs(k - moment.step) for k in steps) <= 5 + 0.3 * moment.step


def test_a_step_is_pure_and_states_are_frozen(method):
    problem = pooled(small_problem("sdl"))
    agents = agents_of(problem, NETWORK)
    state = take(method, problem, random_point(12, 3)[None], 3)[-1]
    before = [a.copy() for a in arrays(state)]
    first, second = method.step(state, agents), method.step(state, agents)
    for a, b in zip(arrays(first), arrays(second), strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(arrays(state), before, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == np.float64
        assert a.shape[0] == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.X = None
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.kind = "other"


def arrays(state):
    for f in dataclasses.fields(state):
        value = getattr(state, f.name)
        yield from [value] if isinstance(value, np.ndarray) else arrays(value)


def test_a_stack_is_as_many_runs_side_by_side(method):
    problem = small_problem("sdl", agents=3)
    X = np.stack([random_point(12, 3, seed) for seed in range(3)])
    together = take(method, problem, X, 6)[-1]
    for i in range(3):

        class One:
            shape, agents = problem.shape, 1

            def host(self, ids, i=i):
                return problem.host([i])

        np.testing.assert_allclose(take(method, One(), X[i : i + 1], 6)[-1].X[0], together.X[i], atol=1e-9)


@pytest.mark.parametrize("kind", METHODS)
def test_many_agents_are_refused_by_name_and_number(kind):
    with pytest.raises(destiny.MismatchError, match=f"{METHODS[kind].about.title} .* 6"):
        destiny.solve(small_problem("pca"), destiny.networks.ring(6), METHODS[kind])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Landing(safe=True),  # type: ignore[arg-type]
        lambda: Landing(beta=-1),
        lambda: WenYin(rho=1.5),
        lambda: WenYin(shrink=0),
        lambda: WenYin(gamma=2),
        lambda: WenYin(trials=0),
        lambda: Pymanopt("newton"),  # type: ignore[arg-type]
        lambda: Pymanopt(iterations=0),
        lambda: Alternating(reach=0),
        lambda: PCAL(step_size="0.1"),  # type: ignore[arg-type]
    ],
)
def test_settings_are_checked(make):
    with pytest.raises(SettingsError, match="found"):
        make()


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymanopt", None)
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[compare\]"'):
        Pymanopt()


# The formulas


@pytest.mark.parametrize("kind", KINDS)
def test_plam_is_its_formula(kind):
    problem, X, eta, beta = pooled(small_problem(kind)), near(12, 3, 1), 0.01, 0.7
    *_, last = take(PLAM(beta=beta, step_size=Constant(eta), watch=False), problem, X, 4)
    Y = X[0]
    for _ in range(4):
        g = problem.host([0]).gradient(Y[None])[0]
        Lam = (Y.T @ g + g.T @ Y) / 2
        Y = Y - eta * (g - Y @ Lam + beta * Y @ (Y.T @ Y - np.eye(3)))
    np.testing.assert_allclose(last.X[0], Y, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_pcal_is_its_formula_and_keeps_unit_columns(kind):
    problem, X, eta, beta = pooled(small_problem(kind)), near(12, 3, 2), 0.01, 0.7
    *_, last = take(PCAL(beta=beta, step_size=Constant(eta), watch=False), problem, X, 4)
    Y = X[0] / np.linalg.norm(X[0], axis=0)
    for _ in range(4):
        g, M = problem.host([0]).gradient(Y[None])[0], Y.T @ Y
        Lam = (Y.T @ g + g.T @ Y) / 2
        dg = np.diag(Y.T @ g - M @ Lam + beta * M @ (M - np.eye(3)))
        Y = Y - eta * (g - Y @ Lam - Y * dg + beta * Y @ (M - np.eye(3)))
        Y = Y / np.linalg.norm(Y, axis=0)
    np.testing.assert_allclose(last.X[0], Y, atol=1e-14)
    for state in take(PCAL(), problem, X, 30):
        np.testing.assert_allclose(np.linalg.norm(state.X, axis=1), 1.0, atol=1e-15)


def test_pencf_stays_in_its_ball_and_below_its_recent_values(rng):
    problem, X = pooled(small_problem("sdl")), random_point(12, 3, int(rng.integers(100)))[None]
    f = problem.host([0])

    def penalty(X, beta):
        E = X.T @ X - np.eye(3)
        Lam = X.T @ f.gradient(X[None])[0]
        return f.value(X[None])[0] - np.sum(Lam * E) / 2 + beta / 4 * np.sum(E**2)

    # A first step far too long makes it halve, three times at most; and it comes back from that.
    states = take(PenCF(step_size=Alternating(eta=30.0)), problem, X, 120)
    for before, after in pairwise(states):
        assert np.linalg.norm(after.X) <= 1.0001 * np.sqrt(3) * (1 + 1e-12)
        beta = float(after.beta.max())
        assert after.recent[0, -1, 0] == pytest.approx(penalty(after.X[0], beta), rel=1e-12)
        np.testing.assert_array_equal(after.recent[0, :-1], before.recent[0, 1:])
    assert violation(states[-1].X)[0] < 1e-6
    # One short step is the formula, projected on the ball.
    beta, eta = 0.7, 1e-3
    start = 1.01 * X
    after = take(PenCF(beta=beta, step_size=Constant(eta)), problem, start, 1)[-1].X[0]
    Y = start[0] - eta * DIRECTIONS["plam"](f.gradient, start, beta)[0]
    np.testing.assert_allclose(after, Y * min(1, 1.0001 * np.sqrt(3) / np.linalg.norm(Y)), atol=1e-14)


def test_expen_is_the_gradient_of_its_penalty_function(rng):
    problem = pooled(small_problem("sdl"))
    f, beta = problem.host([0]), 0.7
    X, Z = near(12, 3, 3)[0], rng.standard_normal((12, 3))

    def h(X):
        E = X.T @ X - np.eye(3)
        return f.value((X @ (1.5 * np.eye(3) - 0.5 * X.T @ X))[None])[0] + beta / 4 * np.sum(E**2)

    t = 1e-5
    slope = (h(X + t * Z) - h(X - t * Z)) / (2 * t)
    state = take(ExPen(beta=beta), problem, X[None], 0)[0]
    assert np.sum(state.H[0] * Z) == pytest.approx(slope, rel=1e-7)


def test_landings_two_parts_are_orthogonal(rng):
    X, G = near(9, 4, 4, size=0.1), rng.standard_normal((1, 9, 4))
    E = X.swapaxes(1, 2) @ X - np.eye(4)
    down = DIRECTIONS["landing"].assemble(X, E, G, 0.0)
    lands = DIRECTIONS["landing"].assemble(X, E, 0 * G, 1.0)
    assert abs(np.sum(down * lands)) < 1e-13 * np.linalg.norm(down) * np.linalg.norm(lands)


def test_landings_safe_step_is_safe_and_that_of_the_authors_is_theirs(rng):
    for _ in range(300):
        n, p = 7, int(rng.integers(1, 8))
        E = np.array(rng.standard_normal((p, p)))
        E = (E + E.T) * rng.uniform(0, 0.5) / max(np.linalg.norm(E + E.T), 1e-9)
        w, V = np.linalg.eigh(np.eye(p) + E)
        X = (random_point(n, p, 1) @ (V * np.sqrt(w)) @ V.T)[None]
        beta, G = 10 ** rng.uniform(-3, 3), 10 ** rng.uniform(-3, 3) * rng.standard_normal((1, n, p))
        L, e = DIRECTIONS["landing"](lambda _, G=G: G, X, beta), violation(X)
        N = np.linalg.norm(L)
        wide, theirs = (float(safe_step(e, np.array([N]), np.array([beta]), w)[0]) for w in (True, False))
        dd, eps = float(e[0]), 0.5
        root = np.sqrt(beta**2 * dd**2 * (1 - dd) ** 2 + N**2 * max(eps - dd, 0))
        assert theirs == pytest.approx(min((beta * dd * (1 - dd) + root) / N**2, 1 / (2 * beta)))
        assert theirs <= wide * (1 + 1e-12)
        for share in (0.1, 0.5, 1.0):
            assert violation(X - share * wide * L)[0] <= 0.5 + 1e-12


@pytest.mark.parametrize("safe", ["wide", "authors"])
def test_landing_never_leaves_its_neighborhood_however_long_the_steps(safe):
    start = near(8, 3, 5)[0]
    far = Landing(step_size=Constant(1e3), watch=False, safe="off")
    *_, lost = take(far, words(), start[None], 1)
    assert lost.worst.max() > 0.5
    *_, kept = take(dataclasses.replace(far, safe=safe), words(), start[None], 200)
    assert kept.worst.max() <= 0.5 + 1e-12


@pytest.mark.parametrize(("n", "p"), [(12, 3), (5, 3), (4, 4), (9, 1)])
def test_wen_yins_curve_stays_on_the_manifold_and_starts_downhill(n, p, rng):
    X, G = random_point(n, p, 3)[None], rng.standard_normal((1, n, p))
    for tau in (1e-3, 1.0, 30.0):
        Y = curve(X, G, np.full((1, 1, 1), tau))
        assert violation(Y)[0] < 1e-11
        A = G[0] @ X[0].T - X[0] @ G[0].T  # the definition, n x n
        cayley = np.linalg.inv(np.eye(n) + tau / 2 * A) @ (np.eye(n) - tau / 2 * A) @ X[0]
        np.testing.assert_allclose(Y[0], cayley, atol=1e-11)
    t = np.full((1, 1, 1), 1e-5)
    np.testing.assert_allclose(
        (curve(X, G, t) - curve(X, G, -t)) / 2e-5, -(G - X @ G.swapaxes(1, 2) @ X), atol=1e-8
    )


def test_wen_yins_search_undercuts_the_average_of_earlier_values(rng):
    problem = pooled(small_problem("sdl"))
    agents = agents_of(problem, NETWORK)
    method = WenYin(trials=30)
    s = method.init(random_point(12, 3, int(rng.integers(100)))[None], agents)
    seen, weights = [agents.value(s.X)[0]], [1.0]
    for k in range(40):
        s = dataclasses.replace(s, tau=s.tau * (1e4 if k % 5 == 0 else 1.0))  # far too long now and then
        average = float(s.C[0, 0, 0])
        assert average == pytest.approx(np.average(seen, weights=weights), rel=1e-10)
        s = method.step(s, agents)
        seen.append(agents.value(s.X)[0])
        weights = [method.gamma * w for w in weights] + [1.0]
        assert seen[-1] <= average + 1e-13 * abs(average)
        assert violation(s.X)[0] < 1e-12


def test_alternating_steps_are_the_two_formulas_in_turn():
    problem = pooled(small_problem("olsr"))
    states = take(PCAL(step_size=Alternating(reach=1e6), watch=False), problem, random_point(12, 3)[None], 12)
    for k, (before, after) in enumerate(pairwise(states), 1):
        S, V = after.X - before.X, after.D - before.D
        SV = abs(np.sum(S * V))
        expected = SV / np.sum(V * V) if k % 2 else np.sum(S * S) / SV
        assert float(after.pace.eta[0, 0, 0]) == pytest.approx(expected, rel=1e-9)


# Pooling


@pytest.mark.parametrize("kind", KINDS)
def test_a_pooled_problem_is_the_mean_of_its_agents(kind):
    problem, X = small_problem(kind), near(12, 3, 6)
    whole, parts = pooled(problem), [problem.host([i]) for i in range(6)]
    assert (whole.agents, whole.shape, whole.kind) == (1, problem.shape, kind)
    np.testing.assert_allclose(whole.host([0]).value(X), np.mean([f.value(X) for f in parts], axis=0))
    np.testing.assert_allclose(whole.host([0]).gradient(X), np.mean([f.gradient(X) for f in parts], axis=0))
    assert "6 agents in one process" in whole.describe()


def test_a_pooled_problem_refuses_what_it_does_not_have():
    for ids in ([1], [], [0, 0]):
        with pytest.raises(destiny.ProblemError, match="found"):
            pooled(small_problem("pca")).host(ids)
    with pytest.raises(destiny.ProblemError, match="found"):
        pooled("pca")


def test_steps_without_a_round_count_as_one_where_rounds_are_limited():
    problem, network = small_problem("pca", 1), destiny.networks.complete(1)
    result = destiny.solve(problem, network, PLAM(), rounds=12, tolerance=0.0)
    assert (result.steps, result.rounds, result.reason) == (12, 0, "out of steps: 12 of 12 used")


@pytest.mark.parametrize("method", [PLAM, WenYin])
def test_one_agent_can_tell_by_itself_that_it_is_done(method):
    problem, network = small_problem("pca", 1), destiny.networks.complete(1)
    result = destiny.solve(problem, network, method(), rounds=500, local_stopping=True)
    assert result.converged, result
    assert result.measures.worst < 1e-6
