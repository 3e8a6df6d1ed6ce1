"""The doctor: curvature against closed forms, predictions against runs, advice against what it promises."""

import json
import math

import numpy as np
import pytest
import scipy.linalg

import destiny
from destiny import cli, networks, problems
from destiny.algorithms import DGD, DeEPCA, Destiny, DestinyAccelerated, Thanos
from destiny.algorithms.blocks.step_sizes import Constant, PlainBB
from destiny.diagnosis import landscape, network_options
from destiny.diagnosis.differences import Differences
from destiny.diagnosis.prediction import Case, before_trial, ruled_out
from destiny.engines.mixers import from_keys
from destiny.geometry.stiefel import norm, random_point, tangent, transpose
from destiny.problems.cached import CachedProblem
from destiny.run.own import as_topology
from tests.helpers import theory_constants as theory
from tests.helpers.small_problems import generalized


def pca(agents, n=20, p=2, xi=0.8, seed=1, **options):
    return problems.pca.synthetic(n=n, m=40 * agents, p=p, xi=xi, agents=agents, seed=seed, **options)


def case(problem, network, tolerance=1e-8):
    X = random_point(*problem.shape)
    ground = landscape.descend_and_probe(problem, X)
    seen = Differences(problem.host(range(problem.agents)), problem.agents, X, ground.X)
    return Case(ground, seen, network_options.Mixing.of(network), tolerance)


def texts(found, level):
    return [f"{f.about}: {f.text}" for f in found.findings if f.level == level]


# ------------------------------------------------------------------------------------------- the landscape


@pytest.mark.parametrize("seed", range(3))
def test_curvature_of_pca_is_the_gaps_between_eigenvalues(seed):
    rng = np.random.default_rng(seed)
    silos = [np.diag(np.linspace(1, 2, 25)) @ rng.standard_normal((25, 60)) for _ in range(4)]
    eigenvalues = np.linalg.eigvalsh(sum(A @ A.T for A in silos) / 4)[::-1]
    ground = landscape.descend_and_probe(problems.PCA([a.T for a in silos], p=3), random_point(25, 3, seed))
    assert ground.reached < 1e-4
    assert ground.largest == pytest.approx(eigenvalues[0] - eigenvalues[-1], rel=1e-3)
    assert ground.smallest == pytest.approx(eigenvalues[2] - eigenvalues[3], rel=1e-3)
    assert ground.threshold == pytest.approx(-1.5 * eigenvalues[2], rel=1e-3)
    assert not ground.saddle


def test_hessian_of_regression_is_the_closed_form():
    rng = np.random.default_rng(0)
    C, D = rng.standard_normal((8, 30)), rng.standard_normal((3, 30))
    X, V = random_point(8, 3, 1), rng.standard_normal((8, 3))
    V = tangent(X, V)

    def gradient(Y):
        return 2 * C @ (C.T @ Y - D.T)

    S = (transpose(X) @ gradient(X) + transpose(gradient(X)) @ X) / 2
    expected = tangent(
        X, 2 * C @ (C.T @ V) - V @ S
    )  # Absil, Mahony & Trumpf: Hess = P(f''[V] - V sym(X^T f'))
    assert norm(landscape.hessian(gradient, X)(V) - expected) < 1e-6 * norm(expected)


def test_a_start_near_a_saddle_shows_negative_curvature():
    """At the second eigenvector, curvature towards the first is lambda_2 - lambda_1 < 0."""
    C, saddle = np.diag([9.0, 4.0, 2.25, 1.0, 0.25]), np.eye(5)[:, 1:2]
    way = np.array([[1.0], [0.0], [1.0], [1.0], [1.0]])
    values, shares = landscape.spectrum(lambda X: -C @ X, saddle, way, 10)
    assert np.sort(values) == pytest.approx([4 - 9, 4 - 2.25, 4 - 1, 4 - 0.25], rel=1e-4)
    assert landscape.Landscape(saddle, 1.0, 1.0, 0.0, values, shares).saddle


# --------------------------------------------------------------------------------------------- the penalty


