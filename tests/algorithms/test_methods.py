"""One test body for every method: a method joins by its name in `destiny.algorithms.METHODS`.

What a method says of itself (rounds, matrices, exact or not, which problems) is held against what it does.
"""

import dataclasses
import inspect
from itertools import islice

import numpy as np
import pytest
from scipy.sparse.csgraph import shortest_path

import destiny
from destiny.algorithms import KINDS, METHODS, DeEPCA
from destiny.algorithms.blocks.step_sizes import Constant, Lipschitz
from destiny.engines import Local
from destiny.engines.silent_agents import silent
from destiny.experiments import file as experiment
from destiny.geometry import stiefel
from destiny.protocols import Agents
from destiny.run.plan import prepared_algorithm
from destiny.storage.checkpoint import flatten
from tests.helpers import ROOT, doc_blocks
from tests.helpers.small_problems import agents_of, problem_of, run, silos_of, small_problem

TOGETHER = [m for m in METHODS if "alone" not in m.about]
each = pytest.mark.parametrize("method", METHODS, ids=lambda m: m.kind)
together = pytest.mark.parametrize("method", TOGETHER, ids=lambda m: m.kind)
EXACT = [m for m in TOGETHER if "inexact" not in m.about]
INEXACT = [
    m for m in TOGETHER if "inexact" in m.about and "regularized" not in m.about
]  # others: test_proximal.py


def kinds_of(method):
    if method is destiny.AveragedModel:
        return ["pca", "olsr"]  # for quadratic objectives
    return [method.about.problem] if method.about.problem else ["pca", "olsr", "sdl"]


def home(method, kind="pca", seed=0):
    """A problem and a network the method runs on."""
    agents = 1 if "alone" in method.about else 6
    random = destiny.networks.erdos_renyi(agents, prob=0.5, seed=seed)
    return small_problem(kind, agents, seed), network_for(method, random)


def network_for(method, network):
    """The network, or a star of as many agents if the method needs one."""
    return destiny.networks.star(network.agents) if "star" in method.about else network


def literal(method, eta=0.05):
    """The method with everything given as a number, so that nothing is learned from the network."""
    names = {f.name for f in dataclasses.fields(method) if f.init}
    given = {"beta": 0.3, "step_size": Constant(eta), "eta": eta, "rho": 1.0, "lambda_": 0.6}
    given["spectrum"] = (-0.2, 0.6)
    return method(**{name: value for name, value in given.items() if name in names})


class Spy:
    """Offers what `destiny.protocols.Agents` does, nothing else, and remembers what was asked for."""

    def __init__(self, agents):
        self._agents, self.asked = agents, set()

    def __getattr__(self, name):
        assert name in vars(Agents), f"an algorithm may not use {name}"
        self.asked.add(name)
        return getattr(self._agents, name)


@each
def test_settings_and_states_are_frozen_and_a_step_is_pure(method):
    problem, network = home(method)
    algorithm = method()
    state = run(problem, network, algorithm, 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.X = None
    with pytest.raises(dataclasses.FrozenInstanceError):
        algorithm.kind = "other"
    assert hash(algorithm) == hash(method())
    algorithm = prepared_algorithm(algorithm, problem, network)
    before = {name: array.copy() for name, array in flatten(state).items()}
    once, twice = (flatten(algorithm.step(state, agents_of(problem, network))) for _ in range(2))
    assert all((array == before[name]).all() for name, array in flatten(state).items())
    assert all((once[name] == twice[name]).all() for name in once)


@pytest.mark.parametrize(
    ("method", "kind"), [pytest.param(m, k, id=f"{m.kind}-{k}") for m in METHODS for k in kinds_of(m)]
)
def test_every_array_is_of_numbers_with_the_agents_on_axis_zero(method, kind):
    problem, network = home(method, kind)
    arrays = flatten(run(problem, network, method(), 3))
    assert {len(array) for array in arrays.values()} == {problem.agents}
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float64)}
    assert not any(np.isnan(array).any() for array in arrays.values())


