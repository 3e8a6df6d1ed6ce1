"""Regularizers and the methods that know them: proximal DESTINY, THANOS and SLPG."""

import numpy as np
import pytest

import destiny
from benchmarks import sparse as benchmark
from benchmarks.rows import read
from destiny.algorithms import DRSGD, DRSM, METHODS, SLPG, DestinyProx, Thanos
from destiny.config.problem import shared_keys
from destiny.engines import Local
from destiny.experiments import file as experiment
from destiny.geometry.proximal import tangent_prox
from destiny.geometry.stiefel import random_point, sym, tangent, violation
from destiny.problems import L1, L21, PCA, centered, check_prox, custom, pca, pooled, regularized, regularizer
from destiny.storage.checkpoint import flatten
from tests.helpers import ROOT
from tests.helpers.agent_party import PROBLEM, Party
from tests.helpers.small_problems import run

NETWORK = destiny.networks.erdos_renyi(6, prob=0.5, seed=3)
ONE = destiny.networks.complete(1)
SMALL = pca.synthetic(n=20, m=120, p=3, xi=0.8, agents=6, seed=0)
NONNEGATIVE = regularizer(
    lambda X: 0.0 if (X >= 0).all() else np.inf, lambda Z, t: np.maximum(Z, 0), "nonnegative"
)
TERMS = {
    "l1": L1(0.01),
    "l21": L21(0.02),
    "own": regularizer(lambda X: 0.01 * np.abs(X).sum(), L1(0.01).prox, "own"),
}
WITH_PROX = [m for m in METHODS if "regularized" in m.about]


def covariance(problem):
    """C of the mean objective -1/2 tr(X^T C X)."""
    A = np.concatenate([problem.data.load(i).table for i in range(problem.agents)])
    return problem.scale**2 * A.T @ A / problem.agents


def optimality_gap(X, G, weight):
    """Of r = weight ||X||_1: how far -(G + X Lambda) is from the subgradients of r, for the best Lambda.

    Lambda follows from linear equations on the support of X alone; off the support an entry may have any
    modulus up to the weight.
    """
    p, support = X.shape[1], X != 0
    basis = []
    for j in range(p):
        for k in range(j, p):
            E = np.zeros((p, p))
            E[j, k] = E[k, j] = 1
            basis.append(X @ E)
    matrix = np.stack([B[support] for B in basis], axis=1)
    target = -(G + weight * np.sign(X))[support]
    multipliers = np.linalg.lstsq(matrix, target, rcond=None)[0]
    left = G + sum(c * B for c, B in zip(multipliers, basis, strict=True))
    on = np.abs(left + weight * np.sign(X))[support].max()
    off = np.abs(left[~support]).max(initial=0.0) - weight
    return max(on, off)


@pytest.mark.parametrize("term", [*TERMS.values(), NONNEGATIVE], ids=repr)
def test_the_prox_is_that_of_the_value_and_acts_on_stacks(term):
    check_prox(term, (6, 3))
    Z, t = np.random.default_rng(1).standard_normal((4, 6, 3)), np.arange(1.0, 5)[:, None, None]
    one_by_one = [term.prox(z, float(s)) for z, s in zip(Z, t.ravel(), strict=True)]
    np.testing.assert_array_equal(term.prox(Z, t), np.stack(one_by_one))
    assert term.value(Z).shape == (4,)


def test_a_wrong_prox_is_found():
    wrong = regularizer(lambda X: np.abs(X).sum(), lambda Z, t: L1(0.5).prox(Z, t), "half")
    with pytest.raises(destiny.ProblemError, match=r"prox of half must minimize.*correct value or prox"):
        check_prox(wrong, (4, 2))
    with pytest.raises(destiny.ProblemError, match=r"of shape \(4, 2\); found \(2, 4\)"):
        check_prox(regularizer(np.sum, lambda Z, t: Z.T, "turned"), (4, 2))


