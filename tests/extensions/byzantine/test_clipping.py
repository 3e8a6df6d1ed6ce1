"""Clipped mixing against its formula, and what it is worth when neighbors lie."""

import numpy as np
import pytest

import destiny
from benchmarks import liars as benchmark
from benchmarks.rows import read
from destiny.algorithms import DGD, AveragedModel, DestinyAccelerated
from destiny.engines import Local
from destiny.engines.mixers import from_keys
from destiny.extensions import byzantine
from destiny.extensions.byzantine.attacks import ATTACKS, Byzantine
from destiny.extensions.byzantine.clipped import clipped_mean
from destiny.geometry import stiefel
from tests.helpers import ROOT
from tests.helpers.small_problems import agents_of, generalized, small_problem

D = 12
NETWORK = destiny.networks.erdos_renyi(D, prob=0.7, seed=0)
CLIP = byzantine.Clipped(1)


def spread_out(seed=0):
    A = np.random.default_rng(seed).standard_normal((10, 60 * D)) * 0.7 ** np.arange(10)[:, None]
    return destiny.problems.pca.from_data(A.T, 2, D)


def error(result, problem, liars=()):
    """Distance of the honest agents' answer from the eigenvectors."""
    honest = np.delete(result.agents, liars, axis=0)
    if not np.isfinite(honest).all():
        return np.inf
    X = stiefel.polar(honest.mean(axis=0))
    return stiefel.subspace_distance(X, destiny.problems.pca.solution(problem))


def test_the_formula_agent_by_agent():
    agents = agents_of(small_problem("pca", D), NETWORK, messages=byzantine.Clipped(2))
    rng = np.random.default_rng(1)
    X, t = rng.standard_normal((D, 4, 3)), rng.standard_normal((D, 1))
    mixed, numbers = agents.mix(X, t)
    W = NETWORK.W.toarray()
    for values, found in ((X, mixed), (t, numbers)):
        for i in range(D):
            linked = [j for j in range(D) if j != i and W[i, j] != 0]
            lengths = sorted(np.linalg.norm(values[j] - values[i]) for j in linked)
            tau, expected = lengths[-3], values[i].copy()
            for j in linked:
                pull = values[j] - values[i]
                expected += W[i, j] * pull * min(1.0, tau / np.linalg.norm(pull))
            np.testing.assert_allclose(found[i], expected, atol=1e-13)


def test_agents_that_agree_are_not_moved_by_one_liar_however_far():
    same = np.ones((4, 5))
    weights = np.full(4, 0.2)
    for lie in (2.0, 1e300, np.inf, np.nan):
        told = same.copy()
        told[1] = lie
        assert (clipped_mean(same[0], told, weights, 1) == same[0]).all()
    told[2] = -1e300  # a second one: more than expected, and it pulls
    assert not (clipped_mean(same[0], told, weights, 1) == same[0]).all()


def test_where_nobody_is_far_away_nothing_is_clipped():
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((5, 7))
    others = directions / np.linalg.norm(directions, axis=1, keepdims=True)  # all at distance 1 of 0
    weights = rng.random(5) / 5
    np.testing.assert_allclose(clipped_mean(np.zeros(7), others, weights, 2), weights @ others, atol=1e-15)


@pytest.mark.parametrize("attack", ATTACKS)
def test_one_liar_spoils_plain_mixing_and_clipping_holds(attack):
    problem, engine = spread_out(), Byzantine([4], attack)
    options = {"rounds": 400, "every": 100, "engine": engine}
    plain = destiny.solve(problem, NETWORK, DGD(direction="landing"), **options)
    clipped = destiny.solve(problem, NETWORK, messages=CLIP, **options)
    assert clipped.settings["kind"] == "dgd"
    assert error(clipped, problem, [4]) < 0.15
    if attack != "shift":  # which hides among the honest: a small error for both
        assert error(plain, problem, [4]) > 0.4


def test_without_liars_the_answer_is_near_and_the_run_says_that_it_is_approximate():
    problem = spread_out()
    result = destiny.solve(problem, NETWORK, messages=CLIP, rounds=400, every=50)
    assert 1e-8 < error(result, problem) < 0.02
    assert not result.converged
    assert any("approximate" in note for note in result.notes)
    assert result.summary()["clip"] == result.message_kind.byzantine == 1
    assert "messages clipped for 1 Byzantine neighbor" in str(result)
    assert "messages carry no exact averages" in result.choice


