"""VRSGT: exact although most of its gradients are those of mini-batches."""

import dataclasses
from itertools import islice, pairwise

import numpy as np
import pytest

import destiny
from benchmarks import passes as benchmark
from benchmarks.rows import read
from destiny.algorithms import KINDS, VRSGT, DestinyAccelerated
from destiny.engines import Local
from destiny.geometry import stiefel
from destiny.geometry.directions import DIRECTIONS
from destiny.problems import batched
from tests.helpers import ROOT
from tests.helpers.small_problems import agents_of, silos_of, small_problem

D = 6


def network(seed=0):
    return destiny.networks.erdos_renyi(D, prob=0.5, seed=seed)


def states(problem, algorithm, steps, **options):
    moments = destiny.iterate(problem, network(), algorithm, **options)
    return [moment.state for moment in islice(moments, steps + 1)]


@pytest.mark.parametrize(("seed", "momentum"), [(0, True), (1, True), (1, False)])
def test_mini_batches_of_a_few_samples_reach_the_subspace_of_the_svd(seed, momentum):
    problem = small_problem("pca", D, seed)
    algorithm = VRSGT(momentum=momentum)
    result = destiny.solve(batched(problem, 3, seed), network(seed), algorithm, rounds=6000, tolerance=1e-10)
    assert result.converged, result
    assert stiefel.subspace_distance(result.X, destiny.problems.pca.solution(problem)) < 1e-8


@pytest.mark.parametrize("kind", ["olsr", "sdl"])
def test_other_problems_converge_too(kind):
    problem = batched(small_problem(kind, D), 5)
    assert destiny.solve(problem, network(), rounds=6000, tolerance=1e-8).converged


@pytest.mark.parametrize("kind", ["pca", "olsr", "sdl"])
def test_with_all_samples_in_a_mini_batch_it_is_accelerated_destiny(kind):
    problem = small_problem(kind, D)
    ours = states(batched(problem, 1000), VRSGT(period=1000), 30)[-1]
    theirs = states(problem, DestinyAccelerated(), 30)[-1]
    np.testing.assert_allclose(ours.X, theirs.X, atol=1e-8)


def test_v_follows_mini_batches_and_is_the_whole_gradient_once_a_period():
    problem = batched(small_problem("pca", D), 4)
    agents = agents_of(problem, network())
    beta = 0.2
    algorithm = VRSGT(beta=beta, period=5, spectrum=(-0.2, 0.6), rounds=1)
    path = states(problem, algorithm, 10)
    landing = DIRECTIONS["landing"]
    for step, (before, after) in enumerate(pairwise(path), start=1):
        np.testing.assert_allclose(after.D.mean(axis=0), after.H.mean(axis=0), atol=1e-13)
        if step % 5 == 0:
            expected = landing(agents.gradient, after.X, beta)
        else:
            here, there = (
                landing(lambda Y, step=step: agents.gradient(Y, step), X, beta) for X in (after.X, before.X)
            )
            expected = before.H + here - there
            assert stiefel.norm(after.H - landing(agents.gradient, after.X, beta)).min() > 1e-9
        np.testing.assert_allclose(after.H, expected, atol=1e-12)


def test_passes_are_the_samples_evaluated_by_all_samples():
    sizes = [30, 20, 10, 10, 5, 15]
    A = np.random.default_rng(0).standard_normal((8, 90))
    problem = batched(destiny.problems.pca.from_data(A.T, 2, sizes), 8)
    result = destiny.solve(problem, network(), VRSGT(), rounds=100, tolerance=0.0, every=10)
    share = (8 + 8 + 8 + 8 + 5 + 8) / 90
    assert result.minibatches > result.steps
    assert result.passes == pytest.approx(result.gradients + share * result.minibatches)
    assert result.summary()["passes"] == result.history["passes"][-1] == result.passes
    assert f"{result.passes:.1f} passes over the data" in str(result)
    found = destiny.compare(problem, network(), [VRSGT()], rounds=60, engine=Local(3))
    assert "passes" in str(found)
    full = destiny.solve(problem.inner, network(), DestinyAccelerated(), rounds=60)
    assert full.passes == full.gradients