@pytest.mark.parametrize("term", [None, L1(0.05), L1(0.5), L21(0.1), TERMS["own"]], ids=repr)
def test_the_proximal_step_on_the_tangent_space_is_the_minimizer(term):
    """A convex problem: no feasible point nearby is better, and without r it is the gradient step."""
    X, draw = random_point(9, 3, 1), np.random.default_rng(2)
    G, t = draw.standard_normal((9, 3)), 0.7
    Y = tangent_prox(term, X, G, t)
    assert np.abs(sym(X.T @ (Y - X))).max() < 1e-13
    if term is None:
        np.testing.assert_allclose(Y, X - t * tangent(X, G), atol=1e-15)
        return

    def cost(Y):
        return np.vdot(G, Y) + float(term.value(Y)) + np.sum((Y - X) ** 2) / (2 * t)

    for size in (1e-4, 1e-2, 1.0):
        for _ in range(20):
            assert cost(Y) <= cost(Y + size * tangent(X, draw.standard_normal(X.shape))) + 1e-13


@pytest.mark.parametrize(("network", "seed"), [(NETWORK, 10), (destiny.networks.ring(6), 11)])
def test_proximal_destiny_is_exact(network, seed):
    """Seeds that chose nothing: F - F* against one agent with all data, and the optimality condition."""
    problem = pca.synthetic(n=20, m=120, p=3, xi=0.8, agents=6, seed=seed)
    C = covariance(problem)
    weight = 0.05 * np.linalg.norm(C, 2)
    result = destiny.solve(problem + L1(weight), network, tolerance=1e-9, rounds=4000)
    assert result.converged, result
    assert result.settings["kind"] == "destiny-prox"
    assert 0.1 < result.sparsity < 0.9
    assert violation(result.X) < 1e-13
    assert optimality_gap(result.X, -C @ result.X, weight) < 1e-7 * np.linalg.norm(C, 2)
    reference = destiny.solve(
        pooled(problem + L1(weight)), ONE, SLPG(), start=result.X, tolerance=1e-12, rounds=3000
    )
    assert reference.converged, reference
    value = -0.5 * np.vdot(reference.X, C @ reference.X) + weight * np.abs(reference.X).sum()
    assert reference.measures.objective == pytest.approx(value, rel=1e-14)
    assert abs(result.measures.objective - value) < 1e-10 * np.linalg.norm(C, 2)


def test_without_momentum_one_agent_takes_the_steps_of_the_formula():
    C, X = covariance(SMALL), random_point(20, 3, 5)
    eta, weight, I = 0.3 / np.linalg.norm(C, 2), 0.02 * np.linalg.norm(C, 2), np.eye(3)
    one = pooled(SMALL + L1(weight))
    found = run(one, ONE, DestinyProx(eta=eta, momentum=False, spectrum=(-0.2, 0.5)), 25, start=X).X[0]
    M = np.zeros((3, 3))
    G = tangent(X, -C @ X)
    for _ in range(3):
        M += sym(X.T @ (L1(weight).prox(X - eta * (G + X @ M), eta) - X)) / eta
    for _ in range(25):
        Y = L1(weight).prox(X - eta * (G + X @ M), eta)
        X = Y @ (3 * I - Y.T @ Y) / 2
        G = tangent(X, -C @ X)
        for _ in range(3):
            M += sym(X.T @ (L1(weight).prox(X - eta * (G + X @ M), eta) - X)) / eta
    np.testing.assert_allclose(found, X, atol=1e-12)


@pytest.mark.parametrize("term", TERMS.values(), ids=repr)
def test_agents_agree_to_stop_where_the_whole_network_would(term):
    result = destiny.solve(SMALL + term, NETWORK, local_stopping=True, tolerance=1e-7)
    assert result.converged, result
    assert result.measures.worst < 1e-6
    if term.kind if isinstance(term, L21) else "":
        zero = result.X == 0
        assert (zero.all(axis=1) == zero.any(axis=1)).all()  # rows vanish as a whole


def test_an_own_term_may_forbid_negative_entries():
    """Orthonormal columns without negative entries have disjoint supports."""
    result = destiny.solve(SMALL + NONNEGATIVE, NETWORK, tolerance=1e-7)
    assert result.converged, result
    assert (result.X >= 0).all()
    assert (np.count_nonzero(result.X, axis=1) <= 1).all()
    assert violation(result.X) < 1e-12


def test_links_may_fail():
    lossy = destiny.networks.link_loss(destiny.networks.ring(6), 0.3, seed=0)
    result = destiny.solve(SMALL + L1(0.003), lossy, every=50)
    assert result.converged, result
    assert optimality_gap(result.X, -covariance(SMALL) @ result.X, 0.003) < 1e-8