@each
def test_only_gradients_and_mixing_are_used(method):
    problem, network = home(method)
    algorithm = prepared_algorithm(method(), problem, network)
    spy = Spy(agents_of(problem, network))
    X = np.broadcast_to(stiefel.random_point(*problem.shape), (problem.agents, *problem.shape)).copy()
    state = algorithm.init(X, spy)
    for _ in range(3):
        state = algorithm.step(state, spy)
    allowed = {"ids", "gradient", "mix", "bounded", "exact"} | (
        {"value"} if "alone" in method.about else set()
    )
    allowed |= {"all_reduce", "count", "once", "value"} if "totals" in method.about else set()
    allowed |= ({"hessian"} if method.about.triangles else set()) | (
        {"regularizer"} if "regularized" in method.about else set()
    )
    allowed |= {"sampled"} if "stochastic" in method.about else set()
    allowed |= {"mass"} if "generalized" in method.about else set()
    assert spy.asked <= allowed


@pytest.mark.parametrize("method", [m for m in METHODS if "totals" in m.about], ids=lambda m: m.kind)
def test_a_method_of_totals_takes_twice_the_depth_a_step_and_states_its_largest_message(method):
    problem, network = home(method)
    n, p = problem.shape
    rounds = [moment.round for moment in islice(destiny.iterate(problem, network, method()), 3)]
    radius = int(shortest_path(network.W, unweighted=True).max(axis=1).min())
    assert rounds == [0, 2 * radius, 4 * radius]
    assert method().on(network).rounds_per_step == 2 * radius
    quiet = silent(agents_of(problem, network))
    method().on(network).step(method().init(np.stack([np.eye(n, p)] * problem.agents), quiet), quiet)
    triangles = method.about.triangles * n * (n + 1) // 2
    assert quiet.largest == method.about.sends * n * p + triangles + method.about.numbers


@pytest.mark.parametrize("method", [m for m in TOGETHER if "totals" not in m.about], ids=lambda m: m.kind)
@pytest.mark.parametrize("auto", [False, True])
def test_rounds_and_scalars_are_those_it_states(method, auto):
    problem, network = home(method)
    options = {"rounds": 3} if method.about.rounds == "rounds" else {}
    algorithm = dataclasses.replace(method() if auto else literal(method), **options)
    rounds = options.get("rounds", method.about.rounds)
    n, p = problem.shape
    moments = destiny.iterate(problem, network, algorithm)
    first = next(moments)
    assert first.round == getattr(algorithm, "opening", 0)
    assert auto or first.round == 0
    before = first
    for _ in range(3):
        after = next(moments)
        assert after.round - before.round == rounds
        sent = (after.scalars - before.scalars) / (rounds * 2 * len(network.edges))
        numbers = method.about.numbers + auto * method.about.numbers_auto
        triangles = method.about.triangles * n * (n + 1) // 2
        assert sent == method.about.sends * n * p + triangles + numbers
        before = after
    moments.close()


@together
def test_relabeling_the_agents_permutes_the_rows(method):
    order = np.array([3, 0, 5, 1, 4, 2])
    network = network_for(method, destiny.networks.erdos_renyi(6, prob=0.5, seed=3))
    moved = destiny.networks.from_weights(network.W.toarray()[np.ix_(order, order)])
    for kind in kinds_of(method):
        silos = silos_of(kind, 6)
        a = run(problem_of(kind, silos), network, literal(method), 20)
        b = run(problem_of(kind, [silos[i] for i in order]), moved, literal(method), 20)
        np.testing.assert_allclose(a.X[order], b.X, atol=1e-9)


@together
def test_equal_agents_walk_the_path_of_one_of_them(method):
    """Where all hold the same, nothing is left to agree on: every method is its centralized self."""
    for kind in kinds_of(method):
        silo = silos_of(kind, 3)[0]
        network = network_for(method, destiny.networks.erdos_renyi(5, prob=0.6, seed=1))
        many = run(problem_of(kind, [silo] * 5), network, literal(method), 30)
        one = run(problem_of(kind, [silo]), destiny.networks.complete(1), literal(method), 30)
        np.testing.assert_allclose(many.X, np.broadcast_to(one.X, many.X.shape), atol=1e-9)


@pytest.mark.parametrize("kind", ["destiny", "atc", "dgd", "deepca"])
def test_mixing_last_on_a_complete_graph_is_the_centralized_method(kind):
    """Methods that mix after they moved: with W = 11^T/d each agent walks as one that holds all data."""
    silos = silos_of("pca", 5)
    network = destiny.networks.from_weights(np.full((5, 5), 0.2))
    many = run(problem_of("pca", silos), network, literal(KINDS[kind]), 60)
    pooled = problem_of("pca", [np.concatenate(silos, axis=1) / np.sqrt(5)])
    one = run(pooled, destiny.networks.complete(1), literal(KINDS[kind]), 60)
    np.testing.assert_allclose(many.X, np.broadcast_to(one.X, many.X.shape), atol=1e-9)


