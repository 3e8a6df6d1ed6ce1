"""Problems of one's own without any other library: functions and data, sums, mini-batches."""

import numpy as np
import pytest

import destiny
from destiny.algorithms import DGD, DPRGD, DRSGD, METHODS, VRSGT
from destiny.algorithms.blocks.step_sizes import BB, Constant, Diminishing
from destiny.errors import CheckpointError, MismatchError, ProblemError
from destiny.problems import OLSR, PCA, SDL, custom
from destiny.problems.batches import draw
from tests.helpers.small_problems import agents_of, small_problem

N, P, D = 6, 2, 4
STOCHASTIC = [DRSGD(), DPRGD(), DGD(step_size=Diminishing()), DRSGD(step_size=Constant(0.01)), VRSGT()]


def value(X, A, b):
    return float(np.sum(np.cosh(A @ X) @ np.ones(P) * b))


def gradient(X, A, b):
    return A.T @ (np.sinh(A @ X) * b[:, None])


def mean_value(X, A, b):
    return value(X, A, b) / len(A) + np.sum(X[0])  # a term without samples does not hurt a mean


def mean_gradient(X, A, b):
    slope = gradient(X, A, b) / len(A)
    slope[0] += 1
    return slope


def silos(seed=0):
    """Samples in rows, a different number at every agent."""
    rng = np.random.default_rng([seed, 7])
    return [(rng.standard_normal((20 + 3 * i, N)) / 3, rng.random(20 + 3 * i)) for i in range(D)]


def stack(seed=0, agents=D):
    return np.random.default_rng([seed, 8]).standard_normal((agents, N, P)) / 3


def make(**options):
    given = {"data": silos(), "shape": (N, P)} | options
    return custom.problem(given.pop("value", value), given.pop("gradient", gradient), **given)


# Functions and data


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 1]])
def test_one_function_with_data_per_agent(order, rng):
    X = rng.standard_normal((len(order), N, P))
    hosted = make().host(order)
    np.testing.assert_array_equal(
        hosted.value(X), [value(x, *silos()[i]) for i, x in zip(order, X, strict=True)]
    )
    np.testing.assert_array_equal(
        hosted.gradient(X), [gradient(x, *silos()[i]) for i, x in zip(order, X, strict=True)]
    )
    assert destiny.check_gradient(hosted, X)


def test_all_ways_to_give_the_same_problem_give_the_same_bits():
    class Own:
        def __init__(self, data):
            self.data = data

        def value(self, X):
            return value(X, *self.data)

        def gradient(self, X):
            return gradient(X, *self.data)

    objects, asked = [Own(data) for data in silos()], []

    def load(agent):
        asked.append(agent)
        return silos()[agent]

    lazy = make(data=load, agents=D)
    ways = [
        make(),
        make(data=[{"A": A, "b": b} for A, b in silos()]),
        make(
            value=lambda X, both: value(X, *both),
            gradient=lambda X, both: gradient(X, *both),
            data=[list(both) for both in silos()],
        ),
        make(value=[o.value for o in objects], gradient=[o.gradient for o in objects], data=None),
        make(value=[value] * D, gradient=gradient),
        custom.problem(objects, shape=(N, P)),
        lazy,
    ]
    X = stack(agents=2)
    answers = [way.host([2, 0]).gradient(X) for way in ways]
    assert all((answer == answers[0]).all() for answer in answers)
    assert asked == [2, 0]  # nobody else's data was asked for
    assert {way.agents for way in ways} == {D}


def test_a_wrong_gradient_is_found_at_its_agent(rng):
    X = rng.standard_normal((N, P)) / 3
    assert destiny.check_gradient(make(), X)
    wrong = make(gradient=lambda X, A, b: gradient(X, A, b) * (1 + (len(A) == 26) / 1000))
    check = destiny.check_gradient(wrong, X)
    assert not check
    assert check.message.startswith("agent 2: gradient and value disagree")


def test_a_function_for_all_needs_no_data():
    problem = custom.problem(lambda X: np.sum(X**4), lambda X: 4 * X**3, shape=(N, P), agents=3)
    np.testing.assert_array_equal(problem.host([2]).gradient(stack(agents=1)), 4 * stack(agents=1) ** 3)
    assert "6 x 2 matrices: 3 agents" in problem.describe()


def test_it_is_solved_to_the_same_bits_on_any_number_of_threads():
    network = destiny.networks.ring(D)
    one, two = (
        destiny.solve(make(), network, engine=destiny.engines.local(threads), tolerance=1e-5)
        for threads in (1, 2)
    )
    assert one.converged
    assert (one.X == two.X).all()