def test_a_beta_below_the_threshold_settles_off_the_manifold_and_is_a_problem():
    problem = problems.olsr.synthetic(n=10, m=200, p=2, agents=6, seed=0, noise=0.3, scale=2.0)
    network = networks.complete(6)
    ground = landscape.descend_and_probe(problem, random_point(10, 2))
    assert ground.threshold > 0
    for share, holds in ((0.7, False), (1.3, True)):
        method = Destiny(beta=share * ground.threshold, watch=False)
        found = destiny.diagnose(problem, network, method)
        result = destiny.solve(problem, network, method, start=ground.X, rounds=600)
        assert any("below 3/2" in text for text in texts(found, "problem")) is not holds
        assert any("keeps X on the manifold" in a.text for a in found.advice) is not holds
        assert (result.measures.feasibility < 1e-6) is holds


def test_a_beta_far_above_the_curvature_is_told_and_costs_rounds():
    problem, network = pca(8), networks.erdos_renyi(8, prob=0.5, seed=0)
    looked = case(problem, network)
    auto, stiff = Destiny(), Destiny(beta=15 * looked.landscape.largest)
    found = destiny.diagnose(problem, network, stiff)
    assert any("ill-conditioning" in f.text for f in found.findings)
    assert any('beta = "auto"' in a.text for a in found.advice)
    measured = [destiny.solve(problem, network, m, rounds=1500, every=10).rounds for m in (auto, stiff)]
    assert measured[1] > 2 * measured[0]


# ---------------------------------------------------------------------------------------------- predictions


def test_what_is_not_expected_to_converge_does_not():
    problem, network = pca(24), networks.ring(24)
    looked = case(problem, network)
    steep = float(np.mean(looked.differences.largest_curvature("h", looked.landscape.slope)))
    methods = (
        Destiny(step_size=PlainBB()),
        Destiny(beta=looked.landscape.slope, step_size=Constant(5 / steep)),
    )
    for method in methods:
        assert ruled_out(method, looked) is not None
        assert not destiny.solve(problem, network, method, rounds=1200).converged
    assert before_trial(DGD(), looked).rounds is None
    assert ruled_out(Destiny(), looked) is None


# ----------------------------------------------------------------------------------------------- the network


def test_lambda_of_changing_networks():
    ring = networks.ring(8)
    assert network_options.mean_square_lambda(networks.periodic([ring, ring])) == pytest.approx(ring.lambda_)
    some, more = (
        network_options.mean_square_lambda(networks.link_loss(networks.complete(8), prob=p))
        for p in (0.2, 0.6)
    )
    assert 0 < some < more < 1


def test_networks_of_own_classes_are_checked_and_need_not_be_symmetric():
    class Own:
        agents = 4

        def __init__(self, W):
            self.W = W

        def at(self, round):
            return self.W

    W = (np.eye(4) + np.roll(np.eye(4), 1, axis=1)) / 2  # everyone averages with the next agent
    largest = np.linalg.norm(W - 1 / 4, 2)
    assert network_options.mean_square_lambda(as_topology(Own(W))) == pytest.approx(largest)
    with pytest.raises(destiny.NetworkError, match="must sum to 1"):
        network_options.mean_square_lambda(as_topology(Own(2 * W)))


def test_two_more_links_mix_as_promised_and_help_as_predicted():
    network, problem = networks.ring(16), pca(16)
    found = destiny.diagnose(problem, network, DestinyAccelerated())
    added, other = network_options.with_more_links(network, 2)
    assert len(other.edges) == len(network.edges) + len(added)
    assert other.lambda_ == pytest.approx(np.abs(np.linalg.eigvalsh(other.W.toarray() - 1 / 16)).max())
    (advice,) = (a for a in found.advice if a.text.startswith("links"))
    assert f"lambda {other.lambda_:.3f} instead of {network.lambda_:.3f}" in advice.text
    before, after = (
        destiny.solve(problem, n, DestinyAccelerated(), every=1).rounds for n in (network, other)
    )
    assert 1 - after / before == pytest.approx(advice.saves, abs=0.05)


def test_weights_with_a_smaller_lambda_are_not_advised_where_they_would_not_help():
    """best-constant weights on a star: lambda 0.8 instead of 0.89, but by eigenvalues down to -0.8."""
    network, problem = networks.star(9), pca(9)
    other = network_options.with_other_weights(network)["best-constant"]
    assert other.lambda_ < network.lambda_ - 0.05
    measured = [destiny.solve(problem, n, Destiny(), every=5).rounds for n in (network, other)]
    assert measured[0] < measured[1]
    assert not any("weights" in a.text for a in destiny.diagnose(problem, network, Destiny()).advice)