LAWS = {
    "mean(D) = mean(H)": lambda s: (s.D, s.H),
    "mean(S) = mean(B)": lambda s: (s.S, s.B),
    "mean(psi) = mean(X)": lambda s: (s.psi, s.X),
    "mean(C) = 0": lambda s: (s.C, 0 * s.C),
    "mean(M) = 0": lambda s: (s.M, 0 * s.M),
    "X_i = X_0": lambda s: (s.X - s.X[:1] + 0 * s.products, 0 * s.X),  # of averages that are exact
    "V_i = V_0": lambda s: (np.stack(s.basis, 1) - np.stack(s.basis, 1)[:1], 0 * np.stack(s.basis, 1)),
    "S_i = S_0": lambda s: (s.moves - s.moves[:1], 0 * s.moves),
}


@pytest.mark.parametrize("method", [m for m in EXACT if "star" not in m.about], ids=lambda m: m.kind)
@pytest.mark.parametrize("seed", range(3))
def test_exact_methods_conserve_what_makes_them_exact(method, seed):
    problem, network = home(method, seed=seed)
    laws = 0
    for moment in destiny.iterate(problem, network, method()):
        for law in LAWS.values():
            try:
                left, right = law(moment.state)
            except AttributeError:  # not a law of this method's
                continue
            np.testing.assert_allclose(left.mean(axis=0), right.mean(axis=0), atol=1e-12)
            laws += 1
        if moment.step == 30:
            break
    assert laws == 31


@pytest.mark.parametrize("method", EXACT, ids=lambda m: m.kind)
@pytest.mark.parametrize("seed", range(2))
def test_exact_methods_reach_the_subspace_of_the_svd(method, seed):
    problem, network = home(method, seed=seed)
    result = destiny.solve(problem, network, method(), rounds=6000, tolerance=1e-10)
    assert result.converged, result
    known = destiny.problems.pca.solution(problem)
    assert stiefel.subspace_distance(result.X, known) < 1e-8
    columns = np.abs(np.sum(result.X * known, axis=0))  # cosines, signs aside
    if "axes" in method.about:
        np.testing.assert_allclose(columns, 1.0, atol=1e-8)
    else:
        assert columns.min() < 0.999  # a basis of the subspace, not its axes
        assert result.axes is not None
        np.testing.assert_allclose(np.abs(np.sum(result.axes * known, axis=0)), 1.0, atol=1e-8)


@pytest.mark.parametrize(
    ("method", "kind"),
    [pytest.param(m, k, id=f"{k}-{m.kind}") for m in EXACT for k in kinds_of(m) if k != "pca"],
)
def test_exact_methods_for_any_f_converge_on_the_other_problems(method, kind):
    problem, network = home(method, kind)
    result = destiny.solve(problem, network, method(), rounds=10_000, tolerance=1e-6)  # others stall at 1e-4
    assert result.converged, result