def fails(X, A, b):
    return 1 / 0


def changes(X, A, b):
    X[0] = 1
    return X


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gradient": lambda X, A, b: A}, r"agent 0's gradient must be of shape \(6, 2\); found .*\(20, 6\)"),
        ({"gradient": None}, 'needs a gradient or an autodiff ."jax" or "torch".; found neither'),
        ({"autodiff": "jax"}, 'needs a gradient or an autodiff ."jax" or "torch".; found both'),
        ({"gradient": None, "autodiff": "numpy"}, 'autodiff must be "jax" or "torch"; found \'numpy\''),
        ({"agents": 3}, "the number of agents must be told alike .* found 4 data and 3 agents"),
        ({"data": None}, "the number of agents must be told alike .* found neither"),
        ({"data": []}, "found 0 data"),
        ({"value": [value] * 3}, "found 3 functions and 4 data"),
        ({"value": [value] * 3, "gradient": [gradient] * 4}, "as many gradients as values; found 4 and 3"),
        ({"value": [value, 3]}, "agent 1's value must be a function; found int"),
        ({"gradient": "cosh"}, "gradient must be a function or a list of them; found str"),
        ({"shape": 6}, r"shape must be \(n, p\), the shape of X; found 6"),
        ({"shape": (2, 3)}, "p must lie between 1 and the number of features n = 2; found 3"),
        ({"batch": 0}, "batch must be a whole number of at least 1; found 0"),
        ({"batch": 3, "data": None, "agents": 2}, "mini-batches need data to draw from"),
        ({"batch": 3, "seed": -1}, "seed must not be negative; found -1"),
        ({"batch": 3, "data": [(A, b[1:]) for A, b in silos()]}, "agent 0.s arrays .* found 19, 20 rows"),
        ({"batch": 3, "data": [1.5] * D}, "agent 0's arrays must have one row .* found no rows"),
        ({"batch": 3, "value": lambda X, A, b: value(X, A, b) ** 2}, "agent 0's value must be a sum or"),
    ],
)
def test_mistakes_are_told_in_one_sentence(options, words):
    with pytest.raises(ProblemError, match=words):
        make(**options).host([0]).gradient(stack(agents=1))


@pytest.mark.parametrize(
    ("options", "kind", "words", "note"),
    [
        ({"gradient": fails}, ZeroDivisionError, "division by zero", "raised by agent 1's gradient"),
        ({"gradient": changes}, ValueError, "read-only", "raised by agent 1's gradient"),
        ({"data": [1.0] * D}, TypeError, "missing 1 required", "raised by agent 1's gradient"),
        (
            {"data": lambda _: 1 / 0, "agents": D},
            ZeroDivisionError,
            "zero",
            "raised on loading agent 1's data",
        ),
    ],
)
def test_errors_of_the_users_own_keep_their_kind_and_name_the_agent(options, kind, words, note):
    with pytest.raises(kind, match=words) as caught:
        make(**options).host([1]).gradient(stack(agents=1))
    assert caught.value.__notes__ == [note]


def test_what_is_not_finite_at_the_start_names_the_agent():
    problem = make(gradient=lambda X, A, b: gradient(X, A, b) * (np.nan if len(A) == 26 else 1))
    with pytest.raises(ProblemError, match="the gradient of agent 2 is not finite at the start"):
        destiny.solve(problem, destiny.networks.ring(D))


# Sums


def test_a_sum_adds_agent_by_agent():
    rng = np.random.default_rng(1)
    data = [rng.standard_normal((N, 9)) for _ in range(D)]
    targets = [rng.standard_normal((P, 9)) for _ in range(D)]
    known = [PCA(data, P), OLSR(data, targets), SDL(data, P)]
    a, b, c = known
    problem = a + 0.5 * b + c * 2 + make()
    assert (problem.shape, problem.agents, problem.kind, problem.weights) == (
        (N, P),
        D,
        "sum",
        (1, 0.5, 2, 1),
    )
    X, ids = stack(agents=2), [3, 1]
    for what in ("value", "gradient"):
        parts = [getattr(part.host(ids), what)(X) for part in (*known, make())]
        total = parts[0] + 0.5 * parts[1] + 2 * parts[2] + parts[3]
        np.testing.assert_allclose(getattr(problem.host(ids), what)(X), total, rtol=1e-13)
        again = custom.total([*known, make()], weights=[1, 0.5, 2, 1])
        assert (getattr(again.host(ids), what)(X) == getattr(problem.host(ids), what)(X)).all()
    assert destiny.check_gradient(problem.host(ids), X)
    assert problem.describe() == "Sum 1 pca + 0.5 olsr + 2 sdl + 1 custom on 6 x 2 matrices, of 4 agents."
    assert problem.batches == []