def test_better_weights_are_advised_where_they_help():
    network, problem = networks.erdos_renyi(24, prob=0.2, seed=3), pca(24)
    found = destiny.diagnose(problem, network, DestinyAccelerated())
    (advice,) = (a for a in found.advice if a.text.startswith('weights = "fdla"'))
    fdla = networks.from_edges(network.edges, agents=24, weights="fdla")
    before, after = (destiny.solve(problem, n, DestinyAccelerated(), every=1).rounds for n in (network, fdla))
    assert 1 - after / before == pytest.approx(advice.saves, abs=0.05)


def test_weak_points_are_those_whose_loss_disconnects():
    assert network_options.weak_points(networks.star(5)) == {
        "agents": [0],
        "links": [(0, i) for i in range(1, 5)],
    }
    assert network_options.weak_points(networks.ring(5)) == {"agents": [], "links": []}
    assert network_options.with_more_links(networks.complete(5), 2) is None


# --------------------------------------------------------------------------------------------------- theory


def test_constants_of_the_theory_are_those_of_a_closed_form():
    """p = 1, equal agents, all data along one axis: G on that axis is 3/2 c r^3 (r^2 - 1)."""
    A, agents = np.zeros((4, 6)), 5
    A[0] = 2.0
    problem, c = problems.PCA([A.T] * agents, 1), 6 * 2.0**2
    X = np.array([[0.6], [0.8], [0.0], [0.0]])
    seen = Differences(problem.host(range(agents)), agents, X, np.eye(4)[:, :1])
    t = theory.constants(seen, 0.5)
    r = math.sqrt(7 * agents / 6) + math.sqrt(agents)
    assert t.radius == pytest.approx(r)
    assert t.M_g == pytest.approx(1.5 * c * r**3 * (r**2 - 1))
    assert t.M_b == pytest.approx(r**3 - r)
    assert t.L_g >= c * (7.5 * r**4 - 4.5 * r**2) * 0.99  # its derivative
    assert c * (7 / 6) ** 1.5 == pytest.approx(t.C_0)
    assert t.beta >= 72 * (4 + 3 * t.M_g) / 5
    assert t.eta < 1e-10


def test_step_bounds_are_the_corrected_ones():
    l, L, d = 0.6, 7.0, 9
    bounds = theory.step_bounds(100.0, 1.0, 1.0, L, l, d, 0.0)
    assert bounds["eta_9"] ** 2 == pytest.approx((1 - l**2) ** 2 / (24 * l**2 * (1 + l**2) * L**2))
    assert bounds["eta_11"] == pytest.approx(d * (1 - l**2) / (48 * L**2))
    alone = theory.step_bounds(200.0, 1.0, 1.0, L, 0.0, 1, 0.0)
    assert all(alone[name] == math.inf for name in ("eta_5", "eta_9", "eta_12"))
    assert min(alone.values()) > 0


# ------------------------------------------------------------------------------------------------- findings


def test_what_is_odd_about_the_data_is_told():
    rng = np.random.default_rng(0)
    silos = [rng.standard_normal((12, 30)) for _ in range(6)]
    for A in silos:
        A[3] = 0
        A[5] *= 1e4
    silos[1] = np.zeros((12, 0))
    found = destiny.diagnose(problems.PCA([a.T for a in silos], 2), networks.star(6))
    told = " ".join(texts(found, "look"))
    assert "1 of 12 features never occur" in told
    assert "very different scales" in told
    assert "1 of 6 agents hold nothing (agent 1)" in told
    assert "if one of 1 agents (0) or 5 links fails" in told
    assert any("divide each by its standard deviation" in a.text for a in found.advice)


@pytest.mark.parametrize("center", [False, True])
def test_a_feature_in_other_units_at_one_agent_is_named(center):
    """After centering everybody's numbers are large: the gradients do not show who is to blame."""
    silos = list(np.random.default_rng(0).standard_normal((3, 4, 30)) + 9)
    for A in silos:
        A[0] = 0
    silos[2][1] *= 1000
    problem = problems.PCA([a.T for a in silos], 2)
    found = destiny.diagnose(problems.centered(problem) if center else problem, networks.complete(3))
    (told,) = [text for text in texts(found, "look") if "units the same" in text]
    assert told.startswith("agents: feature 1 is 1e+03 times as large at agent 2 as at agent ")