def test_multiplying_data_and_weight_changes_nothing():
    silos = [SMALL.data.load(i).table for i in range(6)]
    states = [
        run(PCA(silos, 3, scale=scale) + L1(0.01 * scale**2), NETWORK, DestinyProx(), 30)
        for scale in (1.0, 1e-3, 1e3)
    ]
    for state in states[1:]:
        np.testing.assert_allclose(states[0].X, state.X, atol=1e-8)


@pytest.mark.parametrize("method", [m for m in WITH_PROX if "alone" not in m.about], ids=lambda m: m.kind)
def test_same_bits_for_any_number_of_threads(method):
    arrays = [
        flatten(run(SMALL + TERMS["own"], NETWORK, method(), 15, engine=Local(count))) for count in (1, 4)
    ]
    assert all((arrays[0][name] == arrays[1][name]).all() for name in arrays[0])


def test_resuming_gives_the_same_bits_and_another_regularizer_is_refused(tmp_path):
    options = {"tolerance": 0.0, "checkpoint_every": 5}
    whole = destiny.solve(SMALL + L1(0.01), NETWORK, rounds=60, **options)
    destiny.solve(SMALL + L1(0.01), NETWORK, rounds=37, checkpoint=tmp_path, **options)
    resumed = destiny.solve(SMALL + L1(0.01), NETWORK, rounds=60, checkpoint=tmp_path, resume=True, **options)
    assert (whole.X == resumed.X).all()
    assert (whole.history["stationarity"] == resumed.history["stationarity"]).all()
    for other in (SMALL + L1(0.02), SMALL):
        with pytest.raises(destiny.CheckpointError, match=r"its regularizer is L1\(weight=0.01\)"):
            destiny.solve(
                other, NETWORK, DestinyProx(), rounds=60, checkpoint=tmp_path, resume=True, **options
            )


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.kind)
def test_methods_for_smooth_objectives_refuse_naming_those_with_a_prox(method):
    problem = pooled(SMALL + L1(0.01)) if "alone" in method.about else SMALL + L1(0.01)
    network = ONE if "alone" in method.about else NETWORK
    if "regularized" in method.about:
        assert destiny.solve(problem, network, method(), rounds=30).steps > 0
        return
    with pytest.raises(
        destiny.MismatchError,
        match=r"smooth objective.*L1\(weight=0.01\).*\(destiny-prox, thanos, drsm, slpg\)",
    ):
        destiny.solve(problem, network, method())