@pytest.mark.parametrize("method", INEXACT, ids=lambda m: m.kind)
def test_inexact_methods_stall_with_a_constant_step_and_say_so(method):
    problem, network = home(method)
    assert "nexact" in (inspect.getdoc(method) or "") or "bias" in (inspect.getdoc(method) or "")
    rule = (
        {"step_size": Lipschitz(0.1)} if "step_size" in {f.name for f in dataclasses.fields(method)} else {}
    )
    algorithm = method(**rule)
    result = destiny.solve(problem, network, algorithm, rounds=4000, tolerance=1e-10, every=100)
    assert not result.converged
    worst = np.maximum(result.history["stationarity"], result.history["consensus"])
    assert worst[-1] > 1e-4
    assert worst[-1] > 0.5 * worst[len(worst) // 2]  # it does not get better any more


@together
def test_multiplying_the_data_changes_nothing_by_default(method):
    for factor in (1e-6, 1e3):
        states = [
            run(
                destiny.problems.PCA([a.T for a in silos_of("pca", 6)], 3, scale=scale),
                network_for(method, destiny.networks.ring(6)),
                method(),
                20,
            )
            for scale in (1.0, factor)
        ]
        np.testing.assert_allclose(states[0].X, states[1].X, atol=1e-6)


@together
@pytest.mark.parametrize("threads", [2, 5])
def test_same_bits_for_any_number_of_threads(method, threads):
    problem, network = home(method)
    arrays = [flatten(run(problem, network, method(), 15, engine=Local(count))) for count in (1, threads)]
    assert all((arrays[0][name] == arrays[1][name]).all() for name in arrays[0])


@dataclasses.dataclass(frozen=True)
class Steps:
    """A rule of one's own: methods for one agent use no rounds, so the runs here are bounded by steps."""

    limit: int

    def check(self, progress):
        return destiny.stopping.Stop("enough") if progress.step >= self.limit else None


@each
def test_resuming_gives_the_bits_of_a_run_never_stopped(method, tmp_path):
    problem, network = home(method)
    options = {"tolerance": 0.0, "seed": 1}
    whole = destiny.solve(problem, network, method(), rules=[Steps(30)], **options)
    destiny.solve(
        problem, network, method(), rules=[Steps(17)], checkpoint=tmp_path, checkpoint_every=5, **options
    )
    resumed = destiny.solve(
        problem, network, method(), rules=[Steps(30)], checkpoint=tmp_path, resume=True, **options
    )
    assert (whole.X == resumed.X).all()
    assert whole.scalars == resumed.scalars
    assert (whole.history["stationarity"] == resumed.history["stationarity"]).all()


@pytest.mark.parametrize(
    "method",
    [m for m in METHODS if "step_size" in {f.name for f in dataclasses.fields(m)}],
    ids=lambda m: m.kind,
)
def test_a_step_far_too_long_ends_in_words(method):
    problem, network = home(method)
    result = destiny.solve(problem, network, literal(method, eta=1e9), rounds=200, seconds=20.0)
    assert not result.converged
    assert result.reason


@each
def test_a_method_made_for_other_problems_refuses_naming_both(method):
    problem, network = small_problem("olsr"), destiny.networks.ring(6)
    if method.about.problem is None and "alone" not in method.about:
        assert destiny.solve(problem, network, method(), rounds=40).steps > 0
        return
    found = "6" if "alone" in method.about else "OLSR"
    with pytest.raises(destiny.MismatchError, match=rf"{method.about.title}.*{found}"):
        destiny.solve(problem, network, method(), rounds=40)


@each
def test_every_method_runs_from_an_experiment_file(method, tmp_path):
    agents = 1 if "alone" in method.about else 6
    file = tmp_path / "file.toml"
    file.write_text(
        f'[problem]\nkind = "pca"\np = 2\nagents = {agents}\n'
        "synthetic = { n = 10, m = 60, xi = 0.7 }\n"
        f'[network]\nkind = "{"star" if "star" in method.about else "complete"}"\n'
        f'[[algorithm]]\nkind = "{method.kind}"\n'
        "[stop]\nrounds = 60\nseconds = 5.0\n"
    )
    asked = experiment.read(file)
    (algorithm,) = asked.algorithms.values()
    assert type(algorithm) is method
    result = destiny.solve(asked.problem, asked.network, algorithm, **asked.stop)
    assert result.steps > 0


def test_kinds_are_unique_and_named_as_in_files():
    assert len({m.kind for m in METHODS}) == len(METHODS)
    assert all(m.kind == m.kind.lower() and " " not in m.kind for m in METHODS)


@pytest.mark.parametrize("mixing", ["chebyshev", "fastmix"])
def test_accelerated_mixing_takes_lambda_from_the_network(mixing):
    problem, network = small_problem("pca"), destiny.networks.path(6)
    result = destiny.solve(problem, network, DeEPCA(rounds=8, mixing=mixing), rounds=4000)
    assert result.converged, result
    assert result.settings["lambda_"] == network.lambda_
    changing = destiny.networks.link_loss(network, 0.2, seed=0)
    with pytest.raises(destiny.SettingsError, match=r"needs lambda.*changes from round to round"):
        destiny.solve(problem, changing, DeEPCA(rounds=8, mixing=mixing), rounds=4000)
    assert (
        destiny.solve(problem, changing, DeEPCA(rounds=8, mixing=mixing, lambda_=0.9), rounds=40).steps == 5
    )


ANY_F_EXACT = [m for m in EXACT if m.about.problem is None]


SETTINGS = [(m, name) for m in ANY_F_EXACT for name in ("complete", "empty agents on a ring")]
SETTINGS += [
    (m, "several rounds") for m in ANY_F_EXACT if m.about.rounds == "rounds" and "totals" not in m.about
]


@pytest.mark.parametrize(
    ("method", "name"), [pytest.param(m, name, id=f"{m.kind}-{name}") for m, name in SETTINGS]
)
def test_defaults_hold_on_easy_and_on_uneven_networks(method, name):
    A = np.random.default_rng(0).standard_normal((12, 96)) * 0.7 ** np.arange(12)[:, None]
    silos = np.split(A, 8, axis=1)
    network, options = destiny.networks.complete(8), {}
    if name == "empty agents on a ring":
        silos = [A[:, :40], A[:, :0], A[:, 40:41], A[:, 41:80], A[:, :0], A[:, :0], A[:, 80:], A[:, :0]]
        network = destiny.networks.ring(8)
    if name == "several rounds":
        options = {"rounds": 10}
    result = destiny.solve(
        destiny.problems.PCA([a.T for a in silos], 2),
        network,
        method(**options),
        rounds=12_000,
        tolerance=1e-6,
    )
    assert result.converged, result


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: KINDS["dgd"](order="x"), "order must be adapt or combine; found 'x'"),
        (lambda: KINDS["destiny"](watch="no"), "watch must be true or false; found 'no'"),
        (lambda: KINDS["drgta"](alpha=2.0), r"alpha must be in \(0, 1\]; found 2.0"),
        (lambda: KINDS["drsgd"](alpha=0.0), r"alpha must be in \(0, 1\]"),
        (lambda: KINDS["drgta"](rounds=0), "rounds must be a whole number of at least 1; found 0"),
        (lambda: KINDS["deepca"](mixing="fast"), "mixing must be one of plain, chebyshev, fastmix"),
        (lambda: KINDS["dprgt"](retraction="svd"), "retraction must be polar or qr"),
        (
            lambda: KINDS["extra"](step_size=destiny.steps.BB()),
            "step size must be one of constant, lipschitz",
        ),
        (lambda: KINDS["adsa"](step_size=destiny.steps.PlainBB()), "step size must be one of constant"),
        (lambda: KINDS["extra"](direction="sanger"), "direction must be one of h, expen, plam, landing"),
        (lambda: KINDS["admm-pca"](rho=-1), 'rho must be "auto" or a positive number; found -1'),
        (lambda: Lipschitz(gap=0), "gap must be a positive number"),
    ],
)
def test_settings_are_checked(make, sentence):
    with pytest.raises(destiny.SettingsError, match=sentence):
        make()