def test_a_constant_column_does_not_differ_in_scale():
    table = np.random.default_rng(0).standard_normal((4, 90))
    table[1] = 5.1
    problem = problems.centered(problems.pca.from_data(table.T, 2, agents=3), standardize=True)
    found = destiny.diagnose(problem, networks.complete(3))
    assert not any("different scales" in text for text in texts(found, "look"))


def test_an_agent_steeper_than_all_others_is_named():
    rng = np.random.default_rng(0)
    silos = [rng.standard_normal((12, 30)) * (10 if i == 4 else 1) for i in range(6)]
    found = destiny.diagnose(problems.PCA([a.T for a in silos], 2), networks.complete(6))
    assert any(text.startswith("agents: agent 4 has") for text in texts(found, "look"))


def test_algorithms_that_do_not_fit_or_lack_rounds_are_problems():
    problem = problems.olsr.synthetic(n=10, m=200, p=2, agents=6, seed=0, noise=0.3)
    found = destiny.diagnose(
        problem, networks.ring(6), {"power": DeEPCA(), "fast": DestinyAccelerated()}, rounds=30
    )
    told = " ".join(texts(found, "problem"))
    assert "power: DeEPCA solves PCA only" in told
    assert f"fast: 30 rounds are allowed, about {found.predictions['fast'].rounds}" in told
    assert any("[stop] rounds" in a.text for a in found.advice)
    assert list(found.predictions) == ["fast", "destiny-accelerated", "destiny", "averaged-model"]


def test_flat_objectives_and_broken_gradients():
    found = destiny.diagnose(pca(4, n=4, p=4), networks.ring(4))  # p = n: all bases span the same space
    assert any("flat" in text for text in texts(found, "problem"))
    assert found.predictions["destiny"].rounds is None

    class Broken:
        def value(self, X):
            return 0.0

        def gradient(self, X):
            return np.full_like(X, np.nan)

    with pytest.raises(destiny.ProblemError, match="agent 0 is not finite"):
        destiny.diagnose([Broken()] * 3, networks.ring(3), start=random_point(5, 2))


# --------------------------------------------------------------------------------------------- command line

FILE = """
[problem]
kind = "pca"
synthetic = { n = 12, m = 320, xi = 0.8 }
p = 2
agents = 8
[network]
kind = "ring"
[[algorithm]]
kind = "destiny"
label = "literal"
beta = 1000.0
step = { kind = "constant", eta = 1.0 }
"""


def doctor(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["destiny", "doctor", *map(str, arguments)])
    try:
        cli.main()
    except SystemExit as end:
        return end.code or 0
    return 0


def test_the_command_prints_a_page_and_ends_well_also_where_there_are_problems(tmp_path, monkeypatch, capsys):
    (tmp_path / "e.toml").write_text(FILE)
    assert doctor(monkeypatch, tmp_path / "e.toml") == 0
    page = capsys.readouterr().out
    for words in ("Findings", "PROBLEM  literal", "predicted", "What would help", 'kind = "bb"'):
        assert words in page
    assert doctor(monkeypatch, tmp_path / "e.toml", "--json") == 0
    found = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name))
    assert found["predictions"]["literal"]["outlook"] == "hopeless"
    assert found["facts"]["network"]["lambda"] == pytest.approx(networks.ring(8).lambda_)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[problem]\n[network]\n", "needs the key 'kind'"),
        (FILE.replace("agents = 8", "agents = 0"), "agents must be a whole number of at least 1"),
        (FILE + "[stop]\nrounds = -1\n", "rounds must be"),
        (FILE + "[stop]\ntolerance = -1.0\n", "tolerance must be"),
    ],
)
def test_bad_files_end_in_one_line_and_code_2(tmp_path, monkeypatch, capsys, text, words):
    (tmp_path / "e.toml").write_text(text)
    assert doctor(monkeypatch, tmp_path / "e.toml") == 2
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1