def test_pca_with_a_linear_term_is_solved():
    """-1/2 tr(X^T A A^T X) - c <B, X> for one column: the largest eigenvector, pulled towards B."""
    rng = np.random.default_rng(2)
    data = [rng.standard_normal((N, 30)) for _ in range(D)]
    B = rng.standard_normal((N, 1))
    pull = custom.problem(lambda X: -np.vdot(B, X), lambda X: -B, shape=(N, 1), agents=D)
    result = destiny.solve(PCA(data, 1) + 5 * pull, destiny.networks.ring(D))
    assert result.converged
    # Lagrange: C x + 5 B is parallel to x, C the mean Gram matrix.
    slope = sum(A @ A.T for A in data) / D @ result.X + 5 * B
    np.testing.assert_allclose(slope, result.X * np.vdot(slope, result.X), atol=1e-5)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: custom.total([]), "a sum needs at least one problem"),
        (lambda: custom.total([make(), 3]), "a sum is made of problems; found int as number 1"),  # type: ignore[list-item]
        (lambda: custom.total([make()], [1, 2]), "1 problems needs as many weights; found 2"),
        (lambda: custom.total([make()], [np.nan]), "a weight must be a finite number; found nan"),
        (lambda: make() + make(data=silos()[:3]), "the same agents; found 4 in the first and 3 in number 1"),
        (
            lambda: make() + PCA([np.eye(5)] * D, P),
            r"the same shape; found \(6, 2\) in the first and \(5, 2\)",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(ask, words):
    with pytest.raises(ProblemError, match=words):
        ask()


def test_only_problems_and_numbers_make_sums():
    for wrong in (lambda: make() + 1, lambda: make() * make(), lambda: make() * np.inf):
        with pytest.raises(TypeError, match="unsupported operand"):
            wrong()


# Mini-batches


def test_samples_are_drawn_from_seed_agent_and_step():
    drawn = {key: tuple(draw(*key, 50, 8)) for key in np.ndindex(2, 3, 4)}
    assert len(set(drawn.values())) == 24
    assert all(draw(*key, 50, 8).tolist() == list(rows) for key, rows in drawn.items())
    assert all(len(set(rows)) == 8 and sorted(rows) == list(rows) for rows in drawn.values())
    often = np.bincount(np.concatenate([draw(0, 0, step, 50, 8) for step in range(2000)]), minlength=50)
    # Each is drawn with probability 0.16: 320 times, give or take 16.4; six of those hold for any seed.
    assert np.abs(often - 320).max() < 6 * 16.4
    np.testing.assert_array_equal(draw(0, 0, 0, 5, 9), np.arange(5))


@pytest.mark.parametrize("functions", [(value, gradient), (mean_value, mean_gradient)], ids=["sum", "mean"])
def test_a_batch_is_a_fair_share(functions):
    f, g = functions
    problem = make(value=f, gradient=g, batch=7, seed=5)
    X, ids = stack(agents=2), [3, 1]
    hosted = problem.host(ids)
    for place, agent in enumerate(ids):
        A, b = silos()[agent]
        rows = draw(5, agent, 11, len(A), 7)
        factor = len(A) / 7 if f is value else 1.0
        expected = factor * g(X[place], A[rows], b[rows])
        np.testing.assert_allclose(hosted.sample(X, 11)[place], expected, rtol=1e-14)
    assert (hosted.gradient(X) == make(value=f, gradient=g).host(ids).gradient(X)).all()
    assert (hosted.value(X) == make(value=f, gradient=g).host(ids).value(X)).all()


@pytest.mark.parametrize("functions", [(value, gradient), (mean_value, mean_gradient)], ids=["sum", "mean"])
def test_the_gradients_of_single_samples_average_to_the_full_one(functions):
    hosted = make(value=functions[0], gradient=functions[1], batch=1).host([0])
    (drawn,) = hosted._objectives
    samples = [drawn[1].objective.take(np.array([row])).gradient(stack()[0]) for row in range(20)]
    full = hosted.gradient(stack(agents=1))[0]
    np.testing.assert_allclose(drawn[1].factor * np.mean(samples, axis=0), full, rtol=1e-12, atol=1e-12)


def test_a_batch_of_everything_is_the_full_gradient():
    hosted = make(batch=99).host(range(D))
    assert (hosted.sample(stack(), 4) == hosted.gradient(stack())).all()
    network = destiny.networks.ring(D)
    full, batched = (
        destiny.solve(problem, network, DRSGD(), rounds=40) for problem in (make(), make(batch=99))
    )
    assert (full.X == batched.X).all()


def test_methods_ask_for_batches_and_observers_for_everything():
    problem, network = make(batch=3), destiny.networks.ring(D)
    agents = agents_of(problem, network)
    assert (agents.gradient(stack()) == agents.hosted.gradient(stack())).all()
    assert (agents.gradient(stack(), 2) == agents.hosted.sample(stack(), 2)).all()
    assert not (agents.gradient(stack(), 2) == agents.gradient(stack(), 3)).all()
    result = destiny.solve(problem, network, DRSGD(), rounds=30)
    X = destiny.stiefel.polar(result.agents.mean(axis=0))
    full = np.mean([value(X, *data) for data in silos()])
    assert result.history["objective"][-1] == pytest.approx(full, rel=1e-12)


@pytest.mark.parametrize("method", STOCHASTIC, ids=["drsgd", "dprgd", "dgd", "drsgd-constant", "vrsgt"])
def test_a_stochastic_run_is_a_function_of_its_seed(method, tmp_path):
    network = destiny.networks.ring(D)

    def run(seed=0, threads=1, **options):
        engine = destiny.engines.local(threads)
        options = {"rounds": 60, "every": 10, "engine": engine} | options
        return destiny.solve(make(batch=4, seed=seed), network, method, **options)

    whole = run()
    assert (run(threads=2).agents == whole.agents).all()
    assert not (run(seed=1).agents == whole.agents).all()
    run(rounds=40, checkpoint=tmp_path, checkpoint_every=7)
    resumed = run(checkpoint=tmp_path, resume=True)
    assert resumed.steps == whole.steps
    assert (resumed.agents == whole.agents).all()
    with pytest.raises(CheckpointError, match=r"its mini-batches .* is \[\[4, 0\]\], this run's"):
        run(seed=1, checkpoint=tmp_path, resume=True)


ANY_F = [m for m in METHODS if m.about.problem is None and "alone" not in m.about]


@pytest.mark.parametrize("method", ANY_F, ids=lambda m: m.kind)
def test_stochastic_methods_and_no_others_name_their_steps(method, monkeypatch):
    problem = small_problem("pca")
    network = destiny.networks.complete(6)
    hosted, algorithm = agents_of(problem, network), method().on(network)
    named, ask = [], hosted.gradient
    monkeypatch.setattr(hosted, "gradient", lambda X, step=None: named.append(step) or ask(X))
    X = np.broadcast_to(destiny.stiefel.random_point(*problem.shape), (6, *problem.shape)).copy()
    state = algorithm.init(X, hosted)
    assert set(named) <= {None}
    for _ in range(3):
        state = algorithm.step(state, hosted)
    assert [step for step in named if step is not None] == [1, 2, 3] * ("stochastic" in method.about)


def test_a_sum_draws_from_the_parts_that_have_batches():
    batched, ridge = make(batch=4), custom.problem(np.sum, np.ones_like, shape=(N, P), agents=D)
    problem = batched + ridge
    assert problem.batches == [(4, 0)]
    hosted = problem.host([1, 2])
    expected = batched.host([1, 2]).sample(stack(agents=2), 3) + 1
    np.testing.assert_array_equal(hosted.sample(stack(agents=2), 3), expected)


FULL = [m for m in METHODS if "stochastic" not in m.about and m.about.problem is None]


@pytest.mark.parametrize("method", FULL, ids=lambda m: m.kind)
def test_other_methods_refuse_batches_naming_those_that_take_them(method):
    agents = 1 if "alone" in method.about else D
    problem = make(batch=4, data=silos()[:agents])
    with pytest.raises(
        MismatchError, match=r"batches of 4: choose a stochastic method \(vrsgt, dgd, drsgd, drsm, dprgd\)"
    ):
        destiny.solve(problem, destiny.networks.complete(agents), method())


def test_steps_that_look_at_gradients_refuse_batches():
    for method in (DGD(), DRSGD(step_size=BB())):
        with pytest.raises(MismatchError, match="needs a step size that does not look at gradients; found"):
            destiny.solve(make(batch=4), destiny.networks.ring(D), method)


def test_a_function_cannot_change_its_data():
    held = [np.ones((5, 3)), np.ones((5, 3))]

    def value(X, A):
        A *= 0.9
        return float(np.sum((A @ X) ** 2))

    changing = custom.problem(value, lambda X, A: 2 * A.T @ (A @ X), shape=(3, 1), data=held)
    with pytest.raises(ValueError, match="read-only"):
        changing.host([0]).value(np.ones((1, 3, 1)))
    assert (held[0] == 1).all()
    held[0] += 1  # the caller's own array stays writeable