def test_a_third_of_the_passes_of_full_gradients_to_1e_8():
    rng = np.random.default_rng(5)
    A = rng.standard_normal((30, 6000)) * 0.8 ** np.arange(30)[:, None]
    problem = destiny.problems.pca.from_data(A.T, 4, D)
    full = destiny.solve(problem, network(), DestinyAccelerated(), rounds=2000, every=5)
    few = destiny.solve(batched(problem, 50), network(), VRSGT(), rounds=2000, every=5)
    assert full.converged
    assert few.converged
    assert few.passes < full.passes / 3


def test_momentum_takes_fewer_passes():
    problem = batched(destiny.problems.pca.synthetic(30, 900, 3, 0.9, agents=D, seed=7), 8)
    with_it, without = (
        destiny.solve(problem, network(), VRSGT(momentum=momentum), rounds=2000) for momentum in (True, False)
    )
    assert with_it.converged
    assert with_it.passes < 0.7 * without.passes


@pytest.mark.parametrize("kind", ["pca", "olsr", "sdl"])
def test_single_samples_add_up_to_the_gradient(kind):
    problem = small_problem(kind, D)
    X = stiefel.random_point(*problem.shape, 3)
    full = problem.host([2]).gradient(X[None])[0]
    samples = problem.sample_gradient(2)
    total = sum(samples.gradient(np.array([k]), X) for k in range(samples.count))
    np.testing.assert_allclose(total, full, atol=1e-12 * np.abs(full).max())


def test_an_agent_without_samples_has_a_zero_gradient():
    A = silos_of("pca", 2)[0]
    hosted = batched(destiny.problems.PCA([A.T, A[:, :0].T], 3), 4).host([0, 1])
    X = np.stack([stiefel.random_point(12, 3)] * 2)
    assert (hosted.sample(X, 1)[1] == 0).all()
    assert hosted.counts().tolist() == [[4, A.shape[1]], [0, 0]]


def test_it_is_the_default_where_mini_batches_are_drawn():
    result = destiny.solve(batched(small_problem("pca", D), 5), network(), rounds=60)
    assert result.settings["kind"] == "vrsgt"
    assert "mini-batches" in result.choice


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: VRSGT(period=0), "period must be a whole number of at least 1; found 0"),
        (lambda: KINDS["vrsgt"](momentum=1), "momentum must be true or false; found 1"),
        (
            lambda: batched(destiny.problems.centered(small_problem("pca")), 3),  # type: ignore[arg-type]
            "from the samples of PCA, OLSR or SDL; found Centered",
        ),
        (lambda: batched(small_problem("pca"), 0), "batch must be"),
    ],
)
def test_settings_are_checked(make, sentence):
    with pytest.raises(destiny.DestinyError, match=sentence):
        make()


def test_settings_are_those_of_accelerated_destiny_and_two_more():
    names = {field.name for field in dataclasses.fields(VRSGT)}
    assert names - {field.name for field in dataclasses.fields(DestinyAccelerated)} == {"period", "momentum"}


def test_the_table_of_the_documentation_is_that_of_the_benchmark_and_a_third_at_most():
    page = (ROOT / "docs" / "minibatches.md").read_text(encoding="utf-8")
    rows = read(ROOT / "docs" / "passes.csv")
    assert benchmark.table(rows) in page, "stale: run python -m benchmarks.passes"
    passes = {(row["instance"], row["method"], row["seed"]): float(row["passes"]) for row in rows}
    for (name, method, seed), spent in passes.items():
        if name in benchmark.REAL and method in ("vrsgt 5 %", "vrsgt 2 %"):
            assert spent < passes[name, "destiny-accelerated", seed] / 3