def test_a_generalized_constraint_is_diagnosed_in_its_own_geometry():
    problem = generalized(6)
    network = destiny.networks.erdos_renyi(6, prob=0.6, seed=0)
    diagnosis = destiny.diagnose(problem, network)
    M = sum(problem.part(i) for i in range(6))
    C = sum(problem.inner.second_moments(i) for i in range(6)) / 6
    values = np.sort(scipy.linalg.eigh(C, M, eigvals_only=True))[::-1]
    # The largest curvature of PCA is the first eigenvalue minus the last.
    assert diagnosis.facts["curvature"]["largest"] == pytest.approx(values[0] - values[-1], rel=1e-2)
    assert diagnosis.facts["constraint"]["condition of M"] > 1
    assert any(finding.about == "constraint" for finding in diagnosis.findings)
    assert set(diagnosis.predictions) == {"cdadt"}
    rounds = destiny.solve(problem, network).rounds
    prediction = diagnosis.predictions["cdadt"]
    assert prediction.rounds is not None
    assert prediction.rounds / 2 <= rounds <= 2 * prediction.rounds
    assert "X^T M X = I" in str(diagnosis)


def test_a_regularizer_is_diagnosed_by_trials_of_methods_with_a_prox():
    """Data and curvature are those of f; rounds are those of a run on f + r."""
    smooth, network = pca(8, n=30, p=3, seed=2), networks.erdos_renyi(8, prob=0.6, seed=0)
    sparse = smooth + problems.L1(0.002)
    plain, found = destiny.diagnose(smooth, network), destiny.diagnose(sparse, network)
    assert list(found.predictions) == ["destiny-prox", "thanos"]
    for area in ("agents", "curvature", "network"):
        assert found.facts[area] == plain.facts[area]
    prediction = found.predictions["destiny-prox"]
    rounds = destiny.solve(sparse, network, every=5).rounds
    assert prediction.low <= rounds <= prediction.high
    assert found.predictions["thanos"].rounds is None
    answer = problems.pca.solution(smooth)
    share = 0.002 * np.abs(answer).sum() / abs(smooth.host(range(8)).value(np.stack([answer] * 8)).mean())
    (text,) = [finding.text for finding in found.findings if finding.about == "regularizer"]
    number = float(text.split("r is ")[1].split(" times")[0])
    assert (
        0.5 * share < number < 2 * share
    )  # a basis of the same subspace; only f is the same for all of them
    assert not texts(found, "problem")


def test_a_regularizer_that_outweighs_f_is_worth_a_look():
    network = networks.erdos_renyi(8, prob=0.6, seed=0)
    cached = CachedProblem(pca(8, n=30, p=3) + problems.L1(0.3))  # as problems of files are
    found = destiny.diagnose(cached, network, Destiny())
    assert any("a smaller weight?" in text for text in texts(found, "look"))
    assert any("needs a smooth objective" in text for text in texts(found, "problem"))


def test_the_exact_method_is_advised_for_a_regularizer():
    network = networks.erdos_renyi(8, prob=0.6, seed=0)
    found = destiny.diagnose(pca(8, n=30, p=3, seed=2) + problems.L1(0.002), network, Thanos())
    assert found.advice[0].saves == 1
    assert found.advice[0].text.startswith('kind = "destiny-prox" is exact: about ')


def test_a_star_has_its_own_method_for_pca():
    assert "faps" in destiny.diagnose(pca(8), networks.star(8)).predictions
    assert "faps" not in destiny.diagnose(pca(8), networks.ring(8)).predictions


def test_nothing_is_advised_or_tried_that_messages_or_mini_batches_rule_out():
    """Clipped messages leave no exact method, few bits no totals, mini-batches one method of the usual."""
    problem, network = pca(6), networks.complete(6)

    def kinds(problem, **messages):
        found = destiny.diagnose(problem, network, messages=from_keys(messages))
        return set(found.predictions), " ".join(advice.text for advice in found.advice)

    assert kinds(problem, clip=1) == ({"dgd"}, "")
    predicted, advice = kinds(problem, bits=8)
    assert "destiny-accelerated" in predicted
    assert "averaged-model" not in predicted
    assert "averaged-model" not in advice
    assert kinds(destiny.problems.batched(problem, 5))[0] == {"vrsgt"}