def test_a_step_that_does_not_fit_the_rounds_left_is_not_taken():
    problem, network = small_problem("pca"), destiny.networks.ring(6)
    result = destiny.solve(problem, network, DeEPCA(rounds=50), rounds=20)
    assert (result.steps, result.reason) == (0, "out of rounds: 0 of 20 used")


def test_the_method_of_contributing_passes_the_tests_it_will_be_put_under(tmp_path):
    code = next(b.code for b in doc_blocks.blocks(ROOT / "CONTRIBUTING.md") if b.language == "python")
    names: dict[str, object] = {"__name__": "contributed"}
    exec(compile(code, "CONTRIBUTING.md", "exec", dont_inherit=True), names)
    method = names["Descent"]
    assert method.kind == "descent"
    for test in (
        test_settings_and_states_are_frozen_and_a_step_is_pure,
        test_only_gradients_and_mixing_are_used,
        test_relabeling_the_agents_permutes_the_rows,
        test_equal_agents_walk_the_path_of_one_of_them,
        test_inexact_methods_stall_with_a_constant_step_and_say_so,
        test_multiplying_the_data_changes_nothing_by_default,
        test_a_step_far_too_long_ends_in_words,
        test_a_method_made_for_other_problems_refuses_naming_both,
    ):
        test(method)
    test_resuming_gives_the_bits_of_a_run_never_stopped(method, tmp_path)
    for auto in (False, True):
        test_rounds_and_scalars_are_those_it_states(method, auto)