def test_agreement_among_clipped_agents_is_no_convergence():
    problem = destiny.problems.PCA([spread_out().data.load(0).table] * D, 2)  # agents that all hold the same
    options = {"rounds": 2000, "tolerance": 1e-7}
    for local_stopping in (False, True):
        result = destiny.solve(
            problem, NETWORK, DestinyAccelerated(), messages=CLIP, local_stopping=local_stopping, **options
        )
        assert not result.converged
        assert result.reason.startswith("settled, but not known to be exact with messages clipped")
        assert "converged" not in result.reason


@pytest.mark.parametrize("method", [DGD(), DestinyAccelerated()], ids=lambda m: m.kind)
def test_same_bits_for_any_number_of_threads_and_after_a_resumption(method, tmp_path):
    problem = small_problem("pca", D)
    options = {"messages": CLIP, "tolerance": 0.0, "every": 20}
    whole = destiny.solve(problem, NETWORK, method, rounds=90, engine=Local(1), **options)
    several = destiny.solve(problem, NETWORK, method, rounds=90, engine=Local(5), **options)
    assert (whole.agents == several.agents).all()
    assert (whole.scalars, whole.bytes) == (several.scalars, several.bytes)
    destiny.solve(problem, NETWORK, method, rounds=60, checkpoint=tmp_path, checkpoint_every=7, **options)
    resumed = destiny.solve(problem, NETWORK, method, rounds=90, checkpoint=tmp_path, resume=True, **options)
    assert (whole.agents == resumed.agents).all()
    with pytest.raises(destiny.errors.CheckpointError, match="messages"):
        destiny.solve(problem, NETWORK, method, rounds=90, checkpoint=tmp_path, resume=True)


def test_a_lie_is_a_function_of_seed_agent_and_round():
    problem = small_problem("pca", D)
    options = {"messages": CLIP, "rounds": 60, "tolerance": 0.0}
    once, twice, other = (
        destiny.solve(problem, NETWORK, engine=Byzantine([2, 7], "noise", seed), **options)
        for seed in (0, 0, 1)
    )
    assert (once.agents == twice.agents).all()
    assert not (once.agents == other.agents).all()


CENTERED = destiny.problems.centered(small_problem("pca", D))
REFUSED = [
    (lambda: byzantine.Clipped(-1), "clip must be a whole number >= 1; found -1"),
    (lambda: from_keys({"clip": -1}), "clip must be a whole number >= 0; found -1"),
    (lambda: from_keys({"clip": 1, "private": True}), "one kind of messages; .* one of private, clip"),
    (lambda: from_keys({"clip": 1, "bits": 8}), "one kind of messages; .* one of bits, clip"),
    (
        lambda: destiny.solve(small_problem("pca", D), NETWORK, AveragedModel(), messages=CLIP),
        "averaged-model averages by exact totals, which Byzantine agents could falsify",
    ),
    (lambda: destiny.solve(CENTERED, NETWORK, messages=CLIP), "centering needs the exact mean"),
    (lambda: destiny.solve(generalized(D), NETWORK, messages=CLIP), "needs the exact sum of all M_i"),
    (
        lambda: destiny.solve(small_problem("pca", D), destiny.networks.ring(D), messages=CLIP),
        "clip = 1 needs 3 neighbors or more, so that honest ones are the majority; agent 0 has 2",
    ),
    (lambda: Byzantine([1], "bribe"), "attack must be one of flip, noise, inner, shift; found 'bribe'"),
    (
        lambda: destiny.solve(small_problem("pca", D), NETWORK, engine=Byzantine([D])),
        r"Byzantine agents must be some of the 12 agents, not all; found \[12\]",
    ),
]


@pytest.mark.parametrize(("run", "sentence"), REFUSED)
def test_what_does_not_go_together_is_refused_in_one_sentence(run, sentence):
    with pytest.raises(destiny.DestinyError, match=sentence) as raised:
        run()
    assert "\n" not in str(raised.value)


def test_the_table_of_the_documentation_is_that_of_the_benchmark():
    page = (ROOT / "docs" / "byzantine.md").read_text(encoding="utf-8")
    rows = read(ROOT / "docs" / "liars.csv")
    assert {int(row["seed"]) for row in rows} == set(benchmark.SEEDS)
    assert benchmark.table(rows) in page, "stale: run python -m benchmarks.liars"