REFUSED = {
    "number >= 0; found -1": lambda: L1(-1),
    "number >= 0; found 'a'": lambda: L21("a"),  # type: ignore[arg-type]
    "must have value and prox": lambda: regularized(SMALL, 3),  # type: ignore[arg-type]
    "takes one regularizer; found L1.* and L21": lambda: SMALL + L1(1) + L21(1),
    "prox of a regularizer must be a function": lambda: regularizer(np.sum, 3),  # type: ignore[arg-type]
    "made of smooth problems; found the regularizer L1": lambda: custom.total([SMALL, SMALL + L1(1)]),
    'eta must be "auto" or a positive number; found 0': lambda: DestinyProx(eta=0),
    "momentum must be true or false; found 1": lambda: DestinyProx(momentum=1),  # type: ignore[arg-type]
    "sigma must be a positive number; found 0": lambda: Thanos(sigma=0),
    "passes must be a whole number of at least 1; found 0": lambda: SLPG(passes=0),
    "bound must be in .*; found 3": lambda: SLPG(bound=3),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_mistakes_are_refused_in_a_sentence(sentence):
    with pytest.raises(destiny.DestinyError, match=sentence):
        REFUSED[sentence]()


def test_mini_batches_are_refused():
    data = [np.ones((8, 5))] * 2
    drawn = custom.problem(
        lambda X, A: 0.0, lambda X, A: 0 * X, shape=(5, 2), data=data, batch=2, reduction="sum"
    )
    with pytest.raises(destiny.ProblemError, match="full gradients; this problem draws mini-batches of 2"):
        drawn + L1(1)


def test_a_regularizer_stays_with_sums_and_centered_data():
    assert (SMALL + (SMALL + L1(2))).regularizer == ((SMALL + L1(2)) + SMALL).regularizer == L1(2)
    silos = [SMALL.data.load(i).table + 5 for i in range(6)]
    mean = np.concatenate(silos).mean(axis=0)
    start = random_point(20, 3, 0)
    by_hand = destiny.solve(PCA([A - mean for A in silos], 3) + L1(0.01), NETWORK, start=start, every=50)
    for problem in (
        centered(PCA(silos, 3)) + L1(0.01),
        centered(PCA(silos, 3) + L1(0.01)),
    ):
        assert problem.describe().endswith("centered, with the regularizer L1(weight=0.01).")
        result = destiny.solve(problem, NETWORK, start=start, every=50)
        np.testing.assert_allclose(result.X, by_hand.X, atol=1e-7)
        assert ((result.X == 0) == (by_hand.X == 0)).all()


def test_thanos_is_biased_and_a_smaller_sigma_less_so():
    best = destiny.solve(SMALL + L1(0.003), NETWORK).measures.objective
    bias = [
        destiny.solve(SMALL + L1(0.003), NETWORK, Thanos(sigma=sigma), rounds=500, every=0).measures.objective
        - best
        for sigma in (3.0, 0.3)
    ]
    assert bias[0] > 2 * bias[1] > 1e-6


def test_subgradient_steps_are_those_of_drsgd_and_creep():
    problem = SMALL + L1(0.003)
    rough = destiny.solve(problem, NETWORK, DRSM(), rounds=400, every=0)
    best = destiny.solve(problem, NETWORK).measures.objective
    start = float(problem.host(range(6)).value(rough.agents).mean() + L1(0.003).value(rough.agents).mean())
    assert not rough.converged
    assert best + 1e-7 < start < 0  # near, and not there
    smooth = [destiny.solve(SMALL, NETWORK, method(), rounds=60, tolerance=0.0).X for method in (DRSGD, DRSM)]
    assert (smooth[0] == smooth[1]).all()


def test_the_table_of_the_documentation_is_that_of_the_benchmark():
    page = (ROOT / "docs" / "sparse.md").read_text(encoding="utf-8")
    assert benchmark.table(read(ROOT / "docs" / "sparse.csv")) in page, "run python -m benchmarks.sparse"


FILE = """[problem]
kind = "pca"
p = 2
agents = 4
synthetic = {{ n = 10, m = 60, xi = 0.7 }}
{line}
[network]
kind = "ring"
"""


def test_experiment_files_name_regularizers(tmp_path):
    path = tmp_path / "file.toml"
    path.write_text(FILE.format(line='regularizer = { kind = "l21", weight = 1 }'))
    asked = experiment.read(path)
    assert asked.problem.regularizer == L21(1)
    table = experiment.read_file(asked.tables, "file.toml").problem
    assert repr(shared_keys(table, 2)["regularizer"]) == "{'kind': 'l21', 'weight': 1.0}"
    assert asked.algorithms == {"destiny-prox": None}
    for line, sentence in {
        'regularizer = { kind = "l2", weight = 1 }': r"\[problem\] regularizer kind must be .l1. or .l21.; ",
        'regularizer = { kind = "l1" }': r"regularizer needs the key 'weight'",
        'regularizer = { kind = "l1", weight = -1 }': r"regularizer: .* must be a number >= 0; found -1",
        'regularizer = "l1"': "regularizer must be",
    }.items():
        path.write_text(FILE.format(line=line))
        with pytest.raises(destiny.SettingsError, match=sentence):
            experiment.read(path)


def test_agents_of_organizations_find_the_same_sparse_answer(tmp_path):
    party = Party(
        tmp_path,
        destiny.networks.ring(3),
        problem=f'{PROBLEM}\nregularizer = {{ kind = "l1", weight = 0.01 }}',
        algorithm='kind = "destiny-prox"',
    )
    outcomes = party.go()
    party.check(outcomes)
    assert party.reference.sparsity > 0
    for outcome in outcomes:
        assert ((outcome.X == 0) == (party.reference.X == 0)).all()
        assert outcome.objective == pytest.approx(party.reference.measures.objective, abs=1e-9)
        assert outcome.axes is None
        assert 0 < outcome.explained < 1
